"""Small compiled functions, of which mostly the way from Python to the first kernel is measured.

Knows them in each framework; nothing of timing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.task import Calling, Form

# Those that compile: a call of PyTorch's eager operators is not the same job.
_FRAMEWORKS = ("functad", "torch.compile", "jax")


def scalar() -> Calling:
    """x + 1."""
    forms = {name: Form(lambda: lambda x: x + 1.0) for name in _FRAMEWORKS}
    return Calling((np.float32(0.5),), forms)


def ten_leaves() -> Calling:
    """A dict of ten small arrays, each times 2, as a training step's parameters go in and out."""
    tree = {f"layer{i}": {"kernel": np.full((4, 4), i, np.float32), "bias": np.ones(4, np.float32)} for i in range(5)}

    def doubled(tree: Any) -> Any:
        return {name: {key: leaf * 2.0 for key, leaf in layer.items()} for name, layer in tree.items()}

    forms = {name: Form(lambda: doubled) for name in _FRAMEWORKS}
    return Calling((tree,), forms)


def numpy_batch() -> Calling:
    """A NumPy array of 100×784, of which one element is taken: what it costs to hand over a batch."""
    forms = {name: Form(lambda: lambda x: x[0, 0] + 1.0) for name in ("functad", "jax")}
    return Calling((np.ones((100, 784), np.float32),), forms, on_device=False)
