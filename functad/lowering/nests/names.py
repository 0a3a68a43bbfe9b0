"""Names in the texts of kernels: which stand there, and others in their place. Knows text alone."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

_WORD = re.compile(r"\b[A-Za-z_]\w*")
_VARIABLE = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")  # a word that a parenthesis follows is one of the vocabulary


def words_in(text: str) -> set[str]:
    """All names in a text, those of the vocabulary too.

    >>> sorted(words_in("exp(x_1) + 2e3 * y"))
    ['exp', 'x_1', 'y']
    """
    return {*_WORD.findall(text)}


def variables_in(text: str, known: Container[str]) -> tuple[str, ...]:
    """The known variables that an expression uses, in order, each as often as it stands there.

    >>> variables_in("exp(x) + x * y", {"x", "exp"})
    ('x', 'x')
    """
    return tuple(name for name in _VARIABLE.findall(text) if name in known)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other variables in the place of some.

    >>> renamed("exp(x) + x * y", {"x": "z", "exp": "of_no_variable"})
    'exp(z) + z * y'
    """
    return _VARIABLE.sub(lambda found: names.get(found.group(), found.group()), text)
