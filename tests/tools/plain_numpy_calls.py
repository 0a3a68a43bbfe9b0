"""Calls of NumPy's functions as users write them, on values that may be traced, as text.

Knows names of NumPy alone. x is a matrix of shape (3, 3) of distinct numbers between 0 and 1, v its first row, z a
complex and p a positive definite matrix made of it; y and w are a matrix and a vector of known numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Those that HIPS autograd 1.9 differentiates, and those that it takes for constants.
OF_AUTOGRAD = """
np.abs(x - 0.5) np.absolute(z) np.add(x, y) np.all(x) np.allclose(x, y) np.amax(x) np.amin(x, axis=0) np.angle(z)
np.any(x > 0.5, axis=1) np.arccos(x) np.arccosh(x + 2) np.arcsin(x) np.arcsinh(x) np.arctan(x) np.arctan2(x, y)
np.arctanh(x) np.argmax(x, axis=1) np.argmin(x) np.argpartition(x, 1) np.argsort(x) np.around(x, 1)
np.array_equal(x, y) np.array_equiv(x, y) np.array_split(x, 2) np.astype(x, np.float64) np.atleast_1d(v)
np.atleast_2d(v) np.atleast_3d(x) np.broadcast_to(v, (2, 3)) np.ceil(x) np.clip(x, 0.3, 0.6) np.column_stack([v, w])
np.concatenate([x, y]) np.concatenate((v, w, v)) np.conj(z) np.conjugate(z) np.cos(x) np.cosh(x) np.count_nonzero(x)
np.cross(v, w) np.cumsum(x) np.cumsum(x, axis=1) np.deg2rad(x) np.degrees(x) np.diag(v) np.diag(x) np.diagonal(x, 1)
np.diff(x) np.diff(x, n=2, axis=0) np.divide(x, y) np.dot(x, w) np.dot(x, x) np.dsplit(x[:, :, None], [1])
np.einsum('ij,kj->ik', x, y) np.einsum('ii', x) np.empty_like(x).shape np.equal(x, y) np.exp(x) np.exp2(x)
np.expand_dims(x, 1) np.expm1(x) np.fabs(x - 0.5) np.fix(3 * x) np.fliplr(x) np.flipud(x)
np.floor(3 * x) np.floor_divide(x, 0.3) np.fmax(x, y) np.fmin(x, y) np.full_like(x, 2) np.gradient(v) np.gradient(x)
np.greater(x, y) np.greater_equal(x, y) np.hsplit(x, [1]) np.hstack([x, y]) np.hypot(x, y) np.imag(z)
np.inner(x, y) np.inner(v, w) np.isclose(x, y) np.iscomplex(z) np.iscomplexobj(z) np.isfinite(x) np.isinf(x)
np.isnan(x) np.isneginf(x) np.isposinf(x) np.isreal(z) np.isscalar(x) np.kron(x, y) np.less(x, y)
np.less_equal(x, y) np.linspace(v, w, 4) np.linspace(v[0], 2, 5) np.log(x) np.log10(x) np.log1p(x) np.log2(x)
np.logaddexp(x, y) np.logaddexp2(x, y) np.logical_and(x, y) np.logical_not(x) np.logical_or(x, y)
np.logical_xor(x, y) np.matmul(x, y) np.matmul(v, x) np.max(x, axis=1) np.maximum(x, y) np.mean(x)
np.mean(x, axis=0, keepdims=True) np.min(x, axis=1) np.minimum(x, y) np.mod(x, 0.3) np.moveaxis(x, 0, 1)
np.multiply(x, y) np.nan_to_num(x) np.ndim(x) np.negative(x) np.not_equal(x, y) np.ones_like(x)
np.outer(v, w) np.pad(x, 1, 'constant') np.pad(x, ((1, 0), (2, 1)), mode='edge') np.partition(x, 1) np.power(x, 3)
np.power(x, y) np.prod(x) np.prod(x, axis=0) np.rad2deg(x) np.radians(x) np.ravel(x) np.real(z) np.real_if_close(x)
np.reciprocal(x) np.remainder(x, 0.3) np.repeat(x, 2) np.repeat(x, 2, axis=0) np.reshape(x, (9,)) np.reshape(x, -1)
np.result_type(x).itemsize np.rint(3 * x) np.roll(x, 1, axis=1) np.rollaxis(x, 1) np.rot90(x) np.round(x, 1)
np.searchsorted(w, v) np.select([x > 0.6, x > 0.3], [x, x * x], 0) np.shape(x) np.sign(x - 0.5) np.sin(x) np.sinc(x)
np.sinh(x) np.size(x) np.sort(x) np.sort(x, axis=0) np.split(x, 3) np.split(x, [1], axis=1) np.sqrt(x) np.square(x)
np.squeeze(x[:, None]) np.stack([v, w]) np.stack([v, v], axis=1) np.std(x) np.std(x, axis=1, ddof=1)
np.subtract(x, y) np.sum(x) np.sum(x, axis=(0, 1)) np.swapaxes(x, 0, 1) np.tan(x) np.tanh(x)
np.tensordot(x, y) np.tensordot(x, y, 1) np.tensordot(x, y, ((0,), (1,))) np.tile(x, 2) np.tile(x, (2, 2)) np.trace(x)
np.transpose(x) np.transpose(x, (1, 0)) np.tril(x) np.triu(x, 1) np.true_divide(x, y) np.trunc(3 * x) np.var(x)
np.var(x, axis=0) np.vsplit(x, 3) np.vstack([x, y]) np.where(x > 0.5, x, y) np.zeros_like(x) np.append(x, y)
np.append(x, y, axis=0)
np.linalg.cholesky(p) np.linalg.det(x) np.linalg.eig(z) np.linalg.eigh(p) np.linalg.inv(x) np.linalg.norm(x)
np.linalg.norm(v, 3) np.linalg.norm(x, 'nuc') np.linalg.norm(x, axis=1) np.linalg.pinv(x[:2]) np.linalg.slogdet(x)
np.linalg.solve(x, y) np.linalg.solve(x, w) np.linalg.svd(x) np.linalg.svd(x[:2], full_matrices=False)
np.linalg.svd(x, compute_uv=False)
np.fft.fft(x) np.fft.fft(x, 4, axis=0) np.fft.fft2(x) np.fft.fftn(x) np.fft.fftshift(x) np.fft.ifft(z) np.fft.ifft2(z)
np.fft.ifftn(z) np.fft.ifftshift(x) np.fft.irfft(z) np.fft.irfft2(z) np.fft.irfftn(z) np.fft.rfft(x) np.fft.rfft2(x)
np.fft.rfftn(x)
"""

# Those that it does not differentiate, though they have a derivative.
NOT_OF_AUTOGRAD = """
np.acos(x) np.acosh(x + 2) np.apply_along_axis(lambda r: r * r.sum(), 1, x) np.apply_over_axes(np.sum, x, [0, 1])
np.asin(x) np.asinh(x) np.atan(x) np.atan2(x, y) np.atanh(x) np.average(x, axis=0, weights=w) np.average(x)
np.block([[x, y], [y, x]]) np.broadcast_arrays(v, x) np.cbrt(x) np.choose([0, 1, 0], [v, w])
np.compress([True, False, True], x, axis=0)
np.concat([x, y]) np.convolve(v, w) np.copysign(x, -y) np.corrcoef(x) np.correlate(v, w) np.cov(x) np.cov(v, w)
np.cumprod(x) np.cumprod(x, axis=1) np.cumulative_prod(x, axis=0) np.cumulative_sum(x, axis=0) np.delete(x, 1, axis=0)
np.diagflat(v) np.divmod(x, 0.3) np.dstack([x, y]) np.ediff1d(v) np.extract(w > 1, v) np.flip(x, 0)
np.float_power(x, 2)
np.fmod(x, 0.3) np.frexp(x)[0] np.heaviside(x - 0.5, 1) np.histogram(v, 3, (0, 1), weights=v)[0] np.i0(x)
np.insert(v, 1, 5)
np.interp(v, [0, 0.5, 1], [0, 2, 3]) np.ldexp(x, 2) np.lexsort((v, w)) np.matrix_transpose(x) np.matvec(x, w)
np.median(x) np.median(x, axis=1) np.meshgrid(v, w) np.modf(3 * x) np.nanargmax(x) np.nancumprod(x) np.nancumsum(x)
np.nanmax(x) np.nanmean(x, axis=0) np.nanmedian(x) np.nanmin(x, axis=1) np.nanpercentile(x, 30) np.nanprod(x)
np.nanquantile(x, 0.3) np.nanstd(x) np.nansum(x, axis=0) np.nanvar(x) np.percentile(x, 30, axis=1)
np.permute_dims(x, (1, 0)) np.piecewise(x, [x > 0.5], [lambda t: t * t, 1]) np.poly(v) np.polyadd(v, w) np.polyder(v)
np.polyfit(w, v, 1) np.polyint(v) np.polymul(v, w) np.polysub(v, w) np.polyval(v, 2.0) np.polyval(w, x) np.positive(x)
np.pow(x, 2) np.ptp(x) np.quantile(x, [0.2, 0.7], axis=0) np.ravel_multi_index((np.argsort(v), [0, 1, 2]), (3, 3))
np.resize(x, (2, 4)) np.sort_complex(z) np.take(x, [0, 2], axis=1) np.take_along_axis(x, np.argsort(x), 1)
np.trapezoid(x) np.trapezoid(v, w) np.tril_indices_from(x) np.unstack(x) np.unwrap(9 * v)
np.vander(v) np.vdot(v, w) np.vecdot(x, y) np.vecmat(w, x) np.digitize(v, [0.3, 0.6])
np.linalg.cond(x) np.linalg.cross(v, w) np.linalg.diagonal(x) np.linalg.eigvals(x) np.linalg.eigvalsh(p)
np.linalg.lstsq(x[:, :2], w) np.linalg.matmul(x, y) np.linalg.matrix_norm(x) np.linalg.matrix_power(x, 3)
np.linalg.matrix_rank(x) np.linalg.multi_dot([x, y, x]) np.linalg.outer(v, w) np.linalg.qr(x) np.linalg.svdvals(x)
np.linalg.tensorinv(x.reshape(3, 1, 3)) np.linalg.tensorsolve(x, w) np.linalg.trace(x) np.linalg.vecdot(x, y)
np.linalg.vector_norm(x) np.fft.hfft(z) np.fft.ihfft(x)
np.add.accumulate(x) np.add.outer(v, w) np.add.reduce(x) np.add.reduceat(v, [0, 1]) np.maximum.reduce(x, axis=1)
np.multiply.accumulate(x, 1) np.multiply.reduce(x)
"""

# Those whose result has a shape that depends on values: known while `grad` runs, but not to `jit`.
OF_VALUES = "np.nonzero(x) np.flatnonzero(x) np.unique(v) np.trim_zeros(v) np.argwhere(x) np.real_if_close(z)"

X = np.random.default_rng(0).permutation(np.linspace(0.13, 0.92, 9)).reshape(3, 3)
Y, W = np.linspace(2, 0.5, 9).reshape(3, 3), np.array([0.75, 1.5, 2.0])


def calls(table: str) -> list[str]:
    """The calls of a table: what stands between two of `np.` at depth 0 of brackets."""
    found, depth, start = [], 0, 0
    text = " ".join(table.split())
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and not depth and text.startswith("np.", at + 1):
            found.append(text[start:at])
            start = at + 1
    return [*found, text[start:]]


def run(call: str, x: Any) -> Any:
    """What a call gives for x."""
    known = {"np": np, "y": Y, "w": W, "x": x, "v": x[0], "z": x + 1j * (x.T @ Y), "p": x @ x.T + 2 * np.eye(3)}
    return eval(call, known)
