"""The benchmarks' workloads compute the same in functad and in JAX."""

from __future__ import annotations

import pytest

from benchmarks import frameworks, workloads
from benchmarks.agreement import disagreement

pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")


@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W5-128", "call-tree", "chain-125", "recurrent-125"])
def test_outcomes_agree(name):
    task = workloads.WORKLOADS[name].task()
    ours, theirs = (frameworks.contender(framework, task).outcome() for framework in ("functad", "jax"))
    difference, where = disagreement(ours, theirs)
    assert difference < 1e-4, where
