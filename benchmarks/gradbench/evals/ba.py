"""Bundle adjustment: how far points seen by cameras lie from where they were observed, and the sparse Jacobian of that.

A camera is rotation (3), centre (3), focal length (1), principal point (2), radial distortion (2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function

_CAMERA, _POINT = 11, 3
_BLOCK = _CAMERA + _POINT + 1  # what an observation's error depends on: its camera, its point, its weight


def rotated(rotation: Any, point: Any) -> Any:
    """The point turned about an axis by an angle, the axis' length (Rodrigues' formula)."""
    squared = jnp.sum(rotation**2)
    still = squared == 0
    angle = jnp.sqrt(jnp.where(still, 1.0, squared))
    axis, cosine = rotation / angle, jnp.cos(angle)
    along = axis * jnp.sum(axis * point) * (1 - cosine)
    turned = point * cosine + jnp.cross(axis, point) * jnp.sin(angle) + along
    return jnp.where(still, point + jnp.cross(rotation, point), turned)


def projected(camera: Any, point: Any) -> Any:
    """Where the camera sees the point."""
    rotation, centre, focal, principal, (k1, k2) = camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:]
    seen = rotated(rotation, point - centre)
    flat = seen[:2] / seen[2]
    radius = jnp.sum(flat**2)
    return flat * (1 + k1 * radius + k2 * radius**2) * focal + principal


def error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    return weight * (projected(camera, point) - feature)


def weight_error(weight: Any) -> Any:
    return 1 - weight**2


def errors(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    """The errors (p, 2) of p observations, and those of their weights (p,); `seen` (p, 2) names camera and point."""
    reprojection = functad.vmap(error)(cameras[seen[:, 0]], points[seen[:, 1]], weights, features)
    return reprojection, weight_error(weights)


def jacobian(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    """Derivatives of all errors as a matrix in compressed rows: starts of the rows, columns, values."""
    (n, m, p), (camera, point) = (len(cameras), len(points), len(weights)), (seen[:, 0], seen[:, 1])
    by = functad.vmap(functad.jacrev(error, argnums=(0, 1, 2)))(cameras[camera], points[point], weights, features)
    by_camera, by_point, by_weight = by
    block = jnp.concatenate([by_camera, by_point, by_weight[..., None]], axis=2)
    values = jnp.concatenate([block.ravel(), functad.vmap(functad.grad(weight_error))(weights)])
    of_weight = _CAMERA * n + _POINT * m + jnp.arange(p)
    places = jnp.concatenate(
        [
            _CAMERA * camera[:, None] + jnp.arange(_CAMERA),
            _CAMERA * n + _POINT * point[:, None] + jnp.arange(_POINT),
            of_weight[:, None],
        ],
        axis=1,
    )
    # Both errors of an observation depend on the same parameters.
    columns = jnp.concatenate([jnp.broadcast_to(places[:, None], (p, 2, _BLOCK)).ravel(), of_weight])
    starts = jnp.concatenate([_BLOCK * jnp.arange(2 * p), 2 * p * _BLOCK + jnp.arange(p + 1)])
    return starts, columns, values


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    n, m, p = given["n"], given["m"], given["p"]
    order = np.arange(p)
    return (
        np.tile(np.array(given["cam"]), (n, 1)),
        np.tile(np.array(given["x"]), (m, 1)),
        np.full(p, given["w"], np.float64),
        np.tile(np.array(given["feat"]), (p, 1)),
        np.stack([order % n, order % m], axis=1).astype(np.int32),
    )


def _errors_output(found: Any) -> Any:
    reprojection, of_weights = (np.asarray(values) for values in found)
    return {
        "reproj_error": {"elements": reprojection[0].tolist(), "repeated": len(reprojection)},
        "w_err": {"element": of_weights[0].item(), "repeated": len(of_weights)},
    }


def _jacobian_output(found: Any) -> Any:
    """As the eval asks: of each list the first thirty and the last."""
    lists = zip(("rows", "cols", "vals"), found, strict=True)
    return {name: [*np.asarray(values)[: 2 * _BLOCK].tolist(), np.asarray(values)[-1].item()] for name, values in lists}


FUNCTIONS = {
    "objective": Function(_prepare, functad.jit(errors), _errors_output),
    "jacobian": Function(_prepare, functad.jit(jacobian), _jacobian_output),
}
