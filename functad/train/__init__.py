"""Training: a loop, whole runs with early stopping and checkpoints, and the networks that the command line trains.

Knows the public names only.

Shapes:
    Data are arrays of one item a row; a batch has the same axes. Params and states are pytrees of arrays of any
    shapes.

Raises:
    ArgumentError: a number is out of its range.
    DTypeError: when it is called, the loss gives what is no number.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.train.checkpoints import Checkpoints
from functad.train.cnn import cnn
from functad.train.digits import as_inputs
from functad.train.evaluating import evaluator
from functad.train.history import History
from functad.train.loop import fit, training_step
from functad.train.rnn import rnn
from functad.train.runs import Epoch, Run, start
from functad.train.tasks import Dataset, binary_classifier, classifier
from functad.train.text import text_cnn

__all__ = [
    "Checkpoints",
    "Dataset",
    "Epoch",
    "History",
    "Run",
    "as_inputs",
    "binary_classifier",
    "classifier",
    "cnn",
    "evaluator",
    "fit",
    "rnn",
    "start",
    "text_cnn",
    "training_step",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
