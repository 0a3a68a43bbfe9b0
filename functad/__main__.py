"""`python -m functad`: the command line, and what a user sees when something goes wrong.

Knows the sub-commands by name; each is defined where its work is done.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence

from functad import __version__
from functad.cli import cache as cache_command
from functad.cli import doctor
from functad.cli import explain as explain_command
from functad.errors import FunctadError
from functad.train import command as train
from functad.train.running import INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("Stopped.", flush=True)
        return INTERRUPTED
    except FunctadError as problem:
        print(f"error: {problem}", file=sys.stderr, flush=True)
        return 1
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        print(f"error: {where}{problem.strerror or problem}", file=sys.stderr, flush=True)
        return 1


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="functad", description="functad: composable function transforms for NumPy.")
    parser.add_argument("--version", action="version", version=f"functad {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    train.add_parser(commands)
    cache_command.add_parser(commands)
    doctor.add_parser(commands)
    explain_command.add_parser(commands)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        # The command's own parser, if there is one, so that its usage is shown, not that of all commands.
        own = vars(options).get("parser", parser)
        own.error(f"unrecognized arguments: {' '.join(unknown)}{_suggestion(own, unknown)}")
    if "run" not in options:
        parser.print_help(sys.stderr)
        return 2
    return options.run(options)


def _suggestion(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    words = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    close = [match for word in words for match in difflib.get_close_matches(word, parser._option_string_actions, n=1)]
    return f" (did you mean {', '.join(close)}?)" if close else ""


if __name__ == "__main__":
    sys.exit(main())
