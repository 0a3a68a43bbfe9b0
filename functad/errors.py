"""The errors users see: each says what happened, where, and how to fix it.

Functions that take arrays have these in common, beside the errors that each names:

- What is no array, and cannot be made one, raises `DTypeError`; a Python integer that its dtype cannot hold,
  `RangeError`.
- While a function is traced its arrays have shapes and dtypes, but no values: what needs a value, such as `if` or a
  size, raises `ConcretizationError`. A traced value that is used after its function has returned raises
  `LeakedTracerError`.
- In `functad.numpy` an axis counts from the end where it is negative, and one that an array does not have raises
  `AxisError`; in `functad.lax` it raises `ShapeError`.
- A Python integer between brackets that lies outside of the array, `x[7]`, raises `OutOfBoundsError`. Arrays of indices
  raise nothing: they read what the `mode` says, and where they write outside, nothing is written.
- Trees that should have one structure and do not, raise `TreeError`.
- A size that no array can have raises `TooLargeError`.

This file knows nothing of the rest of functad; every other file may import it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from numbers import Integral
from typing import Any


class FunctadError(Exception):
    """Base class of every error that functad raises on purpose.

    >>> import functad, functad.numpy as jnp
    >>> try:
    ...     jnp.ones(3) + jnp.ones(4)
    ... except functad.errors.FunctadError as problem:
    ...     print(type(problem).__name__)
    ShapeError
    """


class ShapeError(FunctadError, TypeError, ValueError):
    """Operands have shapes that do not fit together. Of JAX's functions some raise the one class, some the other.

    >>> import functad.numpy as jnp
    >>> jnp.ones(3) + jnp.ones(4)
    Traceback (most recent call last):
        ...
    functad.errors.ShapeError: add: arrays of shapes (3,), (4,) do not broadcast: ...
    """


class DTypeError(FunctadError, TypeError):
    """An operand has a dtype that the operation does not take.

    >>> import functad
    >>> functad.lax.sin(1)
    Traceback (most recent call last):
        ...
    functad.errors.DTypeError: sin takes float, complex, but was given i32[]; ...
    """


class ArgumentError(FunctadError, ValueError):
    """An argument has a value that the function does not take.

    >>> import functad
    >>> functad.jit(3)
    Traceback (most recent call last):
        ...
    functad.errors.ArgumentError: jit expects a function as its first argument, but was given 3...
    """


class RangeError(DTypeError, OverflowError):
    """A Python integer lies outside of what a dtype can hold.

    >>> import functad.numpy as jnp
    >>> jnp.uint8(300)
    Traceback (most recent call last):
        ...
    functad.errors.RangeError: asarray: the Python integer 300 does not fit in uint8 (0 to 255); ...
    """


class AxisError(ArgumentError, IndexError):
    """An axis was named that the array does not have.

    >>> import functad.numpy as jnp
    >>> jnp.sum(jnp.ones(3), axis=1)
    Traceback (most recent call last):
        ...
    functad.errors.AxisError: sum: axis 1 is out of bounds for an array with 1 axes...
    """


class MaskError(ShapeError, IndexError):
    """A boolean index does not fit the array.

    >>> import functad.numpy as jnp
    >>> jnp.ones(3)[jnp.array([True, False])]
    Traceback (most recent call last):
        ...
    functad.errors.MaskError: a boolean index of size 2 does not fit axis 0 of an array of shape (3,)...
    """


class CopyError(ArgumentError, BufferError):
    """Memory was to be shared that cannot be.

    >>> import functad.numpy as jnp
    >>> jnp.asarray([1.0, 2.0], copy=False)
    Traceback (most recent call last):
        ...
    functad.errors.CopyError: ...
    """


class AbsentNameError(FunctadError, AttributeError):
    """A module was asked for a name that it does not have.

    >>> import functad.numpy as jnp
    >>> jnp.sine
    Traceback (most recent call last):
        ...
    functad.errors.AbsentNameError: module 'functad.numpy' has no attribute 'sine'. Did you mean ...
    """


class AbsentImportError(FunctadError, ImportError):
    """`from module import name` asked for a name that the module does not have.

    >>> from functad.numpy import sine
    Traceback (most recent call last):
        ...
    functad.errors.AbsentImportError: module 'functad.numpy' has no attribute 'sine'. Did you mean ...
    """


class DeviceError(FunctadError, RuntimeError, ValueError):
    """A kind of device was asked for that there is not.

    >>> import functad
    >>> functad.devices("tpu")
    Traceback (most recent call last):
        ...
    functad.errors.DeviceError: ...
    """


class DeviceFaultError(FunctadError, RuntimeError):
    """A kernel went wrong on a device, such as a GPU: after that nothing runs there until the process ends.

    >>> issubclass(DeviceFaultError, RuntimeError)
    True
    """


class TooLargeError(FunctadError, MemoryError, ValueError):
    """An array would have more elements than there is memory for, or than an array can have.

    >>> import functad.numpy as jnp
    >>> jnp.arange(10**18)
    Traceback (most recent call last):
        ...
    functad.errors.TooLargeError: ...
    """


class TreeError(FunctadError, ValueError):
    """Two pytrees that should have the same structure do not.

    >>> import functad
    >>> functad.tree.map(lambda x, y: x, [1], [1, 2])
    Traceback (most recent call last):
        ...
    functad.errors.TreeError: at rest[0]: expected a list of length 1, got a list of length 2...
    """


class OutOfBoundsError(FunctadError, IndexError):
    """An index is known to lie outside of the array.

    >>> import functad.numpy as jnp
    >>> jnp.ones(3)[5]
    Traceback (most recent call last):
        ...
    functad.errors.OutOfBoundsError: index 5 is out of bounds for axis 0 of size 3 of an array of shape (3,) ...
    """


class TracerError(FunctadError, TypeError):
    """A traced value was used where only a known value can be; those below say how.

    >>> import functad, functad.numpy as jnp
    >>> functad.jit(jnp.zeros)(3)
    Traceback (most recent call last):
        ...
    functad.errors.ConcretizationError: ...
    >>> issubclass(ConcretizationError, TracerError)
    True
    """


class NestingError(FunctadError, RecursionError):
    """Functions are jitted within each other too deep for Python's stack.

    >>> import functad
    >>> endless = functad.jit(lambda x: endless(x + 1))
    >>> endless(1)
    Traceback (most recent call last):
        ...
    functad.errors.NestingError: ...
    """


class ConcretizationError(TracerError):
    """Python asked for the value of an abstract tracer (`if`, `int()`, `float()`, NumPy).

    >>> import functad
    >>> functad.jit(lambda x: x if x > 0 else -x)(1.)
    Traceback (most recent call last):
        ...
    functad.errors.ConcretizationError: Python control flow (...) needs the value of the traced value of type bool[] ...
    """


# JAX tells these cases apart; a handler written for one of its names works.
ConcretizationTypeError = ConcretizationError
TracerArrayConversionError = ConcretizationError
TracerBoolConversionError = ConcretizationError
TracerIntegerConversionError = ConcretizationError
NonConcreteBooleanIndexError = ConcretizationError


class LeakedTracerError(TracerError):
    """A tracer was used after the function that it belongs to had returned.

    >>> import functad
    >>> kept = []
    >>> functad.jit(kept.append)(1.)
    >>> kept[0] + 1
    Traceback (most recent call last):
        ...
    functad.errors.LeakedTracerError: the traced value of type f32[] (argument ...) was used after ...
    """


UnexpectedTracerError = LeakedTracerError  # JAX's name


class UnhashableTracerError(TracerError):
    """A tracer (or an Array) was hashed: used in a set, as a dict key or as a static argument.

    >>> import functad
    >>> functad.jit(lambda x: {x: 1})(1.)
    Traceback (most recent call last):
        ...
    functad.errors.UnhashableTracerError: the traced value of type f32[] (argument `x` of ...) cannot be hashed: ...
    """


class ImmutableArrayError(FunctadError, TypeError):
    """In-place assignment to an immutable array.

    >>> import functad.numpy as jnp
    >>> x = jnp.ones(3)
    >>> x[0] = 2.
    Traceback (most recent call last):
        ...
    functad.errors.ImmutableArrayError: an Array of type f32[3] is immutable: ...
    """


class DonatedArrayError(FunctadError, RuntimeError):
    """An array was used after a jitted function had been allowed to take its memory.

    >>> import functad, functad.numpy as jnp
    >>> x = jnp.ones(30000)
    >>> _ = functad.jit(lambda x: x + 1, donate_argnums=0)(x)
    >>> x + 1
    Traceback (most recent call last):
        ...
    functad.errors.DonatedArrayError: argument `x` of <lambda> was donated: ...
    """


class UnsupportedNumpyError(FunctadError, TypeError):
    """A NumPy function without functad counterpart was called on a functad value.

    >>> import functad, numpy as np
    >>> functad.grad(lambda x: np.busday_count(x, x))(1.)
    Traceback (most recent call last):
        ...
    functad.errors.UnsupportedNumpyError: ...
    """


class NoRuleError(FunctadError, NotImplementedError):
    """A transform needs a rule that a primitive declares absent, with its reason.

    >>> import functad
    >>> functad.extend.core.Primitive('empty').bind(1.)
    Traceback (most recent call last):
        ...
    functad.errors.NoRuleError: `empty` has no shape rule: empty_p.def_abstract_eval(rule)...
    """


class DifferentiationError(FunctadError, TypeError, ValueError):
    """The function or the argument cannot be differentiated (non-scalar output, integer input).

    >>> import functad, functad.numpy as jnp
    >>> functad.grad(lambda x: x)(jnp.ones(3))
    Traceback (most recent call last):
        ...
    functad.errors.DifferentiationError: grad: <lambda> must return a scalar, but returned an array of type f32[3]. ...
    """


class CustomRuleError(FunctadError, TypeError, ValueError):
    """A rule of the user's, for a derivative or of a primitive, gives what does not fit its function.

    >>> import functad
    >>> wave_p = functad.extend.core.Primitive("wave")
    >>> functad.interpreters.mlir.register_lowering(wave_p, functad.extend.Scalar("sine({0})"))
    Traceback (most recent call last):
        ...
    functad.errors.CustomRuleError: the Scalar rule of `wave` is 'sine({0})', but kernels do not know `sine`; ...
    """


class BodyError(FunctadError, TypeError):
    """The body of a loop, its condition, a branch or a loss takes other arguments, or gives what does not fit.

    >>> import functad, functad.numpy as jnp
    >>> functad.lax.scan(lambda total, x: (jnp.ones(2), x), 0., jnp.ones(3))
    Traceback (most recent call last):
        ...
    functad.errors.BodyError: scan: the carry that f returns and init must have the same types, but...
    """


class BatchingError(FunctadError, ValueError):
    """`vmap` was given axes or sizes that do not fit its arguments.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x, y: x + y)(jnp.ones(2), jnp.ones(3))
    Traceback (most recent call last):
        ...
    functad.errors.BatchingError: vmap: the mapped axes of the arguments of <lambda> must have one size, but ...
    """


class UnboundAxisError(FunctadError, NameError):
    """A collective names an axis that no `vmap` around it has.

    >>> import functad
    >>> functad.lax.psum(1., 'i')
    Traceback (most recent call last):
        ...
    functad.errors.UnboundAxisError: unbound axis name: 'i'. ...
    """


class KeyReuseError(FunctadError, TypeError):
    """A random key is used for the second time, with `config.debug_key_reuse`.

    >>> import functad
    >>> key = functad.random.key(0)
    >>> with functad.debug_key_reuse(True):
    ...     functad.random.normal(key), functad.random.normal(key)
    Traceback (most recent call last):
        ...
    functad.errors.KeyReuseError: a random key is used for the second time, which would give the same numbers again...
    """


class ProgramError(FunctadError, AssertionError):
    """A Program violates the IR's rules (scope, single assignment, types).

    >>> import functad
    >>> functad.parse_program("{ lambda ; a:f32[]. let in (b,) }")
    Traceback (most recent call last):
        ...
    functad.errors.ProgramError: line 1: `b` is used, but nothing before has that name...
    """


class CompilationError(FunctadError, RuntimeError):
    """A kernel could not be compiled, or compiled code could not be loaded.

    >>> issubclass(CompilationError, RuntimeError)
    True
    """


class CallbackError(FunctadError, RuntimeError):
    """A Python function called from traced or compiled code raised, or returned what was not announced.

    >>> import functad
    >>> functad.jit(lambda x: functad.pure_callback(lambda x: 1 / 0, x, x))(1.)
    Traceback (most recent call last):
        ...
    functad.errors.CallbackError: pure_callback at ...: the function <lambda> raised ZeroDivisionError: ...
    """


class CheckError(FunctadError, ValueError):
    """What `checkify.check` asks for does not hold, and nobody made a value of the error.

    >>> from functad.experimental import checkify
    >>> checked = checkify.checkify(lambda x: checkify.check(x > 0, "x is not positive"))
    >>> checked(-1.)[0].throw()
    Traceback (most recent call last):
        ...
    functad.errors.CheckError: x is not positive...
    """


class DataError(FunctadError, OSError):
    """A data file is missing, truncated, damaged, or could not be downloaded.

    >>> import functad
    >>> functad.data.mnist("no/such/folder")
    Traceback (most recent call last):
        ...
    functad.errors.DataError: no/such/folder is no folder ...
    """


# JAX's names for errors of the same kinds.
JAXTypeError = TracerError
JAXIndexError = OutOfBoundsError
JaxRuntimeError = CallbackError
JaxprTypeError = ProgramError
TypePromotionError = DTypeError


class WideningWarning(UserWarning):
    """64-bit data met 32-bit values in a jitted function, so what is computed from both has 64 bits.

    >>> import functad, functad.numpy as jnp, numpy as np, warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     functad.jit(jnp.add)(jnp.ones(2), np.ones(2)).dtype
    dtype('float64')
    >>> said[0].category.__name__
    'WideningWarning'
    """


def check_int(value: Any, argument: str, low: int) -> int:
    """An argument as a Python int, which does not overflow; raise unless it is an int of at least so much.

    NumPy's integers are ints, booleans are none.

    >>> check_int(0, "Dense: features", low=1)
    Traceback (most recent call last):
    functad.errors.ArgumentError: Dense: features must be an int of at least 1, got 0
    """
    if not is_int(value, low):
        raise ArgumentError(f"{argument} must be an int of at least {low}, got {value!r:.80}")
    return int(value)


def is_int(value: object, low: int) -> bool:
    """Whether this is an int of at least so much."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= low


def close_names(name: str, known: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Those of the known names that somebody may have meant, the nearest first.

    >>> from functad.errors import close_names
    >>> close_names("tahn", ["tan", "tanh", "sin"])
    ['tan', 'tanh']
    """
    # Most programs make no such mistake, and need not load what finds them.
    found: list[str] = import_module("difflib").get_close_matches(name, list(known), n=n, cutoff=cutoff)
    return found


def __dir__() -> list[str]:
    return [
        name for name, value in globals().items() if getattr(value, "__module__", "") == __name__ and name[0].isupper()
    ]
