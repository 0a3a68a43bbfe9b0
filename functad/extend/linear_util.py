"""Functions with what is done around their calls, under the names that `jax.extend.linear_util` gives them.

Knows generators: one that yields the arguments of the function within, is sent its result, and yields its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from functad.absent import absent

Around = Callable[..., Generator[Any, Any, Any]]


class StoreException(Exception):  # noqa: N818
    """An auxiliary output was asked for before the function was called.

    >>> @transformation_with_aux
    ... def noted(x):
    ...     out = yield (x,), {}
    ...     yield out, f"saw {x}"
    >>> noted(wrap_init(lambda x: x + 1))[1]()
    Traceback (most recent call last):
        ...
    functad.extend.linear_util.StoreException: the function has not been called yet, ...
    """


class WrappedFun:
    """A function, and what is done around its calls. f: the function itself.

    >>> wrap_init(len)
    WrappedFun(len)
    >>> wrap_init(len).call_wrapped("abc")
    3
    """

    def __init__(self, f: Callable[..., Any], call: Callable[..., Any], params: dict[str, Any]) -> None:
        self.f, self.params = f, params
        self._call = call

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, with all that is done around."""
        return self._call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"WrappedFun({self.__name__})"


def wrap_init(f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None) -> WrappedFun:
    """A function with nothing done around it yet.

    >>> @transformation
    ... def doubled(x):
    ...     out = yield (2 * x,), {}
    ...     yield 2 * out
    >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(3)
    14
    """
    return WrappedFun(f, f, params or {})


def transformation(gen: Around, *rest: Any) -> Any:
    """What a generator does around a call: `transformation(gen, fun, *values)`, or a decorator of the generator.

    The generator, `gen(*values, *args, **kwargs)`, yields `(args, kwargs)` for the function within, is sent its result,
    and yields the result of all.

    >>> @transformation
    ... def doubled(x):
    ...     out = yield (2 * x,), {}
    ...     yield out
    >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(3)
    7
    """
    if not rest:
        return partial(transformation, gen)
    fun, *values = rest

    def call(*args: Any, **kwargs: Any) -> Any:
        return _around(gen, values, fun, args, kwargs)

    return WrappedFun(fun.f, call, fun.params)


def transformation_with_aux(gen: Around, *rest: Any) -> Any:
    """As `transformation` of a generator that yields a result and an auxiliary output: `(fun, output)`.

    `output()` is what the last call gave.

    >>> @transformation_with_aux
    ... def noted(x):
    ...     out = yield (x,), {}
    ...     yield out, f"saw {x}"
    >>> function, output = noted(wrap_init(lambda x: x + 1))
    >>> function.call_wrapped(3), output()
    (4, 'saw 3')
    """
    if not rest:
        return partial(transformation_with_aux, gen)
    fun, *values = rest
    stored: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        result, aux = _around(gen, values, fun, args, kwargs)
        stored[:] = [aux]
        return result

    def output() -> Any:
        if not stored:
            raise StoreException("the function has not been called yet, so there is no auxiliary output")
        return stored[0]

    return WrappedFun(fun.f, call, fun.params), output


def transformation2(gen: Callable[..., Any], fun: WrappedFun, *values: Any) -> WrappedFun:
    """As `transformation`, of a function instead of a generator: `gen(f, *values, *args, **kwargs)` calls f itself.

    >>> def twice(f, x):
    ...     return f(f(x))
    >>> transformation2(twice, wrap_init(lambda x: x + 1)).call_wrapped(3)
    5
    """
    return WrappedFun(fun.f, partial(gen, fun.call_wrapped, *values), fun.params)


def _around(gen: Around, values: list[Any], fun: WrappedFun, args: Any, kwargs: Any) -> Any:
    running = gen(*values, *args, **kwargs)
    try:
        given, options = next(running)
        return running.send(fun.call_wrapped(*given, **options))
    finally:
        running.close()


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """Of two auxiliary outputs the one there is: whether it is the first, and the output.

    >>> @transformation_with_aux
    ... def noted(x):
    ...     out = yield (x,), {}
    ...     yield out, f"saw {x}"
    >>> (_, never), (called, output) = noted(wrap_init(abs)), noted(wrap_init(abs))
    >>> called.call_wrapped(-3), merge_linear_aux(never, output)
    (3, (False, 'saw -3'))
    """
    try:
        return True, aux1()
    except StoreException:
        return False, aux2()


__all__ = [
    "StoreException",
    "WrappedFun",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "wrap_init",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
