"""A line in a notebook that is rewritten, by the display of the kernel that runs there.

Knows IPython by what it has loaded itself; imports nothing of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from functad.system.once import imported


class NotebookLine:
    """An output of a cell that is text and a bar, made when it is first shown.

    display: IPython's function.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, text: str, share: float | None = None) -> None:
        """Show a text instead of the one before; beside a bar, if a share is done of something."""
        bar = "" if share is None else f'<progress value="{share:.3f}" style="vertical-align: middle"></progress> '
        data = {"text/plain": text, "text/html": f"<div>{bar}<code>{_escaped(text)}</code></div>" if text else ""}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def _escaped(text: str) -> str:
    return str(imported("html").escape(text))  # its tables take long to load


def notebook_line() -> NotebookLine | None:
    """A line in the notebook that runs this; None elsewhere, in a terminal's IPython, too."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    display = getattr(sys.modules.get("IPython.display"), "display", None)
    return NotebookLine(display) if hasattr(shell, "kernel") and display is not None else None
