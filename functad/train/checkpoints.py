"""Checkpoints of a training run: when one is written, and how many are kept.

Knows runs as trees of arrays; nothing of how they are trained.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from functad import device_put, io
from functad.errors import check_int
from functad.system.cache import atomic_write
from functad.train.runs import Run
from functad.tree_util import tree_map


class Checkpoints:
    """A file that has the newest `Run` of a training run, and those before it beside it.

    `run.npz` is always there, whole and the newest; `run.1.npz` is the one before it, `run.2.npz` the one before
    that. A process that is killed while it saves loses none of them but the oldest.

    Attributes:
        path: of the newest.
        every: write one after so many steps of an epoch, too, not after each epoch only; or None.
        keep: how many there are at most.
        saved: the `Run` that was saved last, without its arrays: `(epoch, step)`; None before.

    Raises:
        ArgumentError: `every` or `keep` is no int of at least 1, or the path is that of a folder.

    >>> import tempfile
    >>> from functad import optim, random
    >>> from functad.train import start
    >>> run = start([1.0], optim.sgd(0.1), random.key(0))
    >>> checkpoints = Checkpoints(Path(tempfile.mkdtemp()) / "run.npz", keep=2)
    >>> for _ in range(3):
    ...     checkpoints.save(run)
    >>> [path.name for path in checkpoints.files()], checkpoints.saved
    (['run.npz', 'run.1.npz'], (0, 0))
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int | None = None, keep: int = 1) -> None:
        self.every = None if every is None else check_int(every, "Checkpoints: every", low=1)
        self.keep = check_int(keep, "Checkpoints: keep", low=1)
        io.check_writable(path)
        self.path = Path(path)
        self.saved: tuple[int, int] | None = None

    def save(self, run: Run) -> None:
        """Write a run; the newest so far becomes the one before it.

        Raises:
            OSError: the file cannot be written.
        """
        if self.keep > 1 and self.path.exists():
            self._step_back()
        io.save(self.path, run)
        self.saved = int(run.epoch), int(run.step)

    def due(self, step: int, steps: int) -> bool:
        """Whether one is to be written after so many steps of an epoch, before its end."""
        return self.every is not None and step % self.every == 0 and step < steps

    def files(self) -> list[Path]:
        """Those that are there, the newest first."""
        return [path for path in map(self._file, range(self.keep)) if path.exists()]

    def _step_back(self) -> None:
        before = self._file(1)
        if before.exists() and os.path.samefile(self.path, before):
            return  # a process was killed after this
        for age in range(self.keep - 2, 0, -1):
            if self._file(age).exists():
                os.replace(self._file(age), self._file(age + 1))
        before.unlink(missing_ok=True)
        try:
            os.link(self.path, before)
        except OSError:  # a file system without links
            with open(self.path, "rb") as newest, atomic_write(before) as file:
                shutil.copyfileobj(newest, file)

    def _file(self, age: int) -> Path:
        return self.path.with_name(f"{self.path.stem}.{age}{self.path.suffix}") if age else self.path


def checkpoints_of(given: str | os.PathLike[str] | Checkpoints | None) -> Checkpoints | None:
    """The checkpoints that a path stands for."""
    return given if given is None or isinstance(given, Checkpoints) else Checkpoints(given)


def load_run(source: str | os.PathLike[str] | Run | None, like: Run) -> Any:
    """The run that a checkpoint holds, where `like` lies; or that is given itself, or `like`, if there is none.

    Raises:
        DataError: the file is missing or damaged, or of another network or optimizer than the run `like`.
    """
    if source is None or isinstance(source, Run):
        return like if source is None else source
    loaded = io.load(source, like=like._replace(metrics=..., sizes=..., past=..., best=...))
    arrays = ("params", "optimizer_state", "state", "key")
    return loaded._replace(**{name: tree_map(_beside, getattr(like, name), getattr(loaded, name)) for name in arrays})


def _beside(mine: Any, read: Any) -> Any:
    """What was read, on the device where an array was put on purpose; there steps run."""
    return device_put(read, mine.device) if getattr(mine, "committed", False) else read
