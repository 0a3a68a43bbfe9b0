"""Training: a loop for classifiers, and the networks that the command line trains.

Knows the public names only.
"""

from functad.train.cnn import cnn
from functad.train.digits import as_inputs
from functad.train.loop import Dataset, Epoch, evaluate, fit, training_step
from functad.train.rnn import rnn

__all__ = ["Dataset", "Epoch", "as_inputs", "cnn", "evaluate", "fit", "rnn", "training_step"]
