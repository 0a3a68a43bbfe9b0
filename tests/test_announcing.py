"""What is said on standard error of compiling that takes long."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import announcing
from functad.announcing import Announcement, announcement
from functad.config import config


def unrolled(x):
    for _ in range(60):
        x = jnp.sin(x) * x
    return x


@pytest.fixture
def impatient(monkeypatch):
    """Whatever is compiled anew takes long."""

    times = itertools.count(step=2)  # of the processor, too
    monkeypatch.setattr(announcing, "process_time", lambda: next(times))
    monkeypatch.setattr(announcing.threading, "Timer", AtOnce)


class AtOnce:
    """A timer that does not wait."""

    waited: list[float] = []

    def __init__(self, seconds, call, args):
        self.waited.append(seconds)
        self.start = lambda: call(*args)

    def cancel(self):
        pass


def test_what_is_said():
    text = announcement(functad.make_jaxpr(unrolled)(1.0))
    assert text.startswith(
        "functad: compiling unrolled, 120 equations …; a loop of 60 equal steps (test_announcing.py:"
    )
    assert text.endswith("): lax.scan compiles one")
    assert announcement(functad.make_jaxpr(jnp.sin)(1.0)) == "functad: compiling sin, 1 equation …"
    inner = announcement(functad.make_jaxpr(functad.jit(unrolled))(1.0))
    assert "121 equations" in inner and "a loop of 60 equal steps" in inner


def test_the_loop_of_a_derivative_is_that_of_the_way_forward():
    text = announcement(functad.make_jaxpr(functad.grad(unrolled))(1.0))
    assert "a loop of 60 equal steps" in text


def test_it_is_said_once_and_can_be_switched_off(impatient, capfd):
    f = functad.jit(lambda x: x * 3 - x)
    with config.context(announce_compiles=True, default_backend="interpreter"):
        f(np.ones(3, np.float32))
        f(np.ones(3, np.float32))
    assert capfd.readouterr().err == "functad: compiling <lambda>, 2 equations …\n"
    with config.context(announce_compiles=False, default_backend="interpreter"):
        functad.jit(lambda x: x * 3 - x)(np.ones(3, np.float32))
    assert capfd.readouterr().err == ""


def test_what_only_waits_for_a_busy_processor_is_not_spoken_of(monkeypatch, capfd):
    times = iter([5.0, 5.25, 5.99, 6.0])
    monkeypatch.setattr(announcing, "process_time", lambda: next(times))
    monkeypatch.setattr(announcing.threading, "Timer", AtOnce)
    monkeypatch.setattr(AtOnce, "waited", [])
    program = functad.make_jaxpr(jnp.sin)(1.0)
    with config.context(announce_compiles=True), Announcement(program) as said:
        said.begin()
    assert AtOnce.waited == [1.0, 0.75, 0.05] and not list(times)
    assert capfd.readouterr().err == "functad: compiling sin, 1 equation …\n"


def test_the_end_of_compiling_ends_the_wait(monkeypatch, capfd):
    late = []
    monkeypatch.setattr(announcing, "process_time", lambda: 0.0)
    monkeypatch.setattr(announcing.threading, "Timer", AtOnce)
    monkeypatch.setattr(
        AtOnce, "__init__", lambda timer, _, call, args: setattr(timer, "start", lambda: late.append(call))
    )
    with config.context(announce_compiles=True), Announcement(functad.make_jaxpr(jnp.sin)(1.0)) as said:
        said.begin()
    (speak,) = late
    speak(0.0)  # a timer that could not be stopped any more
    assert len(late) == 1 and capfd.readouterr().err == ""


def test_nothing_is_said_of_what_is_quick(capfd):
    with config.context(announce_compiles=True), Announcement(functad.make_jaxpr(jnp.sin)(1.0)) as said:
        said.begin()
    said.begin()  # too late
    assert capfd.readouterr().err == "" and said._timer is None


def test_a_place_without_threads(monkeypatch):
    def start(timer):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Timer, "start", start)
    with config.context(announce_compiles=True), Announcement(functad.make_jaxpr(jnp.sin)(1.0)) as said:
        said.begin()


def test_no_program_is_kept():
    program = functad.make_jaxpr(jnp.sin)(1.0)
    with config.context(announce_compiles=True), Announcement(program) as said:
        said.begin()
    alive = weakref.ref(program)
    del program
    gc.collect()
    assert alive() is None and said is not None
