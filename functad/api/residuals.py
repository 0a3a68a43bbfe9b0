"""What reverse mode keeps between the forward and the backward pass: naming values, and listing what is kept.

Knows the pullbacks of `vjp`, whose leaves are the residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.api.arguments import LeafNames, as_value, check_callable, leaf_aval
from functad.api.autodiff import vjp
from functad.errors import ArgumentError
from functad.ir import Aval, Eqn, Program
from functad.primitives.barrier import name as _name
from functad.records import NamedTuple
from functad.tracing import trace_to_program
from functad.tree_util import tree_flatten, tree_map, tree_unflatten


def checkpoint_name(x: Any, name: str) -> Any:
    """x under a name, by which a policy of `functad.checkpoint` can know it; otherwise the identity.

    Args:
        x: a pytree of arrays.
        name: any string.

    Raises:
        ArgumentError: the name is no string.

    >>> import functad
    >>> functad.make_jaxpr(lambda x: checkpoint_name(2. * x, "doubled"))(1.)
    { lambda ; a:f32[]. let
        b:f32[] = mul 2.0:f32[] a
        c:f32[] = name[name=doubled] b
      in (c,) }
    """
    if not isinstance(name, str):
        raise ArgumentError(f"checkpoint_name: name must be a string, got {name!r}")
    return tree_map(lambda leaf: _name(as_value(leaf, lambda: "checkpoint_name: an argument"), name), x)


class Residual(NamedTuple):
    """A value kept for the backward pass: its type, and where it comes from, for people.

    >>> import functad, functad.numpy as jnp
    >>> kept = saved_residuals(lambda x: jnp.sum(x * x), jnp.ones(3))[0]
    >>> print(kept)
    f32[3]  12 bytes  from the argument x
    >>> kept.nbytes
    12
    """

    aval: Aval
    origin: str

    @property
    def nbytes(self) -> int:
        return self.aval.size * self.aval.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.aval.str_short()}  {self.nbytes:,} bytes  {self.origin}"


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Residual]:
    """What `vjp` or `grad` of a function keeps between the forward and the backward pass; nothing is run.

    Args:
        f: a function of pytrees of arrays, differentiated with respect to all of them.
        args, kwargs: arrays or `ShapeDtypeStruct`s.

    Returns:
        A list of `Residual(aval, origin)`: constants, arguments, then results in the order of computation.

    >>> import functad, functad.numpy as jnp
    >>> saved_residuals(jnp.multiply, 2., 3.)[1].origin
    'from the argument x2'
    >>> sum(r.nbytes for r in saved_residuals(functad.checkpoint(lambda x: jnp.sin(jnp.sin(x))), jnp.ones(10)))
    40
    """
    check_callable(f, "saved_residuals")
    leaves, in_tree = tree_flatten((args, kwargs))
    names = LeafNames(f, dict(enumerate(args)), kwargs)
    avals = [leaf_aval(x, names.describe(i)) for i, x in enumerate(leaves)]

    def residuals(*values: Any) -> list[Any]:
        def of_leaves(*given: Any) -> Any:
            inner_args, inner_kwargs = tree_unflatten(in_tree, given)
            return f(*inner_args, **inner_kwargs)

        _, pullback = vjp(of_leaves, *values)
        return tree_flatten(pullback)[0]

    program = trace_to_program(residuals, avals, name="saved_residuals", arg_names=names.origins(len(avals)))
    return _described(program, names.all())


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what `vjp` or `grad` of a function keeps between the forward and the backward pass, and its bytes.

    Arguments are as for `saved_residuals`.

    >>> import functad.numpy as jnp
    >>> print_saved_residuals(lambda w, x: jnp.sum(w * x), jnp.ones(3), x=jnp.ones(()))
    f32[3]  12 bytes  from the argument w
    f32[]  4 bytes  from the argument x
    16 bytes in all
    """
    found = saved_residuals(f, *args, **kwargs)
    for residual in found:
        print(residual)
    print(f"{sum(r.nbytes for r in found):,} bytes in all")


def _described(program: Program, names: list[str]) -> list[Residual]:
    kept = set(program.outvars)
    found = [Residual(v.aval, "from a constant") for v in program.constvars if v in kept]
    found += [Residual(v.aval, f"from the argument {n}") for v, n in zip(program.invars, names) if v in kept]
    found += [Residual(v.aval, _origin(eqn)) for eqn in program.eqns for v in eqn.outvars if v in kept]
    return found


def _origin(eqn: Eqn) -> str:
    if eqn.primitive.name == "name":
        return f"named '{eqn.params['name']}' from {eqn.source}"
    if eqn.primitive.name == "jit":
        return f"output of jitted function '{eqn.params['name']}' from {eqn.source}"
    return f"output of {eqn.primitive.name} from {eqn.source}"
