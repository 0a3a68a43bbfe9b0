"""Random programs compute what JAX does with the same lines."""

from __future__ import annotations

import pytest
from fuzz.session import GROUP, Report, try_group

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")


@pytest.mark.parametrize("part", range(2))
def test_random_programs_agree_with_jax(part: int) -> None:
    report = Report()
    for group in range(3 * part, 3 * part + 3):
        report.add(try_group("oracle", group, only="jax", reduce_for=20))
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.compared["jax"] > GROUP


def test_jax_is_left_as_it_was() -> None:
    before = jax.numpy.ones(1, int).dtype
    try_group("oracle", 0, only="jax", reduce_for=20)
    assert jax.numpy.ones(1, int).dtype == before == "int32"
