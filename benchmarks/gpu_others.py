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


def _torch() -> Any:
    return import_module("torch")


def _functional() -> Any:
    return import_module("torch.nn.functional")


def _pulled(function: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's result and gradient of the first operand, for a cotangent that comes last."""

    def both(x: Any, *others: Any) -> Any:
        leaf = x.detach().requires_grad_()
        result = function(leaf, *others[:-1])
        return result.detach(), *_torch().autograd.grad(result, [leaf], others[-1])

    return both


def _both(function: Callable[..., Any]) -> Callable[..., Any]:
    def both(x: Any, *others: Any) -> Any:
        result, pullback = vjp(lambda x: function(x, *others[:-1]), x)
        return result, *pullback(others[-1])

    return both


def _normalized(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def _rows_added(table: Any, at: Any, rows: Any) -> Any:
    return grad(lambda table: (table[at] * rows).sum())(table)


def _torch_rows_added(table: Any, at: Any, rows: Any) -> Any:
    return _torch().zeros_like(table).index_add_(0, at, rows)


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
    "attention, 8 × 16 heads × 1024 × 64": Operation(
        (_HEADS,) * 3,
        lambda q, k, v: nn.dot_product_attention(q, k, v),
        lambda: _torch_attention,
        0,
    ),
    "gradient of an embedding, 65,536 of 50,000 × 256": Operation(
        ((50_000, 256), [65_536], (65_536, 256)), _rows_added, lambda: _torch_rows_added, 4 * 256 * 115_536, 50_000
    ),
}


def measured(name: str, device: Any) -> dict[str, float]:
    """µs of functad, of PyTorch where it has a GPU, and of copies of as many bytes; by how much results differ."""
    operation = OPERATIONS[name]
    given = operation.arguments()
    compiled, on_device = _compiled(operation, given, device)
    found = {"µs": gpu_operators.time_of(compiled, on_device, device)}
    found["floor µs"] = operation.bytes / device.copy_speed()
    if torch := gpu_operators.torch_on_gpu():
        function, tensors = operation.torch(), [torch.as_tensor(x, device="cuda") for x in given]
        found["torch µs"] = gpu_operators.time_of_torch(torch, function, tensors)
        found["difference"] = gpu_operators.difference(torch, compiled(*on_device), function(*tensors))
    return found


def prepare(name: str, device: Any) -> None:
    """Compile the kernels, and keep them on the disk."""
    operation = OPERATIONS[name]
    compiled, on_device = _compiled(operation, operation.arguments(), device)
    block_until_ready(compiled(*on_device))


def _compiled(operation: Operation, given: Sequence[np.ndarray], device: Any) -> tuple[Any, list[Any]]:
    on_device = [device_put(x, device) for x in given]
    return jit(operation.function).lower(*on_device).compile(), on_device
