"""One training run of the command line: what it prints, what it writes, and how it ends.

Knows how to train anything; not which networks there are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from functad import io, random
from functad.errors import ArgumentError
from functad.train.checkpoints import Checkpoints
from functad.train.fitting import fit
from functad.train.history import heading, row
from functad.train.loop import Epoch
from functad.train.options import describe, optimizer_of
from functad.tree_util import tree_leaves

INTERRUPTED = 130  # the shell's exit code for a program that was stopped by Ctrl-C


class TrainingJob(NamedTuple):
    """What is trained.

    Attributes:
        title: the network, in a few words.
        data: where the data come from, how many there are.
        init: `init(key)` makes the parameters.
        loss: as `train.epochs` takes it.
        train, test: pytrees of arrays.
        monitor: the metric by which an epoch is better than another.
        next: what to try next, for the end.
        finished: called with the parameters of the best epoch at the end.
    """

    title: str
    data: str
    init: Callable[[Any], Any]
    loss: Callable[..., Any]
    train: Any
    test: Any
    monitor: str
    next: str
    finished: Callable[[Any], None] = lambda params: None


def check_files(options: argparse.Namespace) -> None:
    """Raise before any work if a file could not be written."""
    if options.checkpoint is None and (options.checkpoint_every or options.checkpoint_keep):
        options.parser.error(
            "--checkpoint-every and --checkpoint-keep say how --checkpoint FILE is written; give it, too"
        )
    for path in (options.save, options.checkpoint):
        if path is not None:
            io.check_writable(path)


def run(options: argparse.Namespace, job: TrainingJob) -> int:
    """Train as the command line says; returns the exit code of the program."""
    check_files(options)
    items = len(tree_leaves(job.train)[0])
    if items < options.batch:
        raise ArgumentError(
            f"there are {items} {options.items} to train on, fewer than one batch of {options.batch}; give a smaller "
            "--batch"
        )
    init_key, order_key = random.split(random.key(options.seed))
    params = job.init(init_key)
    print(f"{job.title}, {sum(leaf.size for leaf in tree_leaves(params)):,} parameters, seed {options.seed}")
    print(f"{job.data}\n{describe(options)}\n", flush=True)
    finished, checkpoints = 0, None
    if options.checkpoint is not None:
        checkpoints = Checkpoints(options.checkpoint, every=options.checkpoint_every, keep=options.checkpoint_keep or 1)

    def show(epoch: Epoch) -> None:
        nonlocal finished
        if options.save is not None:
            io.save(options.save, epoch.run.params)
        if not finished:
            print(heading(epoch))
        finished = epoch.number
        print(row(epoch), flush=True)

    try:
        history = fit(
            job.loss,
            params,
            optimizer_of(options, steps=options.epochs * (items // options.batch)),
            job.train,
            until=options.epochs,
            batch_size=options.batch,
            key=order_key,
            test=job.test,
            monitor=job.monitor,
            patience=options.patience,
            checkpoint=checkpoints,
            resume=options.resume,
            on_epoch=show,
            show_progress=True,
        )
    except KeyboardInterrupt:
        print(_ending(finished, checkpoints, options), flush=True)
        return INTERRUPTED
    if not len(history):
        print(f"{options.resume} has had its {options.epochs} epochs; --epochs N with a larger N trains on.")
        return 0
    job.finished(history.params)
    if options.save is not None:
        print(f"The parameters are in {options.save}; functad.io.load reads them.", flush=True)
    print(job.next, flush=True)
    return 0


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
    if options.save is None:
        return f"{where} Nothing was saved; --save FILE keeps the parameters of the last finished epoch."
    return f"{where} The parameters after epoch {finished} are in {options.save}."
