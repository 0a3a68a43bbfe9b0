"""`scipy.spatial.transform` beside SciPy's, and JAX's where it has a method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad.scipy.spatial.transform import Rotation, Slerp
from tests.scipy_functions.test_rotations import SEQUENCES

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
theirs_in_jax = pytest.importorskip("jax.scipy.spatial.transform", reason="this JAX has no rotations")
scipy = pytest.importorskip("scipy.spatial.transform", reason="SciPy is not installed: it is what is compared with")

rng = np.random.default_rng(2)
QUAT = rng.normal(size=(30, 4))
GIVEN = {
    "from_matrix": scipy.Rotation.from_quat(QUAT).as_matrix(),
    "from_mrp": rng.normal(size=(30, 3)),
    "from_quat": QUAT,
    "from_rotvec": np.concatenate([3 * rng.normal(size=(28, 3)), np.zeros((1, 3)), [[np.pi, 0, 0]]]),
}
ASKED = ("as_matrix", "as_mrp", "as_quat", "as_rotvec", "magnitude")


@pytest.mark.parametrize("name", GIVEN)
def test_forms_are_those_of_scipy(name: str) -> None:
    ours, theirs = getattr(Rotation, name)(GIVEN[name]), getattr(scipy.Rotation, name)(GIVEN[name])
    sign = np.sign((ours.as_quat() * theirs.as_quat()).sum(-1, keepdims=True))
    np.testing.assert_allclose(sign * ours.as_quat(), theirs.as_quat(), atol=1e-14)
    for asked in ("as_matrix", "as_mrp", "magnitude"):
        np.testing.assert_allclose(getattr(ours, asked)(), getattr(theirs, asked)(), atol=1e-13)
    # The sign of a half turn's axis is anyone's.
    np.testing.assert_allclose(ours.as_rotvec()[:-1], theirs.as_rotvec()[:-1], atol=1e-13)
    np.testing.assert_allclose(ours.as_quat(canonical=True)[:-1], theirs.as_quat(canonical=True)[:-1], atol=1e-14)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_angles_are_those_of_scipy(seq: str) -> None:
    theirs = scipy.Rotation.from_quat(QUAT)
    np.testing.assert_allclose(Rotation.from_quat(QUAT).as_euler(seq), theirs.as_euler(seq), atol=1e-12)
    angles = rng.normal(size=(10, 3))
    np.testing.assert_allclose(
        Rotation.from_euler(seq, angles).as_matrix(), scipy.Rotation.from_euler(seq, angles).as_matrix(), atol=1e-14
    )
    # Rotations by quarters, which turn about one line.
    quarters = np.array([[a, b, c] for a in (0, 90) for b in (0, 90, 180, -90) for c in (0, 180, -90)])
    with pytest.warns(UserWarning, match="Gimbal lock"):
        expected = scipy.Rotation.from_euler(seq, quarters, degrees=True).as_euler(seq, degrees=True)
    found = Rotation.from_euler(seq, quarters.astype(float), degrees=True).as_euler(seq, degrees=True)
    np.testing.assert_allclose((found - expected + 180) % 360 - 180, np.zeros_like(expected), atol=1e-5)


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("asked", ASKED)
def test_values_and_derivatives_are_those_of_jax(name: str, asked: str) -> None:
    def value(kind: Any) -> Any:
        return lambda x: getattr(getattr(kind, name)(x), asked)()

    x = GIVEN[name][:28].astype("f4")  # JAX's derivatives of no angle are NaN
    ours, theirs = value(Rotation), value(theirs_in_jax.Rotation)
    wanted = jax.jit(theirs)(x)
    assert ours(x).dtype == wanted.dtype
    np.testing.assert_allclose(ours(x), wanted, rtol=1e-4, atol=1e-5)
    expected = jax.jit(jax.vmap(jax.jacobian(theirs)))(x)
    found = functad.vmap(functad.jacobian(ours))(x)
    if asked in ("as_matrix", "as_mrp", "as_rotvec") and name in ("from_quat", "from_rotvec", "from_mrp"):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
    else:
        assert found.shape == expected.shape and np.isfinite(found).all()


def test_means_and_what_lies_between_are_those_of_scipy() -> None:
    ours, theirs = Rotation.from_quat(QUAT), scipy.Rotation.from_quat(QUAT)
    weights = rng.uniform(size=30)
    np.testing.assert_allclose(ours.mean(weights).as_matrix(), theirs.mean(weights).as_matrix(), atol=1e-12)
    times = np.cumsum(rng.uniform(0.1, 1, size=30))
    at = rng.uniform(times[0], times[-1], size=20)
    np.testing.assert_allclose(
        Slerp.init(times, ours)(at).as_matrix(), scipy.Slerp(times, theirs)(at).as_matrix(), atol=1e-12
    )
