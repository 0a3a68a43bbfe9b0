"""Steps that call functions of `functad.numpy` and `functad.nn`: what users write, most of it several primitives.

Knows their names and arguments; nothing of how many steps a program has.
"""

from __future__ import annotations

from .generator import Maker
from .values import count

UNARY = (
    "exp log1p sqrt sin cos tan arctan arcsinh tanh sinc negative positive abs sign square floor ceil trunc real "
    "nan_to_num rint isnan isfinite signbit cbrt deg2rad expm1 logical_not"
).split()
BINARY = (
    "add subtract multiply divide maximum minimum floor_divide remainder fmod arctan2 logaddexp hypot copysign "
    "heaviside fmax fmin equal less greater_equal logical_and logical_xor outer kron power"
).split()
REDUCTIONS = (
    "sum mean prod max min any all var std ptp argmax argmin median nanmax nansum count_nonzero nanmean average"
).split()
ALONG = "cumsum cumprod sort argsort diff flip".split()
NN = "relu softplus sigmoid silu gelu elu leaky_relu softmax log_softmax hard_tanh selu log_sigmoid mish".split()
SHAPED = (
    "jnp.ravel($0)", "jnp.atleast_2d($0)", "jnp.expand_dims($0, 0)", "jnp.tile($0, 2)", "jnp.repeat($0, 2)",
    "jnp.triu(jnp.atleast_2d($0))", "jnp.roll($0, 1)", "jnp.moveaxis(jnp.atleast_2d($0), 0, -1)", "jnp.flip($0)",
    "jnp.where($0 > 0, $0, 0)", "jnp.clip($0, -1, 1)", "$0[..., None]", "$0[::-1]", "$0[..., ::2]", "$0.T", "$0 ** 2",
    "jnp.pad($0, 1)", "jnp.pad($0, 1, mode='edge')", "jnp.pad($0, 1, mode='wrap')", "jnp.trace(jnp.atleast_2d($0))",
    "jnp.einsum('...i->...', $0)", "jnp.tensordot($0, $0, 1)", "jnp.linalg.norm($0)",
    "jnp.vander(jnp.ravel($0)[:4], 3)",
    "jnp.searchsorted(jnp.sort(jnp.ravel($0)), $0)", "jnp.unwrap($0)", "jnp.convolve(jnp.ravel($0), jnp.ravel($0)[:3])",
    "jnp.interp($0, jnp.arange(4, dtype='float32'), jnp.arange(4, dtype='float32') ** 2)",
    "jnp.digitize($0, np.array([-1., 0., 2.]))",
    "jnp.take_along_axis($0, jnp.argsort($0, -1), -1)", "jnp.rot90(jnp.atleast_2d($0))",
    "jnp.diagonal(jnp.atleast_2d($0))",
    "nn.softmax($0, -1)", "nn.logsumexp($0, -1)", "nn.one_hot(jnp.ravel($0).astype('int32'), 3)",
    "jnp.polyval($0[:2], $0)", "jnp.gradient(jnp.ravel($0))", "jnp.quantile($0, 0.3)", "lax.top_k($0, 1)[0]",
    "vmap(jnp.sum)($0)",    "vmap(lambda x: x * 2, 0, -1)($0)", "vmap(vmap(jnp.sin))($0)",
)  # fmt: skip


def unary(m: Maker) -> None:
    if (v := m.pick()) is not None:
        m.emit(f"jnp.{m.choose.choice(UNARY)}($0)", v)


def activation(m: Maker) -> None:
    if (v := m.pick("f")) is not None:
        m.emit(f"nn.{m.choose.choice(NN)}($0)", v)


def binary(m: Maker) -> None:
    """Operands of whatever shapes and dtypes: broadcasting and promotion."""
    v, w = m.pick(), m.pick()
    if v is not None and w is not None and count(v.shape) * count(w.shape) <= 20 * m.profile.largest:
        m.emit(f"jnp.{m.choose.choice(BINARY)}($0, $1)", v, w)


def reduction(m: Maker) -> None:
    if (v := m.pick(rank=1)) is not None:
        axis = m.choose.choice(["", f", {m.choose.randrange(len(v.shape))}", ", -1"])
        m.emit(f"jnp.{m.choose.choice(REDUCTIONS)}($0{axis}{m.choose.choice(['', ', keepdims=True'])})", v)


def along(m: Maker) -> None:
    if (v := m.pick(rank=1)) is not None:
        m.emit(f"jnp.{m.choose.choice(ALONG)}($0, axis={m.choose.randrange(len(v.shape))})", v)


def shaped(m: Maker) -> None:
    if (v := m.pick()) is not None:
        m.emit(m.choose.choice(SHAPED), v)


FUNCTIONS = [unary, activation, binary, binary, reduction, along, shaped, shaped]
