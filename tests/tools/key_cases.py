"""Programs with typed keys, for functad and for JAX: functions of either module, of keys and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[..., Any]

# name → function of (module, key, keys of shape (3,), x), where x is a float32.
CASES: dict[str, Case] = {
    "split": lambda m, k, ks, x: m.random.split(k, (2, 3)),
    "split_none": lambda m, k, ks, x: m.random.split(k, 0),
    "fold_in": lambda m, k, ks, x: m.random.fold_in(k, 7),
    "bits": lambda m, k, ks, x: [m.random.bits(k, (3, 5), f"uint{n}") for n in (8, 16, 32)],
    "normal": lambda m, k, ks, x: m.random.normal(k, (5,)),
    "gamma": lambda m, k, ks, x: m.random.gamma(k, 2.0, (3,)),
    "key_data": lambda m, k, ks, x: m.random.key_data(ks),
    "wrap_key_data": lambda m, k, ks, x: m.random.wrap_key_data(m.random.key_data(ks)),
    "clone": lambda m, k, ks, x: m.random.clone(ks),
    "returned": lambda m, k, ks, x: (k, ks),
    "of_a_seed": lambda m, k, ks, x: m.random.key(m.numpy.int32(x)),
    "of_seeds": lambda m, k, ks, x: m.vmap(m.random.key)(m.numpy.arange(3)),
    "raw": lambda m, k, ks, x: m.random.split(m.random.key_data(k)),
    "index": lambda m, k, ks, x: ks[1],
    "index_last": lambda m, k, ks, x: ks[-1],
    "index_array": lambda m, k, ks, x: ks[m.numpy.array([0, 2, 2])],
    "index_traced": lambda m, k, ks, x: ks[m.numpy.int32(x)],
    "index_outside": lambda m, k, ks, x: m.numpy.take(ks, m.numpy.array([0, 7])),
    "slice": lambda m, k, ks, x: (ks[1:], ks[::-1], ks[::2]),
    "mask": lambda m, k, ks, x: ks[np.array([True, False, True])],
    "reshape": lambda m, k, ks, x: ks.reshape(3, 1).T,
    "expand_dims": lambda m, k, ks, x: (ks[:, None], m.numpy.expand_dims(k, 0).squeeze()),
    "stack": lambda m, k, ks, x: m.numpy.stack([k, ks[0]]),
    "concatenate": lambda m, k, ks, x: m.numpy.concatenate([ks, ks[:1]]),
    "list": lambda m, k, ks, x: m.numpy.array([k, ks[1]]),
    "unpacked": lambda m, k, ks, x: [*ks],
    "unstack": lambda m, k, ks, x: m.numpy.unstack(ks),
    "where": lambda m, k, ks, x: m.numpy.where(m.numpy.arange(3) < x, ks, k),
    "select": lambda m, k, ks, x: m.lax.select(m.numpy.arange(3) < x, ks, ks[::-1]),
    "broadcast": lambda m, k, ks, x: m.numpy.broadcast_to(k, (2, 3)),
    "tile": lambda m, k, ks, x: (m.numpy.tile(ks, 2), m.numpy.repeat(ks, 2), m.numpy.roll(ks, 1)),
    "set": lambda m, k, ks, x: ks.at[0].set(k),
    "set_array": lambda m, k, ks, x: ks.at[m.numpy.array([0, 2])].set(k),
    "dynamic_slice": lambda m, k, ks, x: m.lax.dynamic_slice(ks, (m.numpy.int32(x),), (2,)),
    "dynamic_update": lambda m, k, ks, x: m.lax.dynamic_update_slice(ks, ks[:1], (m.numpy.int32(x),)),
    "equal": lambda m, k, ks, x: (ks == ks[0], ks != ks[0], m.numpy.array_equal(ks, ks)),
    "filled": lambda m, k, ks, x: (m.numpy.zeros(2, k.dtype), m.numpy.ones_like(ks), m.numpy.full((2,), k)),
    "copy": lambda m, k, ks, x: (m.numpy.copy(k), k.copy(), m.numpy.asarray(k)),
    "nan_to_num": lambda m, k, ks, x: m.numpy.nan_to_num(ks),
    "sizes": lambda m, k, ks, x: [m.numpy.array(f(ks)) for f in (m.numpy.size, m.numpy.ndim, len)],
    "vmap": lambda m, k, ks, x: m.vmap(m.random.split)(ks),
    "vmap_twice": lambda m, k, ks, x: m.vmap(m.vmap(lambda k: m.random.bits(k, (2,))))(ks.reshape(3, 1)),
    "vmap_axis": lambda m, k, ks, x: m.vmap(lambda row: row[::-1], in_axes=1, out_axes=1)(m.random.split(k, (2, 3))),
    "vmap_fold": lambda m, k, ks, x: m.vmap(m.random.fold_in, (None, 0))(k, m.numpy.arange(3)),
    "vmap_fold_both": lambda m, k, ks, x: m.vmap(m.random.fold_in)(ks, m.numpy.arange(3)),
    "vmap_unmapped": lambda m, k, ks, x: m.vmap(lambda i: m.random.fold_in(k, 2))(m.numpy.arange(2)),
    "map": lambda m, k, ks, x: m.lax.map(lambda k: m.random.bits(k), ks),
    "scan": lambda m, k, ks, x: m.lax.scan(lambda k, _: (m.random.split(k)[0], k), k, None, length=4),
    "scan_over": lambda m, k, ks, x: m.lax.scan(lambda c, k: (c + m.random.uniform(k), k), x, ks),
    "scan_constant": lambda m, k, ks, x: m.lax.scan(
        lambda c, i: (c, m.random.fold_in(k, i)), x, m.numpy.arange(3, dtype="uint32")
    )[1],
    "scan_none": lambda m, k, ks, x: m.lax.scan(lambda k, _: (k, k), k, None, length=0),
    "while": lambda m, k, ks, x: m.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, m.random.fold_in(s[1], s[0])), (0, k)
    )[1],
    "fori": lambda m, k, ks, x: m.lax.fori_loop(0, 3, lambda i, k: m.random.fold_in(k, i), k),
    "cond": lambda m, k, ks, x: m.lax.cond(x > 0, lambda k: m.random.split(k)[1], lambda k: k, k),
    "switch": lambda m, k, ks, x: m.lax.switch(1, [lambda k: k, lambda k: m.random.fold_in(k, 3)], k),
    "jit": lambda m, k, ks, x: m.jit(lambda k: m.random.split(k))(k),
    "closure": lambda m, k, ks, x: m.jit(lambda: (m.random.bits(k), k))(),
    "grad": lambda m, k, ks, x: m.grad(lambda x, k: x * m.random.uniform(k))(x, k),
    "value_and_grad_aux": lambda m, k, ks, x: m.value_and_grad(
        lambda x, k: (x * m.random.uniform(k), m.random.fold_in(k, 1)), has_aux=True
    )(x, k),
    "grad_of_vmap": lambda m, k, ks, x: m.grad(lambda x: m.vmap(lambda k: x * m.random.uniform(k))(ks).sum())(x),
    "vmap_of_grad": lambda m, k, ks, x: m.vmap(m.grad(lambda x, k: x * m.random.uniform(k)), (None, 0))(x, ks),
    "grad_of_scan": lambda m, k, ks, x: m.grad(
        lambda x: m.lax.scan(lambda c, k: (c * x + m.random.uniform(k), None), x, ks)[0]
    )(x),
    "grad_of_carried": lambda m, k, ks, x: m.grad(lambda x: m.lax.fori_loop(0, 3, _step(m), (k, x))[1])(x),
    "grad_of_cond": lambda m, k, ks, x: m.grad(
        lambda x: m.lax.cond(x > 0, lambda x, k: x * m.random.uniform(k), lambda x, k: x, x, k)
    )(x),
    "remat": lambda m, k, ks, x: m.grad(m.checkpoint(lambda x, k: x * m.random.uniform(k)))(x, k),
    "hessian": lambda m, k, ks, x: m.hessian(lambda x: x**2 * m.random.uniform(k))(x),
    "jvp": lambda m, k, ks, x: m.jvp(lambda x: (x * m.random.uniform(k), x), (x,), (x,)),
    "custom_vjp": lambda m, k, ks, x: m.grad(_custom_vjp(m))(x, k),
    "custom_jvp": lambda m, k, ks, x: m.grad(_custom_jvp(m))(x, k),
}


def _step(m: Any) -> Any:
    return lambda i, s: (m.random.fold_in(s[0], i), s[1] * m.random.uniform(s[0]))


def _custom_vjp(m: Any) -> Any:
    @m.custom_vjp
    def noisy(x: Any, k: Any) -> Any:
        return x * m.random.uniform(k)

    noisy.defvjp(lambda x, k: (noisy(x, k), k), lambda k, ct: (2 * ct * m.random.uniform(k), None))
    return noisy


def _custom_jvp(m: Any) -> Any:
    @m.custom_jvp
    def noisy(x: Any, k: Any) -> Any:
        return x * m.random.uniform(k)

    noisy.defjvp(lambda primals, tangents: (noisy(*primals), 3 * tangents[0] * m.random.uniform(primals[1])))
    return noisy


# What keys are refused by: name → function of (module, key, keys).
REFUSED: dict[str, Case] = {
    "add": lambda m, k, ks: k + 1,
    "add_keys": lambda m, k, ks: k + k,
    "neg": lambda m, k, ks: -k,
    "lt": lambda m, k, ks: k < k,
    "equal_number": lambda m, k, ks: k == 1,
    "lax_add": lambda m, k, ks: m.lax.add(k, k),
    "lax_neg": lambda m, k, ks: m.lax.neg(k),
    "sum": lambda m, k, ks: m.numpy.sum(ks),
    "sin": lambda m, k, ks: m.numpy.sin(k),
    "cumsum": lambda m, k, ks: m.numpy.cumsum(ks),
    "max": lambda m, k, ks: m.numpy.max(ks),
    "any": lambda m, k, ks: m.numpy.any(ks),
    "argmax": lambda m, k, ks: m.numpy.argmax(ks),
    "matmul": lambda m, k, ks: ks @ ks,
    "sort": lambda m, k, ks: m.numpy.sort(ks),
    "astype": lambda m, k, ks: k.astype("int32"),
    "asarray_int": lambda m, k, ks: m.numpy.asarray(k, "int32"),
    "where_number": lambda m, k, ks: m.numpy.where(True, ks, 0),
    "concatenate_numbers": lambda m, k, ks: m.numpy.concatenate([ks, m.numpy.zeros(3)]),
    "result_type": lambda m, k, ks: m.numpy.result_type(k, 1),
    "at_add": lambda m, k, ks: ks.at[0].add(k),
    "pad_number": lambda m, k, ks: m.numpy.pad(ks, 1),
    "lax_pad_number": lambda m, k, ks: m.lax.pad(ks, 0, [(1, 1, 0)]),
    "array_of_numbers": lambda m, k, ks: m.numpy.array([1, 2], k.dtype),
    "arange": lambda m, k, ks: m.numpy.arange(2, dtype=k.dtype),
    "at_set_number": lambda m, k, ks: ks.at[0].set(1),
    "scatter_add": lambda m, k, ks: ks.at[m.numpy.array([0, 1])].add(ks[:2]),
    "many": lambda m, k, ks: m.random.normal(ks),
    "split_many": lambda m, k, ks: m.random.split(ks),
    "wrap_keys": lambda m, k, ks: m.random.wrap_key_data(k),
    "seed_of_key": lambda m, k, ks: m.random.key(k),
    "grad": lambda m, k, ks: m.grad(lambda k: m.random.normal(k))(k),
    "jacfwd": lambda m, k, ks: m.jacfwd(lambda k: m.random.normal(k))(k),
    "callback_result": lambda m, k, ks: m.pure_callback(lambda k: k, m.ShapeDtypeStruct((), k.dtype), k),
}
# And of known ones alone, outside of traces.
REFUSED_OF_VALUES: dict[str, Case] = {
    "numpy": lambda m, k, ks: np.asarray(k),
    "numpy_stack": lambda m, k, ks: np.stack([k, k]),
    "bool": lambda m, k, ks: bool(k),
    "int": lambda m, k, ks: int(k),
    "float": lambda m, k, ks: float(k),
    "index": lambda m, k, ks: [1, 2][k],
    "hash": lambda m, k, ks: hash(k),
    "iterate": lambda m, k, ks: list(k),
}
