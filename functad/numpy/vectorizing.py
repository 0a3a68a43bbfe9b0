"""`vectorize`: a function of scalars (or of arrays of a given signature) mapped over all other axes by `vmap`.

Knows `vmap` and broadcasting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from functad.api.arguments import described_like
from functad.api.mapping import vmap
from functad.errors import ArgumentError, ShapeError
from functad.numpy.building import as_array
from functad.numpy.promotion import asarray, joint_shape
from functad.primitives.common import reshape

__all__ = ["vectorize"]

_ARGUMENT = re.compile(r"\(([^()]*)\)")


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Iterable[int | str] = (), signature: str | None = None
) -> Callable[..., Any]:
    """Make a function of single elements one of arrays that broadcast.

    Args:
        pyfunc: takes scalars, or arrays of the axes that `signature` names.
        excluded: positions and names of arguments that are passed on as they are.
        signature: such as "(n,m),(m)->(n)".

    >>> import functad.numpy as jnp
    >>> jnp.vectorize(lambda x, y: x + y)(jnp.arange(2), jnp.ones((3, 1))).shape
    (3, 2)
    """
    left_out = frozenset(excluded)
    cores = None if signature is None else _read_signature(signature)

    @described_like(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mapped = [i for i in range(len(args)) if i not in left_out]
        arrays = [asarray(as_array("vectorize", args[i])) for i in mapped]
        if cores is not None and len(cores) != len(arrays):
            raise ArgumentError(f"vectorize: signature {signature!r} takes {len(cores)} arguments, got {len(arrays)}")

        def core(*values: Any) -> Any:
            given = list(args)
            for i, v in zip(mapped, values):
                given[i] = v
            return pyfunc(*given, **kwargs)

        ranks = [0] * len(arrays) if cores is None else [len(c) for c in cores]
        if cores is not None:
            _check_cores(signature or "", cores, arrays)
        return _mapped(core, arrays, ranks)

    return wrapped


def _read_signature(signature: str) -> list[tuple[str, ...]]:
    inputs, arrow, _ = signature.partition("->")
    if not arrow:
        raise ArgumentError(f"vectorize: signature {signature!r} has no '->'; write it as '(n,m),(m)->(n)'")
    return [tuple(d.strip() for d in group.split(",") if d.strip()) for group in _ARGUMENT.findall(inputs)]


def _check_cores(signature: str, cores: list[tuple[str, ...]], arrays: list[Any]) -> None:
    sizes: dict[str, int] = {}
    for number, (names, x) in enumerate(zip(cores, arrays)):
        if x.ndim < len(names):
            raise ShapeError(
                f"vectorize: argument {number} has shape {x.shape}, but {signature!r} gives it {len(names)} axes"
            )
        for name, n in zip(names, x.shape[x.ndim - len(names) :]):
            if sizes.setdefault(name, n) != n:
                raise ShapeError(f"vectorize: axis {name!r} of {signature!r} has the sizes {sizes[name]} and {n}")


def _mapped(core: Callable[..., Any], arrays: list[Any], ranks: list[int]) -> Any:
    loops = [x.shape[: x.ndim - rank] for x, rank in zip(arrays, ranks)]
    loop = joint_shape("vectorize", loops)
    levels: list[tuple[int | None, ...]] = []
    for axis, size in enumerate(loop):
        own = [axis - len(loop) + len(shape) for shape in loops]
        levels.append(tuple(0 if i >= 0 and shape[i] == size else None for i, shape in zip(own, loops)))
    # An axis of size 1 that others repeat is dropped: that argument is not mapped there.
    values = []
    for number, (x, shape, rank) in enumerate(zip(arrays, loops, ranks)):
        first = len(loop) - len(shape)
        kept = tuple(n for i, n in enumerate(shape) if levels[first + i][number] is not None)
        values.append(reshape(x, kept + x.shape[x.ndim - rank :]))
    function = core
    for in_axes in reversed(levels):
        function = vmap(function, in_axes=in_axes)
    return function(*values)
