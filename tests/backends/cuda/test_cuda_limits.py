"""What no GPU takes, and what would make kernels slow: in machine code for GPUs since compute capability 7.5.

At the sizes that a GPU is for. Needs NVIDIA's compiler library (NVVM), but no GPU; registers need its assembler, too.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from cuda_driver_tools import compiler_with_nvvm, executable

import functad
import functad.numpy as jnp
from benchmarks.machine_code import (
    PROCESSORS,
    MachineCode,
    described,
    kernels_of,
    lowered_step,
    machine_code,
    main,
)
from functad import lax, machine_model, nn
from functad.backends.cuda import generate
from functad.backends.cuda.launches import ProgramLaunches
from functad.backends.cuda.products import kernels as product_kernels
from functad.backends.cuda.runtime.launching import Kernel, Launch
from functad.evaluation import aval_of

CAPABILITIES = ((7, 5), (8, 0), (9, 0), (10, 0))


class Case(NamedTuple):
    """A function of arrays, and which kinds of memory accesses its kernels have among others."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    moves: tuple[str, ...] = ()
    dtype: str = "float32"


SQUARE, LONG, ODD = (4096, 4096), (10**7,), (8191, 257)
FOURS = ("ld.v4.f32", "st.v4.f32")
CASES = {
    "add": Case(lambda x, y: x + y, (SQUARE, SQUARE), FOURS),
    "add of an odd number": Case(lambda x, y: x + y, (ODD, ODD), FOURS),
    "rows, odd": Case(lambda x, y: x + y, (ODD, ODD[1:])),
    "exp": Case(jnp.exp, (SQUARE,), FOURS),
    "transpose": Case(lambda x: x.T, (SQUARE,), ("st.v4.f32",)),
    "sum": Case(jnp.sum, (SQUARE,), ("ld.v4.f32",)),
    "sum of columns": Case(lambda x: x.sum(0), (SQUARE,), ("ld.v4.f32",)),
    "sum of odd rows": Case(lambda x: x.sum(1), (ODD,)),
    "softmax": Case(nn.softmax, (SQUARE,), FOURS),
    "parts of odd rows": Case(lambda x: jnp.pad(x[:, 3:-2], 1)[::-1], (ODD,)),
    "join": Case(lambda x, y: jnp.concatenate([x, y], 1), (ODD, (8191, 3))),
    "16 bits": Case(lambda x, y: x * y + x, (SQUARE, SQUARE), ("ld.u64", "st.u64"), "float16"),
    "64 bits": Case(lambda x: jnp.tanh(x) * 2, (SQUARE,), ("ld.v2.f64", "st.v2.f64"), "float64"),
    "argmax": Case(lambda x: x.argmax(1), (SQUARE,), ("ld.v4.f32",)),
    "gather": Case(lambda x: x[x[0].astype(np.int32)], (SQUARE,), FOURS),
    "scatter": Case(lambda x, y: x.at[y[:, 0].astype(np.int32)].add(y), ((1000, 64), (1 << 16, 64))),
    "cumsum": Case(jnp.cumsum, (LONG,)),
    "sort": Case(jnp.sort, (LONG,)),
    "top": Case(lambda x: lax.top_k(x, 5), ((100, 1 << 16),)),
    "product": Case(lambda x, y: x @ y, ((1000, 1000), (1000, 1000)), ("ld.v4.f32",)),
    "convolution": Case(lambda x, w: lax.conv(x, w, (2, 2), "SAME"), ((32, 64, 57, 57), (128, 64, 3, 3))),
    "pooling": Case(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"), ((32, 64, 57, 57),)
    ),
    "more than 4 KiB of arguments": Case(lambda *arrays: sum(arrays), ((512, 512),) * 80),
}


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("name", CASES)
def test_gpus_take_kernels_and_do_not_wait_for_slow_instructions(name: str) -> None:
    """Registers and shared memory of a block; nothing spilled, of float64, divided in 64 bits, or called."""
    compiler_with_nvvm()
    case = CASES[name]
    given = [functad.ShapeDtypeStruct(shape, case.dtype) for shape in case.shapes]
    found = [*kernels_of(functad.jit(case.function, backend="cuda").lower(*given), CAPABILITIES)]
    assert {capability for capability, _ in found} == {*CAPABILITIES}
    for capability, code in found:
        assert not code.faults(), f"{capability} {code}"
    moves = {move for _, code in found for move in code.moves}
    assert {*case.moves} <= moves and not any(".nc" in move for move in moves)


def test_a_table_says_what_kernels_are() -> None:
    compiler_with_nvvm()
    x = functad.ShapeDtypeStruct(SQUARE, "float32")
    head, row = described(functad.jit(lambda x: x * 2, backend="cuda").lower(x)).splitlines()
    assert head.split()[:4] == ["kernel", "blocks", "threads", "waves"]
    assert row.split()[:3] == ["mul_b", "32768", "128"] and row.endswith("ld.v4.f32 st.v4.f32")
    tasks = importlib.import_module("benchmarks.gpu_steps").tasks()
    assert len(lowered_step(tasks["W5-128"])._lowered.generated.kernels) > 8


PTX = """
.version 8.0
.target sm_90
.visible .entry kernel(.param .u64 x)
{
\tld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
\tld.global.nc.f32 %f5, [%rd2];
\tcvt.f64.f32 %fd1, %f1;
\tdiv.s64 %rd3, %rd1, %rd2;
\tmul.hi.u64 %rd4, %rd1, %rd2;
\tcall.uni (retval0), slow_function, (param0);
\tst.global.f32 [%rd3], %f1;
}
"""
SAID = "ptxas info    : 8 bytes stack frame, 4 bytes spill stores\nptxas info    : Used 200 registers, 50000 bytes smem"


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a text that has all of them."""
    launch = Launch(Kernel("kernel", lambda x: None), 1 << 31, 512, (np.float32(1),) * 3000)
    monkeypatch.setattr("benchmarks.machine_code.assembler_report", lambda ptx, capability: SAID)
    code = machine_code(launch, PTX, (9, 0))
    assert code.moves == ("ld.nc.f32", "ld.v4.f32", "st.f32") and code.instructions == 7
    assert [fault.split()[0] for fault in code.faults()] == "102400 50000 12 48000 2147483648 1 1 1 calls".split()
    monkeypatch.setattr("benchmarks.machine_code.assembler_report", lambda ptx, capability: None)
    assert machine_code(launch, PTX, (9, 0)).waves((9, 0)) is None


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "waves"),
    [(32, 0, 128, 1.0), (64, 0, 128, 2.0), (33, 0, 128, 16 / 12), (8, 0, 32, 0.5), (8, 113 << 10, 128, 8.0)],
)
def test_waves_are_what_a_multiprocessor_has_no_room_for(
    registers: int, shared: int, threads: int, waves: float
) -> None:
    code = MachineCode("kernel", 16, threads, registers, shared, 0, 56, 9, (), 0, 0, 0, (), False)
    assert code.waves((9, 0), cores=1) == waves
    assert (code.waves((7, 5), cores=1) or 0) >= waves and len(PROCESSORS) > 4


SHAPES = [(3, 10**7), (8, 10**6), (200, 10**5), (1000, 1000), (10**5, 64), (10**6, 8)]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_moves_megabytes_has_a_block_for_each_multiprocessor(shape: tuple[int, int]) -> None:
    """Rows that are few and long, or many and short; what is joined to reductions of short rows, too."""
    functions = (jnp.exp, jnp.sum, nn.softmax, lambda x: x.sum(0), lambda x: x.argmax(1), lambda x: jnp.cumsum(x, 1))
    for function in (*functions, lambda x: x[:, :100].sum(1, keepdims=True) * x):
        lowering = functad.jit(function, backend="cuda").lower(functad.ShapeDtypeStruct(shape, "float32"))._lowered
        launches = ProgramLaunches(lowering, machine_model.CUDA_CORES, lambda: False)
        for call in lowering.generated.instructions:
            if call.bytes > 4 << 20:
                assert launches.of(call).blocks >= machine_model.CUDA_CORES, call.function


@pytest.mark.parametrize("terms", [64, 5000])
def test_rows_behind_a_product_fit_into_the_shared_memory_of_its_blocks(
    monkeypatch: pytest.MonkeyPatch, terms: int
) -> None:
    """These may have more threads than others, each with an element of all that is gathered."""
    for module in (generate, product_kernels):
        monkeypatch.setattr(module, "HAS_ALIGNED_MEMORY", True)
    monkeypatch.setattr(machine_model, "CUDA_LIBRARY_CLOCKS", 1e12)

    def sums(x: Any, w: Any) -> list[Any]:
        y = x @ w
        z = jnp.sin(y)
        return [*(f(-1) for f in (y.sum, y.max, y.min, z.sum, z.max, z.min)), (y * y).sum(-1), (z * z).sum(-1)]

    args = [np.zeros(shape, np.float32) for shape in ((16, 2, terms), (16, terms, 33))]
    kernels = executable(sums, *map(aval_of, args)).generated.kernels
    assert (len(kernels) == 1) is (terms == 64)
    for kernel in kernels.values():
        arrays = re.findall(r"shared\.array\((\w+), (\w+)", kernel.body)
        sizes = [np.dtype(name).itemsize * (128 if n == "THREADS" else int(n)) for n, name in arrays]
        assert sum(sizes) <= machine_model.CUDA_SHARED_BYTES, arrays


@pytest.mark.parametrize("wanted", ["abc", "9", "1.0"])
def test_a_capability_nothing_is_known_of_is_refused(wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["W1", "--capability", wanted])
    assert f"nothing is known of compute capability {wanted}; of 7.5, 8.0, " in capsys.readouterr().err
