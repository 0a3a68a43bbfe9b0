"""The errors users see: each says what happened, where, and how to fix it.

This file knows nothing of the rest of functad; every other file may import it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module


class FunctadError(Exception):
    """Base class of every error that functad raises on purpose."""


class ShapeError(FunctadError, TypeError, ValueError):
    """Operands have shapes that do not fit together. Of JAX's functions some raise the one class, some the other."""


class DTypeError(FunctadError, TypeError):
    """An operand has a dtype that the operation does not take."""


class ArgumentError(FunctadError, ValueError):
    """An argument has a value that the function does not take."""


class RangeError(DTypeError, OverflowError):
    """A Python integer lies outside of what a dtype can hold."""


class AxisError(ArgumentError, IndexError):
    """An axis was named that the array does not have."""


class MaskError(ShapeError, IndexError):
    """A boolean index does not fit the array."""


class CopyError(ArgumentError, BufferError):
    """Memory was to be shared that cannot be."""


class AbsentNameError(FunctadError, AttributeError):
    """A module was asked for a name that it does not have."""


class AbsentImportError(FunctadError, ImportError):
    """`from module import name` asked for a name that the module does not have."""


class DeviceError(FunctadError, RuntimeError, ValueError):
    """A kind of device was asked for that there is not."""


class DeviceFaultError(FunctadError, RuntimeError):
    """A kernel went wrong on a device."""


class TooLargeError(FunctadError, MemoryError, ValueError):
    """An array would have more elements than there is memory for, or than an array can have."""


class TreeError(FunctadError, ValueError):
    """Two pytrees that should have the same structure do not."""


class OutOfBoundsError(FunctadError, IndexError):
    """An index is known to lie outside of the array."""


class TracerError(FunctadError, TypeError):
    """A traced value was used where only a known value can be."""


class NestingError(FunctadError, RecursionError):
    """Functions are jitted within each other too deep for Python's stack."""


class ConcretizationError(TracerError):
    """Python asked for the value of an abstract tracer (`if`, `int()`, `float()`, NumPy)."""


# JAX tells these cases apart; a handler written for one of its names works.
ConcretizationTypeError = ConcretizationError
TracerArrayConversionError = ConcretizationError
TracerBoolConversionError = ConcretizationError
TracerIntegerConversionError = ConcretizationError
NonConcreteBooleanIndexError = ConcretizationError


class LeakedTracerError(TracerError):
    """A tracer was used after the function that it belongs to had returned."""


UnexpectedTracerError = LeakedTracerError  # JAX's name


class UnhashableTracerError(TracerError):
    """A tracer (or an Array) was hashed: used in a set, as a dict key or as a static argument."""


class ImmutableArrayError(FunctadError, TypeError):
    """In-place assignment to an immutable array."""


class DonatedArrayError(FunctadError, RuntimeError):
    """An array was used after a jitted function had been allowed to take its memory."""


class UnsupportedNumpyError(FunctadError, TypeError):
    """A NumPy function without functad counterpart was called on a functad value."""


class NoRuleError(FunctadError, NotImplementedError):
    """A transform needs a rule that a primitive declares absent, with its reason."""


class DifferentiationError(FunctadError, TypeError, ValueError):
    """The function or the argument cannot be differentiated (non-scalar output, integer input)."""


class CustomRuleError(FunctadError, TypeError, ValueError):
    """A rule of the user's, for a derivative or of a primitive, gives what does not fit its function."""


class BodyError(FunctadError, TypeError):
    """The body of a loop, its condition, or a branch returned a structure, shape or dtype that does not fit."""


class BatchingError(FunctadError, ValueError):
    """`vmap` was given axes or sizes that do not fit its arguments."""


class UnboundAxisError(FunctadError, NameError):
    """A collective names an axis that no `vmap` around it has."""


class KeyReuseError(FunctadError, TypeError):
    """A random key is used for the second time, with `config.debug_key_reuse`."""


class ProgramError(FunctadError, AssertionError):
    """A Program violates the IR's rules (scope, single assignment, types)."""


class CompilationError(FunctadError, RuntimeError):
    """A kernel could not be compiled, or compiled code could not be loaded."""


class CallbackError(FunctadError, RuntimeError):
    """A Python function called from traced or compiled code raised, or returned what was not announced."""


class CheckError(FunctadError, ValueError):
    """What `checkify.check` asks for does not hold, and nobody made a value of the error."""


class DataError(FunctadError, OSError):
    """A data file is missing, truncated, damaged, or could not be downloaded."""


# JAX's names for errors of the same kinds.
JAXTypeError = TracerError
JAXIndexError = OutOfBoundsError
JaxRuntimeError = CallbackError
JaxprTypeError = ProgramError
TypePromotionError = DTypeError


class WideningWarning(UserWarning):
    """64-bit data met 32-bit values in a jitted function, so what is computed from both has 64 bits."""


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
