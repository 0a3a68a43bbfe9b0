"""`functad.extend.linear_util`: what generators do around calls, the last one outermost."""

from __future__ import annotations

import pytest

import functad
from functad.extend import linear_util as lu


@lu.transformation
def scaled(factor, x, **options):
    out = yield (factor * x,), options
    yield out, "scaled"


@lu.transformation_with_aux
def counted(x):
    out = yield (x,), {}
    yield out, ("aux", out)


def test_what_is_done_around_a_call():
    wrapped = lu.wrap_init(lambda x: x + 1, {"name": 3})
    assert wrapped.call_wrapped(1) == 2 and wrapped.params == {"name": 3} and wrapped.__name__ == "<lambda>"
    assert scaled(wrapped, 10).call_wrapped(2) == (21, "scaled")
    fun, aux = counted(wrapped)
    with pytest.raises(lu.StoreException):
        aux()
    assert lu.merge_linear_aux(aux, lambda: 5) == (False, 5)
    assert fun.call_wrapped(4) == 5 and aux() == ("aux", 5) and lu.merge_linear_aux(aux, lambda: 5)[0]
    twice = lu.transformation2(lambda f, n, x: n * f(x), wrapped, 3)
    assert twice.call_wrapped(1) == 6 and repr(twice) == "WrappedFun(<lambda>)"


def test_it_is_traced_as_any_function():
    assert float(functad.grad(lambda x: scaled(lu.wrap_init(lambda y: y * y), 3.0).call_wrapped(x)[0])(2.0)) == 36
