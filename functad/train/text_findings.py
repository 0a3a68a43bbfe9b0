"""What networks make of texts, for a report: reviews with their verdicts, guessed characters, learned words.

Knows numbers of words and characters, and scores; nothing of how a network was trained.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from functad import nn
from functad.data import Vocabulary
from functad.data.words import PADDING, UNKNOWN
from functad.train.language import Alphabet
from functad.train.report import confusion_section, labelled, scores_of, verdict
from functad.train.tasks import Dataset
from functad.tree_util import DictKey, tree_leaves_with_path
from functad.views.page import PageSection, items, paragraph, table, text_block
from functad.views.pictures import image, signed

_VERDICTS = ("blame", "praise")
_OF_EACH, _TELLING, _EXCITING, _FREQUENT = 2, 5, 4, 3000
_PIECES, _CONFUSIONS, _PAIRS = 4, 15, 15
_SIGNS = {"\n": "↵", " ": "␣", "\t": "⇥"}


def review_findings(network: nn.Layer, params: Any, test: Dataset, vocabulary: Vocabulary) -> list[PageSection]:
    """Sections of a report about a network that tells praise from blame, such as `text_cnn`.

    Args:
        network: from numbers of words to one score, above 0 for praise.
        params: of the network.
        test: int32 of shape (n, length), and labels, 1 for praise.
        vocabulary: the words of the numbers.
    """
    scores = scores_of(network.apply, params, test.inputs)[:, 0]
    labels, predicted = np.asarray(test.labels), (scores > 0).astype(int)
    texts = [_review(network, params, test, i, scores[i], vocabulary) for i in _chosen(scores, labels, predicted)]
    told = (
        "The first reviews to test with, the mistakes of which the network is surest, and those that it is least sure "
        "of, as the network reads them: … is a word that is not in the vocabulary. A word tells as much as the score "
        "changes when it is unknown."
    )
    return [
        confusion_section(labels, predicted, _VERDICTS),
        PageSection("Reviews, and what they are taken for", paragraph(told) + items(texts, "texts")),
        _word_filters(params, vocabulary),
    ]


def language_findings(model: nn.Layer, params: Any, test: np.ndarray, alphabet: Alphabet) -> list[PageSection]:
    """Sections of a report about a model of text.

    Args:
        model: from numbers of characters to the scores of the next ones.
        params: of the model.
        test: pieces of text as `windows` makes them.
        alphabet: the characters of the numbers.
    """
    guessed = scores_of(lambda params, x: model.apply(params, x).argmax(-1), params, test[:, :-1])
    wanted = test[:, 1:]
    signs = [_SIGNS.get(character, character) for character in alphabet.characters]
    pieces = [_guesses(piece, guess, signs) for piece, guess in zip(wanted[:_PIECES], guessed[:_PIECES])]
    told = (
        f"{100 * np.mean(guessed == wanted):.1f} % of the characters to test with are those that the model held for "
        "likeliest. Beneath each piece of text stand its guesses, and a dot where they are right; ↵ is a line break."
    )
    return [
        PageSection("Text, and what was expected", paragraph(told) + "".join(pieces)),
        PageSection("Which character is taken for which", _confusions(wanted, guessed, signs)),
        PageSection("First weights", _neighbours(_leaf(params, "embedding"), signs)),
    ]


def _chosen(scores: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> list[int]:
    wrong = np.flatnonzero(labels != predicted)
    surest = wrong[np.argsort(-np.abs(scores[wrong]), kind="stable")][:_OF_EACH]
    found = [*range(min(_OF_EACH, len(labels))), *surest, *np.argsort(np.abs(scores), kind="stable")[:_OF_EACH]]
    return [int(i) for i in dict.fromkeys(found)]


def _review(network: nn.Layer, params: Any, test: Dataset, i: int, score: float, vocabulary: Vocabulary) -> str:
    label, share = int(test.labels[i]), 1 / (1 + np.exp(-abs(float(score))))
    words, taken = np.asarray(test.inputs[i]), int(score > 0)
    text = " ".join("…" if number == UNKNOWN else vocabulary.words[number] for number in words[words != PADDING])
    # One review for each of its places, of which that one is unknown.
    without = np.where(np.eye(len(words), dtype=bool), np.int32(UNKNOWN), words)
    changes = score - scores_of(network.apply, params, without)[:, 0]
    known = np.flatnonzero(words > UNKNOWN)
    order = known[np.argsort(changes[known], kind="stable")]
    telling = {
        "praise": [vocabulary.words[words[k]] for k in order[::-1][:_TELLING] if changes[k] > 0],
        "blame": [vocabulary.words[words[k]] for k in order[:_TELLING] if changes[k] < 0],
    }
    verdicts = f"{_VERDICTS[label]}, taken for {_VERDICTS[taken]} ({share:.2f}) {verdict(label == taken)}"
    lines = [f"for {kind}: {', '.join(dict.fromkeys(found)) or '–'}" for kind, found in telling.items()]
    return f"<strong>{escape(verdicts)}</strong>{paragraph(text)}{paragraph('; '.join(lines), 'soft')}"


def _word_filters(params: Any, vocabulary: Vocabulary) -> PageSection:
    """The windows of the convolution, and the frequent words that excite each of their places most."""
    embedding, kernel = _leaf(params, "embedding"), _leaf(params, "kernel")
    width, _, channels = kernel.shape
    words = vocabulary.words[UNKNOWN + 1 : UNKNOWN + 1 + _FREQUENT]
    excited = np.einsum("wf,pfc->pcw", embedding[UNKNOWN + 1 : UNKNOWN + 1 + _FREQUENT], kernel)
    best = np.argsort(-excited, axis=-1, kind="stable")[..., :_EXCITING]
    rows = [
        [f"filter {c + 1}", *(", ".join(words[k] for k in best[p, c]) for p in range(width))] for c in range(channels)
    ]
    told = f"Of the {len(words):,} most frequent words, those that most excite each place of each filter."
    places = [f"word {p + 1}" for p in range(width)]
    pictures = [
        labelled(image(signed(kernel[:, :, c]), f"weights of filter {c + 1}", 5), f"filter {c + 1}")
        for c in range(channels)
    ]
    legend = paragraph(
        "A row for each place, a column for each feature of a word, each filter on a scale of its own: white is "
        "positive, black negative, the grey in the middle 0."
    )
    html = table(told, ["filter", *places], rows, "words") + legend + items(pictures, "filters")
    return PageSection("First weights", html)


def _guesses(piece: np.ndarray, guessed: np.ndarray, signs: list[str]) -> str:
    lines = ["".join(signs[k] for k in piece)]
    lines.append("".join("·" if k == right else signs[k] for k, right in zip(guessed, piece)))
    return text_block("\n".join(lines).replace("␣", " "), "a piece of text, and the guesses for its characters")


def _confusions(wanted: np.ndarray, guessed: np.ndarray, signs: list[str]) -> str:
    counts = np.zeros((len(signs), len(signs)), int)
    np.add.at(counts, (wanted.ravel(), guessed.ravel()), 1)
    whole = counts.sum(1)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:_CONFUSIONS]
    places = [divmod(int(k), len(signs)) for k in order]
    rows = [
        (signs[i], signs[j], f"{counts[i, j]:,}", f"{100 * counts[i, j] / whole[i]:.1f} %")
        for i, j in places
        if counts[i, j]
    ]
    return table("The most frequent mistakes.", ("is", "taken for", "times", "share of its occurrences"), rows)


def _neighbours(embedding: np.ndarray, signs: list[str]) -> str:
    rows = embedding / np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12)
    first, second = np.triu_indices(len(signs), 1)
    closeness = (rows @ rows.T)[first, second]
    order = np.argsort(-closeness, kind="stable")[:_PAIRS]
    found = [(f"{signs[first[k]]} and {signs[second[k]]}", f"{closeness[k]:.2f}") for k in order]
    told = "The pairs of characters whose rows of the embedding point most in the same direction."
    return table(told, ("characters", "cosine"), found)


def _leaf(params: Any, name: str) -> np.ndarray:
    """The first array of this name."""
    return next(np.asarray(leaf) for path, leaf in tree_leaves_with_path(params) if path[-1] == DictKey(name))
