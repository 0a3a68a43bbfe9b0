"""The jobs of `python -m functad train` done by its peers: `python -m benchmarks.training_peers torch cnn`.

Each prints the same rows. `… torch text --check` compares the network with functad's instead, from the same params.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

FEWEST_EVALUATED = 64


class Prepared(NamedTuple):
    """A job in a framework.

    Attributes:
        items: how many there are to train on.
        step: makes a step with the items of these numbers, and gives the loss.
        evaluate: gives the sum of what counts over the items to test with in a slice, and how many they are.
        tested: items to test with.
    """

    items: int
    step: Callable[[np.ndarray], Any]
    evaluate: Callable[[slice], tuple[Any, int]]
    tested: int


def train(prepared: Prepared, epochs: int, batch: int) -> None:
    """Go over the items in another order each time, and print a row for each."""
    rng, at_once = np.random.default_rng(0), max(batch, FEWEST_EVALUATED)
    for number in range(1, epochs + 1):
        order = rng.permutation(prepared.items)
        started = time.perf_counter()
        losses = [prepared.step(order[i : i + batch]) for i in range(0, len(order) - batch + 1, batch)]
        loss = float(np.mean([float(loss) for loss in losses]))
        seconds = time.perf_counter() - started
        parts = [prepared.evaluate(slice(i, i + at_once)) for i in range(0, prepared.tested, at_once)]
        tested = sum(float(total) for total, _ in parts) / sum(count for _, count in parts)
        print(f"{number:5d} {seconds:6.2f} s {loss:8.4f} {tested:9.4f}", flush=True)


# --- W1 and W2 ----------------------------------------------------------------------------------------------


def _digits(options: argparse.Namespace) -> tuple[Any, ...]:
    from functad.data import MissingDataError, mnist, synthetic_digits
    from functad.train import as_inputs

    try:
        train_images, train_labels, test_images, test_labels = mnist()
        print("MNIST:")
    except MissingDataError:
        train_images, train_labels = synthetic_digits(20_000, seed=0)
        test_images, test_labels = synthetic_digits(4_000, seed=1)
    chosen = slice(options.limit)
    return as_inputs(train_images[chosen]), train_labels[chosen], as_inputs(test_images), test_labels


def _torch_digits(name: str, shape: tuple[int, ...], options: argparse.Namespace) -> Prepared:
    """The network of a workload, for images of this shape."""
    import torch

    workload: Any = import_module(f"benchmarks.workloads.{name}")
    form = workload.task().forms["torch"]
    loss_function, scores = form.function(), workload.torch_scores()
    params = {name: torch.tensor(np.ascontiguousarray(p)) for name, p in form.convert(workload.task().params).items()}
    optimizer = torch.optim.SGD([p.requires_grad_() for p in params.values()], options.lr, fused=True)
    images, labels, test_images, test_labels = map(torch.from_numpy, _digits(options))
    images, test_images = images.view(-1, *shape), test_images.view(-1, *shape)
    labels, test_labels = labels.long(), test_labels.long()

    def step(items: np.ndarray) -> Any:
        index = torch.from_numpy(items)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(params, images[index], labels[index])
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(items: slice) -> tuple[Any, int]:
        right = scores(params, test_images[items]).argmax(1) == test_labels[items]
        return right.sum(), len(right)

    return Prepared(len(labels), step, evaluate, len(test_labels))


def _jax_cnn(options: argparse.Namespace) -> Prepared:
    import jax

    from benchmarks.workloads import mnist_cnn

    form = mnist_cnn.task().forms["jax"]
    loss_function, scores = form.function(), mnist_cnn.jax_scores()
    params = jax.tree.map(jax.device_put, form.convert(mnist_cnn.task().params))
    images, labels, test_images, test_labels = _digits(options)
    images, labels = form.batch(images, labels)
    test_images, test_labels = form.batch(test_images, test_labels)

    def updated(params: Any, images: Any, labels: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_function)(params, images, labels)
        return jax.tree.map(lambda p, g: p - options.lr * g, params, grads), loss

    compiled = jax.jit(updated, donate_argnums=0)

    def step(items: np.ndarray) -> Any:
        nonlocal params
        params, loss = compiled(params, images[items], labels[items])
        return loss

    counted = jax.jit(lambda params, images, labels: (scores(params, images).argmax(1) == labels).sum())

    def evaluate(items: slice) -> tuple[Any, int]:
        return counted(params, test_images[items], test_labels[items]), len(test_labels[items])

    return Prepared(len(labels), step, evaluate, len(test_labels))


# --- texts, in PyTorch --------------------------------------------------------------------------------


def _torch_text(options: argparse.Namespace) -> Prepared:
    import torch
    import torch.nn.functional as F

    from benchmarks.torch_networks import TextCnn
    from functad.data import imdb

    reviews = imdb()
    print("IMDB:")
    words, test_words = map(torch.from_numpy, numbered_words(reviews.train_texts, reviews.test_texts))
    labels, test_labels = (torch.from_numpy(a) for a in (reviews.train_labels, reviews.test_labels))
    words, labels = words[: options.limit], labels[: options.limit].float()
    network = TextCnn()
    step = _torch_step(network, F.binary_cross_entropy_with_logits, words, labels, options, linear=False)

    @torch.no_grad()
    def evaluate(items: slice) -> tuple[Any, int]:
        right = (network(test_words[items]) > 0) == (test_labels[items] > 0)
        return right.sum(), len(right)

    return Prepared(len(labels), step, evaluate, len(test_labels))


_BREAK, _WORD = re.compile(r"<br\s*/?>", re.IGNORECASE), re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def numbered_words(texts: list[str], test_texts: list[str], size: int = 12_849, length: int = 130) -> list[np.ndarray]:
    """The first words of texts as numbers, as one writes it who has no library for it.

    They are those of `functad.train.text.review_sets`, which reads the same words in half the time.
    """

    def words_of(text: str) -> list[str]:
        return _WORD.findall(_BREAK.sub(" ", text).lower())

    counts = Counter(word for text in texts for word in words_of(text))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]
    numbers = {word: number for number, word in enumerate(frequent, 2)}  # 0 is padding, 1 any other word

    def read(texts: list[str]) -> np.ndarray:
        found = np.zeros((len(texts), length), np.int64)
        for row, text in zip(found, texts):
            part = [numbers.get(word, 1) for word in words_of(text)[:length]]
            row[: len(part)] = part
        return found

    return [read(texts), read(test_texts)]


def _torch_language(net: str, options: argparse.Namespace) -> Prepared:
    import torch
    import torch.nn.functional as F

    from benchmarks.torch_networks import LstmModel, TransformerModel
    from functad.data import shakespeare
    from functad.train.language import Alphabet, text_windows

    text = shakespeare()
    print("Shakespeare:")
    alphabet = Alphabet(text.train + text.validation)
    pieces, tested = (
        torch.from_numpy(text_windows(alphabet.encode(part), options.length).astype(np.int64)) for part in text
    )
    pieces = pieces[: options.limit]
    network = {"lstm": LstmModel, "transformer": TransformerModel}[net](len(alphabet))

    def loss(scores: Any, following: Any) -> Any:
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())

    step = _torch_step(network, loss, pieces[:, :-1], pieces[:, 1:], options, linear=True)

    @torch.no_grad()
    def evaluate(items: slice) -> tuple[Any, int]:
        part = tested[items]
        return loss(network(part[:, :-1]), part[:, 1:]) * len(part), len(part)

    return Prepared(len(pieces), step, evaluate, len(tested))


def _torch_step(
    network: Any, loss_function: Any, inputs: Any, labels: Any, options: argparse.Namespace, linear: bool
) -> Callable[[np.ndarray], Any]:
    """A step of Adam. linear: its rate falls to 0 over all steps."""
    import torch

    optimizer = torch.optim.Adam(network.parameters(), options.lr, fused=True)
    steps = options.epochs * (len(inputs) // options.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: max(0.0, 1 - i / steps) if linear else 1.0)

    def step(items: np.ndarray) -> Any:
        index = torch.from_numpy(items)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(network(inputs[index]), labels[index])
        loss.backward()
        optimizer.step()
        if linear:
            schedule.step()
        return loss.detach()

    return step


# --- the same network ---------------------------------------------------------------------------------


def _torch_check(job: str) -> float:
    """How far the scores of PyTorch's network are from those of functad's, over the largest, with the same params."""
    import torch

    import functad
    from benchmarks import torch_networks as networks
    from functad.train.language import lstm_model, transformer_model
    from functad.train.text import text_cnn

    own, peer, most, length = {
        "text": (text_cnn(), networks.TextCnn, 12_849, 130),
        "lstm": (lstm_model(65), partial(networks.LstmModel, 65), 65, 64),
        "transformer": (transformer_model(65), partial(networks.TransformerModel, 65), 65, 64),
    }[job]
    numbers = np.random.default_rng(0).integers(0, most, (8, length)).astype(np.int32)
    params = own.init(functad.random.key(0), numbers)
    expected = np.asarray(own.apply(params, numbers))
    with torch.no_grad():
        found = networks.with_params(peer(), params)(torch.from_numpy(numbers).long()).numpy()
    return float(np.abs(found - expected.reshape(found.shape)).max() / np.abs(expected).max())


_JOBS: dict[str, dict[str, Callable[[argparse.Namespace], Prepared]]] = {
    "torch": {
        "cnn": partial(_torch_digits, "mnist_cnn", (1, 28, 28)),
        "rnn": partial(_torch_digits, "mnist_rnn", (4, 196)),
        "text": _torch_text,
        "lstm": partial(_torch_language, "lstm"),
        "transformer": partial(_torch_language, "transformer"),
    },
    "jax": {"cnn": _jax_cnn},
}


def _use_threads(framework: str) -> None:
    if framework == "torch":
        import torch

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "0")) or torch.get_num_threads())


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_peers", description=__doc__)
    parser.add_argument("framework", choices=_JOBS)
    parser.add_argument("job", choices=_JOBS["torch"])
    parser.add_argument("--check", action="store_true", help="compare the network with functad's")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--limit", type=int)
    return parser


def main() -> None:
    """Train as the command line says."""
    options = parser().parse_args()
    _use_threads(options.framework)
    if options.check:
        print(_torch_check(options.job))
        return
    train(_JOBS[options.framework][options.job](options), options.epochs, options.batch)


if __name__ == "__main__":
    main()
