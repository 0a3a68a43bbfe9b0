"""The workloads by name. Each is a `Training` or a `Calling`, made where it is run.

Knows their names and titles; what they compute is in the modules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from benchmarks.workloads import (
    calls,
    convolution,
    equations,
    lstm,
    mathematics,
    mnist_cnn,
    mnist_rnn,
    operations,
    operators,
    perceptron,
    text_cnn,
    trajectories,
    unet,
)


class Workload(NamedTuple):
    """What it is called in tables, and what makes the task."""

    title: str
    task: Callable[[], Any]


PERCEPTRONS = {
    f"W5-{width}": Workload(f"W5: perceptron, h = {width}, batch 100", partial(perceptron.task, width))
    for width in perceptron.WIDTHS
}
STEPS = {
    "W1": Workload("W1: CNN on digits, batch 100", mnist_cnn.task),
    "W2": Workload("W2: RNN on digits, unrolled, batch 100", mnist_rnn.task),
    "W3": Workload("W3: text CNN with embedding, Adam, batch 64", text_cnn.task),
    **{name: PERCEPTRONS[name] for name in ("W5-128", "W5-512", "W5-2048")},
}
LOOPS = {
    "W2-scan": Workload("W2: RNN on digits, written with scan, batch 100", mnist_rnn.scan_task),
    "lstm": Workload("LSTM, 128 hidden, on the 28 rows of digits, batch 100", lstm.digit_rows),
    "characters": Workload("LSTM character model, 256 hidden, 64 steps, batch 32", lstm.characters),
    "logistic": Workload("gradient of 1,000 steps of a logistic map", trajectories.logistic),
    "oscillator": Workload("gradient of 1,000 Runge-Kutta steps of an oscillator", trajectories.oscillator),
    "n-body": Workload("64 bodies, 500 steps, a while loop", trajectories.bodies),
}
CONVOLUTIONS = {
    "conv": Workload("convolution 3×3, 64→64, 56×56, batch 32: forward", convolution.forward),
    "conv-input": Workload("the same: gradient of the input", convolution.input_gradient),
    "conv-kernel": Workload("the same: gradient of the kernel", convolution.kernel_gradient),
}
# What takes long to compile, as seen from what it computes.
COLD = {
    "unet": Workload("U-Net, 64×64 pixels, batch 4", unet.task),
    **{
        f"cold-{name}": Workload(
            f"both gradients of a convolution {g.window}×{g.window}, stride {g.stride}, {g.features}→{g.outputs}",
            partial(convolution.both_gradients, g),
        )
        for name, g in convolution.GEOMETRIES.items()
    },
}
CALLS = {
    "call-scalar": Workload("call of a scalar function", calls.scalar),
    "call-tree": Workload("call with a pytree of ten leaves", calls.ten_leaves),
    "call-numpy": Workload("call with a NumPy batch of 100×784", calls.numpy_batch),
}
# The table of operations: family → what it is, and its rows, one for each number of elements.
FAMILIES = {
    **operations.MOVING,
    **operations.SUMS,
    **operations.FUNCTIONS,
    **mathematics.SEARCH,
    **mathematics.LINEAR_ALGEBRA,
    **mathematics.TRANSFORMS,
    **mathematics.RANDOM,
}
OPERATIONS = {
    f"{name}-{n}": Workload(f"{family.title}, {n:,}", partial(family.task, n))
    for name, family in FAMILIES.items()
    for n in family.sizes
}
# W4: each operator at each size, forward, and forward and backward; on a few rows; and copies of as many bytes.
ROOFLINE = {
    f"{name}-{n}-{'both' if backward else 'forward'}": Workload(
        f"{operator.title}, {n}², {'forward and backward' if backward else 'forward'}",
        partial(operator.task, n, backward),
    )
    for name, operator in operators.OPERATORS.items()
    for n in operators.SIDES
    for backward in (False, True)
}
ROWS = {
    f"{rows}-rows-{name}-{n}-{'both' if backward else 'forward'}": Workload(
        f"{operator.title}, {rows} × {n}", partial(operator.task, n, backward, rows)
    )
    for name, operator in operators.OPERATORS.items()
    if not operator.moves and not operator.products[0]
    for n in operators.SIDES
    for rows in operators.few_rows(n)
    for backward in (False, True)
}
COPIES = {
    f"copies-{size}": Workload(f"copies, {size:,} bytes", partial(operators.copies, size))
    for size in sorted({o.bytes(n, b) for o in operators.OPERATORS.values() for n in operators.SIDES for b in (0, 1)})
}
SIZES = (125, 250, 500, 1000, 2000)
EQUATIONS = {
    f"{kind}-{size}": Workload(f"{title}, {unit.format(size)}", partial(make, size))
    for kind, title, unit, make in (
        ("chain", "element-wise chain", "about {} equations", equations.chain),
        ("sines", "chain of sines", "{} equations", equations.sines),
        ("unlike", "chain without a pattern", "about {} equations", equations.unlike),
        ("results", "products of one vector with different numbers", "{} results", equations.results),
        ("inputs", "sum of vectors", "{} arguments", equations.inputs),
        ("recurrent", "gradient of an unrolled recurrent network", "about {} equations", equations.recurrent),
        ("scan", "gradient of the same network as a scan", "{} steps", equations.scanned),
    )
    for size in SIZES
}
WORKLOADS = {
    **STEPS,
    **PERCEPTRONS,
    **LOOPS,
    **CONVOLUTIONS,
    **COLD,
    **CALLS,
    **OPERATIONS,
    **ROOFLINE,
    **ROWS,
    **COPIES,
    **EQUATIONS,
}
