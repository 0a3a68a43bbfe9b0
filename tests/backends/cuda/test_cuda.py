"""The CUDA backend: in Numba's simulator (a process of its own), as PTX where NVVM is installed, and on a GPU.

What is computed is checked by `cuda_simulated.py`; here its process is run, and what it says is read.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_simulated import CHECKS

import functad
import functad.numpy as jnp
from functad import lax
from functad.all_primitives import registry
from functad.backends.cuda.scalars import complex_functions
from functad.errors import DeviceError
from functad.ir import Absent
from functad.primitives.kernels.plain_arithmetic import PLAIN

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
FOLDERS = [ROOT / "tests" / "tools", ROOT / "tests", ROOT]  # where the process finds what it imports


@pytest.fixture(scope="module")
def simulated(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the simulator's process says of each of the checks that were chosen."""
    environment = {
        **os.environ,
        "NUMBA_ENABLE_CUDASIM": "1",
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / "tests" / "tools"), str(ROOT / "tests"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        ),
    }
    chosen = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    checks = [call.params["check"] for call in chosen if call is not None and "check" in call.params]
    command = [sys.executable, str(FOLDER / "cuda_simulated.py"), *checks]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    lines = [line for line in process.stdout.splitlines() if line.startswith(("ok ", "FAIL ", "skip "))]
    return {line.partition(" ")[2].partition(":")[0]: line for line in lines}


PRIMITIVES = [check for check in CHECKS if check.startswith("primitive ")]


def test_every_primitive_compiles_or_says_why_not() -> None:
    """Those that are not compiled on any target: their lowering says why, and `custom_lin` is always transposed."""
    checked = {check.removeprefix("primitive ") for check in PRIMITIVES}
    others = set(registry) - checked - {"custom_lin"}
    assert len(checked) > 160 and checked <= set(registry)
    for name in sorted(others):
        lower = registry[name].lower
        assert isinstance(lower, Absent) and lower.why, f"`{name}` is not tried on CUDA"


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("check", PRIMITIVES)
def test_every_primitive_of_the_backend_equals_the_interpreter(simulated: dict[str, str], check: str) -> None:
    assert simulated[check].startswith("ok "), simulated[check]


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in PRIMITIVES])
def test_in_the_simulator(simulated: dict[str, str], check: str) -> None:
    assert simulated[check].startswith("ok "), simulated[check]


# --- functions of complex numbers, by parts ---------------------------------------------------------------

NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
NUMPY_NAMES |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}
EDGES = np.array([-30, -3, -1, -0.5, -0.0, 0.0, 0.25, 1, 2, 25.0])


@pytest.mark.parametrize("name", sorted(complex_functions.FUNCTIONS))
def test_functions_of_complex_numbers_agree_with_numpy(name: str) -> None:
    """On both sides of every branch cut, and at random; the error is that of the number, not of each part."""
    rng = np.random.default_rng(0)
    real, imaginary = np.meshgrid(EDGES, EDGES)
    x, y = (
        np.concatenate([e.ravel(), rng.normal(size=300) * np.exp(3 * rng.normal(size=300))]) for e in (real, imaginary)
    )
    z = np.empty(x.shape, np.complex128)
    z.real, z.imag = x, y
    arguments = [z]
    if name == "pow":
        arguments = [z[np.abs(z) > 0], np.roll(z, 7)[np.abs(z) > 0] / 30]
    with np.errstate(all="ignore"):
        parts = [part for a in arguments for part in (a.real, a.imag)]
        real, imaginary = complex_functions.FUNCTIONS[name](PLAIN, *parts)
        expected = getattr(np, NUMPY_NAMES.get(name, name))(*arguments)
        error = np.abs(real - expected.real) + np.abs(imaginary - expected.imag)
    finite = np.isfinite(expected)
    # The exponential multiplies the error of its argument.
    growth = 1 + np.abs(arguments[1] * np.log(arguments[0]))[finite] if name == "pow" else 1.0
    assert finite.sum() > 300 and np.all(error[finite] <= 4e-15 * growth * np.abs(expected[finite]))
    if name == "sqrt":
        assert np.array_equal(np.signbit(imaginary), np.signbit(expected.imag))


ENDS = np.array([-np.inf, -1e300, -710, -400, -2, -1e-290, -0.0, 0.0, 1e-30, 0.5, 3, 100, 710, 1e30, np.inf, np.nan])


@pytest.mark.parametrize("name", sorted(complex_functions.FUNCTIONS.keys() - {"pow"}))
def test_functions_of_complex_numbers_agree_with_numpy_at_the_ends(name: str) -> None:
    """Infinities, NaN and signs of zeros of each part; and no overflow half-way."""
    real, imaginary = np.meshgrid(ENDS, ENDS)
    z = np.empty(real.size, np.complex128)
    z.real, z.imag = real.ravel(), imaginary.ravel()
    with np.errstate(all="ignore"):
        found = complex_functions.FUNCTIONS[name](PLAIN, z.real.copy(), z.imag.copy())
        expected = getattr(np, NUMPY_NAMES.get(name, name))(z)
        size = np.where(np.isfinite(np.abs(expected)), np.abs(expected), 0)
        for got, wanted in zip(found, (expected.real, expected.imag)):
            near = np.isclose(got, wanted, rtol=1e-14, atol=0, equal_nan=True) | (np.abs(got - wanted) <= 1e-14 * size)
            other_zero = (got == 0) & (wanted == 0) & (np.signbit(got) != np.signbit(wanted))
            assert np.all(near & ~other_zero), z[~near | other_zero]


# --- without the simulator ------------------------------------------------------------------------------


def loss(weights: Any, x: Any) -> Any:
    logits = jnp.tanh(x @ weights)
    return (jnp.exp(logits - logits.max(-1, keepdims=True)).sum(-1) + jnp.log1p(logits * logits).mean(-1)).sum()


X = np.linspace(-1, 1, 4 * 300, dtype=np.float32).reshape(4, 300)
WEIGHTS = np.linspace(1, -1, 300 * 257, dtype=np.float32).reshape(300, 257)


def test_without_a_gpu_the_error_says_what_to_do() -> None:
    if _has_gpu():
        pytest.skip("this machine has a GPU")
    with pytest.raises(DeviceError, match="GPU"):
        functad.jit(jnp.sin, backend="cuda")(X)


def test_a_block_has_shared_memory_for_all_that_a_kernel_gathers() -> None:
    def sums(x: Any) -> Any:
        return [jnp.sum(jnp.sin(x * k), 1) for k in range(1, 60)]

    x = np.ones((200, 1000), np.complex128)
    kernels = functad.jit(sums, backend="cuda").lower(x)._lowered.generated.kernels
    gathered = [kernel.body.count("cuda.shared.array(THREADS, complex128)") for kernel in kernels.values()]
    assert sum(gathered) == 59 and max(gathered) * 128 * 16 <= 48 << 10


def test_all_of_a_gpu_sorts_a_long_row_and_many_short_ones() -> None:
    """The merges are one function, and the last of them is shared by as many blocks as the others."""

    def launches(fun: Any, x: np.ndarray) -> list[tuple[str, int]]:
        instructions = functad.jit(fun, backend="cuda").lower(x)._lowered.generated.instructions
        return [(i.function, i.n) for i in instructions]

    long = launches(jnp.sort, np.zeros(1 << 17, np.float64))
    assert [name for name, _ in long] == ["sort_tiles", *["sort_merge"] * 6, "sort_merge_last"]
    assert all(100 < blocks <= 128 for _, blocks in long)
    assert launches(jnp.sort, np.zeros((100_000, 64), np.float32)) == [("sort_tiles", 6250)]
    # Of what is not kept nothing is merged.
    largest = launches(lambda x: lax.top_k(x, 5), np.zeros(1 << 20, np.float32))
    assert [blocks for _, blocks in largest] == [1024 >> k for k in range(11)]


def test_long_rows_are_sorted_by_digits_where_merges_would_move_more() -> None:
    """Of 32 bits from about 2¹⁶ elements on, of 64 from 2¹⁹, of 8 at once; most passes are one function."""

    def kernels(fun: Any, *shape_and_dtype: Any) -> list[str]:
        lowered = functad.jit(fun, backend="cuda").lower(functad.ShapeDtypeStruct(*shape_and_dtype))._lowered
        return [i.function for i in lowered.generated.instructions]

    four = ["sort_clear", "sort_count", "sort_digit_first", "sort_digit", "sort_digit", "sort_digit_last"]
    assert kernels(jnp.sort, (1 << 20,), np.float32) == kernels(jnp.sort, (1 << 24,), np.int32) == four
    assert (
        len(kernels(jnp.sort, (1 << 20,), np.int64)) == 10 and kernels(jnp.sort, (9999,), np.uint32)[0] == "sort_tiles"
    )
    assert kernels(jnp.sort, (50_000,), np.int8) == ["sort_clear", "sort_count", "sort_digit_last"]


def test_sums_of_counts_are_as_wide_as_the_counts() -> None:
    """In rows too long for positions of 32 bits, too."""
    for length, dtype in ((1 << 24, "int32"), (1 << 31, "int64")):
        lowered = functad.jit(jnp.sort, backend="cuda").lower(functad.ShapeDtypeStruct((length,), np.int16))._lowered
        passes = [k.body for name, k in lowered.generated.kernels.items() if name.startswith("sort_digit")]
        assert len(passes) == 2
        for body in passes:
            assert f"begins = cuda.shared.array(512, {dtype})" in body
            assert f"sums = cuda.shared.array(THREADS, {dtype})" in body


def test_on_a_gpu() -> None:
    if not _has_gpu():
        pytest.skip("no GPU that numba.cuda can use")
    expected = functad.jit(functad.value_and_grad(loss), backend="interpreter")(WEIGHTS, X)
    for _ in range(2):
        got = functad.jit(functad.value_and_grad(loss), backend="cuda")(WEIGHTS, X)
        for e, g in zip(expected, got, strict=True):
            scale = float(np.abs(np.asarray(e)).max())
            np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=1e-4, atol=1e-4 * scale)


def _has_gpu() -> bool:
    return bool(importlib.import_module("numba.cuda").is_available())
