"""The rules of a primitive held against each other, on examples.

Knows the public transforms; no primitive by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from functad import api
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, CustomRuleError, FunctadError
from functad.evaluation import aval_of, infer_avals
from functad.ir import Absent, Primitive
from functad.test_util import check_grads
from functad.tree_util import tree_leaves

_MAPPED = 3  # the size of mapped axes
_NARROW = {2: (5e-2, 1e-1), 4: (1e-2, 1e-2), 8: (1e-2, 1e-2)}
"""Step of differences, for arguments near 1, and tolerance, by the bytes of the narrowest dtype; complex64 has 8."""
_ROUNDINGS = 50  # how many of the smallest steps of a dtype two ways of computing a number may differ by
_WIDE = {"f": np.dtype("float64"), "c": np.dtype("complex128")}


def check_primitive(p: Primitive, *examples: Sequence[Any], **params: Any) -> None:
    """Hold the rules of a primitive against each other.

    For every example: the shape rule against the implementation; jvp, and jvp transposed (vjp), to second order,
    against differences, computed with 64 bits where the primitive takes them; the batch rule against a loop, for
    arguments mapped in front, at the end, or not at all, and for nested `vmap`; and what `jit` compiles against the
    implementation. A rule that is not registered is not missed.

    Args:
        p: the primitive.
        examples: tuples of its arguments, arrays or numbers, where it is differentiable in all floats: not at a kink,
            nor at an end of its domain. Several shapes find more than one. With none, those of functad's own one.
        params: the parameters of all these calls.

    Raises:
        CustomRuleError: two rules disagree; says which, on which example, and what differed.
        ArgumentError: there is no example.

    >>> import functad, functad.numpy as jnp, numpy as np
    >>> from functad.extend import check_primitive
    >>> from functad.extend.core import Primitive
    >>> from functad.interpreters import ad
    >>> square_p = Primitive("square")
    >>> _ = square_p.def_impl(lambda x: x * x)
    >>> _ = square_p.def_abstract_eval(lambda x: x)
    >>> ad.defjvp(square_p, lambda t, x: 2 * x * t)
    >>> check_primitive(square_p, (np.array([1., -2.]),))
    >>> ad.defjvp(square_p, lambda t, x: 3 * x * t)
    >>> check_primitive(square_p, (np.array([1., -2.]),))
    Traceback (most recent call last):
        ...
    functad.errors.CustomRuleError: primitive `square`, example 0 (f64[2]): the jvp rule: ...
    """
    given = [(tuple(e), params) for e in examples]
    if not examples and not isinstance(p.examples, Absent):
        given = [(tuple(e.args), e.params) for e in p.examples() if e.agreed is None and e.differentiable]
    if not given:
        raise ArgumentError(
            f"check_primitive(`{p.name}`): give an example, a tuple of arguments: "
            f"check_primitive({p.name}_p, (x, y), parameter=…)"
        )
    for number, (args, values) in enumerate(given):
        _Checker(p, number, args, values).check()


class _Checker:
    """A primitive at one point."""

    def __init__(self, primitive: Primitive, number: int, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.primitive, self.params, self.__name__ = primitive, params, primitive.name
        self.args = [np.asarray(a, aval_of(a).dtype) for a in args]
        types = ", ".join([aval_of(a).str_short() for a in self.args] + [f"{k}={v!r}" for k, v in params.items()])
        self.label = f"primitive `{primitive.name}`, example {number} ({types})"

    def check(self) -> None:
        self._run("the shape rule", self._types)
        for rule, how in self._derivatives():
            self._run(rule, how)
        self._run("the batch rule", self._batching)
        self._run("the batch rule, twice", self._nested_batching)
        self._run("the lowering rule", self._compiled)

    def _run(self, rule: str, check: Callable[[], None]) -> None:
        """Make what a check raises name the rule; absent rules are none."""
        try:
            check()
        except Exception as problem:
            rules = (self.primitive.jvp, self.primitive.transpose, self.primitive.batch)
            absent = [rule.why for rule in rules if isinstance(rule, Absent)]
            if isinstance(problem, FunctadError) and any(why in str(problem) for why in absent):
                return
            said = str(problem).strip()
            if not said or not isinstance(problem, AssertionError):
                said = f"{type(problem).__name__}: {said}"
            raise CustomRuleError(f"{self.label}: {rule}: {said}") from problem

    def __call__(self, *args: Any) -> list[Any]:
        return self._listed(self.primitive.bind(*args, **self.params))

    def _listed(self, results: Any) -> list[Any]:
        return list(results) if self.primitive.multiple_results else [results]

    # --- checks

    def _types(self) -> None:
        avals = infer_avals(self.primitive, [aval_of(a) for a in self.args], self.params)
        results = self(*self.args)
        _demand(len(avals) == len(results), f"gives {len(avals)} results, the implementation {len(results)}")
        for i, (aval, result) in enumerate(zip(avals, results)):
            found = aval_of(result)
            _demand(
                aval.shape == found.shape and aval.dtype == found.dtype,
                f"says that result {i} is {aval.str_short()}, the implementation gives {found.str_short()}",
            )

    def _derivatives(self) -> Iterator[tuple[str, Callable[[], None]]]:
        args = self._widened()
        active = [i for i, a in enumerate(args) if kind_of(a.dtype) in "fc"]
        if not active or isinstance(self.primitive.jvp, Absent):
            return

        def fun(*values: Any) -> list[Any]:
            full: list[Any] = list(args)
            for i, value in zip(active, values):
                full[i] = value
            return [r for r in self(*full) if kind_of(r.dtype) in "fc"]

        point = [args[i] for i in active]
        options: dict[str, Any] = {}
        if any(a.dtype not in _WIDE.values() for a in point):
            step, tolerance = _NARROW[min(a.dtype.itemsize for a in point)]
            options = {"atol": tolerance, "rtol": tolerance, "eps": step}
        for order, of in ((1, ""), (2, ", twice")):
            yield f"the jvp rule{of}", partial(check_grads, fun, point, order, "fwd", **options)
            yield f"the jvp rule, then transposed (vjp){of}", partial(check_grads, fun, point, order, "rev", **options)

    def _widened(self) -> list[np.ndarray]:
        """The arguments with floats of 64 bits, if the primitive takes these, and gives such."""
        wide = [a.astype(_WIDE.get(kind_of(a.dtype), a.dtype)) for a in self.args]
        try:
            avals = infer_avals(self.primitive, [aval_of(a) for a in wide], self.params)
            self(*wide)
        except Exception:  # whatever a rule says to a dtype that it was not written for
            return self.args
        return wide if all(a.dtype == _WIDE.get(kind_of(a.dtype), a.dtype) for a in avals) else self.args

    def _batching(self) -> None:
        stacks = [_stack(a) for a in self.args]
        for dims in _dims(self.args):
            mapped = [a if d is None else np.moveaxis(s, 0, d) for a, s, d in zip(self.args, stacks, dims)]
            rows = [
                self(*[a if d is None else s[k, ...] for a, s, d in zip(self.args, stacks, dims)])
                for k in range(_MAPPED)
            ]
            wanted = [np.stack([np.asarray(row[i]) for row in rows]) for i in range(len(rows[0]))]
            found = api.vmap(self, in_axes=dims)(*mapped)
            _compare(found, wanted, f"with mapped axes {dims}, vmap and a loop differ")

    def _nested_batching(self) -> None:
        if not self.args:
            return
        stacks = [_stack(_stack(a)) for a in self.args]
        rows = [api.vmap(self)(*[s[k, ...] for s in stacks]) for k in range(_MAPPED)]
        wanted = [np.stack([np.asarray(row[i]) for row in rows]) for i in range(len(rows[0]))]
        _compare(api.vmap(api.vmap(self))(*stacks), wanted, "vmap of vmap and a loop of vmap differ")

    def _compiled(self) -> None:
        _compare(api.jit(self)(*self.args), self(*self.args), "jitted and un-jitted results differ")


def _dims(args: Sequence[np.ndarray]) -> list[tuple[int | None, ...]]:
    """Each argument mapped in front, at its end, or not; of many arguments not all mixtures."""
    choices: list[tuple[int | None, ...]]
    if len(args) <= 3:
        choices = list(product(*[dict.fromkeys((None, 0, a.ndim)) for a in args]))
    else:
        choices = [(0,) * len(args), tuple(a.ndim for a in args)]
        choices += [tuple(0 if i == j else None for i in range(len(args))) for j in range(len(args))]
    return [c for c in choices if any(d is not None for d in c)]


def _stack(x: np.ndarray) -> np.ndarray:
    """x, and arrays of its elements in other places, which mostly lie in the domain too; of one number smaller ones."""
    if x.size > 1:
        return np.stack([np.roll(x.ravel(), k).reshape(x.shape) for k in range(_MAPPED)])
    scales = [1 - k / 8 if kind_of(x.dtype) in "fc" else 1 for k in range(_MAPPED)]
    return np.stack([(x * s).astype(x.dtype) for s in scales])


def _compare(found: Any, wanted: Any, what: str) -> None:
    for i, (a, b) in enumerate(zip(tree_leaves(found), tree_leaves(wanted), strict=True)):
        a, b = (np.asarray(v) if isinstance(v, Array) else v for v in (a, b))
        here = f"{what}: result {i}"
        types = [f"{v.dtype}{list(v.shape)}" for v in (a, b)]
        _demand(types[0] == types[1], f"{here} is {types[0]}, not {types[1]}")
        rtol = _ROUNDINGS * float(np.finfo(a.dtype).eps) if kind_of(a.dtype) in "fc" else 0.0
        same = np.allclose(a, b, rtol=rtol, atol=rtol, equal_nan=kind_of(a.dtype) in "fc")
        _demand(same, f"{here} is\n{a}\nnot\n{b}")


def _demand(holds: Any, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
