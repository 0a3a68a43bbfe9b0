"""What `fit` prints: in terminals, narrow ones too, in pipes and notebooks; and what the time left is counted from."""

from __future__ import annotations

import io
import re
import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import functad.numpy as jnp
from functad import optim, random
from functad.system.progress import Progress
from functad.train import Epoch, Run, fit
from functad.train.history import heading, row

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def loss(w, batch, key):
    value = ((batch @ w - 1) ** 2).mean()
    return value, {"accuracy": value * 0}


def trained(until=3):
    options = {"until": until, "batch_size": 20, "key": random.key(0), "test": X, "show_progress": True}
    return fit(loss, jnp.ones(4), optim.sgd(0.1), X, **options)


def terminal(monkeypatch, columns):
    """Standard output and error, which are a terminal of so many columns from now on."""
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return out, err


class Kernel:
    """What functad sees of IPython in a notebook: what was displayed, and what it became."""

    kernel = object()

    def __init__(self, monkeypatch):
        self.shown = []
        ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
        ipython.get_ipython, display.display = lambda: self, self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, data, raw, display_id):
        assert raw and display_id
        self.shown.append([data])
        return SimpleNamespace(update=lambda data, raw: self.shown[-1].append(data))


def test_a_notebook_gets_one_bar_that_is_rewritten(monkeypatch, capsys):
    kernel, now = Kernel(monkeypatch), [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("functad.train.showing.Progress", partial(Progress, clock=clock))
    history = trained(until=2)
    output = capsys.readouterr()
    assert output.out == f"{history!r}\n" and output.err == ""
    (bar,) = kernel.shown
    texts = [data["text/plain"] for data in bar]
    assert texts[0] == "epoch 1/2: compiling ..." and texts[-1] == "" and bar[-1]["text/html"] == ""
    assert re.fullmatch(r"epoch 1/2:  67 % 2/3, 1/s, 0:01 left, loss \d\.\d{4}", texts[2])
    assert '<progress value="0.667"' in bar[2]["text/html"] and "epoch 2/2: 100 % 3/3" in texts[-2]


def test_a_loop_that_fails_leaves_its_bar_in_a_notebook(monkeypatch):
    kernel = Kernel(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        with Progress(4, "<b>", leave=False) as progress:
            progress.update(1)
            raise KeyboardInterrupt
    assert (
        kernel.shown[-1][-1]["text/plain"].startswith("<b>:  25 % 1/4")
        and "&lt;b&gt;" in kernel.shown[0][-1]["text/html"]
    )


def test_a_terminals_ipython_is_no_notebook(monkeypatch):
    kernel = Kernel(monkeypatch)
    monkeypatch.delattr(Kernel, "kernel")
    trained(until=1)
    assert not kernel.shown


def test_a_pipe_gets_one_line_an_epoch(capsys):
    history = trained()
    output = capsys.readouterr()
    assert output.out == f"{history!r}\n" and output.err == ""


def test_a_terminal_gets_the_table_and_a_line_that_is_wiped(monkeypatch):
    out, err = terminal(monkeypatch, 100)
    history = trained()
    assert out.getvalue() == f"{history!r}\n"
    assert err.getvalue().startswith("\repoch 1/3: compiling ...") and err.getvalue().endswith("\r")
    assert "\n" not in err.getvalue()


def test_a_narrow_terminal_gets_what_tells_most(monkeypatch):
    out, err = terminal(monkeypatch, 40)
    trained()
    lines = out.getvalue().splitlines()
    assert lines[0] == "epoch     loss  test accuracy" and len(lines) == 4
    assert max(map(len, err.getvalue().split("\r"))) < 40


@pytest.mark.parametrize("width", [10, 20, 40, 50, 60, 80])
@pytest.mark.parametrize("test", [{}, {"loss": 0.9}, {"loss": 0.9, "accuracy": 0.7}])
def test_columns_that_fit(width, test):
    epoch = Epoch(1, 0.5, {"loss": 0.7, "accuracy": 0.8}, test, Run((), (), None, None, 1))
    names, figures = heading(epoch, width), row(epoch, width)
    assert len(names) == len(figures) and len(names) <= max(width, 20)
    full = heading(epoch).split()
    assert [word for word in full if word in names.split()] == names.split() or "test" in names
    assert names.split()[-1] == full[-1]  # the last metric, of what is tested, stays
    if width == 80:
        assert names == heading(epoch)


def test_the_time_to_compile_is_not_counted_in_the_time_left(monkeypatch):
    screen, now = Terminal(), [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    def slow_to_trace(w, batch, key):
        now[0] += 1000.0
        return ((batch @ w) ** 2).mean()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(
        "functad.train.showing._bar",
        lambda steps, label, line: Progress(steps, label, leave=False, stream=screen, clock=clock),
    )
    options = {"until": 1, "batch_size": 5, "key": random.key(0), "show_progress": True}
    history = fit(slow_to_trace, jnp.ones(4), optim.sgd(0.0), X, **options)
    left = re.findall(r"(\S+) left", screen.getvalue())
    assert now[0] > 1000 and left[0] == "?"  # nothing is known after the first step
    assert left[1:] == [f"0:{12 - step:02d}" for step in range(2, 12)]
    assert len(history) == 1
