"""The report of a training run: one HTML page of its settings, curves, network, and where a step's time goes.

Knows runs and their histories; what a network makes of its data is told by those who know the data.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from functad import nn
from functad.api import jit
from functad.data import batches
from functad.errors import ArgumentError
from functad.system.cache import atomic_write
from functad.train.evaluating import EVALUATION_BATCH
from functad.train.history import History, cells
from functad.views.page import PageSection, bar, framed_table, page, paragraph, table

_SHOWN_KERNELS = 20


def write_report(
    path: str | os.PathLike[str], title: str, summary: Sequence[str], sections: Iterable[PageSection]
) -> None:
    """Write a page to a file, which appears whole or not at all."""
    with atomic_write(path) as file:
        file.write(page(title, summary, sections).encode())


def settings_section(settings: Mapping[str, Any]) -> PageSection:
    """What the run was told, and what it took by itself."""
    rows = [(name, "–" if value is None else f"{value}") for name, value in settings.items()]
    return PageSection("Settings", table("All settings of the run.", ("setting", "value"), rows, "words"))


def history_section(history: History) -> PageSection:
    """Curves and table of the epochs."""
    best, monitor = history.best, f"{'test' if history.last.test else 'train'} {history.monitor}"
    figure = (best.test or best.train)[history.monitor]
    sentence = f"Best by {monitor}: epoch {best.number}, with {figure:.4f}. Its parameters are those of this page."
    html = paragraph(sentence) + history.plot().html()
    return PageSection("How it went", html + table("Each epoch.", *cells(history)))


def model_section(summary: nn.NetworkSummary) -> PageSection:
    """The layers of a network: outputs, parameters, bytes, operations."""
    headings, *rows = summary.cells()
    indented = [(first.replace("  ", "\N{NO-BREAK SPACE} "), *others) for first, *others in rows]
    return PageSection("The network", table("Its layers.", headings, indented))


def profile_section(step: Any, arguments: Sequence[Any]) -> PageSection:
    """Where the time of a compiled step goes, kernel by kernel."""
    title = "Where the time of a step goes"
    try:
        profile = step.lower(*arguments).compile().profile(*arguments)
    except ArgumentError as problem:  # a backend without kernels
        return PageSection(title, paragraph(str(problem)))
    kernels = sorted(profile.kernels, key=lambda kernel: -kernel.time)
    whole = sum(kernel.time for kernel in kernels) or 1.0
    rows = [
        [
            kernel.kernel,
            *(f"<td>{cell}</td>" for cell in (f"{kernel.time:,.1f}", f"{100 * kernel.time / whole:.1f} %")),
            f'<td style="text-align:left">{bar(kernel.time / whole)}</td>',
            f"<td>{kernel.floor:,.1f}</td>",
        ]
        for kernel in kernels[:_SHOWN_KERNELS]
    ]
    if rest := kernels[_SHOWN_KERNELS:]:
        time, floor = sum(kernel.time for kernel in rest), sum(kernel.floor for kernel in rest)
        cells = (f"{time:,.1f}", f"{100 * time / whole:.1f} %", "", f"{floor:,.1f}")
        rows.append([f"{len(rest)} others", *(f"<td>{cell}</td>" for cell in cells)])
    caption = (
        f"A step takes {profile.step:,.0f} µs: forward, backward and update, on this machine. Each kernel was timed on "
        "its own. The floor is what its bytes, or the operations of a product, need at least."
    )
    return PageSection(title, framed_table(caption, ("kernel", "µs", "share", "", "floor µs"), rows))


def confusion_section(labels: Any, predicted: Any, names: Sequence[str]) -> PageSection:
    """How often which class was taken for which."""
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (np.asarray(labels), np.asarray(predicted)), 1)
    rows = []
    for i, name in enumerate(names):
        whole = max(1, counts[i].sum())
        cells = [_confusion_cell(count, count / whole, i == j) for j, count in enumerate(counts[i])]
        right = f"<td>{100 * counts[i, i] / whole:.1f} %</td>"
        rows.append([name, *cells, right])
    caption = (
        f"A row for each class, a column for what it was taken for, of {counts.sum():,} in all. What is right is "
        "framed; the larger its share of a row, the darker a cell."
    )
    return PageSection("Which class is taken for which", framed_table(caption, ("is", *names, "right"), rows, "matrix"))


def _confusion_cell(count: int, share: float, right: bool) -> str:
    kind = ' class="right"' if right else ""
    # The root tells few from none. At most half covered, so that the number stays readable.
    shade = f' style="background:rgba(var(--shade),{0.5 * share**0.5:.2f})"' if count else ""
    return f"<td{kind}{shade}>{count:,}</td>"


def scores_of(apply: Any, params: Any, inputs: Any) -> np.ndarray:
    """What a network gives for all inputs, a batch at a time."""
    compiled = jit(lambda params, inputs: apply(params, inputs))
    return np.concatenate([np.asarray(compiled(params, batch)) for batch in batches(inputs, EVALUATION_BATCH)])


def verdict(right: bool) -> str:
    """Right or wrong in a word, and a sign."""
    return "✓\u00a0right" if right else "✗\u00a0wrong"


def labelled(picture: str, text: str) -> str:
    """A picture with a line of text beneath it."""
    return f"{picture}<span>{escape(text)}</span>"
