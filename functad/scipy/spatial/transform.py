"""`functad.scipy.spatial.transform`: rotations in three dimensions, and what lies between them.

Knows how rotations are given and kept; `quaternions` computes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad import random
from functad.absent import absent
from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.numpy.promotion import promote_dtypes_inexact
from functad.scipy.spatial import quaternions
from functad.tree_util import register_pytree_node_class

__all__ = ["Rotation", "Slerp"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__


@register_pytree_node_class
class Rotation:
    """One rotation, or an array of them: a pytree of one leaf, unit quaternions (x, y, z, w) of shape (…, 4).

    As in SciPy and JAX: `p * q` rotates by q, then by p. All methods map over the leading axes and have derivatives;
    those to and from rotation vectors of any order, also where the angle is zero.

    Args:
        quat: unit quaternions, taken as they are; `Rotation.from_quat` makes them so.

    >>> from functad.scipy.spatial.transform import Rotation
    >>> r = Rotation.from_euler("z", 90, degrees=True)
    >>> print(r.apply([1.0, 2.0, 3.0]).round(3))
    [-2.  1.  3.]
    >>> print((r * r).as_rotvec(degrees=True).round(1))
    [  0.   0. 180.]
    """

    def __init__(self, quat: Any) -> None:
        self.quat = quat

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        return (self.quat,), None

    @classmethod
    def tree_unflatten(cls, auxiliary: None, leaves: Iterable[Any]) -> Rotation:
        return cls(*leaves)

    def __repr__(self) -> str:
        return f"Rotation(quat={self.quat!r})"

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array of them."""
        return bool(self.quat.ndim == 1)

    def __len__(self) -> int:
        if self.single:
            raise TypeError("a single Rotation has no len(); quat.shape[:-1] is () for it")
        return int(self.quat.shape[0])

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("a single Rotation has no elements to take one of")
        return Rotation(self.quat[index])

    def __mul__(self, other: Rotation) -> Rotation:
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation.from_quat(quaternions.quaternion_product(jnp.asarray(self.quat), jnp.asarray(other.quat)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several arrays of rotations in one; a single one counts as an array of one."""
        return cls(jnp.concatenate([r.quat[None] if r.single else r.quat for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Rotations by one to three angles about axes, one after the other.

        Args:
            seq: for each angle its axis, the same no two times in turn: of `xyz` axes that stay as they are, of `XYZ`
                axes that turn along.
            angles: of shape (…, len(seq)), or a number for a single axis.
            degrees: whether they are degrees, not radians.
        """
        axes, intrinsic = _axes(seq)
        angles = jnp.atleast_1d(_floats("from_euler", angles))
        if angles.shape[-1] != len(axes):
            raise ShapeError(f"Rotation.from_euler: {seq!r} has {len(axes)} axes, the last of angles {angles.shape}")
        return cls(quaternions.from_euler(axes, jnp.deg2rad(angles) if degrees else angles, intrinsic))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Rotations by orthogonal matrices of determinant 1, of shape (…, 3, 3), which is not checked."""
        matrix = _floats("from_matrix", matrix, 3, 3)
        return cls(quaternions.from_matrix(matrix))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Rotations by modified Rodrigues parameters, tan(angle / 4) times the axis, of shape (…, 3)."""
        return cls(quaternions.from_mrp(_floats("from_mrp", mrp, 3)))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """Rotations by quaternions (x, y, z, w) of shape (…, 4), of any length but zero, which gives NaN."""
        return cls(quaternions.normalized(_floats("from_quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Rotations by angle times axis, of shape (…, 3), in radians or degrees."""
        rotvec = _floats("from_rotvec", rotvec, 3)
        return cls(quaternions.from_rotvec(jnp.deg2rad(rotvec) if degrees else rotvec))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that leaves all as it is, or an array of `num` of them."""
        quat = jnp.array([0, 0, 0, 1], dtype=dtype)
        return cls(quat if num is None else jnp.broadcast_to(quat, (operator.index(num), 4)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Uniformly distributed rotations, one or `num`; JAX has not made this one."""
        shape = (4,) if num is None else (operator.index(num), 4)
        return cls.from_quat(random.normal(random_key, shape))

    def apply(self, vectors: Any, inverse: bool = False) -> Array:
        """Vectors of shape (…, 3), rotated; the leading axes broadcast. inverse: rotated back."""
        vectors = _floats("apply", vectors, 3)
        matrix = (self.inv() if inverse else self).as_matrix()
        return jnp.einsum("...ij,...j->...i", matrix, vectors)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles about three axes as `from_euler` takes them, of shape (…, 3), from -pi to pi.

        The second is from 0 to pi if the first axis is also the last, else from -pi / 2 to pi / 2; where it is at an
        end, so that the first and the third turn about the same line, the third is zero.
        """
        axes, intrinsic = _axes(seq)
        if len(axes) != 3:
            raise ArgumentError(f"Rotation.as_euler takes three axes, such as 'xyz', not {seq!r}")
        angles = quaternions.to_euler(axes, self.quat, intrinsic)
        return jnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Array:
        """Matrices of shape (…, 3, 3)."""
        return quaternions.to_matrix(self.quat)

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters of shape (…, 3), of length 1 at most."""
        return quaternions.to_mrp(self.quat)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions of shape (…, 4). canonical: with w >= 0. scalar_first: as (w, x, y, z)."""
        quat = quaternions.canonical(self.quat) if canonical else self.quat
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Angle times axis, of shape (…, 3), the angle from 0 to pi."""
        rotvec = quaternions.to_rotvec(self.quat)
        return jnp.rad2deg(rotvec) if degrees else rotvec

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(quaternions.inverse(self.quat))

    def magnitude(self) -> Array:
        """The angle, from 0 to pi; where it is zero its derivative is zero."""
        return quaternions.magnitude(self.quat)

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation that is nearest to an array of them, in the mean of squared chordal distances.

        weights: numbers, of shape (len(self),). Source: Markley et al., Averaging quaternions, 2007.
        """
        if self.quat.ndim != 2:
            raise ShapeError(f"Rotation.mean takes an array of rotations of one axis, this one is of {self.quat.shape}")
        weights = jnp.ones(len(self), self.quat.dtype) if weights is None else _floats("mean", weights)
        if weights.shape != (len(self),):
            raise ShapeError(f"Rotation.mean: {len(self)} rotations need as many weights, not of shape {weights.shape}")
        return Rotation(quaternions.mean(self.quat, weights.astype(self.quat.dtype)))


@register_pytree_node_class
class Slerp:
    """Rotations at times, and between them the turn at constant speed about one axis; a pytree. `Slerp.init` makes it.

    >>> from functad.scipy.spatial.transform import Rotation, Slerp
    >>> slerp = Slerp.init([0, 1, 2], Rotation.from_euler("z", [[0], [40], [60]], degrees=True))
    >>> print(slerp([0.5, 1.5]).as_rotvec(degrees=True).round(2))
    [[ 0.  0. 20.]
     [ 0.  0. 50.]]
    """

    def __init__(self, times: Any, timedelta: Any, rotations: Rotation, rotvecs: Any) -> None:
        self.times, self.timedelta, self.rotations, self.rotvecs = times, timedelta, rotations, rotvecs

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return (self.times, self.timedelta, self.rotations, self.rotvecs), None

    @classmethod
    def tree_unflatten(cls, auxiliary: None, children: Iterable[Any]) -> Slerp:
        return cls(*children)

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """Between which rotations, and when.

        Args:
            times: increasing numbers, of shape (n,).
            rotations: n of them, two at least.
        """
        if not isinstance(rotations, Rotation):
            raise ArgumentError(f"Slerp.init takes a Rotation, not {type(rotations).__name__}")
        if rotations.quat.ndim != 2 or len(rotations) == 1:
            raise ShapeError("Slerp.init takes an array of at least two rotations")
        times = jnp.asarray(times, dtype=rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ShapeError(f"Slerp.init: {len(rotations)} rotations need as many times, not of shape {times.shape}")
        start, end = rotations[:-1], rotations[1:]
        return cls(times, jnp.diff(times), start, (start.inv() * end).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at a time or at times of shape (m,); before the first and after the last they turn on."""
        times = jnp.asarray(times, dtype=self.times.dtype)
        if times.ndim > 1:
            raise ShapeError(f"a Slerp takes a number or an array of one axis, not of shape {times.shape}")
        place = jnp.clip(jnp.searchsorted(self.times, times) - 1, 0, self.timedelta.shape[0] - 1)
        part = (times - self.times[place]) / self.timedelta[place]
        return Rotation(self.rotations.quat[place]) * Rotation.from_rotvec(self.rotvecs[place] * part[..., None])


def _axes(seq: str) -> tuple[list[int], bool]:
    """The numbers of axes, and whether they turn along."""
    small = seq.lower()
    if not (1 <= len(seq) <= 3 and set(small) <= set("xyz") and seq in (small, seq.upper())):
        raise ArgumentError(f"axes of rotations are one to three letters of 'xyz' or of 'XYZ', not {seq!r}")
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ArgumentError(f"axes of rotations must differ from one to the next, not as in {seq!r}")
    return ["xyz".index(axis) for axis in small], seq != small


def _floats(name: str, x: Any, *extents: int) -> Array:
    (array,) = promote_dtypes_inexact(jnp.asarray(x))
    if np.issubdtype(array.dtype, np.complexfloating):
        raise ArgumentError(f"Rotation.{name} takes real numbers")
    if extents and array.shape[-len(extents) :] != extents:
        wanted = ", ".join(map(str, extents))
        raise ShapeError(f"Rotation.{name} takes an array of shape (…, {wanted}), not {array.shape}")
    return array
