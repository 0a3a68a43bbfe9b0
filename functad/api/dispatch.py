"""The short way from a jitted function's arguments to its kernels, once it has been compiled for arguments like these.

For each signature one Python function is written out as source: it looks at just what can differ, so it costs a
fraction of a flattening. Knows structures of pytrees, arrays and executables; tracing is left to `compilation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import ArrayImpl, DonatedArray, KeyArray, class_for, wrap
from functad.config import config
from functad.device_arrays import committed_to_cpu, gpus, held_on_cpu, hold
from functad.exact import exact_key
from functad.ir import Aval, Literal, Program, memoised
from functad.pretty import escaped
from functad.pytrees.nodes import KINDS, is_namedtuple
from functad.pytrees.treedef import fold
from functad.records import NamedTuple
from functad.system.freed_memory import OWN_MEMORY, aligned_copy, aligned_empty, empty_for, is_aligned, large_empty
from functad.tree_util import PyTreeDef, tree_unflatten

MISS: Any = object()  # what a call returns that does not have the known structure, static values and types
FastCall = Callable[[tuple[Any, ...], dict[str, Any]], Any]


class Arguments(NamedTuple):
    """The arguments that a function was compiled for.

    in_tree: the structure of `(dynamic positional arguments, dynamic keyword arguments)`.
    statics: the position or the keyword of each static argument, and its value.
    avals: the types of the leaves. classes: the Python classes of the first call's leaves, to look for these first.
    donated: for each leaf its name, if the call may take its memory, else None.
    """

    in_tree: PyTreeDef
    statics: Sequence[tuple[int | str, Any]]
    avals: Sequence[Aval]
    classes: Sequence[type]
    donated: Sequence[str | None]

    def with_leaves(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of this structure, as `(args, kwargs)`."""
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        positional = dict(s for s in self.statics if isinstance(s[0], int))
        dynamic = iter(args)
        count = len(args) + len(positional)
        merged = tuple(positional[i] if i in positional else next(dynamic) for i in range(count))
        return merged, {**kwargs, **{k: v for k, v in self.statics if isinstance(k, str)}}


class Results(NamedTuple):
    """The structure and the types of what a function returns.

    places: where each leaf of it comes from: the k-th result of the executable for k, leaf i of the arguments for ~i;
    None where the executable's results are all leaves, in their order.
    """

    out_tree: PyTreeDef
    avals: Sequence[Aval]
    places: Sequence[int] | None = None

    def computed(self) -> list[Aval]:
        """The types of the executable's results."""
        places = range(len(self.avals)) if self.places is None else self.places
        of_place = dict(zip(places, self.avals))
        return [of_place[k] for k in sorted(of_place) if k >= 0]


def passed_on(program: Program, donated: Sequence[bool]) -> tuple[Program, Sequence[int] | None]:
    """A Program without the results that are its arguments or other results, and the places of all of them.

    Arrays do not change, so that what a function returns as it was given, or twice, need not be copied. Who donates
    wants memory of its own for each result, to donate it again. Nothing is left out of what has no other results.
    """
    if any(donated):
        return program, None
    arguments = {v: ~i for i, v in enumerate(program.invars)}
    computed: dict[Any, int] = {}
    places = []
    for out in program.outvars:
        known = None if isinstance(out, Literal) else arguments.get(out, computed.get(out))
        if known is None:
            known = len(computed)
            computed[out] = known
        places.append(known)
    if not computed or len(computed) == len(places):
        return program, None

    def without_others() -> Program:
        return program.replace(outvars=tuple(computed))

    return memoised(program, ("computed results",), without_others), places


def make_call(
    name: str,
    arguments: Arguments,
    constants: Sequence[np.ndarray],
    executable: Any,
    results: Results,
    followed: Sequence[Any] | None = None,
) -> FastCall:
    """A function of `(args, kwargs)` that runs an executable, or returns `MISS` for arguments of another signature.

    An executable is called with the constants and the leaves; one that tells where its results lie (`fresh`,
    `results`, as that of the CPU) is given their memory, too, or asked what to raise if there is none (`too_large`). If
    it has a `direct_call` for such leaves, that is tried first. followed: what the function closes over, if it runs
    elsewhere where that or a leaf is committed to the CPU.

    >>> from functad.ir import Aval
    >>> from functad.tree_util import tree_structure
    >>> tree, scalar = tree_structure((({"a": 1},), {})), Aval((), np.dtype(np.float32))
    >>> arguments = Arguments(tree, [], [scalar], [np.ndarray], [None])
    >>> results = Results(tree_structure([1]), [scalar])
    >>> call = make_call("double", arguments, [], lambda values: [np.asarray(values[0] + values[0])], results)
    >>> call(({"a": np.float32(2)},), {}), call((2,), {}) is MISS
    ([Array(4., dtype=float32)], True)
    """
    text = CallText()
    text.read_arguments(arguments)
    text.leave_if_held(followed)
    text.enter_directly(arguments, constants, executable, results)
    text.read_leaves(arguments)
    text.run(arguments, constants, executable)
    text.build(results)
    return text.compiled(name)


def values_of_leaf(leaf: Any, aval: Aval) -> np.ndarray | None:
    """The values of a leaf of that type; None for one of another type, and for what only the long way can judge."""
    kind = type(leaf)
    if kind is ArrayImpl or kind is KeyArray:
        if leaf.aval != aval:
            return None
        leaf._aval = aval  # the next call finds the same object
        value: np.ndarray = leaf._value
        return value
    if kind is np.ndarray:
        if leaf.shape != aval.shape or aval.weak_type:
            return None
        return leaf if leaf.dtype == aval.dtype else _cut(leaf, aval.dtype)
    if aval.shape:
        return None
    if isinstance(leaf, np.generic):
        leaf = dtypes.adaptable(leaf)
        kind = type(leaf)
    if isinstance(leaf, np.generic):
        return np.asarray(leaf) if leaf.dtype == aval.dtype and not aval.weak_type else None
    if kind not in _NUMBERS or dtypes.dtype_of(leaf) != (aval.dtype, aval.weak_type):
        return None
    try:
        return np.array(leaf, aval.dtype)
    except OverflowError:  # the long way tells which argument it is
        return None


def _cut(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """A 64-bit array cut to a dtype, if that is the one in which it is taken in."""
    if config.numpy_dtypes == "keep" or type(array) is not np.ndarray or dtypes.taken_in(array.dtype) != dtype:
        return None
    cut: np.ndarray = dtypes.cut(array, dtype)
    return cut


_NUMBERS = (float, int, bool, complex)


def keep_copies(leaves: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Let arrays keep the contiguous copies that a call had to make of them, so that the next one makes none."""
    for leaf, value in zip(leaves, values):
        if type(leaf) is ArrayImpl and leaf._value is not value:
            value.setflags(write=False)
            if type(leaf) is ArrayImpl:  # still: no other thread has donated it meanwhile
                leaf._value = value


@lru_cache(maxsize=4096)
def interned(aval: Aval) -> Aval:
    """The same object for equal types: what one function returns, another one then knows at a glance."""
    return aval


def _sole_owner() -> int:
    """What `getrefcount` says of the memory of an Array that a local variable names, and nobody else."""
    array = ArrayImpl(np.zeros(1))
    value = array._value
    return getrefcount(value)


_DEEPEST = 20  # expressions within each other


class CallText:
    """The lines of a call, and the objects they mention by name.

    t: nodes of the arguments, x: leaves, v: their values, y: results; a: types, c: constants and other objects.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes = 0
        self.leaves: list[str] = []
        self.classes: list[str] = []  # of Arrays of the types of the leaves
        self.objects: dict[str, Any] = {
            "MISS": MISS,
            "ArrayImpl": ArrayImpl,
            "KeyArray": KeyArray,
            "Donated": DonatedArray,
            "hold": hold,
            "ndarray": np.ndarray,
            "array": np.array,
            "empty": np.empty,
            "aligned_copy": aligned_copy,
            "aligned_empty": aligned_empty,
            "large_empty": large_empty,
            "OWN_MEMORY": OWN_MEMORY,
            "new": object.__new__,
            "convert": values_of_leaf,
            "exact_key": exact_key,
            "getrefcount": getrefcount,
            "keep_copies": keep_copies,
            "SOLE_OWNER": _sole_owner(),
        }

    def add(self, *lines: str) -> None:
        self.lines += lines

    def compiled(self, name: str) -> FastCall:
        """The function of all lines."""
        source = "def call(args, kwargs):\n" + "".join(f"    {line}\n" for line in self.lines)
        namespace = dict(self.objects)
        exec(compile(source, f"<the short way into {escaped(name)}>", "exec"), namespace)
        call: FastCall = namespace["call"]
        return call

    def object(self, value: Any) -> str:
        """The name of an object; a key that Python can write is written out."""
        if type(value) is str or type(value) is int and -(2**63) < value < 2**63:
            return repr(value)
        name = f"c{len(self.objects)}"
        self.objects[name] = value
        return name

    # --- the structure of the arguments ------------------------------------------------------------------

    def read_arguments(self, arguments: Arguments) -> None:
        positional, keyword = arguments.in_tree.children()
        statics = dict(arguments.statics)
        keys = keyword_names(arguments.in_tree)
        count = len(positional.children()) + sum(isinstance(where, int) for where in statics)
        keywords = len(keys) + sum(isinstance(where, str) for where in statics)
        self.add("try:")
        start = len(self.lines)
        self.add(f"if len(args) != {count} or {f'len(kwargs) != {keywords}' if keywords else 'kwargs'}: return MISS")
        names = self.unpack("args", count)
        dynamic = iter(positional.children())
        for position, name in enumerate(names):
            if position in statics:
                self.compare(name, statics[position])
            else:
                self.read(name, next(dynamic))
        for key, child in zip(keys, keyword.children()):
            self.read(self.item("kwargs", key), child)
        for where, value in statics.items():
            if isinstance(where, str):
                self.compare(self.item("kwargs", where), value)
        self.lines[start:] = [f"    {line}" for line in self.lines[start:]]
        self.add("except KeyError:", "    return MISS")

    def read(self, name: str, tree: PyTreeDef) -> None:
        """Take apart the tree with this name and structure."""
        pending = [(name, tree)]
        while pending:
            pending += self.read_node(*pending.pop())[::-1]

    def read_node(self, name: str, tree: PyTreeDef) -> list[tuple[str, PyTreeDef]]:
        """Take apart one node. Returns its children."""
        data = tree.node_data()
        if data is None:
            self.leaves.append(name)
            return []
        kind, metadata = data
        children = tree.children()
        if kind is type(None):
            self.add(f"if {name} is not None: return MISS")
            return []
        self.add(f"if type({name}) is not {self.object(kind)}: return MISS")
        if kind is dict:
            self.add(f"if len({name}) != {len(children)}: return MISS")
            if any(type(key) is not str for key in metadata):  # 1, 1.0 and True are one key
                self.add(f"if exact_key(set({name})) != {self.object(exact_key(set(metadata)))}: return MISS")
            names = [self.item(name, key) for key in metadata]
        elif kind in (tuple, list) or is_namedtuple(kind):
            self.add(f"if len({name}) != {len(children)}: return MISS")
            names = self.unpack(name, len(children))
        else:
            parts, found = self.node(), self.node()
            known = KINDS[kind]
            assert known is not None
            self.add(
                f"{parts}, {found} = {self.object(known.flatten)}({name})",
                f"if len({parts}) != {len(children)} or not {self.same(found, metadata)}: return MISS",
            )
            names = self.unpack(parts, len(children))
        return list(zip(names, children))

    def node(self) -> str:
        self.nodes += 1
        return f"t{self.nodes}"

    def unpack(self, name: str, count: int) -> list[str]:
        names = [self.node() for _ in range(count)]
        if names:
            self.add(f"{', '.join(names)}, = {name}")
        return names

    def item(self, name: str, key: Any) -> str:
        child = self.node()
        self.add(f"{child} = {name}[{self.object(key)}]")
        return child

    def compare(self, name: str, value: Any) -> None:
        """A static argument: the same object or one that is equal in all that a function can see."""
        self.add(f"if not {self.same(name, value)}: return MISS")

    def same(self, name: str, value: Any) -> str:
        """Whether the value with a name is a known one; those without a hash are as equal as they say themselves."""
        known = self.object(value)
        if type(value) in (str, int):
            return f"(type({name}) is {self.object(type(value))} and {name} == {known})"
        try:
            key = self.object(exact_key(value))
        except TypeError:
            return f"{name} == {known}"
        return f"({name} is {known} or exact_key({name}) == {key})"

    def leave_if_held(self, followed: Sequence[Any] | None) -> None:
        """Leave it to the long way where arrays are committed to the CPU while there are GPUs."""
        if followed is not None and (names := [*self.leaves, *map(self.object, followed)]):
            self.objects |= {"gpus": gpus, "exceptions": committed_to_cpu, "held_on_cpu": held_on_cpu}
            self.add(f"if gpus and exceptions and held_on_cpu(({', '.join(names)},)): return MISS")

    # --- the direct way ---------------------------------------------------------------------------------

    def enter_directly(
        self, arguments: Arguments, constants: Sequence[np.ndarray], executable: Any, results: Results
    ) -> None:
        """Hand over the leaves as they are, where the executable knows Arrays itself."""
        if not hasattr(executable, "direct_call") or any(name is not None for name in arguments.donated):
            return
        if not set(arguments.classes) <= {ArrayImpl, np.ndarray, float}:
            return  # such leaves would come again
        leaves = [interned(aval) for aval in arguments.avals]
        numbers = [not a.shape and dtypes.dtype_of(0.0) == (a.dtype, a.weak_type) for a in leaves]
        given = [np.asarray(c, order="C") for c in constants]
        computed = [interned(aval) for aval in results.computed()]

        def value(i: int) -> str:
            leaf = self.leaves[i]
            return f"({leaf}._value if type({leaf}) is ArrayImpl else array({leaf}, {self.object(leaves[i].dtype)}))"

        self.answer_directly(executable.direct_call(given, leaves, numbers, computed), results, value)

    def answer_directly(
        self, direct: Callable[..., Any] | None, results: Results, value: Callable[[int], str] = "{}".format
    ) -> None:
        """Return what a function of the leaves gives, the results that are computed; it returns None for some leaves.

        value: as for `places`.
        """
        if direct is None:
            return
        self.objects["direct"] = direct
        self.add(f"values = direct({', '.join(self.leaves)})", "if values is not None:")
        start = len(self.lines)
        self.add(f"{', '.join(f'y{k}' for k in range(len(results.computed())))} = values")
        names = self.places(results, value)
        self.add(f"return {self.tree(results.out_tree, iter(names))}")
        self.lines[start:] = [f"    {line}" for line in self.lines[start:]]

    # --- the leaves --------------------------------------------------------------------------------------

    def read_leaves(self, arguments: Arguments) -> None:
        """Line by line the values of the leaves; what the first call was given is looked for first."""
        for i, (leaf, aval, kind) in enumerate(zip(self.leaves, arguments.avals, arguments.classes)):
            self.read_leaf(i, leaf, interned(aval), kind)

    def read_leaf(self, i: int, leaf: str, aval: Aval, kind: type) -> None:
        self.objects[f"a{i}"] = aval
        own = class_for(aval).__name__
        self.classes.append(own)
        value = f"{leaf}._value if type({leaf}) is {own} and {leaf}._aval is a{i} else convert({leaf}, a{i})"
        if kind is np.ndarray:
            self.objects[f"d{i}"] = aval.dtype
            same = f"{leaf}.dtype is d{i} and {leaf}.shape == {self.object(aval.shape)}"
            value = f"{leaf} if type({leaf}) is ndarray and {same} else {value}"
        elif kind is float:
            self.objects[f"d{i}"] = aval.dtype
            value = f"array({leaf}, d{i}) if type({leaf}) is float else {value}"
        self.add(f"v{i} = {value}", f"if v{i} is None: return MISS")

    # --- running -----------------------------------------------------------------------------------------

    def run(self, arguments: Arguments, constants: Sequence[np.ndarray], executable: Any) -> None:
        donated = [(i, name) for i, name in enumerate(arguments.donated) if name is not None]
        # First the Arrays let go, so that no other thread comes by their memory any more; those that have it already
        # are counted then.
        for i, name in donated:
            leaf = self.leaves[i]
            self.add(
                f"if type({leaf}) is {self.classes[i]}: {leaf}.__class__ = Donated; hold({leaf}, {self.object(name)})"
            )
        owned = [self.owned(i, arguments.avals[i]) for i, _ in donated]
        # What is not contiguous would be copied by each call.
        given = [self.object(np.asarray(c, order="C")) for c in constants] + [f"v{i}" for i in range(len(self.leaves))]
        plain = not hasattr(executable, "fresh")
        fresh = [] if plain else executable.fresh
        given += [f"{empty_for(*t).__name__}({self.object(t[0])}, {self.object(t[1])})" for t in fresh]
        gathered = [*owned, f"values = [{', '.join(given)}]"]
        if not owned and not fresh:
            self.add(*gathered)
        else:
            self.add("try:", *[f"    {line}" for line in gathered], "except (MemoryError, ValueError) as problem:")
            self.raise_too_large([i for i, _ in donated], executable)
        self.objects["run"] = executable if plain else executable.run
        if plain:
            self.add("values = run(values)")
            self.values: Callable[[int], str] = "values[{}]".format
            return
        self.run_or_give_back([i for i, _ in donated], len(constants), executable)

        def value(k: int) -> str:
            i, shape = executable.results[k]
            return f"values[{i}]" + ("" if shape is None else f".reshape({self.object(shape)})")

        self.values = value

    def owned(self, i: int, aval: Aval) -> str:
        """A line that copies the values of a donated leaf unless nobody but the call can see them."""
        # Where memory begins, all later steps have it.
        aligned = is_aligned(aval.shape, aval.dtype)
        other = f"type(v{i}.base) not in OWN_MEMORY" if aligned else f"v{i}.base is not None"
        copy = f"aligned_copy(v{i})" if aligned else f"v{i}.copy()"
        return f"if getrefcount(v{i}) >= SOLE_OWNER or {other}: v{i} = {copy}"

    def run_or_give_back(self, donated: Sequence[int], constants: int, executable: Any) -> None:
        """Run; if there was no memory to begin with, donated arguments have their elements again."""
        self.objects["NotStarted"] = executable.not_started
        keep = f"keep_copies(({''.join(f'{leaf}, ' for leaf in self.leaves)}), values[{constants}:])"
        self.add("try:", f"    if run(values): {keep}", "except NotStarted as problem:")
        self.raise_too_large(donated, executable)

    def raise_too_large(self, donated: Sequence[int], executable: Any) -> None:
        """Give donated arguments their elements again, and say what there is no memory for."""
        for i in donated:
            leaf = self.leaves[i]
            self.add(f"    if type({leaf}) is Donated:")
            self.add(f"        v{i}.setflags(False); hold({leaf}, v{i}); {leaf}.__class__ = {self.classes[i]}")
        if not hasattr(executable, "too_large"):
            self.add("    raise")
            return
        self.objects["too_large"] = executable.too_large
        self.add("    raise too_large() from problem")

    # --- the result --------------------------------------------------------------------------------------

    def places(self, results: Results, value: Callable[[int], str]) -> list[str]:
        """An expression for each leaf of the result: the name of what was computed, or another Array of its memory.

        value: of the number of an argument's leaf, its values.
        """
        if results.places is None:
            return [f"y{k}" for k in range(len(results.avals))]
        self.objects["another"] = wrap
        names: list[str] = []
        for place, aval in zip(results.places, results.avals):
            name = f"y{place}"
            if place < 0 or name in names:
                a = self.object(interned(aval))
                name = f"another({value(~place) if place < 0 else f'{name}._value'}, {a})"
            names.append(name)
        return names

    def build(self, results: Results) -> None:
        for k, aval in enumerate(results.computed()):
            a = self.objects[f"b{k}"] = interned(aval)
            self.add(
                f"y{k} = new({class_for(a).__name__}); y{k}._value = value = {self.values(k)}; value.setflags(False)",
                f"y{k}._aval = b{k}; y{k}.weak_type = {a.weak_type}",
            )
        names = self.places(
            results, lambda i: f"(v{i} if type({self.leaves[i]}) is {self.classes[i]} else array(v{i}))"
        )
        self.add(f"return {self.tree(results.out_tree, iter(names))}")

    def tree(self, tree: PyTreeDef, leaves: Any) -> str:
        """An expression for the tree with that structure; what is deep gets a name, as Python nests 200 parentheses."""

        def closed(node: PyTreeDef, children: list[tuple[str, int]]) -> tuple[str, int]:
            if node.node_data() is None:
                return next(leaves), 0
            text, depth = (
                self.node_text(node, [child for child, _ in children]),
                1 + max([d for _, d in children] or [0]),
            )
            if depth < _DEEPEST:
                return text, depth
            name = self.node()
            self.add(f"{name} = {text}")
            return name, 0

        return fold(tree, lambda node: (node, node.children()), closed)[0]

    def node_text(self, tree: PyTreeDef, children: list[str]) -> str:
        """An expression for a node of these children."""
        data = tree.node_data()
        assert data is not None
        kind, metadata = data
        if kind is type(None):
            return "None"
        if kind is list:
            return f"[{', '.join(children)}]"
        if kind is dict:
            return f"{{{', '.join(f'{self.object(key)}: {child}' for key, child in zip(metadata, children))}}}"
        together = f"({', '.join(children)}{',' * (len(children) == 1)})"
        if kind is tuple:
            return together
        if is_namedtuple(kind):
            return f"{self.object(kind)}({', '.join(children)})"
        known = KINDS[kind]
        assert known is not None
        return f"{self.object(known.unflatten)}({self.object(metadata)}, {together})"


def keyword_names(in_tree: PyTreeDef) -> Sequence[str]:
    """The names of the dynamic keyword arguments, in the order of their leaves."""
    data = in_tree.children()[1].node_data()
    assert data is not None
    return data[1]
