"""What is known of a function is computed, and the rest recorded: `functad.interpreters.partial_eval`, `api_util`."""

from __future__ import annotations

import pytest

import functad
import functad.numpy as jnp
from functad import api_util, tree_util
from functad.errors import ConcretizationError
from functad.extend import linear_util as lu
from functad.interpreters import partial_eval as pe

UNKNOWN = pe.PartialVal.unknown(functad.typeof(jnp.ones(3)))


def test_known_arguments_are_computed_with_and_unknown_ones_recorded():
    seen = []

    def f(x, y):
        seen.append(float(x) + 1)  # x has a value
        with pytest.raises(ConcretizationError):
            float(y[0])
        return jnp.exp(x), y * jnp.sin(x), 5.0

    program, (known, unknown, constant), consts = pe.trace_to_jaxpr_nounits(
        lu.wrap_init(f), [pe.PartialVal.known(2.0), UNKNOWN]
    )
    assert seen == [3.0] and known.is_known() and constant == (None, 5.0) and float(known.get_known()) == jnp.exp(2.0)
    assert unknown == (functad.typeof(jnp.ones(3)), None) and not unknown.is_known()
    assert [e.primitive.name for e in program.eqns] == ["mul"] and len(program.invars) == len(program.outvars) == 1
    assert consts == list(program.consts)
    assert functad.core.eval_jaxpr(program, consts, jnp.ones(3))[0].tolist() == [float(jnp.sin(2.0))] * 3


@pytest.mark.parametrize("instantiate, outputs", [(False, 1), (True, 2), ([True, False], 2), ([False, True], 1)])
def test_known_results_can_be_outputs_too(instantiate, outputs):
    f = lu.wrap_init(lambda x, y: (x, x * y))
    program, results, _ = pe.trace_to_jaxpr_nounits(f, [pe.PartialVal.known(2.0), UNKNOWN], instantiate)
    assert len(program.outvars) == sum(not r.is_known() for r in results) == outputs


def test_it_works_while_another_function_is_traced():
    @functad.jit
    def outer(x):
        f = lu.wrap_init(lambda a, b: (a * 2.0, b * a))
        _, (known, unknown), _ = pe.trace_to_jaxpr_nounits(f, [pe.PartialVal.known(x), UNKNOWN])
        assert known.is_known() and not unknown.is_known()
        return known.get_known()

    assert outer(3.0) == 6.0


def test_a_program_without_what_is_not_used():
    program = functad.make_jaxpr(lambda x, y, z: (x * y, jnp.sin(z), z))(1.0, 2.0, 3.0)
    assert [
        (len(p.eqns), used)
        for p, used in (pe.dce_jaxpr(program, wanted) for wanted in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]))
    ] == [(1, [True, True, False]), (1, [False, False, True]), (0, [False, False, True]), (0, [False] * 3)]
    kept, used = pe.dce_jaxpr(program, [False] * 3, instantiate=[True, False, True])
    assert used == [True, False, True] and len(kept.invars) == 2


def test_the_program_of_a_wrapped_function():
    program, types, consts = pe.trace_to_jaxpr_dynamic(lu.wrap_init(lambda x: (x * 2.0,)), [functad.typeof(1)])
    assert types == program.out_avals and consts == [] and program.in_avals == [functad.typeof(1)]


def test_functions_of_pytrees_as_functions_of_leaves():
    def f(x, *, y):
        return {"sum": x[0] + y, "rest": (x[1], None)}

    leaves, in_tree = tree_util.tree_flatten((((1, 2),), {"y": 3}))
    flat, out_tree = api_util.flatten_fun(lu.wrap_init(f), in_tree)
    with pytest.raises(lu.StoreException):
        out_tree()
    assert tree_util.tree_unflatten(out_tree() if flat.call_wrapped(*leaves) else None, [2, 4]) == {
        "sum": 4,
        "rest": (2, None),
    }
    names = api_util.debug_info("jit", f, ((1, 2),), {"y": 3}).arg_names
    assert names == ("x[0]", "x[1]", "y")
    with pytest.raises(ValueError):
        api_util.safe_map(pow, [1], [2, 3])
