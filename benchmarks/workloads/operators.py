"""W4: the fifteen operators of a published system, forward, and forward and backward, on square matrices.

Knows what each computes in each framework, and the least that it must read, write and compute.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from benchmarks.task import Calling, Copying, Form

SIDES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
_POWER = 2.5
_IN_CACHE = 2048  # numbers: with results and cotangents of them 32 KiB at most


class Operator(NamedTuple):
    """One operator on matrices of n × n numbers of float32.

    Attributes:
        title: what it is called.
        operands: the axes of each operand: 2 for a matrix, 1 for a row.
        function: a module like NumPy → the operator.
        pullback: NumPy's: `(cotangent, result, *operands)` → the operands' cotangents.
        forward: how many matrices the operator must read and write.
        both: the same of forward and backward together. A cotangent that is passed on moves nothing.
        products: matrix products, forward, and forward and backward; where there are some, they are the floor.
        torch: PyTorch's, where its words differ.
        positive: whether operands must be.
        moves: whether nothing is computed.
    """

    title: str
    operands: tuple[int, ...]
    function: Callable[[Any], Callable[..., Any]]
    pullback: Callable[..., tuple[Any, ...]]
    forward: int
    both: int
    products: tuple[int, int] = (0, 0)
    torch: Callable[[Any], Callable[..., Any]] | None = None
    positive: bool = False
    moves: bool = False

    def arguments(self, n: int, rows: int | None = None) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(0)
        shape = n if rows is None else rows, n
        found = tuple(rng.standard_normal(shape[-axes:], np.float32) for axes in self.operands)
        for x in found:
            x[x == 0] = 1  # one in some 2²³ is; frameworks differ in the derivative of a ReLU there
        return tuple(np.abs(x) + np.float32(0.5) for x in found) if self.positive else found

    def task(self, n: int, backward: bool, rows: int | None = None) -> Calling:
        """The operator, or its result and its cotangents, each call waited for; on some rows only, if so many."""
        arguments = self.arguments(n, rows)
        if backward:
            result = self.function(np)(*arguments)
            cotangent = np.random.default_rng(1).standard_normal(result.shape, np.float32)
            arguments = (cotangent, *arguments)
        forms = {name: Form(partial(self._functional, name, backward)) for name in ("functad", "jax")}
        forms["numpy"] = Form(partial(self._numpys, backward))
        forms["torch"] = Form(partial(self._torchs, backward))
        return Calling(arguments, forms, waited_for=True)

    def _functional(self, name: str, backward: bool) -> Callable[..., Any]:
        vjp = import_module(name).vjp
        function = self.function(import_module(f"{name}.numpy"))

        def both(cotangent: Any, *operands: Any) -> Any:
            result, pullback = vjp(function, *operands)
            return result, *pullback(cotangent)

        return both if backward else function

    def _numpys(self, backward: bool) -> Callable[..., Any]:
        function, pullback = self.function(np), self.pullback

        def both(cotangent: Any, *operands: Any) -> Any:
            result = function(*operands)
            return result, *pullback(cotangent, result, *operands)

        return both if backward else function

    def _torchs(self, backward: bool) -> Callable[..., Any]:
        torch = import_module("torch")
        function = (self.torch or self.function)(torch)

        def both(cotangent: Any, *operands: Any) -> Any:
            leaves = [x.detach().requires_grad_() for x in operands]
            result = function(*leaves)
            return result.detach(), *torch.autograd.grad(result, leaves, cotangent)

        return both if backward else function

    def bytes(self, n: int, backward: bool) -> int:
        """The least that must be read and written."""
        return 4 * n * n * (self.both if backward else self.forward)

    def operations(self, n: int, backward: bool) -> int:
        """Multiplications and additions of matrix products; 0 where there are none."""
        return 2 * n**3 * self.products[backward]


def few_rows(n: int) -> tuple[int, int]:
    """How many rows of a matrix lie in the caches of a core, and twice as many, which do so, too."""
    rows = max(_IN_CACHE // n, 1)
    return rows, 2 * rows


def copies(size: int) -> Copying:
    """Copies that read and write `size` bytes."""
    return Copying(size, {"numpy": Form(lambda: np.copyto)})


def _shares(cotangent: Any, result: Any, x: Any) -> Any:
    """What each element of a row has of the row's maximum: ties share it."""
    largest = x == result[:, None]
    return largest * (cotangent / largest.sum(1, dtype=np.float32))[:, None]


OPERATORS = {
    "add": Operator("x + y", (2, 2), lambda m: lambda x, y: x + y, lambda ct, z, x, y: (ct, ct), 3, 3),
    "broadcast": Operator("x + row", (2, 1), lambda m: lambda x, y: x + y, lambda ct, z, x, y: (ct, ct.sum(0)), 2, 3),
    "copy": Operator("copy", (2,), lambda m: m.copy, lambda ct, z, x: (ct,), 2, 2, torch=lambda m: m.clone, moves=True),
    "divide": Operator(
        "x / y", (2, 2), lambda m: lambda x, y: x / y, lambda ct, z, x, y: (ct / y, -ct * x / y**2), 3, 6, positive=True
    ),
    "exp": Operator("exp", (2,), lambda m: m.exp, lambda ct, z, x: (ct * z,), 2, 4),
    "log": Operator("log", (2,), lambda m: m.log, lambda ct, z, x: (ct / x,), 2, 4, positive=True),
    "matmul": Operator(
        "matrix product", (2, 2), lambda m: m.matmul, lambda ct, z, x, y: (ct @ y.T, x.T @ ct), 3, 6, products=(1, 3)
    ),
    "max": Operator(
        "max of rows",
        (2,),
        lambda m: lambda x: m.max(x, 1),
        lambda ct, z, x: (_shares(ct, z, x),),
        1,
        2,
        torch=lambda m: lambda x: m.amax(x, 1),
    ),
    "multiply": Operator("x · y", (2, 2), lambda m: lambda x, y: x * y, lambda ct, z, x, y: (ct * y, ct * x), 3, 6),
    "negate": Operator("−x", (2,), lambda m: lambda x: -x, lambda ct, z, x: (-ct,), 2, 4),
    "power": Operator(
        f"x to the {_POWER}",
        (2,),
        lambda m: lambda x: x**_POWER,
        lambda ct, z, x: (ct * (_POWER * x ** (_POWER - 1)),),
        2,
        4,
        positive=True,
    ),
    "relu": Operator(
        "ReLU",
        (2,),
        lambda m: lambda x: m.maximum(x, 0),
        lambda ct, z, x: (ct * (x > 0),),
        2,
        4,
        torch=lambda m: m.relu,
    ),
    "subtract": Operator("x − y", (2, 2), lambda m: lambda x, y: x - y, lambda ct, z, x, y: (ct, -ct), 3, 5),
    "sum": Operator(
        "sum of rows",
        (2,),
        lambda m: lambda x: m.sum(x, 1),
        lambda ct, z, x: (np.broadcast_to(ct[:, None], x.shape).copy(),),
        1,
        2,
    ),
    "transpose": Operator(
        "transposed copy",
        (2,),
        lambda m: (lambda x: np.ascontiguousarray(x.T)) if m is np else lambda x: x.T,
        lambda ct, z, x: (np.ascontiguousarray(ct.T),),
        2,
        4,
        torch=lambda m: lambda x: x.T.contiguous(),
        moves=True,
    ),
}
