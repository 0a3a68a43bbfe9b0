"""Composite operations taken apart: what makes them up stands in their place, and fuses with what is around.

Knows the kinds of lowering rule; no primitive.
"""

from __future__ import annotations

from typing import Any

from functad.editing.rewriting import Rule, View, rewrite, spliced
from functad.ir import Eqn, Program
from functad.lowering_rules import Loops


def take_composites_apart(program: Program) -> Program:
    """A Program with what makes up its operations where their records say so; bodies of loops have their own turn."""
    return rewrite(program, [_RULE])


def _parts(eqn: Eqn, view: View) -> list[Eqn] | None:
    rule = eqn.primitive.lower
    if not isinstance(rule, Loops) or rule.composite is None:
        return None
    fun = rule.composite(*[a.aval for a in eqn.invars], **eqn.params)
    if fun is None:
        return None

    def results(*operands: Any) -> list[Any]:
        return [fun(*operands)]

    return spliced(results, eqn.invars, eqn)


_RULE = Rule(name="composite", of=None, make=_parts, because="the record says that they make it up")
