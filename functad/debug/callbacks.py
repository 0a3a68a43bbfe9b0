"""`debug.callback` and `debug.print`: functions that look at values without taking part in the computation.

Knows pytrees and format strings; the equation and its rules are in `functad.primitives.callback`.
"""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functad.api.arguments import check_callable
from functad.api.callbacks import flat_callback
from functad.array import Array, KeyArray
from functad.errors import ArgumentError
from functad.primitives.callback import debug_callback
from functad.system.once import imported


def callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with values, also from compiled code, wherever the function around it runs.

    Its result is ignored. Such calls within one function run in the order in which they are written. Under `vmap`
    the function is called for one example after another, under `grad` with the values of the forward pass (once more
    where `checkpoint` computes them again).

    Args:
        callback: a function of the arguments, which it gets as Arrays with values. Without it, a decorator.
        args, kwargs: pytrees of arrays; leaves that are no arrays, such as strings, are handed on as they are.
        ordered, partitioned: accepted for JAX's sake; calls are always in order, and there is one device.

    Raises:
        CallbackError: the function raised; its exception is the cause.

    >>> import functad
    >>> seen = []
    >>> @functad.jit
    ... def f(x):
    ...     functad.debug.callback(seen.append, x)
    ...     return x * 2
    >>> f(3.), seen
    (Array(6., dtype=float32, weak_type=True), [Array(3., dtype=float32)])
    """
    if callback is None:
        return partial(_call, ordered)
    _call(ordered, callback, *args, **kwargs)
    return None


def _call(ordered: bool, fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    check_callable(fun, "debug.callback")
    flat, operands = flat_callback(fun, args, kwargs, "debug.callback", takes_anything=True)
    debug_callback(flat, operands, bool(ordered))


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values wherever the function around it runs, also in compiled code, as `print(fmt.format(*args))` would.

    A plain `print(x)` prints while the function is traced, when x has no value yet. This one prints each time the
    function runs; in a loop, at each step; under `vmap`, for one example after another; under `grad`, the values of
    the forward pass. The lines of one function appear in the order in which they are written.

    Args:
        fmt: a format string, such as `"loss {:.3f}, step {i}"`; no f-string, which would be filled in while tracing.
            Without it, `print(**options)` gives a function that takes it, and arguments by any names.
        args, kwargs: pytrees for its placeholders; a NumPy array is formatted for every array.
        ordered, partitioned: accepted for JAX's sake; lines are always in order, and there is one device.
        skip_format_check: do not compare the placeholders with the arguments.

    Raises:
        ArgumentError: the placeholders do not fit the arguments; raised where the function is traced.
        CallbackError: a format specification does not fit a value.

    >>> import functad
    >>> from functad import lax
    >>> @functad.jit
    ... def f(x):
    ...     return lax.fori_loop(0, 3, lambda i, x: (functad.debug.print("step {}: {x:.2f}", i, x=x), x / 3)[1], x)
    >>> f(9.)
    step 0: 9.00
    step 1: 3.00
    step 2: 1.00
    Array(0.33333334, dtype=float32, weak_type=True)
    """
    if fmt is None:
        return partial(_say, "print", builtins.print, bool(ordered), skip_format_check)
    return _say("print", builtins.print, bool(ordered), skip_format_check, fmt, *args, **kwargs)


def log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Log values as `print` prints them: at the level INFO, by Python's logger `functad.debug`.

    Args:
        fmt, args, kwargs, ordered, partitioned, skip_format_check: as in `print`.

    Raises:
        ArgumentError: the placeholders do not fit the arguments; raised where the function is traced.
        CallbackError: a format specification does not fit a value.

    >>> import functad
    >>> functad.jit(lambda x: (functad.debug.log("x is {}", x), x)[1])(1.)
    Array(1., dtype=float32, weak_type=True)
    """
    if fmt is None:
        return partial(_say, "log", _log, bool(ordered), skip_format_check)
    return _say("log", _log, bool(ordered), skip_format_check, fmt, *args, **kwargs)


def _log(text: str) -> None:
    imported("logging").getLogger("functad.debug").info(text)


def _say(
    name: str,
    write: Callable[[str], None],
    ordered: bool,
    skip_format_check: bool,
    fmt: str,
    /,
    *args: Any,
    **kwargs: Any,
) -> None:
    if not isinstance(fmt, str):
        raise ArgumentError(
            f"debug.{name}: the first argument must be a format string, but is {fmt!r}; write debug.{name}('{{}}', x)"
        )
    if not skip_format_check:
        _check_placeholders(f"debug.{name}", fmt, args, kwargs)
    flat, operands = flat_callback(_Say(name, write, fmt), args, kwargs, f"debug.{name}", takes_anything=True)
    debug_callback(flat, operands, ordered)


class _Say:
    """Writes its arguments by a format string."""

    def __init__(self, name: str, write: Callable[[str], None], fmt: str) -> None:
        self.fmt, self._write = fmt, write
        self.__name__ = f"{name}({fmt!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        plain = [_plain(a) for a in args]
        named = {k: _plain(a) for k, a in kwargs.items()}
        self._write(self.fmt.format(*plain, **named))


def _plain(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, Array) and not isinstance(x, KeyArray) else x


def _check_placeholders(name: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        _Placeholders(name).vformat(fmt, args, kwargs)
    except ArgumentError:
        raise
    except ValueError as problem:
        raise ArgumentError(f"{name}: {fmt!r} is no format string: {problem}") from None


class _Placeholders(string.Formatter):
    """Formats nothing, but raises unless every placeholder has an argument and every argument a placeholder."""

    def __init__(self, name: str) -> None:
        self.name = name

    def vformat(self, format_string: str, args: Any, kwargs: Any) -> str:
        self.fmt = format_string
        return super().vformat(format_string, args, kwargs)

    def get_value(self, key: int | str, args: Any, kwargs: Any) -> Any:
        if isinstance(key, int) and key >= len(args):
            raise ArgumentError(
                f"{self.name}: {self.fmt!r} has a placeholder number {key}, but there are only {len(args)} positional "
                "arguments; pass the missing value, or write {{ and }} for braces"
            )
        if isinstance(key, str) and key not in kwargs:
            raise ArgumentError(
                f"{self.name}: {self.fmt!r} has a placeholder {{{key}}}, but there is no keyword argument {key}; "
                "pass it, or write {{ and }} for braces"
            )
        return _ANYTHING

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [f"number {i}" for i in range(len(args)) if i not in used_args]
        unused += [k for k in kwargs if k not in used_args]
        if unused:
            raise ArgumentError(
                f"{self.name}: {self.fmt!r} has no placeholder for the arguments {', '.join(unused)}. It must be a "
                "plain string with placeholders, and no f-string, which would be filled in here: "
                f"{self.name}('{{}}', x)"
            )


class _Anything:
    """Has every attribute and item: stands for a value of which a placeholder takes a part."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: Any) -> _Anything:
        return self


_ANYTHING = _Anything()
