"""Operations on a GPU that are no operators of W4: sorts, running sums, softmax, normalization, attention, updates.

Knows them in functad and PyTorch, how many bytes each moves at least, and how they are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import functad.numpy as jnp
from benchmarks import gpu_operators
from functad import block_until_ready, device_put, grad, jit, nn, vjp


class Operation(NamedTuple):
    """An operation on arrays of random numbers.

    Attributes:
        shapes: of the operands, of float32; whole numbers below `below` where a shape stands in a list.
        function: functad's. torch: a function that gives PyTorch's.
        bytes: that it must move at least; 0 where products are its floor.
    """

    shapes: tuple[Any, ...]
    function: Callable[..., Any]
    torch: Callable[[], Callable[..., Any]]
    bytes: int
    below: int = 0

    def arguments(self) -> list[np.ndarray]:
        """Operands; a few random numbers again and again, for all of them would take longer than what is timed."""
        rng, found = np.random.default_rng(0), []
        for shape in self.shapes:
            if isinstance(shape, list):
                found.append(rng.integers(0, self.below, shape).astype(np.int32))
            else:
                found.append(np.resize(rng.standard_normal(999_983).astype(np.float32), shape))
        return found

    def smaller(self) -> Operation:
        """The operation on arrays of a few numbers."""
        shapes = tuple([type(shape)(min(n, _FEW) for n in shape) for shape in self.shapes])
        return self._replace(shapes=shapes, below=min(self.below, _FEW))


_FEW = 4


def _torch() -> Any:
    return import_module("torch")


def _functional() -> Any:
    return import_module("torch.nn.functional")


def _pulled(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """PyTorch's result and gradients of the first operands, for a cotangent that comes last."""

    def both(*operands: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in operands[:count]]
        result = function(*leaves, *operands[count:-1])
        return result.detach(), *_torch().autograd.grad(result, leaves, operands[-1])

    return both


def _both(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    def both(*operands: Any) -> Any:
        result, pullback = vjp(lambda *first: function(*first, *operands[count:-1]), *operands[:count])
        return result, *pullback(operands[-1])

    return both


def _normalized(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def _rows_added(table: Any, at: Any, rows: Any) -> Any:
    return grad(lambda table: (table[at] * rows).sum())(table)


def _torch_rows_added(table: Any, at: Any, rows: Any) -> Any:
    return _torch().zeros_like(table).index_add_(0, at, rows)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return nn.dot_product_attention(q, k, v)


def _torch_attention(*operands: Any) -> Any:
    by_head = [x.transpose(1, 2) for x in operands]
    return _functional().scaled_dot_product_attention(*by_head).transpose(1, 2)


_ROWS, _WIDTH = 8192, 4096
_MATRIX = 4 * _ROWS * _WIDTH
_HEADS = (8, 1024, 16, 64)

OPERATIONS: dict[str, Operation] = {
    "softmax": Operation(
        ((_ROWS, _WIDTH),), lambda x: nn.softmax(x), lambda: lambda x: _torch().softmax(x, -1), 2 * _MATRIX
    ),
    "softmax, forward and backward": Operation(
        ((_ROWS, _WIDTH),) * 2, _both(nn.softmax), lambda: _pulled(lambda x: _torch().softmax(x, -1)), 4 * _MATRIX
    ),
    "layer norm": Operation(
        ((_ROWS, _WIDTH), (_WIDTH,), (_WIDTH,)),
        _normalized,
        lambda: lambda x, s, t: _functional().layer_norm(x, (_WIDTH,), s, t),
        2 * _MATRIX,
    ),
    "layer norm, forward and backward": Operation(
        ((_ROWS, _WIDTH), (_WIDTH,), (_WIDTH,), (_ROWS, _WIDTH)),
        _both(_normalized),
        lambda: _pulled(lambda x, s, t: _functional().layer_norm(x, (_WIDTH,), s, t)),
        4 * _MATRIX,
    ),
    "cumulative sum of 2²⁵": Operation(
        ((1 << 25,),), lambda x: jnp.cumsum(x), lambda: lambda x: _torch().cumsum(x, 0), 8 << 25
    ),
    "sort of 2²⁴": Operation(((1 << 24,),), lambda x: jnp.sort(x), lambda: lambda x: _torch().sort(x)[0], 8 << 24),
    "sort of 4096 × 1024": Operation(
        ((4096, 1024),), lambda x: jnp.sort(x, 1), lambda: lambda x: _torch().sort(x, 1)[0], 8 << 22
    ),
    "attention, 8 × 16 heads × 1024 × 64": Operation((_HEADS,) * 3, _attention, lambda: _torch_attention, 0),
    "attention, forward and backward": Operation(
        (_HEADS,) * 4, _both(_attention, 3), lambda: _pulled(_torch_attention, 3), 0
    ),
    "gradient of an embedding, 65,536 of 50,000 × 256": Operation(
        ((50_000, 256), [65_536], (65_536, 256)), _rows_added, lambda: _torch_rows_added, 4 * 256 * 115_536, 50_000
    ),
}


FIRST = tuple([name for name in OPERATIONS if name.startswith("attention")])  # none has been timed


def measured(operation: Operation, device: Any) -> dict[str, float]:
    """µs of functad, of PyTorch where it has a GPU, and of copies of as many bytes; by how much results differ."""
    given = operation.arguments()
    compiled, on_device = _compiled(operation, given, device)
    found = {"µs": gpu_operators.time_of(compiled, on_device, device)}
    found["floor µs"] = operation.bytes / device.copy_speed()
    if torch := gpu_operators.torch_on_gpu():
        function, tensors = operation.torch(), [torch.as_tensor(x, device="cuda") for x in given]
        found["torch µs"] = gpu_operators.time_of_torch(torch, function, tensors)
        found["difference"] = gpu_operators.difference(torch, compiled(*on_device), function(*tensors))
    return found


def prepare(operation: Operation, device: Any) -> None:
    """Compile the kernels, and keep them on the disk."""
    compiled, on_device = _compiled(operation, operation.arguments(), device)
    block_until_ready(compiled(*on_device))


def _compiled(operation: Operation, given: Sequence[np.ndarray], device: Any) -> tuple[Any, list[Any]]:
    on_device = [device_put(x, device) for x in given]
    return jit(operation.function).lower(*on_device).compile(), on_device
