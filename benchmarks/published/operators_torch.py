"""W4: fifteen operations, forwards and backwards, as a user of PyTorch writes them; microseconds of each."""

import time

import torch

OPERATIONS = {
    "add": lambda x, y: x + y,
    "broadcast": lambda x, y: x + y[0],
    "copy": lambda x: x.clone(),
    "divide": lambda x, y: x / y,
    "exp": lambda x: torch.exp(x),
    "log": lambda x: torch.log(x),
    "matmul": lambda x, y: x @ y,
    "max": lambda x: x.max(1).values,
    "multiply": lambda x, y: x * y,
    "negate": lambda x: -x,
    "power": lambda x, y: x**y,
    "relu": lambda x: torch.relu(x),
    "subtract": lambda x, y: x - y,
    "sum": lambda x: x.sum(1),
    "transpose": lambda x: x.T,
}


def both_ways(operation, *arguments):
    result = operation(*arguments)
    return result, torch.autograd.grad(result, arguments, torch.ones_like(result))


def measure(size=1000):
    x, y = (torch.rand(size, size) + 0.5).requires_grad_(), (torch.rand(size, size) + 0.5).requires_grad_()
    for name, operation in OPERATIONS.items():
        arguments, times = (x, y)[: operation.__code__.co_argcount], []
        for _ in range(30):
            started = time.perf_counter()
            both_ways(operation, *arguments)
            times.append(time.perf_counter() - started)
        print(f"{name:10} {min(times) * 1e6:8.0f}")


if __name__ == "__main__":
    measure()
