"""Fourier transforms in kernels: all radices, all kinds, rows and axes, and what is left to NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.backends.cpu import executable
from functad.primitives.loops.fourier_long import is_long, sides
from functad.primitives.loops.fourier_passes import radices

RNG = np.random.default_rng(0)
LENGTHS = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 22, 26, 30, 49, 60, 64, 91, 121, 128, 169, 210, 1000, 1024, 5000]
KINDS = ["fft", "ifft", "rfft", "irfft"]


def numbers(kind: str, shape: tuple[int, ...], dtype: str = "complex128") -> np.ndarray:
    x = (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)
    return x.real.copy() if kind == "rfft" else x[..., : shape[-1] // 2 + 1].copy() if kind == "irfft" else x


def compiled(kind: str, n: int, x: np.ndarray) -> tuple[np.ndarray, bool]:
    """The transform of rows by compiled code, and whether by a kernel."""
    lower, lowered = executable.lower_program, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executable, "lower_program", lambda *given: lowered.append(lower(*given)) or lowered[-1])
        found = np.asarray(functad.jit(lambda x: getattr(jnp.fft, kind)(x, n))(x))
    return found, "def fourier" in lowered[0].kernels


def assert_close(found: np.ndarray, expected: np.ndarray, ulps: float) -> None:
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=ulps * np.finfo(found.dtype).eps * size)


@pytest.mark.generated(every=5)
@pytest.mark.generated(every=4)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_lengths_with_small_prime_factors_are_transformed_by_kernels(kind: str, n: int) -> None:
    x = numbers(kind, (3, n))
    found, in_kernel = compiled(kind, n, x)
    assert in_kernel
    assert_close(found, getattr(np.fft, kind)(x, n), 8)
    narrow = x.astype("float32" if x.dtype.kind == "f" else "complex64")
    found, in_kernel = compiled(kind, n, narrow)
    assert in_kernel and found.dtype == getattr(np.fft, kind)(narrow, n).dtype
    assert_close(found, getattr(np.fft, kind)(narrow.astype(x.dtype), n), 8)


@pytest.mark.generated(every=5)
@pytest.mark.generated(every=2)
@pytest.mark.parametrize("n", [17, 38, 97, 101, 509, 2 * 1009])
@pytest.mark.parametrize("kind", KINDS)
def test_other_lengths_are_transformed_by_way_of_longer_ones(kind: str, n: int) -> None:
    x = numbers(kind, (2, n))
    found, in_kernel = compiled(kind, n, x)
    assert in_kernel and radices(n) is None
    assert_close(found, getattr(np.fft, kind)(x, n), 30)
    narrow = x.astype("float32" if x.dtype.kind == "f" else "complex64")
    found, _ = compiled(kind, n, narrow)
    assert found.dtype == getattr(np.fft, kind)(narrow, n).dtype
    assert_close(found, getattr(np.fft, kind)(narrow.astype(x.dtype), n), 30)
    if kind == "irfft":  # imaginary parts that a real array cannot have are not read
        x[:, 0] += np.nan * 1j
        x[:, -1] += np.nan * 1j if n % 2 == 0 else 0
        np.testing.assert_array_equal(
            compiled(kind, n, x)[0], compiled(kind, n, x.real + 1j * np.nan_to_num(x.imag))[0]
        )


def test_the_slope_of_a_transform_by_way_of_a_longer_one() -> None:
    x, y = numbers("rfft", (2, 19))
    step = functad.jit(functad.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2 * y[:10])))
    with functad.enable_x64(True):
        found = np.asarray(step(x))
        wanted = np.asarray(functad.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2 * y[:10]))(x))
    assert_close(found, wanted, 60)


@pytest.mark.parametrize("n", [1, 101])
@pytest.mark.parametrize("kind", KINDS)
def test_what_no_kernel_does_is_left_to_numpy(kind: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "FFT_BY_CHIRP", 100)
    x = numbers(kind, (2, n))
    found, in_kernel = compiled(kind, n, x)
    assert not in_kernel and radices(n) is None
    np.testing.assert_array_equal(found, getattr(np.fft, kind)(x, n))


def test_the_longer_transform_of_a_row_is_one_that_a_kernel_does() -> None:
    # At the latest at that length the search for one without large prime factors ends.
    assert set(radices(machine_model.FFT_IN_KERNEL) or [0]) <= {2, 3, 4, 5}
    assert (
        131_101 < 524_287 <= machine_model.FFT_BY_CHIRP < 2 * machine_model.FFT_BY_CHIRP <= machine_model.FFT_IN_KERNEL
    )


def test_long_rows_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "FFT_IN_KERNEL", 99)
    x = numbers("fft", (108,))
    found, in_kernel = compiled("fft", 108, x)
    assert not in_kernel
    np.testing.assert_array_equal(found, np.fft.fft(x))


@pytest.mark.generated(every=4)
@pytest.mark.parametrize(
    ("kind", "n", "dtype"),
    [("fft", 320, "complex64"), ("ifft", 121, "complex128"), ("rfft", 640, "complex64"), ("irfft", 360, "complex128")],
)
def test_long_rows_are_transformed_as_matrices(kind: str, n: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of sides that no vector divides, of one pass, and of several rows whose last block holds columns done before.
    monkeypatch.setattr(machine_model, "FFT_AS_MATRIX", 40)
    x = numbers(kind, (3, n), dtype)
    step = functad.jit(lambda x: getattr(jnp.fft, kind)(x, n))
    found, kernels = np.asarray(step(x)), step.lower(x).kernels
    assert all(f"def fourier_{name}" in kernels for name in ("roots", "columns", "rows"))
    assert_close(found, getattr(np.fft, kind)(x.astype("complex128" if x.dtype.kind == "c" else "float64"), n), 8)
    x[1, 3] = np.nan  # the other rows are as they were
    with_nan = np.asarray(step(x))
    assert np.isnan(with_nan[1]).all()
    np.testing.assert_array_equal(with_nan[::2], found[::2])


def test_the_fewer_rows_the_shorter_those_that_are_matrices() -> None:
    shortest, part = machine_model.FFT_AS_MATRIX, np.float32
    assert is_long(shortest, 1, part, real=False) and not is_long(shortest, 2, part, real=False)
    assert is_long(shortest * machine_model.FFT_ROWS, 1000, part, real=True)
    assert not is_long(3**9, 1, part, real=True)  # an odd number of real numbers
    assert sides(1000) == (25, 40)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_transformed_as_it_is_alone(kind: str) -> None:
    x = numbers(kind, (77, 60))
    x[5, 3] = np.nan
    found, _ = compiled(kind, 60, x)
    for k in (0, 4, 5, 41, 76):
        np.testing.assert_array_equal(found[k], compiled(kind, 60, x[k : k + 1])[0][0])
    assert np.isnan(found[5]).all() and np.isfinite(np.delete(found, 5, 0)).all()


@pytest.mark.parametrize("n", [7, 8])
def test_imaginary_parts_that_a_real_array_cannot_have_are_not_read(n: int) -> None:
    x = numbers("irfft", (n,))
    x[0] += np.nan * 1j
    x[-1] += np.inf * 1j if n % 2 == 0 else 0
    found, _ = compiled("irfft", n, x)
    x[0] = x[0].real
    x[-1] = x[-1].real if n % 2 == 0 else x[-1]
    assert_close(found, np.fft.irfft(x, n), 8)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("shape", [(6, 8), (4, 1, 5), (2, 3, 10), (17, 19)])
def test_several_axes_one_after_another(name: str, shape: tuple[int, ...]) -> None:
    x = numbers(name[:-1], (2, *shape))
    for axes in (tuple(range(1, 1 + len(shape))), (0, -1)):
        lengths = tuple(((2, *shape)[a]) for a in axes)
        step = functad.jit(lambda x, axes=axes, lengths=lengths: getattr(jnp.fft, name)(x, lengths, axes))
        assert_close(np.asarray(step(x)), getattr(np.fft, name)(x, lengths, axes), 30)
        assert "def fourier" in step.lower(x).kernels
