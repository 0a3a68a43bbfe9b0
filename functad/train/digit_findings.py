"""What a network makes of handwritten digits, for a report: confusions, digits it is surest of, its first weights.

Knows images and scores; nothing of how the network was trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import nn
from functad.train.report import confusion_section, labelled, scores_of, verdict
from functad.train.tasks import Dataset
from functad.tree_util import DictKey, keystr, tree_leaves_with_path
from functad.views.page import PageSection, items, paragraph
from functad.views.pictures import image, signed

_DIGITS = [str(digit) for digit in range(10)]
_SHOWN, _MISTAKES, _UNITS = 12, 12, 32
_COLUMNS = 28


def digit_findings(network: nn.Layer, params: Any, test: Dataset) -> list[PageSection]:
    """Sections of a report.

    Args:
        network: from pixels as they are stored to one score for each digit.
        params: of the network.
        test: pixels, uint8 of shape (n, 28, 28), and the digits that they show.
    """
    shares = np.asarray(nn.softmax(scores_of(network.apply, params, test.inputs)))
    predicted, labels = shares.argmax(1), np.asarray(test.labels)
    wrong = np.flatnonzero(predicted != labels)
    surest = wrong[np.argsort(-shares[wrong].max(1), kind="stable")][:_MISTAKES]
    shown = [*range(min(_SHOWN, len(labels))), *surest]
    pictures = [_picture(test.inputs[i], labels[i], predicted[i], shares[i].max()) for i in shown]
    told = (
        f"The first {min(_SHOWN, len(labels))} images to test with, then the {len(surest)} mistakes of which the "
        "network is surest, each with the share that it gives its answer."
    )
    return [
        confusion_section(labels, predicted, _DIGITS),
        PageSection("Digits, and what they are taken for", paragraph(told) + items(pictures, "pictures")),
        _filters(params),
    ]


def _picture(pixels: np.ndarray, label: int, predicted: int, share: float) -> str:
    text = f"{label}, taken for {predicted} ({share:.2f}) {verdict(bool(label == predicted))}"
    return labelled(image(255 - pixels, f"a handwritten {label}", 3), text)


def _filters(params: Any) -> PageSection:
    """The first weights: windows of a convolution, or what a unit of a recurrent network multiplies a strip by."""
    path, kernel = next(
        (path, np.asarray(leaf)) for path, leaf in tree_leaves_with_path(params) if path[-1] == DictKey("kernel")
    )
    scale: float
    if kernel.ndim == 4:
        weights, scale, what = [kernel[:, :, 0, i] for i in range(kernel.shape[-1])], 20.0, "filter"
    else:
        columns = _COLUMNS if kernel.shape[0] % _COLUMNS == 0 else kernel.shape[0]
        weights = [column.reshape(-1, columns) for column in kernel.T[:_UNITS]]
        scale, what = 84 / _COLUMNS, "unit"
    pictures = [
        labelled(image(signed(w), f"weights from {w.min():.2f} to {w.max():.2f}", scale), f"{what} {i}")
        for i, w in enumerate(weights, 1)
    ]
    told = (
        f"{keystr(path)}, of shape {kernel.shape}: {len(weights)} of {kernel.shape[-1]}. Each is on a scale of its "
        "own: white is positive, black negative, the grey in the middle 0."
    )
    return PageSection("First weights", paragraph(told) + items(pictures, "filters"))
