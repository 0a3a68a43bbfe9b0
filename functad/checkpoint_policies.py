"""Policies for `functad.checkpoint`: which intermediate values are kept for the derivative.

A policy is a function `policy(primitive, *avals, **params) -> bool` of an equation. Knows primitives by name.

Args:
    primitive, params: what an equation computes.
    policy_1, policy_2: policies.

Shapes:
    A policy looks at equations, not at shapes.

Raises:
    Nothing of its own: a policy answers whether a value is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.calls.checkpoint import Policy
from functad.ir import Primitive

__all__ = [
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "offload_dot_with_no_batch_dims",
    "save_and_offload_only_these_names",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Keep all that the derivative needs, as if there were no `checkpoint`.

    >>> import functad, functad.numpy as jnp
    >>> f = functad.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=everything_saveable)
    >>> len(functad.ad_checkpoint.saved_residuals(f, 1.))
    2
    """
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Keep arguments only: what `checkpoint` does without a policy.

    >>> import functad, functad.numpy as jnp
    >>> f = functad.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=nothing_saveable)
    >>> len(functad.ad_checkpoint.saved_residuals(f, 1.))
    1
    """
    return False


def dots_saveable(primitive: Primitive, *_: Any, **__: Any) -> bool:
    """Keep the results of matrix products and convolutions, which are expensive to compute again.

    >>> import functad, functad.numpy as jnp
    >>> layer = lambda w, x: jnp.sin(w @ x)
    >>> saving = functad.checkpoint(layer, policy=functad.checkpoint_policies.dots_saveable)
    >>> [str(r.aval) for r in functad.ad_checkpoint.saved_residuals(saving, jnp.ones((2, 3)), jnp.ones(3))]
    ['Aval(float32[2,3])', 'Aval(float32[3])', 'Aval(float32[2])']
    """
    return primitive.name in ("dot_general", "conv_general_dilated")


def dots_with_no_batch_dims_saveable(primitive: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the results of matrix products that have no batch dimensions: products with weights, mostly.

    >>> import functad, functad.numpy as jnp
    >>> f = functad.checkpoint(lambda w, x: jnp.sin(jnp.sin(x @ w)), policy=dots_with_no_batch_dims_saveable)
    >>> [str(r.aval) for r in functad.ad_checkpoint.saved_residuals(f, jnp.ones((2, 2)), jnp.ones((3, 2)))][-1]
    'Aval(float32[3,2])'
    """
    return primitive.name == "dot_general" and not any(params["dimension_numbers"][1])


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keep values that `functad.ad_checkpoint.checkpoint_name` has given one of these names, nothing else.

    >>> import functad, functad.numpy as jnp
    >>> from functad.ad_checkpoint import checkpoint_name
    >>> f = lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "inner"))
    >>> policy = functad.checkpoint_policies.save_only_these_names("inner")
    >>> functad.ad_checkpoint.print_saved_residuals(functad.checkpoint(f, policy=policy), 2.)  # doctest: +ELLIPSIS
    f32[]  4 bytes  from the argument x
    f32[]  4 bytes  named 'inner' from ...
    8 bytes in all
    """
    names = frozenset(names_which_can_be_saved)
    return lambda primitive, *_, **params: primitive.name == "name" and params["name"] in names


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keep values that have one of these names: there is one kind of memory, so what could be offloaded is kept.

    Args:
        names_which_can_be_saved, names_which_can_be_offloaded: names that `checkpoint_name` gives.
        offload_src, offload_dst: kinds of memory, without effect.

    >>> import functad, functad.numpy as jnp
    >>> from functad.ad_checkpoint import checkpoint_name
    >>> policy = save_and_offload_only_these_names(
    ...     names_which_can_be_saved=[], names_which_can_be_offloaded=["a"],
    ...     offload_src="device", offload_dst="pinned_host")
    >>> f = functad.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.sin(jnp.sin(x)), "a")), policy=policy)
    >>> len(functad.ad_checkpoint.saved_residuals(f, 1.))
    2
    """
    return save_only_these_names(*names_which_can_be_saved, *names_which_can_be_offloaded)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """`dots_with_no_batch_dims_saveable`: there is one kind of memory, so what could be offloaded is kept.

    Args:
        offload_src, offload_dst: kinds of memory, without effect.

    >>> policy = offload_dot_with_no_batch_dims("device", "pinned_host")
    >>> policy is dots_with_no_batch_dims_saveable
    True
    """
    return dots_with_no_batch_dims_saveable


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keep values that have a name, except these names.

    >>> import functad, functad.numpy as jnp
    >>> from functad.ad_checkpoint import checkpoint_name
    >>> f = functad.checkpoint(
    ...     lambda x: jnp.sin(checkpoint_name(jnp.sin(checkpoint_name(jnp.sin(x), "a")), "b")),
    ...     policy=save_any_names_but_these("a"))
    >>> len(functad.ad_checkpoint.saved_residuals(f, 1.))
    2
    """
    names = frozenset(names_not_to_save)
    return lambda primitive, *_, **params: primitive.name == "name" and params["name"] not in names


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keep any value, named or not, except those that have one of these names.

    What a value is named after is another value, which may be kept: name it where it is made, and do not use it
    otherwise.

    >>> import functad, functad.numpy as jnp
    >>> from functad.ad_checkpoint import checkpoint_name
    >>> f = functad.checkpoint(
    ...     lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "a")), policy=save_anything_except_these_names("a"))
    >>> len(functad.ad_checkpoint.saved_residuals(f, 1.))
    2
    """
    names = frozenset(names_not_to_save)
    return lambda primitive, *_, **params: not (primitive.name == "name" and params["name"] in names)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps.

    >>> import functad, functad.numpy as jnp
    >>> policy = save_from_both_policies(nothing_saveable, everything_saveable)
    >>> f = functad.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=policy)
    >>> len(functad.ad_checkpoint.saved_residuals(f, 1.))
    2
    """
    return lambda primitive, *avals, **params: (
        policy_1(primitive, *avals, **params) or policy_2(primitive, *avals, **params)
    )


if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
