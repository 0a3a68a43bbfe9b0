"""The progress bar: what it prints in a terminal, in a pipe, and when it is interrupted."""

from __future__ import annotations

import io
import sys

import pytest

from functad.errors import ArgumentError
from functad.system.progress import Progress, say


class Screen(io.StringIO):
    """A terminal, as far as the progress bar asks."""

    def isatty(self) -> bool:
        return True

    def shown(self) -> list[str]:
        """The lines as a person sees them: a carriage return starts the line again."""
        return [overwritten(line).rstrip() for line in self.getvalue().split("\n")]


def overwritten(line: str) -> str:
    cells: list[str] = []
    for piece in line.split("\r"):
        cells[: len(piece)] = piece
    return "".join(cells)


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


def test_a_terminal_has_one_line_that_is_rewritten():
    screen, clock = Screen(), Clock()
    with Progress(200, "epoch 1", stream=screen, clock=clock) as progress:
        clock.now = 10.0
        progress.update(50, "loss 0.123")
        assert screen.shown() == ["epoch 1:  25 % [######..................] 50/200, 5/s, 0:30 left, loss 0.123"]
        clock.now = 20.0
        progress.update(150, "loss 0.1")
    assert screen.shown() == [
        "epoch 1: 100 % [########################] 200/200, 10/s, took 0:20, loss 0.1",
        "",
    ]


def test_a_text_may_be_made_where_it_is_shown():
    screen, clock, made = Screen(), Clock(), []

    def text():
        made.append(clock.now)
        return f"loss {clock.now}"

    with Progress(100, stream=screen, clock=clock) as progress:
        for now in (1.0, 1.01, 1.02, 2.0):
            clock.now = now
            progress.update(1, text)
        assert screen.shown()[-1].endswith("loss 2.0")
    assert made == [1.0, 2.0]


def test_a_terminal_is_written_to_at_most_ten_times_a_second():
    screen, clock = Screen(), Clock()
    with Progress(1000, stream=screen, clock=clock) as progress:
        for step in range(1000):
            clock.now = (step + 1) / 1000
            progress.update()
    assert 9 <= screen.getvalue().count("\r") <= 11
    assert screen.shown()[0].startswith("100 %")


def test_a_line_never_exceeds_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    screen = Screen()
    with Progress(1, "a label", stream=screen) as progress:
        progress.update(1, "text " * 30)
    assert max(len(line) for line in screen.shown()) == 39


def test_a_bar_that_does_not_stay_is_wiped():
    screen, clock = Screen(), Clock()
    with Progress(4, "epoch 1", leave=False, stream=screen, clock=clock) as progress:
        clock.now = 1.0
        progress.update(2)
        assert "50 %" in screen.shown()[0]
        progress.update(2)
    assert screen.shown() == [""]


def test_a_pipe_gets_plain_lines_at_intervals():
    stream, clock = io.StringIO(), Clock()
    with Progress(100, "epoch 1", stream=stream, clock=clock) as progress:
        for step in range(100):
            clock.now = (step + 1) * 0.2
            progress.update(text=f"loss {step}")
    assert stream.getvalue().splitlines() == [
        "epoch 1:  25 % 25/100, 5/s, 0:15 left, loss 24",
        "epoch 1:  50 % 50/100, 5/s, 0:10 left, loss 49",
        "epoch 1:  75 % 75/100, 5/s, 0:05 left, loss 74",
        "epoch 1: 100 % 100/100, 5/s, took 0:20, loss 99",
    ]


def test_a_short_loop_that_does_not_stay_prints_nothing_to_a_pipe():
    stream, clock = io.StringIO(), Clock()
    with Progress(3, leave=False, stream=stream, clock=clock) as progress:
        progress.update(3)
    assert stream.getvalue() == ""


def test_a_dumb_terminal_counts_as_a_pipe(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    with Progress(2, stream=screen) as progress:
        progress.update(2)
    assert "\r" not in screen.getvalue() and screen.getvalue().endswith("\n")


@pytest.mark.parametrize("leave", [True, False])
def test_ctrl_c_leaves_the_state_and_a_fresh_line_and_goes_on(leave):
    screen, clock = Screen(), Clock()
    with pytest.raises(KeyboardInterrupt):
        with Progress(10, "epoch 2", leave=leave, stream=screen, clock=clock) as progress:
            clock.now = 4.0
            progress.update(2)
            clock.now = 4.05
            progress.update(2)
            raise KeyboardInterrupt
    assert screen.shown() == ["epoch 2:  40 % [##########..............] 4/10, 1.0/s, took 0:04", ""]


def test_ctrl_c_in_a_pipe_says_how_far_it_came():
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        with Progress(10, stream=stream, clock=Clock()) as progress:
            progress.update(4)
            raise KeyboardInterrupt
    assert stream.getvalue() == " 40 % 4/10, took 0:00\n"


def test_bytes_are_shown_with_prefixes():
    stream, clock = io.StringIO(), Clock()
    with Progress(9_912_422, "file", unit="B", stream=stream, clock=clock) as progress:
        clock.now = 5.0
        progress.update(4_956_211)
    assert stream.getvalue() == "file:  50 % 4.96 MB/9.91 MB, 991 kB/s, 0:05 left\n"


def test_hours_and_no_steps():
    stream, clock = io.StringIO(), Clock()
    with Progress(7200, stream=stream, clock=clock) as progress:
        clock.now = 10.0
        progress.update(10)
    with Progress(0, stream=stream, clock=clock):
        pass
    assert "1:59:50 left" in stream.getvalue()
    assert stream.getvalue().splitlines()[-1] == "100 % 0/0, took 0:00"


def test_a_negative_total_is_an_error():
    with pytest.raises(ArgumentError, match="total is -1"):
        Progress(-1)


@pytest.mark.parametrize("columns", [20, 30, 40, 60, 80, 100])
def test_narrow_terminals_have_what_matters_most(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    screen, clock = Screen(), Clock()
    with Progress(1875, "epoch 1/3", stream=screen, clock=clock) as progress:
        clock.now = 10.0
        progress.update(375, "loss 0.1234")
        (line,) = screen.shown()
        assert len(line) < columns and line.startswith("epoch 1/3:  20 %")
        assert ("0:40 left" in line) == (columns >= 30) and (columns > 20 or line.rstrip() == "epoch 1/3:  20 %")
        assert ("loss 0.1234" in line) == (columns >= 40)
        assert ("375/1875" in line) == (columns >= 60) and ("38/s" in line) == (columns >= 60)
        assert ("[" in line) == (columns >= 80)


@pytest.mark.parametrize("stream", [Screen(), io.StringIO()])
def test_what_is_done_before_the_first_step_is_told_and_not_counted(stream):
    clock = Clock()
    with Progress(11, "epoch 1", stream=stream, clock=clock, plain_interval=1.0) as progress:
        progress.announce("compiling ...")
        assert stream.getvalue().strip() == "epoch 1: compiling ..."
        clock.now = 30.0
        progress.update(1, setup=True)
        assert "1/11, ? left" in stream.getvalue()
        clock.now = 32.0
        progress.update(5)
        assert "2.5/s, 0:02 left" in stream.getvalue()
        progress.update(5)
        assert "5/s, took 0:32" in stream.getvalue()


def test_what_is_said_meanwhile_stands_above_the_bar(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delenv("TERM", raising=False)
    say("before")
    with Progress(2, "epoch 1") as bar:
        say("nothing is shown yet")
        bar.announce("compiling ...")
        say("still compiling")
    say("after")
    lines = screen.shown()
    assert lines[:3] == ["before", "nothing is shown yet", "still compiling"] and lines[-2:] == ["after", ""]
    assert lines[3].startswith("epoch 1") and len(lines) == 6


def test_without_a_console_nothing_is_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Progress(2, "epoch") as progress:
        progress.update(2)
    assert progress.count == 2 and not progress.rewrites
