"""Training from start to end, as a user starts it: import, data, three epochs of W1, evaluation after each.

Knows the command lines. `python -m benchmarks.training torch|jax` is the same job done by a peer.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.frameworks import absent
from benchmarks.measure import summary
from benchmarks.processes import ROOT, worker_environment
from benchmarks.record import Options, Section, compared

EPOCHS, BATCH, RATE, EVALUATION_BATCH = 3, 100, 0.015, 1000
FUNCTAD = ["functad", "train", "cnn", "--optimizer", "sgd", "--schedule", "constant"]
_COMMANDS = {
    "functad": [*FUNCTAD, "--epochs", str(EPOCHS), "--batch", str(BATCH), "--lr", str(RATE)],
    "torch": ["benchmarks.training", "torch"],
    "jax": ["benchmarks.training", "jax"],
}
_REPEATS = 3
_ROW = re.compile(r"^ +\d+ +[\d.]+ s +[\d.]+ +[\d.]+ +([\d.]+)$", re.MULTILINE)


def measure(options: Options) -> list[Section]:
    """Seconds of wall time of the whole process, caches warm."""
    samples: dict[str, list[float]] = {}
    failures: dict[str, str] = {}
    notes: dict[str, str] = {}
    for i in range(min(_REPEATS, options.rounds) + 1):  # the first fills the caches
        for framework in [f for f in _COMMANDS if f in options.frameworks and f not in failures]:
            reason = absent(framework)
            if reason is not None:
                failures[framework] = reason
                continue
            started = time.perf_counter()
            process = subprocess.run(
                [sys.executable, "-m", *_COMMANDS[framework]],
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=worker_environment(options.threads),
            )
            seconds = time.perf_counter() - started
            if process.returncode:
                failures[framework] = process.stderr.strip().splitlines()[-1]
                continue
            images = "MNIST" if "MNIST:" in process.stdout else "drawn digits"
            notes[framework] = f"{framework}: {images}, test accuracy {' / '.join(_ROW.findall(process.stdout))}"
            if i:
                samples.setdefault(framework, []).append(seconds)
    figures = {framework: summary(s) for framework, s in samples.items()}
    title = f"W1, {EPOCHS} epochs from start to end of the process"
    return [compared(Section("train", title, "s", figures, failures=failures, notes=list(notes.values())))]


# --- the peers' programs ------------------------------------------------------------------------------


def train(framework: str) -> None:
    """Do what `python -m functad train cnn` does, and print the same rows."""
    from benchmarks.workloads import mnist_cnn
    from functad.data import MissingDataError, mnist, synthetic_digits
    from functad.train import as_inputs

    try:
        train_images, train_labels, test_images, test_labels = mnist()
        print("MNIST:")
    except MissingDataError:
        train_images, train_labels = synthetic_digits(20_000, seed=0)
        test_images, test_labels = synthetic_digits(4_000, seed=1)
    prepared = as_inputs(train_images), train_labels, as_inputs(test_images), test_labels
    trainer = {"torch": _torch, "jax": _jax}[framework]
    step, count = trainer(mnist_cnn, *prepared)
    rng = np.random.default_rng(0)
    for number in range(1, EPOCHS + 1):
        order = rng.permutation(len(train_labels))
        started = time.perf_counter()
        losses = [step(order[i : i + BATCH]) for i in range(0, len(order) - BATCH + 1, BATCH)]
        loss = float(np.mean([float(loss) for loss in losses]))
        seconds = time.perf_counter() - started
        right = [count(slice(i, i + EVALUATION_BATCH)) for i in range(0, len(test_labels), EVALUATION_BATCH)]
        accuracy = sum(map(int, right)) / len(test_labels)
        print(f"{number:5d} {seconds:6.1f} s {loss:8.4f} {0:12.4f} {accuracy:11.4f}", flush=True)


def _torch(network: Any, images: Any, labels: Any, test_images: Any, test_labels: Any) -> tuple[Callable, Callable]:
    import torch

    form = network.task().forms["torch"]
    loss_function, scores = form.function(), network.torch_scores()
    params = {name: torch.tensor(np.ascontiguousarray(p)) for name, p in form.convert(network.task().params).items()}
    optimizer = torch.optim.SGD([p.requires_grad_() for p in params.values()], RATE, fused=True)
    images, test_images = torch.from_numpy(images), torch.from_numpy(test_images)
    labels, test_labels = torch.from_numpy(labels).long(), torch.from_numpy(test_labels)

    def step(items: np.ndarray) -> Any:
        index = torch.from_numpy(items)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(params, images[index], labels[index])
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def count(items: slice) -> Any:
        return (scores(params, test_images[items]).argmax(1) == test_labels[items]).sum()

    return step, count


def _jax(network: Any, images: Any, labels: Any, test_images: Any, test_labels: Any) -> tuple[Callable, Callable]:
    import jax

    form = network.task().forms["jax"]
    loss_function, scores = form.function(), network.jax_scores()
    params = jax.tree.map(jax.device_put, form.convert(network.task().params))
    images, labels = form.batch(images, labels)
    test_images, test_labels = form.batch(test_images, test_labels)

    def updated(params: Any, images: Any, labels: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_function)(params, images, labels)
        return jax.tree.map(lambda p, g: p - RATE * g, params, grads), loss

    compiled = jax.jit(updated, donate_argnums=0)

    def step(items: np.ndarray) -> Any:
        nonlocal params
        params, loss = compiled(params, images[items], labels[items])
        return loss

    counted = jax.jit(lambda params, images, labels: (scores(params, images).argmax(1) == labels).sum())
    return step, lambda items: counted(params, test_images[items], test_labels[items])


if __name__ == "__main__":
    train(sys.argv[1])
