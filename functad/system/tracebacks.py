"""Tracebacks as people see them: without functad's own lines, between theirs and the error.

Knows Python's hook for what nobody catches, and IPython's; errors that are caught keep all their frames.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from functad.config import config
from functad.errors import FunctadError

_PACKAGE = os.path.join(Path(__file__).parent.parent, "")  # with a separator at its end


def shorten_tracebacks() -> None:
    """Show errors that end a program, or a cell of a notebook, without functad's own lines."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, _shorten(error, trace))

    sys.excepthook = hook
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.set_custom_exc((FunctadError,), _show_in_ipython)


def users_frames(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """A traceback without functad's frames; all of it if the error is functad's own fault, or `config` asks for it."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    kept = [f for f in frames if not f.tb_frame.f_code.co_filename.startswith(_PACKAGE)]
    is_foreseen = isinstance(error, FunctadError) or frames[-1:] == kept[-1:]
    if config.traceback_filtering == "off" or not is_foreseen or not kept:
        kept = frames
    made = None
    for frame in reversed(kept):
        made = TracebackType(made, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return made


def _shorten(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """The frames to show of an error, which it has from now on, as have those behind it."""
    error.__traceback__ = shown = users_frames(error, trace)
    behind, seen = error.__cause__ or error.__context__, {id(error)}
    while behind is not None and id(behind) not in seen:
        seen.add(id(behind))
        behind.__traceback__ = users_frames(behind, behind.__traceback__)
        behind = behind.__cause__ or behind.__context__
    return shown


def _show_in_ipython(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: Any = None
) -> None:
    shell.showtraceback((kind, error, _shorten(error, trace)), tb_offset=tb_offset)
