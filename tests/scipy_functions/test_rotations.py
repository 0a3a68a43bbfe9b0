"""Rotations by what they must satisfy: forms go into one another, composition, derivatives at no angle, errors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, ShapeError
from functad.scipy.spatial.transform import Rotation, Slerp

rng = np.random.default_rng(0)
QUAT = rng.normal(size=(40, 4))
SEQUENCES = [
    "".join(axes)
    for letters in ("xyz", "XYZ")
    for axes in product(letters, repeat=3)
    if axes[0] != axes[1] and axes[1] != axes[2]
]
FORMS = {
    "matrix": (Rotation.from_matrix, Rotation.as_matrix),
    "mrp": (Rotation.from_mrp, Rotation.as_mrp),
    "quat": (Rotation.from_quat, Rotation.as_quat),
    "rotvec": (Rotation.from_rotvec, Rotation.as_rotvec),
    "degrees": (
        lambda x: Rotation.from_rotvec(x, degrees=True),
        lambda r: r.as_rotvec(degrees=True),
    ),
    **{
        seq: (
            lambda x, seq=seq: Rotation.from_euler(seq, x, degrees=True),
            lambda r, seq=seq: r.as_euler(seq, degrees=True),
        )
        for seq in SEQUENCES
    },
}


def same(r: Any, s: Any, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(r.as_matrix(), s.as_matrix(), atol=atol)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_gives_the_same_rotation_again(form: str) -> None:
    make, give = FORMS[form]
    rotations = Rotation.from_quat(QUAT)
    same(make(give(rotations)), rotations)
    same(make(give(rotations[3])), rotations[3])
    jitted = functad.jit(lambda r: make(give(r)))
    same(jitted(rotations), rotations)
    same(functad.vmap(jitted)(rotations), rotations)
    single = Rotation.from_quat(QUAT.astype("f4"))
    assert give(single).dtype == np.float32
    same(make(give(single)), rotations, 1e-5)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_angles_of_turns_about_one_line_too(seq: str) -> None:
    second = [0.0, np.pi] if seq[0] == seq[2] else [np.pi / 2, -np.pi / 2]
    angles = np.array([[0.4, s, -1.2] for s in second])
    rotations = Rotation.from_euler(seq, angles)
    found = rotations.as_euler(seq)
    assert not found[:, 2].any()
    same(Rotation.from_euler(seq, found), rotations, 1e-7)


def test_products_and_inverses_are_those_of_matrices() -> None:
    p, q = Rotation.from_quat(QUAT[:20]), Rotation.from_quat(QUAT[20:])
    np.testing.assert_allclose((p * q).as_matrix(), p.as_matrix() @ q.as_matrix(), atol=1e-12)
    same(p * p.inv(), Rotation.identity(20))
    same(p * q[4], Rotation.from_matrix(p.as_matrix() @ q[4].as_matrix()))
    vectors = rng.normal(size=(20, 3))
    np.testing.assert_allclose(p.apply(vectors), np.einsum("nij,nj->ni", p.as_matrix(), vectors), atol=1e-12)
    np.testing.assert_allclose(p.apply(p.apply(vectors), inverse=True), vectors, atol=1e-12)
    assert p[0].apply(vectors).shape == (20, 3) and p.apply(vectors[0]).shape == (20, 3)


def test_magnitudes_and_signs() -> None:
    r = Rotation.from_quat(QUAT)
    np.testing.assert_allclose(r.magnitude(), np.linalg.norm(r.as_rotvec(), axis=-1), rtol=1e-12)
    canonical = r.as_quat(canonical=True)
    assert (canonical[:, 3] > 0).all()
    same(Rotation.from_quat(canonical), r)
    np.testing.assert_array_equal(r.as_quat(scalar_first=True), np.roll(r.as_quat(), 1, -1))
    halves = Rotation(jnp.array([[0.0, 0, -1, 0], [0, -1, 0, 0], [-0.75, 0.5, 0, 0], [0, 0, 0, -1]]))
    np.testing.assert_array_equal(
        halves.as_quat(canonical=True), [[0, 0, 1, 0], [0, 1, 0, 0], [0.75, -0.5, 0, 0], [0, 0, 0, 1]]
    )


@pytest.mark.parametrize("scale", [0.0, 1e-20, 1e-5, 0.2499, 0.25, 0.9999, 1.0, 2.0])
def test_rotation_vectors_have_derivatives_at_any_angle(scale: float) -> None:
    rotvec = scale * np.array([0.48, -0.6, 0.64])

    def around(v: Any) -> Any:
        return Rotation.from_rotvec(v).as_rotvec()

    np.testing.assert_allclose(around(rotvec), rotvec, rtol=1e-14)
    for mode in (functad.jacfwd, functad.jacrev):
        np.testing.assert_allclose(mode(around)(rotvec), np.eye(3), atol=1e-13)
    np.testing.assert_allclose(functad.jacfwd(functad.jacrev(around))(rotvec), np.zeros((3, 3, 3)), atol=1e-11)
    third = functad.jacfwd(functad.jacfwd(functad.jacrev(around)))(rotvec)
    np.testing.assert_allclose(third, np.zeros((3,) * 4), atol=1e-7)
    if scale > 1e-4:
        # The generators of turns do not commute: with an angle, the derivative of a rotated vector is no cross product.
        functad.test_util.check_grads(lambda v: Rotation.from_rotvec(v).apply([1.0, 2, 3]), (rotvec,), order=2)
    else:
        slope = functad.jacrev(lambda v: Rotation.from_rotvec(v).apply([1.0, 2, 3]))(rotvec)
        np.testing.assert_allclose(slope, [[0, 3, -2], [-3, 0, 1], [2, -1, 0]], atol=1e-4)


def test_no_turn_has_an_angle_with_a_derivative() -> None:
    np.testing.assert_array_equal(functad.grad(lambda q: Rotation(q).magnitude())(np.array([0.0, 0, 0, 1])), [0] * 4)
    assert functad.grad(lambda a: Rotation.from_euler("x", a).magnitude())(np.array(0.3)) == pytest.approx(1)


def test_the_mean_is_nearest() -> None:
    around = Rotation.from_rotvec(0.1 * rng.normal(size=(30, 3)))
    centre = Rotation.from_quat(QUAT[0])
    mean = (centre * around).mean()
    assert (mean * centre.inv()).magnitude() < 0.1

    def distance(r: Rotation) -> Any:
        return ((r.as_matrix() - (centre * around).as_matrix()) ** 2).sum()

    for step in 0.01 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert distance(mean) < distance(mean * Rotation.from_rotvec(step))
    picked = (centre * around).mean(np.eye(30)[7])
    same(picked, centre * around[7])


def test_random_rotations_have_no_preferred_direction() -> None:
    assert Rotation.random(functad.random.key(0)).single
    r = Rotation.random(functad.random.key(0), 4000)
    np.testing.assert_allclose(r.as_matrix().mean(0), np.zeros((3, 3)), atol=0.05)
    np.testing.assert_allclose((r.as_quat() ** 2).sum(-1), np.ones(4000), rtol=1e-5)


def test_between_rotations_the_turn_is_even() -> None:
    keys = Rotation.from_quat(QUAT[:5])
    times = np.array([0.0, 1, 3, 3.5, 5])
    slerp = Slerp.init(times, keys)
    same(slerp(times), keys)
    halfway = slerp(2.0)
    assert halfway.single
    whole = (keys[1].inv() * keys[2]).as_rotvec()
    np.testing.assert_allclose((keys[1].inv() * halfway).as_rotvec(), whole / 2, atol=1e-12)
    same(functad.jit(lambda s, t: s(t))(slerp, times + 0.1), slerp(times + 0.1))
    speed = functad.jacfwd(lambda t: (keys[1].inv() * slerp(t)).as_rotvec())(np.array(1.7))
    np.testing.assert_allclose(speed, whole / 2, atol=1e-12)


def test_rotations_are_arrays_of_one_axis_and_pytrees() -> None:
    r = Rotation.from_quat(QUAT)
    assert len(r) == 40 and not r.single and len(r[3:5]) == 2 and r[2].single
    same(Rotation.concatenate([r[:3], r[3], r[4:]]), r)
    assert functad.tree_util.tree_map(jnp.shape, r).quat == (40, 4)
    with pytest.raises(TypeError, match="no len"):
        len(r[0])
    with pytest.raises(TypeError, match="no elements"):
        r[0][0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Rotation.from_euler("xx", [1.0, 2]), ArgumentError, "differ from one to the next"),
        (lambda: Rotation.from_euler("xY", [1.0, 2]), ArgumentError, "'xyz' or of 'XYZ', not 'xY'"),
        (lambda: Rotation.from_euler("xyz", [1.0, 2]), ShapeError, r"'xyz' has 3 axes.*\(2,\)"),
        (lambda: Rotation.identity().as_euler("xy"), ArgumentError, "three axes"),
        (lambda: Rotation.from_quat([1.0, 2, 3]), ShapeError, r"\(…, 4\), not \(3,\)"),
        (lambda: Rotation.from_matrix(np.eye(2)), ShapeError, r"\(…, 3, 3\), not \(2, 2\)"),
        (lambda: Rotation.from_rotvec([1j, 0, 0]), ArgumentError, "real numbers"),
        (lambda: Rotation.identity(3).mean([1.0, 2]), ShapeError, "3 rotations need as many weights"),
        (lambda: Slerp.init([0, 1], Rotation.identity(3)), ShapeError, "3 rotations need as many times"),
        (lambda: Slerp.init([0], Rotation.identity(1)), ShapeError, "at least two"),
        (lambda: Slerp.init([0, 1], np.eye(4)), ArgumentError, "takes a Rotation, not ndarray"),
        (lambda: Slerp.init([0, 1], Rotation.identity(2))([[1.0]]), ShapeError, "one axis"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
