"""Invented sentences about films, for and against: what to train on where there are no reviews.

This file must not know of files, networks or models. A review is a few sentences of fixed patterns; some of them turn
their words round with a negation, and some speak of what has nothing to do with the verdict.
"""

from __future__ import annotations

import numpy as np

from functad.errors import ArgumentError

_PRAISE = (
    "gripping moving brilliant warm clever subtle fresh honest superb charming tender bold sharp radiant masterful "
    "thoughtful riveting delightful graceful inspired"
).split()
_BLAME = (
    "dull clumsy tedious shallow stale lifeless silly hollow bland tiresome muddled lazy predictable awkward grating "
    "pointless wooden dreary contrived forgettable"
).split()
_THINGS = (
    "script plot cast music dialogue camera pacing ending opening romance humour lead villain editing score costume "
    "scenery director premise climax"
).split()
_FILMS = "film movie drama comedy thriller sequel remake documentary western musical".split()
_PLACES = "paris the_desert a_small_town the_sea the_city a_train a_school the_war the_theatre a_hospital".split()
_PEOPLE = (
    "a_widow two_brothers a_detective an_old_soldier a_painter three_friends a_boxer a_nurse a_thief a_king".split()
)
_VERDICTS = (
    "the {thing} is {word}",
    "a {word} {film}",
    "{word} from start to finish",
    "what a {word} {thing}",
    "the {thing} and the {thing2} are both {word}",
    "rarely has a {film} been so {word}",
    "i found the {thing} {word} throughout",
)
_TURNED = (
    "the {thing} is never {other}",
    "hardly a {other} {film}",
    "nothing about the {thing} is {other}",
    "far from {other}",
    "not at all {other}",
)
_CONCESSIONS = ("although the {thing2} looks {other}", "even if the {thing2} seems {other} at first")
_ASIDES = (
    "it is set in {place}",
    "{people} meet in {place}",
    "the story follows {people} to {place}",
    "we watch {people} for two hours",
    "this {film} was shot in {place}",
)


def synthetic_reviews(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """`n` short reviews of films that nobody has made, half of them praise.

    Args:
        n: how many.
        seed: the same seed gives the same reviews.

    Returns:
        The texts, in lower case and cut into words by spaces; labels int32 of shape (n,), 0 against, 1 for.

    Raises:
        ArgumentError: `n` or `seed` is negative.

    >>> texts, labels = synthetic_reviews(9, seed=0)
    >>> print(labels[7], texts[7])
    0 although the camera looks brilliant , a tedious western .
    """
    if n < 0 or seed < 0:
        raise ArgumentError(f"synthetic_reviews: n = {n} and seed = {seed} must be at least 0.")
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % 2).astype(np.int32)
    return [_review(rng, bool(label)) for label in labels], labels


def _review(rng: np.random.Generator, praise: bool) -> str:
    sentences = [_filled(rng, _choice(rng, _ASIDES), praise) for _ in range(rng.integers(0, 3))]
    for _ in range(rng.integers(1, 4)):
        kind = rng.random()
        pattern = _choice(rng, _TURNED if kind < 0.3 else _VERDICTS)
        if kind > 0.85:
            pattern = f"{_choice(rng, _CONCESSIONS)} , {pattern}"
        sentences.append(_filled(rng, pattern, praise))
    return " . ".join(sentences[i] for i in rng.permutation(len(sentences))) + " ."


def _filled(rng: np.random.Generator, pattern: str, praise: bool) -> str:
    words, others = (_PRAISE, _BLAME) if praise else (_BLAME, _PRAISE)
    return pattern.format(
        word=_choice(rng, words),
        other=_choice(rng, others),
        thing=_choice(rng, _THINGS),
        thing2=_choice(rng, _THINGS),
        film=_choice(rng, _FILMS),
        place=_choice(rng, _PLACES).replace("_", " "),
        people=_choice(rng, _PEOPLE).replace("_", " "),
    )


def _choice(rng: np.random.Generator, words: tuple[str, ...] | list[str]) -> str:
    return words[rng.integers(len(words))]
