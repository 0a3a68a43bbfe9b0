"""Functions of elements written in Python as ufuncs: mapped over arrays, with the methods that NumPy's have.

Knows `vectorize` and how the methods follow from a function.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from functad.errors import ArgumentError, UnsupportedNumpyError
from functad.numpy.ufunc_methods import methods_of
from functad.numpy.vectorizing import vectorize

__all__ = ["frompyfunc", "ufunc"]

_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")


class ufunc:  # noqa: N801 - NumPy's name
    """A function of elements that maps over arrays which broadcast, made by `frompyfunc`.

    Of two operands and one result it has the methods `reduce`, `accumulate`, `reduceat` and `outer`, each of which
    applies it slice after slice, and, as of one operand, `at`. The functions of this namespace have them too, but are
    no instances of this class.

    Args:
        func: of `nin` scalars, with `nout` results; all that it calls must be traceable.
        identity: what changes nothing; of what there are none of is this.
        call, reduce, accumulate, at, reduceat: use these instead of what follows from `func`.

    >>> import functad.numpy as jnp
    >>> larger = jnp.frompyfunc(lambda x, y: jnp.where(x > y, x, y), nin=2, nout=1)
    >>> larger(jnp.array([1, 5]), 3).tolist(), larger.reduce(jnp.array([4, 9, 2])).tolist()
    ([3, 5], 9)
    """

    reduce: Callable[..., Any]
    accumulate: Callable[..., Any]
    reduceat: Callable[..., Any]
    outer: Callable[..., Any]
    at: Callable[..., Any]

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        self.__name__ = name or func.__name__
        self.__doc__ = func.__doc__
        self.nin, self.nout = operator.index(nin), operator.index(nout)
        self.nargs = self.nin + self.nout if nargs is None else nargs
        self.identity = identity
        self._func = func
        self._call = call or vectorize(func)
        methods = methods_of(self, identity)
        if (self.nin, self.nout) != (2, 1):
            kept = ("at",) if (self.nin, self.nout) == (1, 1) else ()
            methods |= {method: self._refuse(method) for method in _METHODS if method not in kept}
        given = {"reduce": reduce, "accumulate": accumulate, "at": at, "reduceat": reduceat}
        for method, made in methods.items():
            setattr(self, method, given.get(method) or made)

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            raise UnsupportedNumpyError(
                f"{self.__name__}: out= and where= cannot work, because arrays are immutable; use the result, "
                "and functad.numpy.where(mask, result, other)"
            )
        if len(args) != self.nin:
            raise ArgumentError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        return self._call(*args)

    def _refuse(self, method: str) -> Callable[..., Any]:
        def refused(*args: Any, **kwargs: Any) -> Any:
            raise ArgumentError(
                f"{self.__name__}.{method} is for functions of two operands and one result, but this has "
                f"{self.nin} and {self.nout}"
            )

        return refused

    def _key(self) -> tuple[Any, ...]:
        return self._func, self.__name__, self.identity, self.nin, self.nout, self.nargs

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def __repr__(self) -> str:
        return f"<functad.numpy.ufunc {self.__name__!r}>"


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """The ufunc of a function of elements: of `nin` scalars, with `nout` results.

    >>> import functad.numpy as jnp
    >>> furthest = jnp.frompyfunc(lambda x, y: jnp.where(abs(x) > abs(y), x, y), nin=2, nout=1)
    >>> furthest.reduce(jnp.array([1, -5, 3])), furthest.outer(jnp.array([1, -3]), jnp.array([2]))
    (Array(-5, dtype=int32), Array([[ 2],
           [-3]], dtype=int32))
    """
    return ufunc(func, nin, nout, identity=identity)
