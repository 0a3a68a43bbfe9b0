"""Whoever sees an error end a program sees lines of his own, and functad's when he asks for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import functad
import functad.numpy as jnp
from functad.errors import FunctadError
from functad.system import tracebacks

PROGRAM = """
import functad
import functad.numpy as jnp
{before}
def loss(w):
    return {wrong}

functad.jit(functad.grad(loss))(jnp.ones(3))
"""
PACKAGE = str(Path(functad.__file__).parent)


def shown(wrong: str, before: str = "") -> str:
    text = PROGRAM.format(wrong=wrong, before=before)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def test_a_program_ends_with_its_own_lines_and_what_helps():
    text = shown("jnp.sum(w[5])")
    assert "in loss" in text and PACKAGE not in text
    assert text.strip().splitlines()[-1].startswith("functad.errors.OutOfBoundsError: ")


def test_so_do_errors_of_the_users_own():
    text = shown("w.sum() / 0 if 1 // 0 else 0")
    assert "ZeroDivisionError" in text and "in loss" in text and PACKAGE not in text


def test_all_frames_on_request():
    assert PACKAGE in shown("jnp.sum(w[5])", "functad.config.traceback_filtering = 'off'")


def test_what_functad_itself_does_wrong_is_shown_whole():
    def broken():
        namespace: dict = {}
        source = "def broken():\n    return [][1]\n"
        exec(compile(source, f"{PACKAGE}/broken.py", "exec"), namespace)
        namespace["broken"]()

    with pytest.raises(IndexError) as raised:
        broken()
    assert files(tracebacks.users_frames(raised.value, raised.value.__traceback__))[-1].startswith(PACKAGE)


def test_files_beside_the_package_are_the_users():
    namespace: dict = {}
    exec(compile("def wrong():\n    return [][1]\n", f"{PACKAGE}_models/net.py", "exec"), namespace)
    with pytest.raises(IndexError) as raised:
        namespace["wrong"]()
    error = FunctadError("of functad's")
    assert files(tracebacks.users_frames(error, raised.value.__traceback__))[-1].endswith("_models/net.py")


def test_in_ipython_too():
    seen = []

    class Shell:
        def showtraceback(self, what, tb_offset):
            seen.append(what)

    try:
        functad.grad(lambda w: w[5])(jnp.ones(3))
    except FunctadError as error:
        assert any(PACKAGE in name for name in files(error.__traceback__))
        tracebacks._show_in_ipython(Shell(), type(error), error, error.__traceback__)
    ((kind, _, trace),) = seen
    assert issubclass(kind, IndexError) and files(trace) and not any(PACKAGE in name for name in files(trace))


def test_errors_that_are_caught_keep_their_frames():
    with pytest.raises(FunctadError) as raised:
        functad.grad(lambda w: w[5])(jnp.ones(3))
    assert any(PACKAGE in name for name in files(raised.value.__traceback__))


def files(trace):
    found = []
    while trace is not None:
        found.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return found
