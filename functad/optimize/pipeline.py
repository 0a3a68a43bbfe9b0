"""The passes of the optimiser, in order. Each is a function from Program to Program with the same results.

No pass assumes that NaN, infinities or signed zeros do not occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from functad.config import config, extensions_of
from functad.editing.common_subexpressions import share_common_subexpressions
from functad.editing.contracts import check_stage
from functad.editing.dead_code import eliminate_dead_code
from functad.editing.inlining import inline_calls
from functad.editing.placement import on_one_device
from functad.editing.rewriting import rewrite
from functad.ir import Program
from functad.observing import watching
from functad.optimize.loops.devices import CostOnDevice, optimizing_for
from functad.optimize.loops.passes import join_loops, optimize_loops
from functad.optimize.rules import PRODUCT_RULES, ROW_RULES, SCALAR_RULES, SUM_RULES, VECTOR_RULES
from functad.records import Record


class OwnPass(Record):
    """A pass of a user's.

    name:    what it does, in a few words
    run:     from Program to Program
    after:   the name of functad's own pass behind which it runs
    because: why the results are the same: NaN, infinities and signed zeros included
    """

    name: str
    run: Callable[[Program], Program]
    after: str
    because: str


def simplify(program: Program) -> Program:
    """All passes in order; with `config.check_programs` each is held to the contracts of its stage.

    >>> import functad
    >>> import functad.numpy as jnp
    >>> from functad.optimize.pipeline import simplify
    >>> print(simplify(functad.make_jaxpr(lambda x: jnp.sin(x) * 1. + jnp.sin(x))(2.)))
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = add b b in (c,) }
    """
    for name, because, run in _with_own_passes():
        before, program = program, run(program)
        if watching.observer is not None:
            watching.observer.passed(name, because, before, program)
        if config.check_programs:
            check_stage(program, "inlined")
    if config.check_programs:
        check_stage(program, "optimized")
    return program


def simplify_for(program: Program, on_device: bool, cost: CostOnDevice | None = None) -> Program:
    """All passes, for a GPU or a CPU, whatever the Program is for whose passes ask for this one.

    cost: tells what a GPU takes for a Program.
    """
    with optimizing_for(runs="as launches" if on_device else "on a CPU", cost=cost):
        return simplify(program)


def _with_own_passes() -> Iterator[tuple[str, str, Callable[[Program], Program]]]:
    """The name of each pass, what it says of itself, and the pass: those of users behind the ones that they name."""
    waiting: list[OwnPass] = [*extensions_of("pass").values()]
    for a_pass in PASSES:
        yield a_pass.__name__, (a_pass.__doc__ or "").partition("\n")[0], a_pass
        for own in [own for own in waiting if own.after == a_pass.__name__]:
            waiting.remove(own)
            yield own.name, own.because, own.run


def optimize_control(program: Program) -> Program:
    """Simplify the bodies of loops and branches, and change loops as `loops.moves` lists it."""
    return optimize_loops(program, simplify)


def merge_whiles(program: Program) -> Program:
    """Make one loop of any two that take the same steps, once what they read that is equal is one."""
    return join_loops(program, "equal")


def simplify_numbers(program: Program) -> Program:
    """Compute with numbers instead of arrays that repeat them; drop what gives back its operand."""
    return rewrite(program, (*extensions_of("rule").values(), *SCALAR_RULES))  # those of users first


def simplify_products(program: Program) -> Program:
    """Matrix products with less to compute or to move."""
    return rewrite(program, PRODUCT_RULES)


def multiply_before_gathering(program: Program) -> Program:
    """Tables are multiplied instead of the rows gathered from them. Several products want the same sums."""
    made = rewrite(program, ROW_RULES)
    return program if made is program else share_common_subexpressions(made)


def sum_few_terms(program: Program, on_device: bool = False) -> Program:
    """Dots and tiny products become sums: just before fusion, as what is done to loops looks for products."""
    made = rewrite(program, (*SUM_RULES, *VECTOR_RULES) if on_device else SUM_RULES)
    return program if made is program else eliminate_dead_code(share_common_subexpressions(made))


PASSES: tuple[Callable[[Program], Program], ...] = (
    inline_calls,
    on_one_device,
    eliminate_dead_code,
    optimize_control,
    simplify_numbers,
    share_common_subexpressions,
    merge_whiles,
    simplify_products,
    multiply_before_gathering,
    eliminate_dead_code,
)
