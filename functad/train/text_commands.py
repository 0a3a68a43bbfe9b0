"""`python -m functad train text` and `train language`: networks that read and write.

Knows their flags and data; nothing of how a run goes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from functad import nn, random
from functad.api import ShapeDtypeStruct
from functad.data import (
    MissingDataError,
    Reviews,
    SplitText,
    Vocabulary,
    imdb,
    rt_polarity,
    shakespeare,
    synthetic_reviews,
)
from functad.errors import ArgumentError, DataError
from functad.train.language import Alphabet, drawn_text, language_model, lstm_model, text_windows, transformer_model
from functad.train.options import (
    Wording,
    add_flags,
    add_network,
    choice_flag,
    complete,
    flags,
    positive_float,
    positive_int,
    probability,
    some_text,
    whole_number,
)
from functad.train.running import TrainingJob, check_files, run
from functad.train.tasks import Dataset, binary_classifier
from functad.train.text import LENGTH, POOL, WIDTH, WORDS, review_sets, text_cnn
from functad.train.text_findings import language_findings, review_findings

_INVENTED_TRAIN, _INVENTED_TEST = 10_000, 2_000

_TEXT_WORDING = Wording(
    "reviews",
    "imdb, rt-polarity or synthetic; auto (the default) is imdb, and invents reviews if it is neither here nor to be "
    "downloaded",
    ("auto", "imdb", "rt-polarity", "synthetic"),
)
_PUBLISHED = {
    "length": LENGTH,
    "keep": "first",
    "skip": 0,
    "word_dropout": 0.0,
    "dropout": 0.0,
    "epochs": 5,
    "batch": 64,
    "optimizer": "adam",
    "schedule": "constant",
    "lr": 1e-3,
}
_PRESETS: dict[str, dict[str, Any]] = {
    "best": {
        **_PUBLISHED,
        "keep": "last",
        "skip": 20,
        "word_dropout": 0.2,
        "dropout": 0.5,
        "schedule": "linear",
        "lr": 2e-3,
    },
    "published": _PUBLISHED,
}
# Of sentences, which are short, all words are read.
_SENTENCES = {"length": 40, "skip": 0, "lr": 5e-3}
_TEXT_RATES = {"sgd": 0.1, "momentum": 0.05, "nesterov": 0.05, "adam": 1e-3}
_TEXT_EXAMPLES = """presets:
  best       the last 130 words of a review, without the 20 most frequent ones; words and values left out at random
  published  the first 130 words as they are, Adam at a rate of 0.001

examples:
  python -m functad train text
  python -m functad train text --preset published
  python -m functad train text --data rt-polarity --length 40 --epochs 3
"""
_TEXT_NEXT = """
To try next:
  python -m functad train text --preset published
  python -m functad train language
  python -m functad train text --help"""

_LANGUAGE_WORDING = Wording(
    "pieces of text",
    "shakespeare, or a file of text; auto (the default) is shakespeare, and invents reviews if it is neither here nor "
    "to be downloaded",
    None,
)
_LANGUAGE_DEFAULTS = {"epochs": 6, "batch": 64, "optimizer": "adam", "schedule": "linear"}
_NETS: dict[str, dict[str, Any]] = {
    "lstm": {**_LANGUAGE_DEFAULTS, "hidden": 256, "layers": 1},
    "transformer": {**_LANGUAGE_DEFAULTS, "hidden": 128, "layers": 4, "lr": 2e-3},
}
_LANGUAGE_RATES = {"sgd": 1.0, "momentum": 0.3, "nesterov": 0.3, "adam": 4e-3}
_LANGUAGE_EXAMPLES = """examples:
  python -m functad train language
  python -m functad train language --net transformer --length 128 --batch 32
  python -m functad train language --data my_book.txt --layers 2 --dropout 0.2 --epochs 10
  python -m functad train language --temperature 0.5 --prompt "KING RICHARD:" --sample 1000
"""
_LANGUAGE_NEXT = """
To try next:
  python -m functad train language --data FILE --epochs 10
  python -m functad train language --help"""


def add_parsers(networks: Any) -> None:
    """Add `text` and `language` to the networks of a parser."""
    number, share = {"type": positive_int, "metavar": "N"}, {"type": probability, "metavar": "P"}
    text = add_network(networks, "text", "a convolutional network that tells praise from blame", _TEXT_EXAMPLES)
    for flag, help_text, settings in (
        ("--preset", "settings to begin with, see below (default: best)", choice_flag("best", *_PRESETS)),
        ("--words", f"size of the vocabulary (default: {WORDS:,})", {**number, "default": WORDS}),
        (
            "--length",
            f"words of a review that are read (default: {LENGTH}, of sentences {_SENTENCES['length']})",
            number,
        ),
        ("--keep", "which words of a longer review", {"choices": ("first", "last")}),
        ("--skip", "leave out the N most frequent words", {"type": whole_number, "metavar": "N"}),
        ("--word-dropout", "share of words that are read as unknown in training", share),
        ("--dropout", "share of values that are left out before the last layer in training", share),
    ):
        text.add_argument(flag, help=help_text, **settings)
    add_flags(text, _TEXT_WORDING, _PUBLISHED, _TEXT_RATES)
    text.set_defaults(run=train_text)
    language = add_network(networks, "language", "a model of text, which then writes some", _LANGUAGE_EXAMPLES)
    for flag, help_text, settings in (
        ("--net", "default: lstm", choice_flag("lstm", "lstm", "transformer")),
        ("--hidden", "features of a layer (default: 256, of a transformer 128)", number),
        ("--layers", "layers one after another (default: 1, of a transformer 4)", number),
        ("--heads", "heads of a transformer (default: 4)", {**number, "default": 4}),
        ("--length", "characters of a piece of text (default: 64)", {**number, "default": 64}),
        ("--dropout", "share of values that are left out between layers (default: 0)", {**share, "default": 0.0}),
        (
            "--sample",
            "characters to write at the end (default: 400)",
            {"type": whole_number, "default": 400, "metavar": "N"},
        ),
        (
            "--prompt",
            "what they begin with (default: a line break)",
            {"type": some_text, "default": "\n", "metavar": "TEXT"},
        ),
        (
            "--temperature",
            "how bold they are: below 1 likely ones are likelier (default: 0.8)",
            {"type": positive_float, "metavar": "X", "default": 0.8},
        ),
    ):
        language.add_argument(flag, help=help_text, **settings)
    add_flags(language, _LANGUAGE_WORDING, _LANGUAGE_DEFAULTS, _LANGUAGE_RATES)
    language.set_defaults(run=train_language)


def train_text(options: argparse.Namespace) -> int:
    """Train the network for film reviews as the command line says; returns the exit code of the program."""
    check_files(options)
    if options.length is not None and options.length < WIDTH + POOL - 1:
        raise ArgumentError(
            f"--length {options.length}: the network reads {WIDTH} words at a time, and of {POOL} such places it takes "
            f"the greatest values, so it needs {WIDTH + POOL - 1} words or more"
        )
    (train, test, vocabulary), name = _numbered_reviews(options)
    network = text_cnn(len(vocabulary), word_dropout=options.word_dropout, dropout=options.dropout)
    example = ShapeDtypeStruct((options.batch, options.length), "int32")
    job = TrainingJob(
        f"text: {len(vocabulary):,} words, the {options.keep} {options.length} of a review",
        f"{name}: {len(train.labels):,} reviews to train on, {len(test.labels):,} to test with",
        lambda key: network.init(key, example),
        lambda: nn.summary(network, example),
        binary_classifier(network),
        train,
        test,
        "accuracy",
        _TEXT_NEXT,
        lambda params: review_findings(network, params, test, vocabulary),
    )
    return run(options, job)


def train_language(options: argparse.Namespace) -> int:
    """Train a model of text as the command line says; returns the exit code of the program."""
    complete(options, _NETS[options.net], _LANGUAGE_RATES)
    check_files(options)
    text, name = _text(options.data)
    alphabet = Alphabet(text.train + text.validation)
    with flags(options, "prompt"):
        prompt = alphabet.encode(options.prompt if options.sample else "")
    with flags(options, "length"):
        train, test = (text_windows(alphabet.encode(part), options.length) for part in text)
    if options.net == "lstm":
        model: nn.Layer = lstm_model(len(alphabet), options.hidden, options.layers, options.dropout)
    else:
        model = transformer_model(len(alphabet), options.hidden, options.layers, options.heads, options.dropout)

    example = ShapeDtypeStruct((options.batch, options.length), "int32")

    def init(key: Any) -> Any:
        with flags(options, "hidden", "heads"):
            return model.init(key, example)

    def writing(params: Any) -> str:
        if not options.sample:
            return ""
        key = random.key(options.seed)
        drawn = drawn_text(model, params, key, prompt, options.sample, options.length, options.temperature)
        return f"At temperature {options.temperature:g}, the model writes:\n{options.prompt}{alphabet.decode(drawn)}"

    job = TrainingJob(
        f"{options.net}: {options.layers} × {options.hidden} features, {len(alphabet)} characters",
        f"{name}: {len(text.train):,} characters to train on, {len(text.validation):,} to test with",
        init,
        lambda: nn.summary(model, example),
        language_model(model),
        train[: options.limit],
        test,
        "loss",
        _LANGUAGE_NEXT,
        lambda params: language_findings(model, params, test, alphabet),
        writing,
    )
    return run(options, job)


def _numbered_reviews(options: argparse.Namespace) -> tuple[tuple[Dataset, Dataset, Vocabulary], str]:
    """The reviews as `review_sets` makes them, and where they come from; the texts are forgotten."""
    reviews, name = _reviews(options.data)
    complete(options, {**_PRESETS[options.preset], **({} if name == "IMDB" else _SENTENCES)}, _TEXT_RATES)
    if options.limit is not None:
        reviews = Reviews(reviews.train_texts[: options.limit], reviews.train_labels[: options.limit], *reviews[2:])
    print("Counting words ...", flush=True)
    with flags(options, "words", "skip"):
        return review_sets(reviews, options.words, options.length, options.keep, options.skip), name


def _reviews(chosen: str) -> tuple[Reviews, str]:
    if chosen == "rt-polarity":
        return rt_polarity(), "rt-polarity"
    if chosen != "synthetic":
        print("Looking for the reviews of IMDB; where they are not there yet, they are downloaded ...", flush=True)
        try:
            return imdb(), "IMDB"
        except MissingDataError as problem:
            if chosen == "imdb":
                raise
            print(f"{problem}\n\nSo this trains on invented reviews instead.\n", flush=True)
    train, test = synthetic_reviews(_INVENTED_TRAIN, seed=0), synthetic_reviews(_INVENTED_TEST, seed=1)
    return Reviews(*train, *test), "invented reviews"


def _text(chosen: str) -> tuple[SplitText, str]:
    if chosen in ("auto", "shakespeare"):
        try:
            return shakespeare(), "Shakespeare"
        except MissingDataError as problem:
            if chosen == "shakespeare":
                raise
            print(f"{problem}\n\nSo this trains on invented reviews instead.\n", flush=True)
        text, name = "\n".join(synthetic_reviews(_INVENTED_TRAIN, seed=0)[0]), "invented reviews"
    else:
        text, name = _read(Path(chosen)), chosen
    cut = len(text) * 9 // 10
    return SplitText(text[:cut], text[cut:]), name


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text in UTF-8: {error}; convert it first") from error
