"""The benchmarks' workloads compute the same in functad and in JAX."""

from __future__ import annotations

import pytest

from benchmarks import frameworks, workloads
from benchmarks.agreement import disagreement

pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")


NAMES = [
    "W1",
    "W2",
    "W3",
    "W5-128",
    *workloads.LOOPS,
    *workloads.COLD,
    "call-tree",
    "chain-125",
    "recurrent-125",
    "scan-125",
]


@pytest.mark.parametrize("name", NAMES)
def test_outcomes_agree(name):
    task = workloads.WORKLOADS[name].task()
    ours, theirs = (frameworks.contender(framework, task).outcome() for framework in ("functad", "jax"))
    difference, where = disagreement(ours, theirs)
    assert difference < 1e-4, where
