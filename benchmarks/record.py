"""What a benchmark gives: one table of figures, and the options it was run with.

Knows no benchmark.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.measure import Timing
from benchmarks.processes import Contest


class Options(NamedTuple):
    """How to measure.

    Attributes:
        frameworks: which compete, `functad` first.
        rounds: bursts of each.
        seconds: the length of a burst.
        threads: how many each may use.
        epochs: of whole trainings; None for as many as each has.
        elements: sizes of single operations; None for all.
    """

    frameworks: list[str]
    rounds: int
    seconds: float
    threads: int
    epochs: int | None = None
    elements: tuple[int, ...] | None = None


class Section(NamedTuple):
    """One table.

    Attributes:
        name: of the benchmark.
        title: what is measured.
        unit: of the figures.
        figures: row → median and quartiles; a row is a framework, or a framework and what of it.
        ratio: functad's figure over that of the fastest peer; None where there is none.
        fastest: that peer.
        failures: framework → why it has no figure.
        notes: what else to know, a line each.
        agreement: framework → the largest relative difference of its results to functad's, before the timing.
        versions: framework → its version.
        least: row → the smallest figure seen.
    """

    name: str
    title: str
    unit: str
    figures: dict[str, Timing]
    ratio: Timing | None = None
    fastest: str | None = None
    failures: dict[str, str] = {}
    notes: list[str] = []
    agreement: dict[str, float] = {}
    versions: dict[str, str] = {}
    least: dict[str, float] = {}


def compared(section: Section) -> Section:
    """The section with the ratio of functad's figure to that of the fastest peer."""
    peers = {row: figure.median for row, figure in section.figures.items() if row != "functad"}
    if "functad" not in section.figures or not peers:
        return section
    fastest = min(peers, key=peers.__getitem__)
    return section._replace(ratio=section.figures["functad"].scaled(1 / peers[fastest]), fastest=fastest)


def section_of(name: str, title: str, contest: Contest) -> Section:
    """The table, in µs, of what a workload gave."""
    return Section(
        name,
        title,
        "µs",
        {framework: timing.scaled(1e6) for framework, timing in contest.timings.items()},
        contest.ratio,
        contest.fastest,
        contest.failures,
        agreement=contest.agreement,
        versions=contest.versions,
        least={framework: 1e6 * least for framework, least in contest.least.items()},
    )
