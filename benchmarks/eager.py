"""What needs no process of its own: un-jitted operations and gradients, imports, tracing.

Knows these.
"""

from __future__ import annotations

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.measure import Timing, import_times, in_turn
from benchmarks.peers import CHAIN, chain_of_sines, installed, perceptron, single_operations
from benchmarks.record import Options, Section, compared
from functad import nn

_PEERS = ["autograd", "jax", "torch"]


def unjitted(options: Options) -> list[Section]:
    """Microseconds of gradients, an operation in reverse mode, and single operations."""
    timings = in_turn(chain_of_sines(), rounds=options.rounds)
    sections = _section("eager", "eager gradient, an operation", "µs", timings, 1e6 / CHAIN)
    calls = {"gradient of a 784-128-10 perceptron, batch 100": perceptron(), **single_operations()}
    for title, contenders in calls.items():
        timings = in_turn(contenders, rounds=options.rounds)
        sections += _section("eager", f"eager {title}", "µs", timings, 1e6, with_peers=False)
    return sections


def importing(options: Options) -> list[Section]:
    """Milliseconds to import."""
    timings = import_times(["functad", *installed(_PEERS)], rounds=max(1, options.rounds // 2))
    return _section("import", "import", "ms", timings, 1e3)


def tracing(options: Options) -> list[Section]:
    """Milliseconds to trace the value and gradient of the W1 loss (a CNN on 100 MNIST images)."""
    net = nn.serial(
        nn.Conv(6, (3, 3), padding="VALID", use_bias=False), nn.Relu(), nn.MaxPool((2, 2)), nn.Flatten(),
        nn.Dense(84, use_bias=False), nn.Relu(), nn.Dense(10, use_bias=False),
    )  # fmt: skip
    images, labels = np.zeros((100, 1, 28, 28), np.float32), np.zeros(100, np.int32)
    params = net.init(functad.random.key(0), images)

    def loss(params: object) -> object:
        logits = net.apply(params, images)
        return jnp.mean(nn.losses.softmax_cross_entropy_with_integer_labels(logits, labels))

    traced = functad.make_jaxpr(functad.value_and_grad(loss))
    timings = in_turn({"functad": lambda: traced(params)}, rounds=options.rounds)
    count = len(traced(params).eqns)
    return _section("trace", f"trace of the W1 gradient, {count} equations", "ms", timings, 1e3, with_peers=False)


def _section(
    name: str, title: str, unit: str, timings: dict[str, Timing], factor: float, *, with_peers: bool = True
) -> list[Section]:
    figures = {row: timing.scaled(factor) for row, timing in timings.items()}
    missing = {peer: "not installed" for peer in _PEERS if with_peers and not installed([peer])}
    return [compared(Section(name, title, unit, figures, failures=missing))]
