"""`python -m benchmarks`: run, print a table with ratios to functad, and keep the numbers as JSON.

Knows which benchmarks there are; how to time is in `measure`, the peers are in `peers`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from datetime import date
from pathlib import Path

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.measure import Timing, import_times, in_turn
from benchmarks.peers import CHAIN, chain_of_sines, installed
from functad import nn

Results = dict[str, dict[str, Timing]]


def eager_gradient() -> Results:
    """Microseconds an operation, un-jitted reverse mode."""
    timings = in_turn(chain_of_sines())
    return {"eager gradient, µs an op": {n: t.scaled(1e6 / CHAIN) for n, t in timings.items()}}


def importing() -> Results:
    """Milliseconds to import."""
    timings = import_times(["functad", *installed(["autograd", "jax", "torch"])])
    return {"import, ms": {n: t.scaled(1e3) for n, t in timings.items()}}


def tracing() -> Results:
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
    print(f"the traced W1 gradient has {len(traced(params).eqns)} equations")
    timings = in_turn({"functad": lambda: traced(params)}, rounds=11)
    return {"trace of the W1 gradient, ms": {n: t.scaled(1e3) for n, t in timings.items()}}


BENCHMARKS = {"eager": eager_gradient, "import": importing, "trace": tracing}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--save", action="store_true", help="keep the results under benchmarks/results/")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    results: Results = {}
    for name in options.names or BENCHMARKS:
        results |= BENCHMARKS[name]()
    print_table(results)
    if options.save:
        save(results)


def print_table(results: Results) -> None:
    missing = sorted({"autograd", "jax", "torch"} - set(installed(["autograd", "jax", "torch"])))
    for title, timings in results.items():
        print(f"\n{title}")
        own = timings["functad"].median
        for name, t in timings.items():
            ratio = t.median / own
            print(f"  {name:10} {t.median:10.3g}   quartiles {t.low:.3g} to {t.high:.3g}   {ratio:8.2f} × functad")
    if missing:
        print(f"\nnot installed, so not compared: {', '.join(missing)}")


def save(results: Results) -> None:
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{date.today().isoformat()}.json"
    record = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "functad": functad.__version__,
        "results": {title: {n: t._asdict() for n, t in timings.items()} for title, timings in results.items()},
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"\nkept in {path}")


if __name__ == "__main__":
    main()
