"""Training: a loop for classifiers, and the networks that the command line trains.

Knows the public names only.
"""

from functad.train.cnn import as_inputs, cnn
from functad.train.loop import Dataset, Epoch, evaluate, fit, training_step

__all__ = ["Dataset", "Epoch", "as_inputs", "cnn", "evaluate", "fit", "training_step"]
