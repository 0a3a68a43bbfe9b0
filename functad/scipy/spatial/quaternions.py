"""Unit quaternions (x, y, z, w) as arrays of shape (…, 4), and what rotations are given by instead.

Every formula is smooth where the map is: what divides by an angle has a series in its square near zero, so that
derivatives of any order exist there. Knows nothing of `Rotation`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functad import numpy as jnp
from functad.array import Array

# sin(a / 2) / a and cos(a / 2) as series in a², for |a| < 1: what is left out is below 1e-18.
_HALF_SINE = [(-1) ** k / (2 ** (2 * k + 1) * math.factorial(2 * k + 1)) for k in range(9)]
_HALF_COSINE = [(-1) ** k / (2 ** (2 * k) * math.factorial(2 * k)) for k in range(9)]
# atan(x) / x as a series in x², for x² < 1 / 64.
_ARC_TANGENT = [(-1) ** k / (2 * k + 1) for k in range(15)]
_SMALL_ANGLE_2 = 1.0
_SMALL_TANGENT_2 = 1 / 64
_DEGENERATE = 1e-7  # of the second Euler angle, from where on the two others are one


def normalized(quat: Array) -> Array:
    return quat / jnp.sqrt(jnp.sum(quat * quat, axis=-1, keepdims=True))


def quaternion_product(p: Array, q: Array) -> Array:
    """The product of quaternions: the rotation q, then p."""
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = pw * qv + qw * pv + jnp.cross(pv, qv)
    scalar = pw * qw - jnp.sum(pv * qv, axis=-1, keepdims=True)
    return jnp.concatenate([vector, scalar], axis=-1)


def inverse(quat: Array) -> Array:
    return quat * jnp.array([-1, -1, -1, 1], quat.dtype)


def canonical(quat: Array) -> Array:
    """The one of q and -q whose last non-zero component, from w on over x, y and z, is positive."""
    x, y, z, w = (quat[..., i] for i in range(4))
    first = jnp.where(w != 0, w, jnp.where(x != 0, x, jnp.where(y != 0, y, z)))
    return jnp.where((first < 0)[..., None], -quat, quat)


def from_rotvec(rotvec: Array) -> Array:
    angle2 = jnp.sum(rotvec * rotvec, axis=-1, keepdims=True)
    is_small = angle2 < _SMALL_ANGLE_2
    near, angle = jnp.where(is_small, angle2, 0), jnp.sqrt(jnp.where(is_small, 1, angle2))
    sine = jnp.where(is_small, _series(_HALF_SINE, near), jnp.sin(angle / 2) / angle)
    cosine = jnp.where(is_small, _series(_HALF_COSINE, near), jnp.cos(angle / 2))
    return jnp.concatenate([sine * rotvec, cosine], axis=-1)


def to_rotvec(quat: Array) -> Array:
    quat = jnp.where(quat[..., 3:] < 0, -quat, quat)
    vector, w = quat[..., :3], quat[..., 3:]
    sine2 = jnp.sum(vector * vector, axis=-1, keepdims=True)
    is_small = sine2 < _SMALL_TANGENT_2 * w * w
    near_w = jnp.where(is_small, w, 1)
    near = jnp.where(is_small, sine2, 0) / (near_w * near_w)
    sine = jnp.sqrt(jnp.where(is_small, 1, sine2))
    scale = jnp.where(is_small, _series(_ARC_TANGENT, near) / near_w, jnp.arctan2(sine, w) / sine)
    return 2 * scale * vector


def magnitude(quat: Array) -> Array:
    sine2 = jnp.sum(quat[..., :3] * quat[..., :3], axis=-1)
    # The angle has a kink where it is zero, as a norm has; its derivative there is zero, as that of abs.
    sine = jnp.where(sine2 == 0, 0, jnp.sqrt(jnp.where(sine2 == 0, 1, sine2)))
    return 2 * jnp.arctan2(sine, jnp.abs(quat[..., 3]))


def from_matrix(matrix: Array) -> Array:
    """The quaternion q whose largest component is computed without cancellation; the rows below are 4 q_i q."""
    m = [[matrix[..., i, j] for j in range(3)] for i in range(3)]
    trace = m[0][0] + m[1][1] + m[2][2]
    x, y, z = m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]
    xy, xz, yz = m[1][0] + m[0][1], m[2][0] + m[0][2], m[2][1] + m[1][2]
    rows = [
        [1 - trace + 2 * m[0][0], xy, xz, x],
        [xy, 1 - trace + 2 * m[1][1], yz, y],
        [xz, yz, 1 - trace + 2 * m[2][2], z],
        [x, y, z, 1 + trace],
    ]
    choice = jnp.argmax(jnp.stack([m[0][0], m[1][1], m[2][2], trace], axis=-1), axis=-1)
    quat = jnp.stack(rows[3], axis=-1)
    for i in range(3):
        quat = jnp.where((choice == i)[..., None], jnp.stack(rows[i], axis=-1), quat)
    return normalized(quat)


def to_matrix(quat: Array) -> Array:
    x, y, z, w = (quat[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def from_mrp(mrp: Array) -> Array:
    norm2 = jnp.sum(mrp * mrp, axis=-1, keepdims=True)
    return jnp.concatenate([2 * mrp, 1 - norm2], axis=-1) / (1 + norm2)


def to_mrp(quat: Array) -> Array:
    sign = jnp.where(quat[..., 3:] < 0, -1, 1).astype(quat.dtype)
    return sign * quat[..., :3] / (1 + jnp.abs(quat[..., 3:]))


def from_euler(axes: Sequence[int], angles: Array, intrinsic: bool) -> Array:
    """The rotations by `angles[..., i]` about the axes one after the other; intrinsic: about axes that turn along."""
    result = None
    for i, axis in enumerate(axes):
        half = angles[..., i] / 2
        parts = [jnp.zeros_like(half)] * 3 + [jnp.cos(half)]
        parts[axis] = jnp.sin(half)
        turn = jnp.stack(parts, axis=-1)
        if result is None:
            result = turn
        else:
            result = quaternion_product(result, turn) if intrinsic else quaternion_product(turn, result)
    assert result is not None
    return result


def to_euler(axes: Sequence[int], quat: Array, intrinsic: bool) -> Array:
    """Three angles from -pi to pi; the third is zero where the first and the third turn about the same line.

    Source: Bernardes and Viollet, Quaternion to Euler angles conversion, PLoS ONE 17 (2022).
    """
    i, j, k = reversed(axes) if intrinsic else axes
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    x, y, z, w = quat[..., i], quat[..., j], sign * quat[..., k], quat[..., 3]
    a, b, c, d = (w, x, y, z) if symmetric else (w - y, x + z, y + w, z - x)
    second = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    no_turn = jnp.abs(second) <= _DEGENERATE
    degenerate = no_turn | (jnp.abs(second - np.pi) <= _DEGENERATE)
    # For the fixed axes i, j, k in turn; those that turn along are the same in reverse.
    first, third = half_sum - half_difference, half_sum + half_difference
    first, third = (third, first) if intrinsic else (first, third)
    alone = jnp.where(no_turn, 2 * half_sum, (2 if intrinsic else -2) * half_difference)
    first, third = jnp.where(degenerate, alone, first), jnp.where(degenerate, 0, third)
    if not symmetric:
        first, third = (sign * first, third) if intrinsic else (first, sign * third)
        second = second - np.pi / 2
    angles = jnp.stack([first, second, third], axis=-1)
    return (angles + np.pi) % (2 * np.pi) - np.pi


def mean(quat: Array, weights: Array) -> Array:
    """The unit vector with the largest sum of squared products: the first eigenvector of sum(w q qᵀ)."""
    _, vectors = jnp.linalg.eigh(jnp.einsum("n,ni,nj->ij", weights, quat, quat))
    return vectors[:, -1]


def _series(coefficients: Sequence[float], x: Array) -> Array:
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
