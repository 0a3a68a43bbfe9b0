"""Real machine code of kernels: needs NVIDIA's compiler library (NVVM), but no GPU."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, X, compiler_with_nvvm, device_of, executable, fake_device, launches_of
from fake_cuda import FakeCuda

import functad
import functad.numpy as jnp
from functad import lax, nn
from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda.runtime import driver_library
from functad.backends.cuda.runtime.launching import LaunchNode, PackedLaunch
from functad.backends.cuda.scalars.registry import HAS_ALIGNED_MEMORY
from functad.errors import ArgumentError, CompilationError
from functad.ir import Aval
from functad.optimize.pipeline import simplify_for
from functad.tracing import trace_to_program


def test_kernels_take_what_is_packed_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's words of an array, and numbers; fused where that is asked for; on the disk the second time."""
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    compiler = compiler_with_nvvm()
    step = executable(lambda x: [(jnp.tanh(x) + 1j)[:, None], x[:, None] @ x[None]], X)
    launches = launches_of(step, device_of(FakeCuda()))
    assert len(launches) == 2
    for launch in launches:
        words = len(PackedLaunch(LaunchNode(launch, ((None, 0),) * 9)).words)
        code, entry = compiler.machine_code(launch, (9, 0))
        text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
        parameters = re.findall(r"\.param \.(\w+) ", text[: text.index("{")])
        assert entry and ".target sm_90" in text
        numbers = [n for kind, dtype in launch.types for n in (["u64"] * 7 if kind == "array" else [_WORD[dtype]])]
        assert parameters == numbers and len(parameters) == words
        assert code.startswith(b"\x7fELF") or b".entry" in code  # with the assembler, or without
    for fused in (False, True):  # only where the user lets it
        with functad.config.context(fuse_multiply_add=fused):
            (launch,) = launches_of(executable(lambda x, y: [x * y - x], X, X), device_of(FakeCuda()))
        text = compiler.ptx(launch.kernel.function, launch.types, (9, 0), launch.kernel.fused)
        assert ("mul.rn.f32" in text) is not fused  # what has no .rn may be added by the assembler
    monkeypatch.setattr(compiler, "ptx", None)  # it is on the disk
    assert [compiler.machine_code(launch, (9, 0))[1] for launch in launches]


@pytest.mark.parametrize(("dtype", "nbytes"), [("float32", 16), ("float64", 16), ("float16", 8), ("int8", 4)])
def test_four_elements_are_one_load_and_one_store(dtype: str, nbytes: int) -> None:
    """Nothing loads more than 16 bytes at a time."""
    compiler = compiler_with_nvvm()
    (launch,) = launches_of(executable(lambda x, y: [x + y], *[Aval((1 << 20,), np.dtype(dtype))] * 2), fake_device())
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    for way in ("ld", "st"):
        kinds = re.findall(rf"{way}\.global(?:\.v(\d))?\.[a-z](\d+)", text)
        assert kinds and {int(count or 1) * int(bits) // 8 for count, bits in kinds} == {nbytes}, kinds


def test_a_layer_keeps_its_sums_in_registers() -> None:
    """Four elements come with each load; products are added unrounded, but what follows is not."""
    compiler = compiler_with_nvvm()
    layer = executable(
        lambda x, w, b: [jnp.tanh(x @ w + b) * b + b], Aval((100, 784), F32), Aval((784, 128), F32), Aval((128,), F32)
    )
    (launch,) = launches_of(layer, fake_device())
    assert launch.blocks >= 100  # blocks, so that all multiprocessors have something to do
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0), launch.kernel.fused)
    assert ".local" not in text and {"ld.global.v4.f32", "ld.shared.v4.f32"} <= set(text.split())
    assert text.count("fma.rn.f32") > 16 and "mul.rn.f32" in text and not launch.kernel.fused


@pytest.mark.parametrize(("x", "w"), [((8, 16, 9, 9), (32, 16, 3, 3)), ((64, 1, 60, 60), (4, 1, 3, 3))])
def test_convolutions_add_products_unrounded_but_what_follows_does_not(x: Any, w: Any) -> None:
    compiler = compiler_with_nvvm()
    step = executable(
        lambda x, w, s: [lax.conv(x, w, (1, 1), "SAME") * s + s], Aval(x, F32), Aval(w, F32), Aval((w[0], 1, 1), F32)
    )
    (launch,) = launches_of(step, fake_device())
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0), launch.kernel.fused)
    # How often loops are unrolled depends on the version of the compiler.
    assert text.count("fma.rn.f32") >= 16 and 1 <= text.count("mul.rn.f32") <= 4 and not launch.kernel.fused


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_products_of_all_dtypes_compile(dtype: str) -> None:
    compiler = compiler_with_nvvm()
    avals = [Aval(shape, np.dtype(dtype)) for shape in ((9, 2000), (2000, 5))]
    (launch,) = launches_of(executable(lambda x, y: [x @ y], *avals), fake_device())
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    # The last block sees what others have left before they took their ticket.
    assert re.search(r"(?s)st\.global\.\S*f\d\d.*?membar\.gl.*?atom\.global.*?membar\.gl.*?ld\.global\.\S*f\d\d", text)


def test_a_convolution_keeps_its_sums_in_registers() -> None:
    """What a thread multiplies it reads four at a time from shared memory; nothing is in memory of its own."""
    compiler = compiler_with_nvvm()
    if not HAS_ALIGNED_MEMORY:
        pytest.skip("no package numba-cuda: shared memory begins anywhere")
    images, kernels = Aval((8, 8, 16, 16), F32), Aval((16, 8, 3, 3), F32)
    step = executable(lambda x, w: [jnp.maximum(lax.conv(x, w, (1, 1), "SAME"), 0)], images, kernels)
    (launch,) = launches_of(step, fake_device())
    assert launch.kernel.name.startswith("convolution_")
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    assert "ld.shared.v4.f32" in text and "st.shared.v4.f32" in text and ".local" not in text


def test_rows_of_floats_of_16_bits_come_four_at_a_time() -> None:
    """In a loop that is one kernel of rows; what is added stays in registers."""
    compiler = compiler_with_nvvm()
    if not HAS_ALIGNED_MEMORY:
        pytest.skip("no package numba-cuda: shared memory begins anywhere")
    program = trace_to_program(
        lambda q, k, v: [nn.dot_product_attention(q, k, v)], [Aval((1, 4096, 4, 64), np.dtype(np.float16))] * 3
    )
    step = cuda_backend.CudaExecutable(simplify_for(program, on_device=True))
    (launch,) = [one for one in launches_of(step, fake_device()) if one.kernel.name.startswith("scan_")]
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    assert ".local" not in text
    assert text.count("ld.global.v4.u16") > 4 and "fma.rn.f32" in text and "ld.global.u16" not in text


def test_blocks_that_look_for_updates_compile() -> None:
    compiler = compiler_with_nvvm()
    words, rows = Aval((4096,), np.dtype(np.int32)), Aval((4096, 50), F32)
    step = executable(lambda i, x: [jnp.zeros((1000, 50)).at[i].add(x)], words, rows)
    launch = launches_of(step, fake_device())[-1]
    assert launch.threads == 256 and launch.blocks == 512  # three for each multiprocessor, as a power of two
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    assert "bar.sync" in text and "atom." not in text and ".local" not in text


def test_what_many_blocks_carry_compiles() -> None:
    """A block that reads a mark sees the total that was left before it."""
    compiler = compiler_with_nvvm()
    _, launch = launches_of(executable(lambda x: [jnp.cumsum(x)], Aval((1 << 20,), F32)), fake_device())
    assert launch.blocks == 547
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    assert re.search(r"(?s)st\.global\.f\d\d.*?membar\.gl.*?atom\.global.*?membar\.gl.*?ld\.global\.f\d\d", text)


def test_no_index_of_a_kernel_is_counted_from_the_end() -> None:
    """By the package numba-cuda: no access asks for the sign of its index, and so for the length of its array."""
    compiler = compiler_with_nvvm()
    if compiler._arrays is None:
        pytest.skip("no package numba-cuda")
    (launch,) = launches_of(executable(lambda x: [x[::-1] * 2], X), fake_device())
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    assert re.search(r"ld\.param\.u64\s+\S+ \[\w+_param_4\]", text)  # an address
    assert not re.search(r"ld\.param\.u64\s+\S+ \[\w+_param_5\]", text)  # a length

    names: dict[str, Any] = {}
    exec("def of_users(x):\n    user_function_0(x)", names)
    usual = compiler._arrays.fix_integer_index
    with compiler._plain_indices(names["of_users"]):
        assert compiler._arrays.fix_integer_index is usual


def test_users_compile_with_numbas_own_functions_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = importlib.import_module("functad.backends.cuda.compile.compiler")
    modules = [(compiler.dispatcher, "get_current_device"), (compiler.nvvm, "compile_ir")]
    modules += [(compiler._arrays, "fix_integer_index")] if compiler._arrays else []
    for module, name in modules:
        monkeypatch.setattr(module, name, lambda *arguments, name=name: name)
    seen: list[Any] = []

    def compile_ptx(*arguments: Any, **options: Any) -> tuple[str, None]:
        other = Thread(target=lambda: seen.extend(getattr(module, name)() for module, name in modules))
        other.start()
        other.join()
        seen.append(compiler.dispatcher.get_current_device().compute_capability)
        return "text", None

    monkeypatch.setattr(compiler.cuda, "compile_ptx", compile_ptx)
    assert compiler.ptx(lambda x: None, (("array", "float32"),), (9, 0)) == "text"
    assert seen == [*[name for _, name in modules], (9, 0)]
    assert [getattr(module, name)() for module, name in modules] == [name for _, name in modules]


_WORD = {"float32": "f32", "float64": "f64", "int64": "u64"}


def test_squares_and_parts_of_sums_compile() -> None:
    """All loads of a square are before its stores; a block that is the last one sees what the others have left."""
    compiler = compiler_with_nvvm()
    x = Aval((1 << 12, 1 << 12), F32)
    launches = launches_of(
        executable(lambda x, y, z: [x.T + y, x.sum(0), z.max()], x, x, Aval((1 << 22,), F32)), fake_device()
    )
    (turned,) = (one for one in launches if "transpose" in one.kernel.name or one.kernel.name.startswith("add"))
    assert turned.blocks == 1 << 14
    turned, sums, most = (
        compiler.ptx(one.kernel.function, one.types, (9, 0))
        for one in sorted(launches, key=lambda one: one is not turned)
    )
    assert len(re.findall(r"ld\.global\.f32", turned)) == 8
    assert "ld.global.v4.f32" in turned and "st.global.v4.f32" in turned
    for text in (sums, most):
        assert re.search(r"(?s)st\.global.*?membar\.gl.*?atom\.global\.inc.*?membar\.gl.*?ld\.global\.f32", text)
        assert "div" not in text  # each block does one part


@pytest.mark.parametrize("capability", ["8.0", "9.0"])
def test_ptx_needs_no_driver(capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of loops and branches, too; large products are functad's own, as no library is there."""
    compiler_with_nvvm()
    monkeypatch.setattr(driver_library, "library", lambda: pytest.fail("asked for a driver"))
    x = functad.ShapeDtypeStruct((512, 512), "float32")
    lowered = functad.jit(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c @ c, x), backend="cuda").lower(x)
    with functad.config.context(cuda_capability=capability):
        found = lowered.ptx
    assert found.keys() == lowered._lowered.generated.kernels.keys() and len(found) > 1
    for text in found.values():
        assert f".target sm_{capability.replace('.', '')}" in text and ".entry" in text


def test_who_has_no_ptx_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = functad.jit(lambda x: x + 1).lower(np.ones(3, F32))
    with pytest.raises(ArgumentError, match=r"for GPUs have PTX: .*backend='cuda'.*lower\(\*args\)\.ptx"):
        lowered.ptx  # noqa: B018
    monkeypatch.setattr("functad.system.numba_here.is_installed", lambda: False)
    lowered = functad.jit(lambda x: x + 1, backend="cuda").lower(np.ones(3, F32))
    with pytest.raises(CompilationError, match=r"not installed: .*functad\[cuda\]"):
        lowered.ptx  # noqa: B018


def softened(x: Any, weights: Any) -> Any:
    logits = jnp.tanh(x @ weights)
    return [(jnp.exp(logits - logits.max(-1, keepdims=True)).sum(-1) + jnp.log1p(logits * logits).mean(-1)).sum()]


@pytest.mark.parametrize("fun", ["gradient", "sorts"])
def test_kernels_of_all_forms_compile(fun: str) -> None:
    """By blocks and by threads, products, merges and digits."""
    compiler = compiler_with_nvvm()
    if fun == "gradient":
        gradient = functad.grad(lambda w, x: softened(x, w)[0])
        step = executable(lambda w, x: [gradient(w, x)], Aval((300, 257), F32), Aval((4, 300), F32))
    else:
        avals = Aval((2000,), np.dtype(np.complex64)), Aval((1 << 18,), np.dtype(np.int16))
        step = executable(lambda x, y: [jnp.sort(x), jnp.sort(y)], *avals)
    launches = {launch.kernel.name: launch for launch in launches_of(step, fake_device())}
    assert len(launches) >= 3 and any(kernel.mapping.by_block for kernel in step.generated.kernels.values())
    for launch in launches.values():
        assert ".entry" in compiler.ptx(launch.kernel.function, launch.types, (8, 0))


def test_short_tables_are_read_from_memory() -> None:
    compiler = compiler_with_nvvm()
    (launch,) = launches_of(executable(lambda x, y: [x**y], *[Aval((1 << 20,), F32)] * 2), fake_device())
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    tables = re.findall(r"\.global \.align \d+ \.b8 functad_table_\w+\[(\d+)\]", text)
    assert tables == ["128"] * 3
