"""W5 by its width: a training step of the perceptron for 128 to 4096 hidden numbers, beside PyTorch and JAX.

Knows what is timed and drawn: `python -m benchmarks roofline` runs it, on one core and on all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.processes import Match, Rules, compared, enter, timed
from benchmarks.record import Section, section_of
from benchmarks.workloads import PERCEPTRONS, perceptron
from functad.views.charts import Chart, Panel

FRAMEWORKS = ["functad", "torch", "jax"]
_COLUMNS = 2  # of panels in a picture


def measured(widths: Sequence[int], rules: Rules) -> Iterator[Section]:
    """Microseconds of a step of each width."""
    if not widths:
        return
    names = [f"W5-{width}" for width in widths]
    with ExitStack() as stack:
        workers, absences = enter(stack, FRAMEWORKS, names[0], rules.threads)
        for name in names:
            contest = timed(compared(Match(name), workers, absences), rules)
            section = section_of(f"widths {name} {rules.threads}", PERCEPTRONS[name].title, contest)
            yield section._replace(notes=[f"cores: {rules.threads}"])


def draw(results: Mapping[str, Any]) -> Chart | None:
    """For each number of cores the time of a step by the number of parameters, and how much shorter functad's is."""
    found: dict[int, dict[int, Mapping[str, float]]] = {}
    for key, section in results["results"].items():
        if key.startswith("widths "):
            _, name, cores = key.split(" ")
            found.setdefault(int(cores), {})[int(name.removeprefix("W5-"))] = section["least"]
    panels = [panel for cores in sorted(found) for panel in _panels(cores, dict(sorted(found[cores].items())))]
    return Chart(panels, _COLUMNS) if panels else None


def _panels(cores: int, rows: Mapping[int, Mapping[str, float]]) -> list[Panel]:
    places = [math.log10(perceptron.parameters(width)) for width in rows]
    times = {f: [math.log10(row[f]) if f in row else math.nan for row in rows.values()] for f in FRAMEWORKS}
    ratios = {
        f"beside {f}": [row[f] / row["functad"] if {f, "functad"} <= row.keys() else math.nan for row in rows.values()]
        for f in FRAMEWORKS[1:]
    }
    across, on = "log10 of the number of parameters", f"cores: {cores}"
    return [
        Panel(f"log10 of the µs of a step, {on}", across, places, times),
        Panel(f"times as fast, {on}", across, places, ratios),
    ]
