"""Primitives as libraries make them, with the rule that says how they become kernels."""

from __future__ import annotations

from functad.extend.core import Primitive
from functad.interpreters import mlir


def made(name, impl, types, rule):
    p = Primitive(name)
    p.def_impl(impl)
    p.def_abstract_eval(types)
    mlir.register_lowering(p, rule)
    return p
