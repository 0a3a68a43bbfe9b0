"""Public collections of English text: film reviews with their sentiment, and Shakespeare's plays.

This file must not know how a file is found or downloaded, nor how texts become numbers.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from functad.data.download import RemoteFile
from functad.data.places import Archive, Collection, DataFile
from functad.errors import ArgumentError, DataError
from functad.records import NamedTuple
from functad.system.cache import atomic_write

_FOLDS = 10


class Reviews(NamedTuple):
    """Texts and whether they praise: labels int32, 0 against, 1 for.

    >>> Reviews._fields
    ('train_texts', 'train_labels', 'test_texts', 'test_labels')
    """

    train_texts: list[str]
    train_labels: np.ndarray
    test_texts: list[str]
    test_labels: np.ndarray


class SplitText(NamedTuple):
    """One text in two parts.

    >>> SplitText._fields
    ('train', 'validation')
    """

    train: str
    validation: str


def imdb() -> Reviews:
    """50,000 film reviews of IMDb, half of them to train on; as many praise as do not, in each half.

    Looked for and checked like the files of `mnist`, in the sub-folder `imdb`; what is missing is made of the
    archive that is downloaded (84 MB). Reviews of one film are neighbours, and a text may hold `<br />`, which
    `tokenize` leaves out.

    Source: A. L. Maas, R. E. Daly, P. T. Pham, D. Huang, A. Y. Ng, C. Potts, "Learning Word Vectors for Sentiment
    Analysis", ACL 2011.

    Returns:
        `Reviews(train_texts, train_labels, test_texts, test_labels)`: lists of 25,000 texts, and int32 arrays of shape
        (25000,), 1 where the author gave 7 stars or more of 10, 0 where 4 or fewer.

    Raises:
        MissingDataError: a file is missing and cannot be downloaded.
        DataError: a file is damaged, or `FUNCTAD_DATA` names no folder.

    It needs the files, or a network:

    >>> reviews = imdb()  # doctest: +SKIP
    >>> len(reviews.train_texts), float(reviews.train_labels.mean())  # doctest: +SKIP
    (25000, 0.5)
    """
    contents = IMDB.contents()[::-1]
    train = _reviews_of(contents.pop())  # a part at a time, and its bytes are forgotten
    return Reviews(*train, *_reviews_of(contents.pop()))


def rt_polarity(fold: int = 0) -> Reviews:
    """10,662 sentences of film reviews from Rotten Tomatoes, half of them praise, in lower case and cut into words.

    Looked for and checked like the files of `mnist`, in the sub-folder `rt-polarity`.

    Source: B. Pang, L. Lee, "Seeing stars: Exploiting class relationships for sentiment categorization with respect to
    rating scales", ACL 2005.

    Args:
        fold: which tenth of the sentences is to test with, 0 to 9: every tenth one, from this one on.

    Returns:
        `Reviews(train_texts, train_labels, test_texts, test_labels)`; sentences for and against take turns.

    Raises:
        ArgumentError: another fold.
        MissingDataError, DataError: as `imdb`.

    Examples; the first needs the files, or a network:

    >>> len(rt_polarity().test_texts)  # doctest: +SKIP
    1068
    >>> rt_polarity(fold=10)
    Traceback (most recent call last):
        ...
    functad.errors.ArgumentError: rt_polarity: fold is 10; it is one of 0 to 9, ...
    """
    if fold not in range(_FOLDS):
        raise ArgumentError(f"rt_polarity: fold is {fold!r}; it is one of 0 to {_FOLDS - 1}, the tenth to test with")
    praise, blame = (content.decode("cp1252").split("\n")[:-1] for content in RT_POLARITY.contents())
    texts = [line.strip() for pair in zip(blame, praise, strict=True) for line in pair]
    # Neighbours, one for and one against, belong to the same fold.
    tested = np.arange(len(texts)) // 2 % _FOLDS == fold
    labels = np.arange(len(texts), dtype=np.int32) % 2
    parts = [([texts[i] for i in np.flatnonzero(part)], labels[part]) for part in (~tested, tested)]
    return Reviews(*parts[0], *parts[1])


def shakespeare() -> SplitText:
    """Some 40,000 lines of Shakespeare's plays, 1,115,394 characters of 65 kinds: nine tenths to train on.

    Looked for and checked like the files of `mnist`, in the sub-folder `shakespeare`.

    Source: A. Karpathy, char-rnn, 2015, who chose the lines.

    Returns:
        `SplitText(train, validation)`: 1,003,854 and 111,540 characters of ASCII.

    Raises:
        MissingDataError, DataError: as `imdb`.

    It needs the file, or a network:

    >>> shakespeare().train[:14]  # doctest: +SKIP
    'First Citizen:'
    """
    (content,) = SHAKESPEARE.contents()
    text = content.decode("ascii")
    cut = len(text) * 9 // 10
    return SplitText(text[:cut], text[cut:])


def _reviews_of(content: bytes) -> tuple[list[str], np.ndarray]:
    """The texts and labels of lines `label, rating, number, text`, separated by tabs."""
    # No splitlines: texts hold other characters at which it would cut. A text that is decoded by itself takes a byte a
    # character where it can, all of them together take four because of the rarest.
    texts, labels = [], []
    for line in io.BytesIO(content):
        label, _, _, text = line.rstrip(b"\n").split(b"\t", 3)
        texts.append(text.decode("utf-8"))
        labels.append(int(label))
    return texts, np.array(labels, np.int32)


def _unpack_imdb(archive: Path, folder: Path) -> None:
    """Of one file a review, `aclImdb/train/neg/12_3.txt`, one a part, its reviews in the order of number and label."""
    found: dict[str, list[tuple[int, int, bytes]]] = {"train": [], "test": []}
    name = re.compile(r"aclImdb/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")
    with _opened(archive) as files:
        for member in files:
            match = name.fullmatch(member.name)
            if match is None:
                continue
            part, kind, number, rating = match.groups()
            label = int(kind == "pos")
            text = _content_of(files, member)
            found[part].append((int(number), label, f"{label}\t{rating}\t{number}\t".encode() + text + b"\n"))
    for part, reviews in found.items():
        with atomic_write(folder / f"{part}.tsv.gz") as file:
            file.write(gzip.compress(b"".join(line for _, _, line in sorted(reviews)), mtime=0))


def _unpack_rt_polarity(archive: Path, folder: Path) -> None:
    with _opened(archive) as files:
        for member in files:
            path = Path(member.name)
            if path.name in {file.name for file in RT_POLARITY.files}:
                with atomic_write(folder / path.name) as file:
                    file.write(_content_of(files, member))


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    """An archive to read from, which may turn out to be damaged at any member."""
    try:
        with tarfile.open(archive) as files:
            yield files
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{archive.name} could not be unpacked ({error}); what was downloaded is no such archive, or not all of it"
        ) from error


def _content_of(files: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = files.extractfile(member)
    return (content or io.BytesIO()).read()


IMDB = Collection(
    "IMDB",
    "imdb",
    (
        DataFile("train.tsv.gz", "fb5475bb69320751fef173b473de4cbe5a5b368cdf29807b627e7e9b987e4cf2", unpacked=True),
        DataFile("test.tsv.gz", "b7c215fff1f30a0b86df603069840f0b3fb670038fcbedfb8dfeb3fcfa7d2a9b", unpacked=True),
    ),
    ("https://ai.stanford.edu/~amaas/data/sentiment/",),
    Archive(
        RemoteFile(
            "aclImdb_v1.tar.gz",
            84_125_825,
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        ),
        _unpack_imdb,
    ),
    "use invented reviews: functad.data.synthetic_reviews(n, seed), on the command line --data synthetic",
)
RT_POLARITY = Collection(
    "rt-polarity",
    "rt-polarity",
    (
        DataFile("rt-polarity.pos", "d79ef14009bbf87cd6be21f91c3ea1a3cbcb73b34dfb4231aef7bbcd7677abc4"),
        DataFile("rt-polarity.neg", "4af43bf489620b498a0852c5a8c6a535155dec7985fdfea782b8f7756b957ccc"),
    ),
    ("https://www.cs.cornell.edu/people/pabo/movie-review-data/",),
    # Nobody publishes the sum of the archive; those of the two files in it are checked.
    Archive(RemoteFile("rt-polaritydata.tar.gz", 5_000_000, None), _unpack_rt_polarity),
    "use invented reviews: functad.data.synthetic_reviews(n, seed), on the command line --data synthetic",
)
SHAKESPEARE = Collection(
    "tiny Shakespeare",
    "shakespeare",
    (DataFile("input.txt", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),),
    ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
    (1_115_394,),
    "train on a text of your own: --data FILE on the command line",
)
