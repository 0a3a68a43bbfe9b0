"""A primitive of one's own as kernels, written as text: `Loops` rules.

Knows which words a kernel's text may have, and what a rule may do with its target; not how kernels are compiled.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from keyword import iskeyword
from typing import Any, NoReturn

from functad.errors import CustomRuleError, is_int
from functad.extend.scalars import unknown_word
from functad.lowering_rules import Loops

_MODES = ("r", "w", "rw")
_BUILTINS = {"range", "min", "max", "abs", "int", "float", "complex", "start", "stop"}
_TAKEN = "`start`, `stop`, and Python's functions"
_STATEMENTS = (
    ast.Assign, ast.AugAssign, ast.Expr, ast.For, ast.While, ast.If, ast.Break, ast.Continue, ast.Pass,
)  # fmt: skip

_NO_NUMBERS = (
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.List, ast.Set, ast.Dict, ast.JoinedStr,
    ast.Await, ast.Yield, ast.YieldFrom, ast.Starred,
)  # fmt: skip


class OwnKernels:
    """What a `Loops` rule of a user's writes its kernels to.

    Attributes:
        threads_hint: how many threads there will be, as a hint.
    """

    def __init__(self, target: Any, ins: Sequence[Any], outs: Sequence[Any], said: str) -> None:
        self._target, self._outs, self._said = target, outs, said
        self._operands = [x for x in ins if not any(target.shares_memory(x, out) for out in outs)]
        self._written: list[Any] = []
        self.threads_hint: int = target.threads_hint

    def kernel(
        self,
        name: str,
        body: str,
        buffers: Mapping[str, tuple[Any, str]],
        n: int,
        *,
        flops: float = 0,
        bytes: float = 0,
    ) -> None:
        """A kernel.

        Args:
            name: what it is called in kernels and profiles.
            body: statements of Python, in which buffers are flat arrays, and `start` and `stop` are the steps that one
                call does: those of several threads are disjoint, and run at once.
            buffers: what the body calls a buffer, and whether it reads ("r"), writes ("w") or does both ("rw").
            n: how many steps there are.
            flops: the floating-point operations of all steps, as far as one knows them; they decide about threads.
            bytes: the bytes that are read and written.
        """
        for word in (name, *buffers):
            if not isinstance(word, str) or not word.isidentifier() or iskeyword(word) or word in _BUILTINS:
                self._fail(f"names {word!r}, but kernels and buffers take names of variables other than {_TAKEN}")
        if not is_int(n, 0):
            self._fail(f"says that kernel `{name}` has {n!r} steps, but that is an integer, 0 or more")
        for parameter, given in buffers.items():
            if not (isinstance(given, tuple) and len(given) == 2 and given[1] in _MODES):
                self._fail(
                    f'gives {given!r} for `{parameter}` of kernel `{name}`, but takes (buffer, "r", "w" or "rw")'
                )
        self._check(name, body, {parameter: mode for parameter, (_, mode) in buffers.items()})
        self._writes(*[buffer for buffer, mode in buffers.values() if mode != "r"])
        self._target.kernel(name, textwrap.dedent(body).strip("\n"), dict(buffers), int(n), flops=flops, bytes=bytes)

    def scratch(self, shape: Sequence[int], dtype: Any) -> Any:
        """A buffer for what is needed between kernels, or in one."""
        return self._target.scratch(shape, dtype)

    def copy(self, source: Any, target: Any) -> None:
        """Copy all elements of a buffer to another of the same size, unless both lie in the same memory."""
        self._writes(target)
        self._target.start_from(target, source)

    def fill(self, target: Any, value: Any) -> None:
        """Set all elements of a buffer to a number."""
        self._writes(target)
        self._target.fill(target, value)

    def call(self, function: Callable[..., Any], ins: Sequence[Any], outs: Sequence[Any], **params: Any) -> None:
        """A call of a function of NumPy arrays, which returns a list of arrays for the buffers `outs`."""
        self._writes(*outs)
        self._target.call(function, ins, outs, **params)

    def check_written(self) -> None:
        """Raise CustomRuleError unless something writes each result."""
        for i, out in enumerate(self._outs):
            if out.size and not any(out is buffer for buffer in self._written):
                self._fail(f"writes nothing to result {i}")

    def _writes(self, *buffers: Any) -> None:
        if any(buffer is x for buffer in buffers for x in self._operands):
            self._fail("writes to an operand, which others may read; target.copy it to a result or a scratch buffer")
        self._written += buffers

    def _check(self, name: str, body: str, modes: Mapping[str, str]) -> None:
        """Raise CustomRuleError unless a kernel's text is made of loops, choices and assignments of known words."""
        try:
            tree = ast.parse(textwrap.dedent(body))
        except SyntaxError as problem:
            self._fail(f"gives kernel `{name}` a text that is no Python: {problem}")
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
                text = ast.unparse(node).partition("\n")[0]
                self._fail(f"writes `{text}` in kernel `{name}`, but kernels have loops, `if`, and assignments only")
            if isinstance(node, _NO_NUMBERS) or isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
                self._fail(f"writes `{ast.unparse(node)}` in kernel `{name}`, but kernels have numbers only")
        targets = [n for n in ast.walk(tree) if isinstance(getattr(n, "ctx", None), ast.Store)]
        assigned = {n.id for n in targets if isinstance(n, ast.Name)}
        stored = {n.value.id for n in targets if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)}
        if fixed := sorted(assigned & {*modes, *_BUILTINS}):
            self._fail(f"assigns to `{fixed[0]}` in kernel `{name}`, but buffers, {_TAKEN} are what they are")
        if unknown := unknown_word(tree, {*modes, *assigned, *_BUILTINS}):
            self._fail(f"writes kernel `{name}`, but {unknown}")
        for parameter, mode in modes.items():
            if (mode == "r") == (parameter in stored):
                does = "is written" if mode == "r" else "is not written"
                self._fail(f'says "{mode}" for `{parameter}` of kernel `{name}`, but there it {does}')

    def _fail(self, problem: str) -> NoReturn:
        raise CustomRuleError(f"{self._said} it {problem}")


def _own_kernels(
    name: str, rule: Callable[..., None], target: Any, ins: Sequence[Any], outs: Sequence[Any], **params: Any
) -> None:
    """Let a user's rule write its kernels."""
    own = OwnKernels(target, ins, outs, f"the Loops rule of `{name}` at {target.source}:")
    rule(own, ins, outs, **params)
    own.check_written()


def checked_loops(name: str, rule: Loops) -> Loops:
    """The rule of a primitive of that name.

    Raises:
        CustomRuleError: it says of itself what only functad's own rules may say.
    """
    if rule.joins is not None or rule.indexed is not None or rule.keys:
        raise CustomRuleError(
            f"the Loops rule of `{name}` is said to join operands, to be an Indexed one, or to take keys, which cannot "
            "be checked: leave `joins`, `indexed` and `keys` out, or register an Indexed rule instead"
        )
    return Loops(partial(_own_kernels, name, rule.rule), in_place=rule.in_place, composite=rule.composite)
