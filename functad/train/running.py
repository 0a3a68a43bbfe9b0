"""One training run of the command line: what it prints, what it writes, and how it ends.

Knows how to train anything; not which networks there are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from functad import default_device, io, nn, random
from functad.data import batches
from functad.errors import ArgumentError
from functad.optim import Optimizer
from functad.records import NamedTuple
from functad.train.checkpoints import Checkpoints
from functad.train.history import History
from functad.train.loop import fit, training_step
from functad.train.options import optimizer_of, options_in_words, settings_of
from functad.train.report import history_section, model_section, profile_section, settings_section, write_report
from functad.train.runs import Epoch
from functad.tree_util import tree_leaves
from functad.views.page import PageSection, text_block

INTERRUPTED = 130  # the shell's exit code for a program that was stopped by Ctrl-C


class TrainingJob(NamedTuple):
    """What is trained.

    Attributes:
        title: the network, in a few words.
        data: where the data come from, how many there are.
        init: `init(key)` makes the parameters.
        summary: makes `nn.summary` of the network.
        loss: as `train.fit` takes it.
        train, test: pytrees of arrays.
        monitor: the metric by which an epoch is better than another.
        next: what to try next, for the end.
        findings: of the parameters of the best epoch makes the sections of a report that know the data.
        closing: of the same parameters makes a text to print at the end, such as one that a model has written.
    """

    title: str
    data: str
    init: Callable[[Any], Any]
    summary: Callable[[], nn.NetworkSummary]
    loss: Callable[..., Any]
    train: Any
    test: Any
    monitor: str
    next: str
    findings: Callable[[Any], list[PageSection]]
    closing: Callable[[Any], str] = lambda params: ""


def check_files(options: argparse.Namespace) -> None:
    """Raise before any work if a file could not be written."""
    if options.checkpoint is None and (options.checkpoint_every or options.checkpoint_keep):
        options.parser.error(
            "--checkpoint-every and --checkpoint-keep say how --checkpoint FILE is written; give it, too"
        )
    for path in (options.save, options.save_best, options.checkpoint, options.report):
        if path is not None:
            io.check_writable(path)


def run(options: argparse.Namespace, job: TrainingJob) -> int:
    """Train as the command line says, and where; returns the exit code of the program."""
    check_files(options)
    with nullcontext() if options.device is None else default_device(options.device):
        return _run(options, job)


def _run(options: argparse.Namespace, job: TrainingJob) -> int:
    items = len(tree_leaves(job.train)[0])
    if items < options.batch:
        raise ArgumentError(
            f"there are {items} {options.items} to train on, fewer than one batch of {options.batch}; give a smaller "
            "--batch"
        )
    init_key, order_key = random.split(random.key(options.seed))
    params = job.init(init_key)
    title = f"{job.title}, {sum(leaf.size for leaf in tree_leaves(params)):,} parameters, seed {options.seed}"
    print(f"{title}\n{job.data}\n{options_in_words(options)}\n", flush=True)
    optimizer, finished = optimizer_of(options, steps=options.epochs * (items // options.batch)), 0
    checkpoints = None
    if options.checkpoint is not None:
        checkpoints = Checkpoints(options.checkpoint, every=options.checkpoint_every, keep=options.checkpoint_keep or 1)

    def keep(epoch: Epoch) -> None:
        nonlocal finished
        finished = epoch.number
        if options.save is not None:
            io.save(options.save, epoch.run.params)

    def keep_best(epoch: Epoch) -> None:
        if options.save_best is not None:
            io.save(options.save_best, epoch.run.params)

    try:
        history = fit(
            job.loss,
            params,
            optimizer,
            job.train,
            until=options.epochs,
            batch_size=options.batch,
            key=order_key,
            test=job.test,
            monitor=job.monitor,
            patience=options.patience,
            checkpoint=checkpoints,
            resume=options.resume,
            on_epoch=keep,
            on_best=keep_best,
            show_progress=True,
        )
    except KeyboardInterrupt:
        print(_ending(finished, checkpoints, options), flush=True)
        return INTERRUPTED
    if not finished:
        print(_nothing_to_do(history, options))
        return 0
    _finish(options, job, title, optimizer, history)
    return 0


def _finish(options: argparse.Namespace, job: TrainingJob, title: str, optimizer: Optimizer, history: History) -> None:
    """Say what the run came to, where its files are, and what to do next; write the report."""
    closing = job.closing(history.params)
    if closing:
        print(f"\n{closing}")
    for path, what in ((options.save, ""), (options.save_best, f" after epoch {history.best.number}, the best,")):
        if path is not None:
            print(f"The parameters{what} are in {path}; functad.io.load reads them.", flush=True)
    if options.report is not None:
        print("Writing the report ...", flush=True)
        sections = _sections(options, job, optimizer, history, closing)
        write_report(options.report, title, [job.data, options_in_words(options)], sections)
        print(f"The report is in {options.report}; a browser shows it.", flush=True)
    print(job.next, flush=True)


def _sections(
    options: argparse.Namespace, job: TrainingJob, optimizer: Optimizer, history: History, closing: str
) -> list[PageSection]:
    params, state, key = history.params, history.last.run.optimizer_state, history.last.run.key
    batch = next(iter(batches(job.train, options.batch)))
    written = (
        [PageSection("At the end", text_block(closing, "what the run ended with", wrapped=True))] if closing else []
    )
    return [
        history_section(history),
        *job.findings(params),
        *written,
        model_section(job.summary()),
        profile_section(training_step(job.loss, optimizer), (params, state, None, batch, key, 0)),
        settings_section(settings_of(options)),
    ]


def _nothing_to_do(history: History, options: argparse.Namespace) -> str:
    if options.patience is not None and 0 < options.patience <= history.waited():
        return (
            f"{options.resume} has had {history.waited()} epochs without a better one than epoch "
            f"{history.best.number}; --patience N with a larger N trains on."
        )
    return f"{options.resume} has had its {options.epochs} epochs; --epochs N with a larger N trains on."


def _ending(finished: int, checkpoints: Checkpoints | None, options: argparse.Namespace) -> str:
    if checkpoints is not None and checkpoints.saved is not None:
        epoch, step = checkpoints.saved
        where = f"step {step} of epoch {epoch + 1}" if step else f"epoch {epoch}"
        return f"Stopped in epoch {epoch + 1}. --resume {options.checkpoint} goes on after {where}."
    if not finished and options.resume is not None:
        return f"Stopped before another epoch was finished. --resume {options.resume} goes on where this run began."
    where = f"Stopped in epoch {finished + 1}."
    if not finished:
        return f"{where} No epoch was finished, so there is nothing to save."
    kept = [
        f"the parameters after {which} are in {path}"
        for path, which in ((options.save, f"epoch {finished}"), (options.save_best, "the best epoch"))
        if path is not None
    ]
    if not kept:
        return f"{where} Nothing was saved; --save FILE keeps the parameters of the last finished epoch."
    text = ", ".join(kept)
    return f"{where} {text[0].upper()}{text[1:]}."
