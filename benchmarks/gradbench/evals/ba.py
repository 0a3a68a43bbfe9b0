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


def rotated(rotation: Any, point: Any) -> list[Any]:
    """The point turned about an axis by an angle, the axis' length (Rodrigues' formula)."""
    squared = sum(r * r for r in rotation)
    still = squared == 0
    angle = jnp.sqrt(jnp.where(still, 1.0, squared))
    axis = [r / angle for r in rotation]
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    along = sum(a * p for a, p in zip(axis, point)) * (1 - cosine)
    turned = [p * cosine + c * sine + a * along for p, c, a in zip(point, _cross(axis, point), axis)]
    return [jnp.where(still, p + c, t) for p, c, t in zip(point, _cross(rotation, point), turned)]


def _cross(a: Any, b: Any) -> tuple[Any, Any, Any]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def projected(camera: Any, point: Any) -> Any:
    """Where the camera sees the point."""
    r1, r2, r3, c1, c2, c3, focal, u, v, k1, k2 = camera
    x, y, z = rotated((r1, r2, r3), (point[0] - c1, point[1] - c2, point[2] - c3))
    x, y = x / z, y / z
    radius = x * x + y * y
    scale = (1 + k1 * radius + k2 * radius**2) * focal
    return jnp.stack([x * scale + u, y * scale + v])


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
