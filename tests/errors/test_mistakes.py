"""What beginners do wrong is said in their terms: what, on which line of theirs, and what helps, in the end."""

from __future__ import annotations

import linecache
import traceback

import numpy as np
import pytest
from mistake_cases import MISTAKES, PREAMBLE

import functad
import functad.numpy as jnp
from functad.errors import FunctadError

MOST_LINES = 12


def test_they_are_many_and_each_is_another():
    assert len({title for title, *_ in MISTAKES}) == len({program for _, program, _ in MISTAKES}) == len(MISTAKES) >= 80


@pytest.mark.parametrize(("title", "program", "says"), MISTAKES, ids=[title for title, *_ in MISTAKES])
def test_a_mistake(title, program, says):
    source, name = PREAMBLE + program, f"<{title}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    with pytest.raises(FunctadError) as raised:
        exec(compile(source, name, "exec"), {"__name__": "__main__"})
    message = str(raised.value)
    assert len(message.splitlines()) <= MOST_LINES
    for words in says:
        assert words in message
    # What helps is what is read last.
    assert not says or says[-1] in "\n".join(message.splitlines()[-6:])
    # The user's innermost line is the one at fault, or the message names it.
    here = 1 + next(k for k, line in enumerate(source.splitlines()) if "# here" in line)
    lines = [f.lineno for f in traceback.extract_tb(raised.value.__traceback__) if f.filename == name]
    assert lines[-1] == here or f"{name}:{here}" in message


def test_comparing_with_none_asks_which_object_it_is():
    for x in (jnp.ones(2), np.float32(1)):
        assert (jnp.asarray(x) == None) is False  # noqa: E711
    assert functad.jit(lambda x: 1.0 if x == None else x)(2.0) == 2.0  # noqa: E711
    assert functad.jit(lambda x: 1.0 if x != None else x)(2.0) == 1.0  # noqa: E711
