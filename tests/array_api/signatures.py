"""The names and arguments of the Array API standard 2024.12: of arrays, the namespace and its extensions.

Knows nothing of functad.
"""

from __future__ import annotations

SIGNATURES = """
array.dtype; array.device; array.mT; array.ndim; array.shape; array.size; array.T; array.__abs__(self, /);
array.__add__(self, other, /); array.__and__(self, other, /); array.__array_namespace__(self, /, *, api_version=None);
array.__bool__(self, /); array.__complex__(self, /);
array.__dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None);
array.__dlpack_device__(self, /); array.__eq__(self, other, /); array.__float__(self, /);
array.__floordiv__(self, other, /); array.__ge__(self, other, /); array.__getitem__(self, key, /);
array.__gt__(self, other, /); array.__index__(self, /); array.__int__(self, /); array.__invert__(self, /);
array.__le__(self, other, /); array.__lshift__(self, other, /); array.__lt__(self, other, /);
array.__matmul__(self, other, /); array.__mod__(self, other, /); array.__mul__(self, other, /);
array.__ne__(self, other, /); array.__neg__(self, /); array.__or__(self, other, /); array.__pos__(self, /);
array.__pow__(self, other, /); array.__rshift__(self, other, /); array.__setitem__(self, key, value, /);
array.__sub__(self, other, /); array.__truediv__(self, other, /); array.__xor__(self, other, /);
array.to_device(self, device, /, *, stream=None); arange(start, /, stop=None, step=1, *, dtype=None, device=None);
asarray(obj, /, *, dtype=None, device=None, copy=None); empty(shape, *, dtype=None, device=None);
empty_like(x, /, *, dtype=None, device=None); eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None);
from_dlpack(x, /, *, device=None, copy=None); full(shape, fill_value, *, dtype=None, device=None);
full_like(x, /, fill_value, *, dtype=None, device=None);
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True); meshgrid(*arrays, indexing='xy');
ones(shape, *, dtype=None, device=None); ones_like(x, /, *, dtype=None, device=None); tril(x, /, *, k=0);
triu(x, /, *, k=0); zeros(shape, *, dtype=None, device=None); zeros_like(x, /, *, dtype=None, device=None);
astype(x, dtype, /, *, copy=True, device=None); can_cast(from_, to, /); finfo(type, /); iinfo(type, /);
isdtype(dtype, kind); result_type(*arrays_and_dtypes); abs(x, /); acos(x, /); acosh(x, /); add(x1, x2, /); asin(x, /);
asinh(x, /); atan(x, /); atan2(x1, x2, /); atanh(x, /); bitwise_and(x1, x2, /); bitwise_left_shift(x1, x2, /);
bitwise_invert(x, /); bitwise_or(x1, x2, /); bitwise_right_shift(x1, x2, /); bitwise_xor(x1, x2, /); ceil(x, /);
clip(x, /, min=None, max=None); conj(x, /); copysign(x1, x2, /); cos(x, /); cosh(x, /); divide(x1, x2, /);
equal(x1, x2, /); exp(x, /); expm1(x, /); floor(x, /); floor_divide(x1, x2, /); greater(x1, x2, /);
greater_equal(x1, x2, /); hypot(x1, x2, /); imag(x, /); isfinite(x, /); isinf(x, /); isnan(x, /); less(x1, x2, /);
less_equal(x1, x2, /); log(x, /); log1p(x, /); log2(x, /); log10(x, /); logaddexp(x1, x2, /); logical_and(x1, x2, /);
logical_not(x, /); logical_or(x1, x2, /); logical_xor(x1, x2, /); maximum(x1, x2, /); minimum(x1, x2, /);
multiply(x1, x2, /); negative(x, /); nextafter(x1, x2, /); not_equal(x1, x2, /); positive(x, /); pow(x1, x2, /);
real(x, /); reciprocal(x, /); remainder(x1, x2, /); round(x, /); sign(x, /); signbit(x, /); sin(x, /); sinh(x, /);
square(x, /); sqrt(x, /); subtract(x1, x2, /); tan(x, /); tanh(x, /); trunc(x, /);
fft.fft(x, /, *, n=None, axis=-1, norm='backward'); fft.ifft(x, /, *, n=None, axis=-1, norm='backward');
fft.fftn(x, /, *, s=None, axes=None, norm='backward'); fft.ifftn(x, /, *, s=None, axes=None, norm='backward');
fft.rfft(x, /, *, n=None, axis=-1, norm='backward'); fft.irfft(x, /, *, n=None, axis=-1, norm='backward');
fft.rfftn(x, /, *, s=None, axes=None, norm='backward'); fft.irfftn(x, /, *, s=None, axes=None, norm='backward');
fft.hfft(x, /, *, n=None, axis=-1, norm='backward'); fft.ihfft(x, /, *, n=None, axis=-1, norm='backward');
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None); fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None);
fft.fftshift(x, /, *, axes=None); fft.ifftshift(x, /, *, axes=None); take(x, indices, /, *, axis=None);
take_along_axis(x, indices, /, *, axis=-1); info.capabilities(); info.default_device();
info.default_dtypes(*, device=None); info.dtypes(*, device=None, kind=None); info.devices();
linalg.cholesky(x, /, *, upper=False); linalg.cross(x1, x2, /, *, axis=-1); linalg.det(x, /);
linalg.diagonal(x, /, *, offset=0); linalg.eigh(x, /); linalg.eigvalsh(x, /); linalg.inv(x, /);
linalg.matmul(x1, x2, /); linalg.matrix_norm(x, /, *, keepdims=False, ord='fro'); linalg.matrix_power(x, n, /);
linalg.matrix_rank(x, /, *, rtol=None); linalg.matrix_transpose(x, /); linalg.outer(x1, x2, /);
linalg.pinv(x, /, *, rtol=None); linalg.qr(x, /, *, mode='reduced'); linalg.slogdet(x, /); linalg.solve(x1, x2, /);
linalg.svd(x, /, *, full_matrices=True); linalg.svdvals(x, /); linalg.tensordot(x1, x2, /, *, axes=2);
linalg.trace(x, /, *, offset=0, dtype=None); linalg.vecdot(x1, x2, /, *, axis=-1);
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2); matmul(x1, x2, /); matrix_transpose(x, /);
tensordot(x1, x2, /, *, axes=2); vecdot(x1, x2, /, *, axis=-1); broadcast_arrays(*arrays); broadcast_to(x, /, shape);
concat(arrays, /, *, axis=0); expand_dims(x, /, axis); flip(x, /, *, axis=None); moveaxis(x, source, destination, /);
permute_dims(x, /, axes); repeat(x, repeats, /, *, axis=None); reshape(x, /, shape, *, copy=None);
roll(x, /, shift, *, axis=None); squeeze(x, /, axis); stack(arrays, /, *, axis=0); tile(x, repetitions, /);
unstack(x, /, *, axis=0); argmax(x, /, *, axis=None, keepdims=False); argmin(x, /, *, axis=None, keepdims=False);
count_nonzero(x, /, *, axis=None, keepdims=False); nonzero(x, /);
searchsorted(x1, x2, /, *, side='left', sorter=None); where(condition, x1, x2, /); unique_all(x, /);
unique_counts(x, /); unique_inverse(x, /); unique_values(x, /);
argsort(x, /, *, axis=-1, descending=False, stable=True); sort(x, /, *, axis=-1, descending=False, stable=True);
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False);
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False); max(x, /, *, axis=None, keepdims=False);
mean(x, /, *, axis=None, keepdims=False); min(x, /, *, axis=None, keepdims=False);
prod(x, /, *, axis=None, dtype=None, keepdims=False); std(x, /, *, axis=None, correction=0.0, keepdims=False);
sum(x, /, *, axis=None, dtype=None, keepdims=False); var(x, /, *, axis=None, correction=0.0, keepdims=False);
all(x, /, *, axis=None, keepdims=False); any(x, /, *, axis=None, keepdims=False);
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
"""
