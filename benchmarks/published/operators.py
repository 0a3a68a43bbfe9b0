"""W4: fifteen operations, forwards and backwards, as a user writes them; microseconds of each."""

import time
from functools import partial

import functad
from functad import nn, random
from functad import numpy as jnp

OPERATIONS = {
    "add": lambda x, y: x + y,
    "broadcast": lambda x, y: x + y[0],
    "copy": lambda x: x.copy(),
    "divide": lambda x, y: x / y,
    "exp": lambda x: jnp.exp(x),
    "log": lambda x: jnp.log(x),
    "matmul": lambda x, y: x @ y,
    "max": lambda x: x.max(1),
    "multiply": lambda x, y: x * y,
    "negate": lambda x: -x,
    "power": lambda x, y: x**y,
    "relu": lambda x: nn.relu(x),
    "subtract": lambda x, y: x - y,
    "sum": lambda x: x.sum(1),
    "transpose": lambda x: x.T,
}


@partial(functad.jit, static_argnums=0)
def both_ways(operation, *arguments):
    result, backwards = functad.vjp(operation, *arguments)
    return result, backwards(jnp.ones_like(result))


def measure(size=1000):
    x, y = random.uniform(random.key(0), (2, size, size), minval=0.5, maxval=1.5)
    for name, operation in OPERATIONS.items():
        arguments, times = (x, y)[: operation.__code__.co_argcount], []
        for _ in range(30):
            started = time.perf_counter()
            both_ways(operation, *arguments)
            times.append(time.perf_counter() - started)
        print(f"{name:10} {min(times) * 1e6:8.0f}")


if __name__ == "__main__":
    measure()
