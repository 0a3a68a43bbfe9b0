"""Functions of a module, a key and keys of shape (3,) that use a key twice, and others that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def twice(m: Any, k: Any) -> Any:
    return m.random.normal(k) + m.random.normal(k)


def drawn(m: Any, keys: Any) -> Any:
    return [m.random.normal(k) for k in keys]


def step(m: Any) -> Callable[[Any, Any], Any]:
    def split_and_draw(k: Any, _: Any) -> Any:
        k, own = m.random.split(k)
        return k, m.random.normal(own)

    return split_and_draw


Case = Callable[[Any, Any, Any], Any]

REUSED: dict[str, Case] = {
    "twice": lambda m, k, ks: twice(m, k),
    "split_then_drawn": lambda m, k, ks: (m.random.split(k), m.random.normal(k)),
    "drawn_then_split": lambda m, k, ks: (m.random.normal(k), m.random.split(k)),
    "gamma_then_drawn": lambda m, k, ks: (m.random.gamma(k, 2.0), m.random.normal(k)),
    "one_of_several": lambda m, k, ks: m.random.normal(ks[0]) + m.random.normal(ks[0]),
    "unpacked_twice": lambda m, k, ks: (drawn(m, ks), drawn(m, ks)),
    "mapped_twice": lambda m, k, ks: (m.vmap(m.random.normal)(ks), m.vmap(m.random.normal)(ks)),
    "mapped_then_one": lambda m, k, ks: (m.vmap(m.random.normal)(ks), m.random.normal(ks[1])),
    "within_a_mapped_function": lambda m, k, ks: m.vmap(lambda k: twice(m, k))(ks),
    "by_a_jitted_function": lambda m, k, ks: (m.jit(lambda k: m.random.normal(k))(k), m.random.normal(k)),
    "within_a_jitted_function": lambda m, k, ks: m.jit(lambda k: twice(m, k))(k),
    "at_each_step": lambda m, k, ks: m.lax.scan(lambda c, _: (c + m.random.normal(k), None), 0.0, None, length=3),
    "carried": lambda m, k, ks: m.lax.scan(lambda k, _: (k, m.random.normal(k)), k, None, length=3),
    "in_a_while_loop": lambda m, k, ks: m.lax.fori_loop(0, 3, lambda i, c: c + m.random.normal(k), 0.0),
    "after_a_branch": lambda m, k, ks: (
        m.lax.cond((k == k).any(), lambda k: m.random.normal(k), lambda k: m.random.normal(k) + 1, k)
        + m.random.normal(k)
    ),
    "within_a_branch": lambda m, k, ks: m.lax.cond((k == k).any(), lambda k: twice(m, k), lambda k: twice(m, k), k),
    "of_a_key_made_there": lambda m, k, ks: twice(m, m.random.key(1)),
    "differentiated": lambda m, k, ks: m.grad(lambda x: x * m.random.normal(k) * m.random.normal(k))(1.0),
    "set": lambda m, k, ks: (ks.at[0].set(k), twice(m, k)),
}
# JAX raises in some of these where it does not follow single keys.
FOLLOWED: dict[str, Case] = {
    "reshaped": lambda m, k, ks: m.random.normal(ks.reshape(3, 1)[0, 0]) + m.random.normal(ks[0]),
    "from_the_end": lambda m, k, ks: m.random.normal(ks[2]) + m.random.normal(ks[-1]),
    "stacked": lambda m, k, ks: m.random.normal(m.numpy.stack([k, k])[0]) + m.random.normal(k),
    "repeated": lambda m, k, ks: m.vmap(m.random.normal)(m.numpy.broadcast_to(k, (2,))),
    "moved": lambda m, k, ks: (m.random.normal(ks.at[0].set(ks[1])[0]), m.random.normal(ks[1])),
    "put_on_a_device": lambda m, k, ks: m.vmap(
        lambda k: m.random.normal(m.device_put(k, m.devices()[0])) + m.random.normal(k)
    )(ks),
    "read_in_a_loop": lambda m, k, ks: (
        m.lax.scan(lambda c, k: (c + m.random.normal(k), None), 0.0, ks), m.random.normal(ks[1])
    ),
}  # fmt: skip
USED_ONCE: dict[str, Case] = {
    "split": lambda m, k, ks: drawn(m, m.random.split(k)),
    "one_by_one": lambda m, k, ks: m.random.normal(ks[0]) + m.random.normal(ks[1]),
    "folded": lambda m, k, ks: (m.random.fold_in(k, 1), m.random.fold_in(k, 2), m.random.normal(k)),
    "cloned": lambda m, k, ks: (m.random.normal(m.random.clone(k)), m.random.normal(k)),
    "compared": lambda m, k, ks: (k == k, m.random.key_data(k), m.random.normal(k)),
    "raw": lambda m, k, ks: twice(m, m.random.key_data(k)),
    "mapped": lambda m, k, ks: m.vmap(m.random.normal)(ks),
    "scanned": lambda m, k, ks: m.lax.scan(step(m), k, None, length=3),
    "read_by_a_scan": lambda m, k, ks: m.lax.scan(lambda c, k: (c + m.random.normal(k), None), 0.0, ks),
    "folded_at_each_step": lambda m, k, ks: m.lax.scan(
        lambda c, i: (c + m.random.normal(m.random.fold_in(k, i)), None), 0.0, m.numpy.arange(3)
    ),
    "in_a_while_loop": lambda m, k, ks: m.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, m.random.split(s[1])[0]), (0, k)
    ),
    "in_each_branch": lambda m, k, ks: m.lax.cond(
        (k == k).any(), lambda k: m.random.normal(k), lambda k: m.random.normal(k) + 1, k
    ),
    "differentiated": lambda m, k, ks: m.grad(lambda x: x * m.random.normal(k))(1.0),
    "recomputed": lambda m, k, ks: m.grad(m.checkpoint(lambda x, k: m.numpy.sin(x * m.random.normal(k))))(1.0, k),
    "differentiated_loop": lambda m, k, ks: m.grad(
        lambda x: m.lax.scan(lambda c, k: (m.numpy.sin(c * x + m.random.normal(k)), None), x, ks)[0]
    )(1.0),
    "set": lambda m, k, ks: drawn(m, ks.at[0].set(k)),
}
