"""No pass names a primitive that is not its subject: what passes ask of all others are facts on their records."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import functad

PACKAGE = Path(functad.__file__).parent
ROOMS = ("editing", "optimize", "lowering", "backends")

# What a pass is about, and the primitives of that.
SUBJECTS = {
    "editing/contracts.py": ("barriers", "optimization_barrier"),
    "editing/dead_code.py": ("barriers", "optimization_barrier"),
    "editing/inlining.py": ("barriers", "optimization_barrier"),
    "lowering/barriers.py": ("barriers", "optimization_barrier"),
    "lowering/counters.py": ("loops that count up to a limit", "add sub and ge gt le lt ne"),
    "lowering/fusion/products.py": ("what matrix products take in", "dot_general add add_any sub mul neg"),
    "optimize/algebra.py": ("neutral numbers and signs", "add sub mul div neg and"),
    "optimize/broadcasts.py": (
        "numbers that are repeated; sums of cotangents take no numbers",
        "broadcast_in_dim add_any",
    ),
    "optimize/gathered_products.py": ("gathered rows, moved", "gather scatter_add dot_general reshape transpose"),
    "optimize/loops/devices.py": ("large products", "dot_general"),
    "optimize/loops/layout.py": (
        "weights of products; carries that begin as padded cotangents",
        "dot_general add_any pad",
    ),
    "optimize/loops/linear_recurrences.py": ("linear forms", "scan add add_any sub mul div neg select_n"),
    "optimize/loops/legality.py": ("loops", "scan"),
    "optimize/loops/moves.py": ("loops", "scan while"),
    "optimize/loops/parts.py": ("loops", "scan while"),
    "optimize/loops/passes.py": ("loops and branches", "scan while cond"),
    "optimize/loops/products.py": ("sums of products", "dot_general add add_any reduce_sum"),
    "optimize/loops/ranges.py": ("sizes of linear forms", "add add_any sub mul div neg select_n broadcast_in_dim"),
    "optimize/loops/slices.py": ("products of few terms", "dot_general"),
    "optimize/loops/strips.py": ("sums of products within loops", "scan dot_general"),
    "optimize/loops/unrolling.py": ("products in short loops", "dot_general"),
    "optimize/moving.py": ("moves of elements", "reshape transpose slice iota"),
    "optimize/pairs.py": ("numbers that are repeated", "broadcast_in_dim"),
    "optimize/products.py": ("matrix products", "dot_general transpose"),
    "optimize/scatters.py": (
        "updates, of what is repeated",
        "scatter scatter_add scatter_max scatter_min scatter_mul dynamic_update_slice update_slice add_to_slice "
        "broadcast_in_dim",
    ),
    "optimize/spectra.py": ("numbers that were made complex", "convert_element_type"),
    "optimize/stacks.py": ("stacked arrays", "stack unstack slice reshape"),
}


def named_in(text: str) -> Iterator[str]:
    """The primitives that a module imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name.removesuffix("_p") for alias in node.names if alias.name.endswith("_p"))


def test_passes_name_their_subjects_alone() -> None:
    found: dict[str, set[str]] = {}
    for path in (p for room in ROOMS for p in sorted((PACKAGE / room).rglob("*.py"))):
        file = path.relative_to(PACKAGE).as_posix()
        names = {*named_in(path.read_text(encoding="utf-8"))} - {*SUBJECTS.get(file, ("", ""))[1].split()}
        if names and file != "optimize/rules.py":  # which says of each rule what it is asked about
            found[file] = names
    assert not found, "make it a fact of their records, or say in SUBJECTS what the pass is about"


def test_what_is_named_is_seen() -> None:
    assert [*named_in("from functad.primitives.arithmetic import add, add_p, sub_p\nimport numpy")] == ["add", "sub"]
