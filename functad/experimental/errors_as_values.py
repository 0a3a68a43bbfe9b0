"""Errors as values: kinds of checks, the places of a program that may fail, and what failed first.

Knows nothing of how a program is searched for such places; `checkify.py` does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad import random
from functad.api.callbacks import flat_callback
from functad.array import class_for, value_of
from functad.errors import ArgumentError
from functad.errors import CheckError as JaxRuntimeError
from functad.ir import Aval
from functad.primitives.callback import debug_callback
from functad.records import NamedTuple
from functad.tracing import Tracer
from functad.tree_util import register_pytree_node_class, tree_flatten, tree_unflatten


class ErrorCategory(NamedTuple):
    """A kind of check; sets of them are what `checkify` looks for.

    >>> from functad.experimental import checkify
    >>> sorted(category.name for category in checkify.float_checks)
    ['division', 'nan']
    """

    name: str


user_checks: frozenset[ErrorCategory] = frozenset({ErrorCategory("user")})
"""`check`."""
nan_checks: frozenset[ErrorCategory] = frozenset({ErrorCategory("nan")})
"""Operations that make a NaN."""
index_checks: frozenset[ErrorCategory] = frozenset({ErrorCategory("index")})
"""Positions outside of arrays, in gathers, scatters and dynamic slices."""
div_checks: frozenset[ErrorCategory] = frozenset({ErrorCategory("division")})
"""Divisions by zero."""
float_checks: frozenset[ErrorCategory] = nan_checks | div_checks
"""Divisions by zero and operations that make a NaN."""
automatic_checks: frozenset[ErrorCategory] = float_checks | index_checks
"""All that the program need not ask for."""
all_checks: frozenset[ErrorCategory] = automatic_checks | user_checks
"""All."""


@dataclass(frozen=True)
class Site:
    """A place in a program that may fail.

    template: the message, for `str.format`; tree: of its arguments; avals: of their leaves, which an error carries.
    keys: which leaves are the words of random keys.
    """

    template: str
    tree: Any
    avals: tuple[Aval, ...] = ()
    keys: frozenset[int] = frozenset()

    def message(self, payload: Sequence[np.ndarray]) -> str:
        arrays = [class_for(aval)(np.asarray(values)) for values, aval in zip(payload, self.avals)]
        shown = [random.wrap_key_data(x) if i in self.keys else x for i, x in enumerate(arrays)]
        args, kwargs = tree_unflatten(self.tree, shown)
        return self.template.format(*args, **kwargs)


NO_ARGUMENTS = tree_flatten(((), {}))[1]


@register_pytree_node_class
class Error:
    """What failed first, if anything did: a pytree, which `checkify` returns and transforms take.

    Args:
        failed: whether anything did; of the shape of the axes that were mapped.
        number: which place it was, in `sites`.
        payloads: for each place the values that its message tells.
        sites: the places that may fail.

    >>> import functad
    >>> from functad.experimental import checkify
    >>> def half(x):
    ...     checkify.check(x % 2 == 0, "{} is odd", x)
    ...     return x // 2
    >>> error, _ = functad.vmap(checkify.checkify(half))(functad.numpy.arange(2, 5))
    >>> error.get()
    'at mapped index 1: 3 is odd (`check` failed)'
    """

    def __init__(self, failed: Any, number: Any, payloads: Sequence[Any], sites: Sequence[Site]) -> None:
        self._failed, self._number, self._payloads, self._sites = failed, number, list(payloads), tuple(sites)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Site, ...]]:
        return (self._failed, self._number, *self._payloads), self._sites

    @classmethod
    def tree_unflatten(cls, sites: tuple[Site, ...], children: Sequence[Any]) -> Error:
        failed, number, *payloads = children
        return cls(failed, number, payloads, sites)

    def get(self) -> str | None:
        """The message; None if nothing failed. Of a mapped function a line for each example that failed.

        Raises:
            ConcretizationError: the function around it is being traced; return the error from it.
        """
        failed = np.asarray(self._failed)
        if not failed.any():
            return None
        if failed.ndim == 0:
            return self._message(())
        places = [tuple(map(int, place)) for place in np.argwhere(failed)]
        return "\n".join(f"at mapped index {', '.join(map(str, p))}: {self._message(p)}" for p in places)

    def throw(self) -> None:
        """Raise if anything failed; in a function that is traced, the same as `check_error`.

        Raises:
            JaxRuntimeError: anything failed; with its message.
        """
        check_error(self)

    def _message(self, place: tuple[int, ...]) -> str:
        number = int(np.asarray(self._number)[place])
        first = sum(len(site.avals) for site in self._sites[:number])
        site = self._sites[number]
        payload = self._payloads[first : first + len(site.avals)]
        return site.message([value_of(x)[place] for x in payload])

    def __repr__(self) -> str:
        return f"Error({'traced' if isinstance(self._failed, Tracer) else self.get()})"


init_error = Error(np.asarray(False), np.asarray(0, np.int32), (), ())
"""No error, and no place that may fail."""


def check_error(error: Error) -> None:
    """Raise an error that `checkify` has returned; under another `checkify` it becomes a part of that one's.

    Raises:
        JaxRuntimeError: anything failed. ArgumentError: `error` is none.

    >>> from functad.experimental import checkify
    >>> error, _ = checkify.checkify(lambda x: 1 / x, errors=checkify.div_checks)(0.)
    >>> checkify.check_error(error)
    Traceback (most recent call last):
    functad.errors.CheckError: division by zero
    """
    if not isinstance(error, Error):
        raise ArgumentError(f"check_error takes an Error, as checkify returns it, not {type(error).__name__}")
    if error._sites:
        leaves = (error._failed, error._number, *error._payloads)
        if not any(isinstance(leaf, Tracer) for leaf in leaves):
            message = error.get()
            if message is None:
                return
        failed, number, payloads = first_failed(*(jnp.asarray(leaf) for leaf in leaves))
        raise_unless_caught(error._sites, failed, number, payloads, False)


@dataclass(frozen=True)
class RaisingCheck:
    """What a check calls; where it runs, nobody has made a value of its error."""

    sites: tuple[Site, ...]
    debug: bool

    def __call__(self, failed: Any, number: Any, *payloads: Any) -> None:
        if not self.debug and bool(failed):
            raise JaxRuntimeError(Error(failed, number, payloads, self.sites).get())


def raise_unless_caught(
    sites: tuple[Site, ...], failed: Any, number: Any, payloads: Sequence[Any], debug: bool
) -> None:
    operands = (failed, number, *payloads)
    if debug and not any(isinstance(x, Tracer) for x in operands):
        return
    flat, values = flat_callback(RaisingCheck(sites, debug), operands, {}, "checkify.check", is_check=True)
    debug_callback(flat, values)


def first_failed(failed: Any, number: Any, *payloads: Any) -> tuple[Any, Any, list[Any]]:
    """Of a mapped error that of the first example that failed."""
    if not failed.ndim:
        return failed, number, list(payloads)
    flat = failed.reshape(-1)
    place = jnp.argmax(flat)
    picked = [x.reshape(flat.size, *x.shape[failed.ndim :])[place] for x in (number, *payloads)]
    return flat.any(), picked[0], picked[1:]


def strong(aval: Aval) -> Aval:
    return Aval(aval.shape, aval.dtype)
