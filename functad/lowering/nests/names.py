"""Names in the texts of kernels: which stand there, and others in their place. Knows text alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*\b(?!\()")  # a word that a parenthesis follows is one of the vocabulary


def names_in(text: str) -> set[str]:
    """All words of a text, those of the vocabulary too.

    >>> sorted(names_in("exp(x_1) + 2 * y"))
    ['exp', 'x_1', 'y']
    """
    return {*_NAME.findall(text)}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other variables in the place of some.

    >>> renamed("exp(x) + x * y", {"x": "z", "exp": "of_no_variable"})
    'exp(z) + z * y'
    """
    return _VARIABLE.sub(lambda found: names.get(found.group(), found.group()), text)
