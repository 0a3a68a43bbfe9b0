"""`python -m functad explain module:function --args "f32[8,784], f32[784,10]"`: the journey of a function.

Knows how functions and types are named on a command line; the journey is `functad.views`' work.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from functad import dtypes
from functad.api import ShapeDtypeStruct, grad
from functad.api.inspection import explain
from functad.api.mapping import vmap
from functad.errors import ArgumentError, close_names

_DTYPES = {short: dtype for dtype, short in dtypes.SHORT_NAMES.items()}


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="show a function from its source to machine code",
        description="Show every stage of a function: source, equations, derivative, optimiser, kernels, machine code.",
        epilog="examples:\n"
        "  python -m functad explain functad.nn:gelu --args 'f32[1000]'\n"
        "  python -m functad explain model.py:loss --args \"{'w': f32[784,10]}, f32[8,784]\" --grad --html page.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("function", help="where it is: module:function, or file.py:function")
    parser.add_argument(
        "--args",
        default="",
        metavar="TYPES",
        help="what it is given: \"f32[8,784], {'w': f32[784,10]}, 0.1\"; arrays by dtype and shape",
    )
    parser.add_argument("--vmap", action="store_true", help="map it over the first axis of all arguments")
    parser.add_argument("--grad", action="store_true", help="its gradient in the first argument")
    parser.add_argument("--html", metavar="FILE", help="write a page instead of text")
    parser.add_argument("--no-times", action="store_true", help="do not run the kernels to time them")
    parser.add_argument("--user-names", action="store_true", help="call variables as the function does")
    parser.set_defaults(run=_run, parser=parser)


def _run(options: argparse.Namespace) -> int:
    fun = find_function(options.function)
    args = parse_arguments(options.args)
    _check_number(options.function, fun, args)
    if options.grad:
        fun = grad(fun)
    if options.vmap:
        fun = vmap(fun)
    found = explain(fun, times=not options.no_times, user_names=options.user_names)(*args)
    if options.html:
        found.save(options.html)
        print(f"{options.html}: {len(found.stages)} stages of {found.name}")
    else:
        print(found)
    return 0


def _check_number(name: str, fun: Callable[..., Any], args: list[Any]) -> None:
    """That a function takes as many arguments as it is given; what NumPy and C define may not tell."""
    try:
        signature = inspect.signature(fun, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args)
    except TypeError as problem:
        how = "" if args else "; write their types, such as --args 'f32[8,784], f32[784,10]'"
        raise ArgumentError(f"explain: {name}{signature}: {problem} in --args{how}") from None


def find_function(name: str) -> Callable[..., Any]:
    """The function that `module:function` or `file.py:function` names; dots lead into classes and objects.

    >>> find_function("functad.nn:relu").__name__
    'relu'
    """
    where, colon, path = name.rpartition(":")
    if not colon or not where or not path:
        raise ArgumentError(f"explain: {name!r} names no function; write module:function, or file.py:function")
    found: Any = _module(where)
    for part in path.split("."):
        if not hasattr(found, part):
            near = close_names(part, [n for n in dir(found) if not n.startswith("_")])
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise ArgumentError(f"explain: {where} has no {path!r}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise ArgumentError(f"explain: {name} is a {type(found).__name__}, which cannot be called")
    function: Callable[..., Any] = found
    return function


def _module(where: str) -> Any:
    if where.endswith(".py"):
        if not os.path.exists(where):
            raise ArgumentError(f"explain: there is no file {where}")
        spec = importlib.util.spec_from_file_location(where, where)  # a name that no other module has
        assert spec is not None and spec.loader is not None
        module = sys.modules[where] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(where, None)
            raise
        return module
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (where == problem.name or where.startswith(f"{problem.name}.")):
            raise ArgumentError(
                f"explain: there is no module {where!r}; modules are looked for in this folder and in those of Python, "
                "a file is named file.py:function"
            ) from None
        raise


def parse_arguments(text: str) -> list[Any]:
    """Types and numbers as a command line has them; tuples, lists and dicts may hold them.

    >>> parse_arguments("f32[2,3], {'b': i32[]}, 0.5")
    [ShapeDtypeStruct(shape=(2, 3), dtype=float32), {'b': ShapeDtypeStruct(shape=(), dtype=int32)}, 0.5]
    """
    of_scalars = re.sub(r"\b(\w+)\[\s*\]", r"\1[()]", text)
    try:
        whole = ast.parse(f"[{of_scalars}]", mode="eval")
    except SyntaxError:
        raise ArgumentError(
            f"--args {text!r} cannot be read; write types and numbers with commas between, such as "
            "\"f32[8,784], {'w': f32[784,10]}, 0.1\""
        ) from None
    assert isinstance(whole.body, ast.List)
    return [_argument(node) for node in whole.body.elts]


def _argument(node: ast.expr) -> Any:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return ShapeDtypeStruct(_sizes(node.slice), _dtype(node.value.id))
    if isinstance(node, ast.Dict):
        return {_literal(key or value): _argument(value) for key, value in zip(node.keys, node.values)}
    if isinstance(node, (ast.Tuple, ast.List)):
        made = [_argument(one) for one in node.elts]
        return tuple(made) if isinstance(node, ast.Tuple) else made
    return _literal(node)


def _literal(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
        hash(value)
        return value
    except (ValueError, TypeError):
        raise ArgumentError(
            f"--args: {ast.unparse(node)} is no type and no number; a type is a dtype and a shape, such as f32[8,784]"
        ) from None


def _sizes(node: ast.expr) -> tuple[int, ...]:
    try:
        sizes = ast.literal_eval(node)
    except (ValueError, TypeError):
        sizes = None
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ArgumentError(f"--args: [{ast.unparse(node)}] is no shape; write sizes, such as [8,784]")
    return sizes


def _dtype(name: str) -> Any:
    known = {**_DTYPES, **{dtype.name: dtype for dtype in dtypes.SUPPORTED}}
    if name not in known:
        near = close_names(name, known) or list(_DTYPES)
        raise ArgumentError(f"--args: no dtype is written {name!r}; there is {', '.join(near)}")
    return known[name]
