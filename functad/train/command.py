"""`python -m functad train …`: which networks can be trained from the command line.

Trains none itself.
"""

from __future__ import annotations

from typing import Any

from functad.train import digit_commands, text_commands


def add_parser(commands: Any) -> None:
    """Add `train` to the sub-commands of a parser."""
    parser = commands.add_parser("train", help="train a network and show how it does")
    networks = parser.add_subparsers(metavar="NETWORK", required=True)
    digit_commands.add_parsers(networks)
    text_commands.add_parsers(networks)
