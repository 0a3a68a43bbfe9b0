"""Hand tracking: how far measured points lie from a posed hand, and the Jacobian in the pose and places on triangles.

A pose is a rotation (3), a translation (3) and, for each of five fingers, four angles.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function

_FINGERS, _ANGLES = 5, 4
# Bones: the wrist, four of each finger; of a finger's bones the last three bend, and the first of these turns too.
_BENT = np.array([[2, 2, 3, 4]] * _FINGERS) + 4 * np.arange(_FINGERS)[:, None]
_AXIS = np.array([[0, 1, 0, 0]] * _FINGERS)


def errors(theta: Any, us: Any, hand: dict[str, Any], parents: tuple[int, ...], mirrored: bool) -> Any:
    """What points (n, 3) lack to places on the posed hand.

    Args:
        theta: the pose, (26,).
        us: the first two barycentric coordinates of the places, (n, 2); None where places are vertices.
        hand: its model and the points, as `_prepare` makes it.
        parents: of each bone, -1 for the first.
        mirrored: whether it is a left hand.
    """
    vertices = _skinned(theta, hand, parents)
    if mirrored:
        vertices = vertices * np.array([-1.0, 1.0, 1.0])
    vertices = vertices @ _rotation(theta[:3]).T + theta[3:6]
    if us is None:
        return hand["points"] - vertices[hand["places"]]
    first, second, third = (vertices[hand["places"][:, corner]] for corner in range(3))
    u, v = us[:, :1], us[:, 1:]
    return hand["points"] - (u * first + v * second + (1 - u - v) * third)


def jacobian(theta: Any, us: Any, hand: dict[str, Any], parents: tuple[int, ...], mirrored: bool) -> Any:
    """Derivatives of the errors (n, 3), in both coordinates of their own place, if any, then in the pose."""
    by_theta = functad.jacfwd(errors)(theta, us, hand, parents, mirrored)
    if us is None:
        return by_theta

    def along(coordinate: Any) -> Any:
        directions = jnp.broadcast_to(coordinate, us.shape)
        return functad.jvp(lambda us: errors(theta, us, hand, parents, mirrored), (us,), (directions,))[1]

    # A place moves one point only: all places are moved at once.
    by_us = functad.vmap(along, out_axes=2)(jnp.eye(2, dtype=us.dtype))
    return jnp.concatenate([by_us, by_theta], axis=2)


def _skinned(theta: Any, hand: dict[str, Any], parents: tuple[int, ...]) -> Any:
    """The vertices (v, 3), moved by their bones."""
    angles = jnp.zeros((len(parents), 3), theta.dtype).at[_BENT, _AXIS].set(theta[6:].reshape(_FINGERS, _ANGLES))
    # A bone's turn in its own place, then that place in its parent's.
    turned = hand["relatives"][:, :, :3] @ functad.vmap(_euler)(angles)
    relatives = jnp.concatenate([turned, hand["relatives"][:, :, 3:]], axis=2)
    absolutes: list[Any] = []
    for bone, parent in enumerate(parents):
        absolutes.append(relatives[bone] if parent == -1 else absolutes[parent] @ relatives[bone])
    transforms = (jnp.stack(absolutes) @ hand["inverse_absolutes"])[:, :3]
    blended = jnp.einsum("vb,bij->vij", hand["weights"], transforms)
    return jnp.sum(blended * hand["positions"][:, None], axis=2)


def _euler(angles: Any) -> Any:
    """Turns about x, then y, then z; the angles are those of x, z, y."""
    (cx, cz, cy), (sx, sz, sy) = jnp.cos(angles), jnp.sin(angles)
    return jnp.stack(
        [
            jnp.stack([cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx]),
            jnp.stack([sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx]),
            jnp.stack([-sy, cy * sx, cy * cx]),
        ]
    )


def _rotation(vector: Any) -> Any:
    """The turn about an axis by an angle, the axis' length; none below 10⁻⁴."""
    length = jnp.sqrt(jnp.sum(vector**2))
    still = length < 1e-4
    x, y, z = vector / jnp.where(still, 1.0, length)
    cross = jnp.stack([jnp.stack([0 * x, -z, y]), jnp.stack([z, 0 * x, -x]), jnp.stack([-y, x, 0 * x])])
    identity = jnp.eye(3, dtype=vector.dtype)
    # Rodrigues' formula.
    turn = identity + jnp.sin(length) * cross + (1 - jnp.cos(length)) * (cross @ cross)
    return jnp.where(still, identity, turn)


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    model, places = given["data"]["model"], np.array(given["data"]["correspondences"], np.int32)
    us = np.array(given["us"]) if len(given["us"]) else None
    hand = {
        "relatives": np.array(model["base_relatives"]),
        "inverse_absolutes": np.array(model["inverse_base_absolutes"]),
        "positions": np.array(model["base_positions"]),
        "weights": np.array(model["weights"]),
        "points": np.array(given["data"]["points"]),
        "places": places if us is None else np.array(model["triangles"], np.int32)[places],
    }
    return np.array(given["theta"]), us, hand, tuple(model["parents"]), model["is_mirrored"]


def _flat(found: Any) -> Any:
    return np.ravel(found).tolist()


def _rows(found: Any) -> Any:
    return np.asarray(found).reshape(-1, np.shape(found)[2]).tolist()


_jit = partial(functad.jit, static_argnums=(3, 4))
FUNCTIONS = {
    "objective": Function(_prepare, _jit(errors), _flat),
    "jacobian": Function(_prepare, _jit(jacobian), _rows),
}
