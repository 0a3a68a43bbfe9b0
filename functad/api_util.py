"""Functions of pytrees as functions of flat arguments, under the names that JAX gives the module.

Knows pytrees and wrapped functions; no transform.

Args:
    x: an array.
    fun, f: a function, or a wrapped one.

Shapes:
    Types of arrays tell them; primitives and their rules take arrays of the shapes that their own rules allow.

Raises:
    DTypeError: what should be an array is none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.api.arguments import function_name, leaf_aval, positional_names
from functad.extend.linear_util import WrappedFun, transformation_with_aux
from functad.ir import Aval
from functad.records import NamedTuple
from functad.tree_util import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten


class DebugInfo(NamedTuple):
    """What is known of a function and its arguments, for errors.

    traced_for: the transform that it is given to. func_src_info: its name. arg_names: one a leaf of the arguments.

    >>> debug_info("grad", lambda x: x, ([1., 2.],), {})
    DebugInfo(traced_for='grad', func_src_info='<lambda>', arg_names=('x[0]', 'x[1]'))
    """

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...]


def debug_info(
    traced_for: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], **options: Any
) -> DebugInfo:
    """Names for a function and the leaves of its arguments.

    Args:
        traced_for: the name of a transform.
        fun: a function.
        args, kwargs: what it is called with.
        options: what else JAX takes to describe a function; not needed.

    >>> debug_info("jit", lambda x, y: x, (1, {"a": 2}), {}).arg_names
    ('x', "y['a']")
    """
    names = positional_names(fun, len(args))
    found = [
        name + keystr(path)
        for name, tree in [*zip(names, args), *kwargs.items()]
        for path, _ in tree_flatten_with_path(tree)[0]
    ]
    return DebugInfo(traced_for, function_name(fun), tuple(found))


def flatten_fun(fun: WrappedFun, in_tree: PyTreeDef) -> tuple[WrappedFun, Callable[[], PyTreeDef]]:
    """A function of positional and keyword arguments as one of leaves, which returns leaves.

    Args:
        fun: the wrapped function.
        in_tree: the structure of `(args, kwargs)`.

    Returns:
        The function of leaves, and a function that gives the structure of its result after a call.

    >>> from functad import tree_util
    >>> from functad.extend import linear_util
    >>> leaves, in_tree = tree_util.tree_flatten(((1, 2), {"y": 3}))
    >>> flat, out_tree = flatten_fun(linear_util.wrap_init(lambda x, z, y: {"sum": x + y, "z": z}), in_tree)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([4, 2], PyTreeDef({'sum': *, 'z': *}))
    """
    return _with_args_and_kwargs(fun, in_tree)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: PyTreeDef) -> tuple[WrappedFun, Callable[[], PyTreeDef]]:
    """As `flatten_fun`, of a function without keyword arguments: in_tree is the structure of `args`.

    >>> from functad import tree_util
    >>> from functad.extend import linear_util
    >>> leaves, in_tree = tree_util.tree_flatten(((1, 2),))
    >>> flatten_fun_nokwargs(linear_util.wrap_init(lambda x: sum(x)), in_tree)[0].call_wrapped(*leaves)
    [3]
    """
    return _with_args(fun, in_tree)


@transformation_with_aux
def _with_args_and_kwargs(in_tree: PyTreeDef, *leaves: Any) -> Generator[Any, Any, None]:
    args, kwargs = tree_unflatten(in_tree, leaves)
    yield tree_flatten((yield args, kwargs))


@transformation_with_aux
def _with_args(in_tree: PyTreeDef, *leaves: Any) -> Generator[Any, Any, None]:
    yield tree_flatten((yield tree_unflatten(in_tree, leaves), {}))


def shaped_abstractify(x: Any) -> Aval:
    """The type of an argument.

    >>> shaped_abstractify(2.)
    Aval(float32[], weak_type=True)
    """
    return leaf_aval(x, lambda: "the argument of shaped_abstractify")


def safe_map(f: Callable[..., Any], /, *sequences: Any) -> list[Any]:
    """`map`, as a list, of sequences that have one length.

    Raises:
        ValueError: they have several.

    >>> safe_map(pow, [2, 3], [1, 2])
    [2, 9]
    """
    return [f(*values) for values in zip(*sequences, strict=True)]


__all__ = [
    "DebugInfo",
    "debug_info",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "safe_map",
    "shaped_abstractify",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
