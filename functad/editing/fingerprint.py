"""What a Program computes, as text: two Programs with the same text are compiled to the same, in any process.

Knows the IR, and plain values as parameters; not what primitives compute.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from functad import machine_model
from functad.array import ArrayImpl
from functad.ir import Atom, Aval, Eqn, Literal, Program, Var, registry
from functad.lowering_rules import (
    Call,
    Callback,
    Defined,
    Indexed,
    Loops,
    Placement,
    Reduction,
    Running,
    Scalar,
    Scattered,
)

_BY_FUNCTIONS = (Indexed, Scattered, Loops)  # what functions of functad's say, the name of their primitive tells
_AS_THEY_PRINT = {bool, int, str, bytes, type(None), type(Ellipsis)}


class _NoTextError(Exception):
    """A value of which no text says what it is, such as a function."""


def fingerprint(program: Program) -> str | None:
    """The text of a Program; None if one of its parameters is a function, or something else that no text stands for.

    Names of variables and the lines that equations came from are not in it.

    >>> import functad, functad.numpy as jnp
    >>> from functad.editing.fingerprint import fingerprint
    >>> one, same, other = (functad.make_jaxpr(lambda x, a=a: jnp.sin(x) * a)(1.) for a in (0., 0., -0.))
    >>> fingerprint(one) == fingerprint(same), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    try:
        return _program(program)
    except _NoTextError:
        return None


def _program(program: Program) -> str:
    numbers: dict[Var, int] = {}

    def set_all(variables: Iterable[Var]) -> str:
        texts = []
        for var in variables:
            numbers[var] = len(numbers)
            texts.append(_aval(var.aval))
        return " ".join(texts)

    def read(atom: Atom) -> str:
        return str(numbers[atom]) if isinstance(atom, Var) else _literal(atom)

    lines = [repr(program.name), set_all(program.invars), set_all(program.constvars)]
    lines += [_value(c) for c in program.consts]
    for eqn in program.eqns:
        operands = " ".join(map(read, eqn.invars))
        lines.append(f"{_operation(eqn)} {operands} -> {set_all(eqn.outvars)}")
    return "{" + "\n".join([*lines, " ".join(map(read, program.outvars))]) + "}"


def _aval(aval: Aval) -> str:
    return f"{aval.dtype.str}{[*map(int, aval.shape)]}{'w' if aval.weak_type else ''}"


def _literal(literal: Literal) -> str:
    return f"{np.asarray(literal.value).tobytes().hex()}:{_aval(literal.aval)}"


def _operation(eqn: Eqn) -> str:
    """The primitive and its parameters; of a call the Program alone, whose equations will stand in its place."""
    rule, params = eqn.primitive.lower, eqn.params
    if isinstance(rule, _BY_FUNCTIONS) and registry.get(eqn.primitive.name) is not eqn.primitive:
        raise _NoTextError
    if isinstance(rule, Placement):  # wherever that is, the Program runs on one device
        return eqn.primitive.name
    if isinstance(rule, (Callback, Defined)):
        raise _NoTextError
    if isinstance(rule, Call):
        return f"{eqn.primitive.name} {rule.again(**params)} {_value(params[rule.parameter])}"
    own = eqn.primitive.name
    if isinstance(rule, Scalar):
        own += repr(rule.text(eqn))
    elif isinstance(rule, (Reduction, Running)):
        own += f" {rule.kind}"
    return f"{own} {_value(params)}" if params else own


def _value(value: Any) -> str:
    kind = type(value)
    if kind in _AS_THEY_PRINT:
        return repr(value)
    if kind is tuple:
        return f"({','.join(map(_value, value))})"
    if kind is dict:
        return f"{{{','.join(sorted(f'{_value(k)}:{_value(v)}' for k, v in value.items()))}}}"
    return f"{kind.__module__}.{kind.__qualname__}<{_content(kind, value)}>"


def _content(kind: type, value: Any) -> str:
    if kind in (float, complex):
        return struct.pack("dd", value.real, value.imag).hex()
    if isinstance(value, Program):
        return _program(value)
    if isinstance(value, Aval):
        return _aval(value)
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, type) and issubclass(value, (np.generic, bool, int, float, complex)):
        return value.__name__
    if isinstance(value, Enum):
        return f"{value.name}={_value(value.value)}"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, ArrayImpl):
        return f"{_aval(value.aval)} {_array(np.asarray(value))}"
    if isinstance(value, (np.generic, np.ndarray)):
        return _array(np.asarray(value))
    if isinstance(value, (tuple, list)):
        return ",".join(map(_value, value))
    if isinstance(value, (set, frozenset)):
        return ",".join(sorted(map(_value, value)))
    if is_dataclass(kind) and kind.__module__.startswith("functad."):
        return ",".join(_value(getattr(value, f.name)) for f in fields(kind))
    raise _NoTextError


def _array(array: np.ndarray) -> str:
    if array.dtype.hasobject or array.nbytes > machine_model.LARGEST_KNOWN_CONSTANT:
        raise _NoTextError
    return f"{array.dtype.str}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
