"""All tuned numbers stand in `machine_model/`, each with its unit and its origin; no other file defines one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from functad import machine_model
from functad.cli.measure import descriptions

PACKAGE = Path(__file__).parents[2] / "functad"
ROOMS = ("editing", "calls", "control", "optimize", "lowering", "backends")
ROOMS += ("primitives/arithmetic.py", "primitives/cost.py", "primitives/loops", "random")
# Of the NumPy kernels those that work block by block; the others are formulas, with their coefficients.
ROOMS += tuple(f"primitives/kernels/{f}.py" for f in "convolution indexing pieces sums strict_math threefry".split())
NAMES = [name for name in vars(machine_model) if name.isupper()]

# Numbers in capitals that no measurement would change, by their names, or all of a file or folder.
NOT_TUNED = {
    "backends/cpu/runtime/layout.py": "where words lie in records that compiled code reads",
    "backends/cpu/scalars": "coefficients and ends of the ranges of formulas",
    "backends/cuda/runtime/compiled_call.py": "where words lie in records that compiled code reads",
    "backends/cuda/runtime/driver.py": "flags and attributes of NVIDIA's driver",
    "backends/cuda/runtime/driver_library.py": "versions of NVIDIA's driver, and numbers of its failures",
    "backends/cuda/runtime/cublas.py": "numbers of NVIDIA's library",
    "backends/cuda/runtime/exchange.py": "numbers of the protocol DLPack",
    "backends/cuda/scalars/words.py": "of how many elements and terms the instructions are",
    "PAD": "elements of a load, so that they begin at round addresses",
    "_FEW_THREADS": "what the simulator runs",
    "backends/cuda/runtime/simulated_driver.py": "what simulated devices have",
    "_SHOWN": "how many lines a message has",
    "backends/cuda/scalars/complex_functions.py": "the end of the range of a formula",
    "backends/cpu/compile/elf.py": "numbers of a file format",
    "_CORE_BYTES": "a length in the description of a processor",
    "USABLE": "flags of NumPy's arrays",
    "IN_ROWS": "flags of NumPy's arrays",
    "READ_ONLY": "flags of NumPy's arrays",
    "NOT_FINITE": "bits of a float",
    "backends/cpu/runtime/python_objects.py": "NumPy's table of functions",
    "METH_O": "a flag of Python's",
    "METH_FASTCALL": "a flag of Python's",
    "_LEAST_FLOOR": "digits that are printed",
    "_CANDIDATES": "which repetitions are spoken of",
    "_FEWEST_STEPS": "which repetitions are spoken of",
    "FUNCTION_WEIGHT": "how operations that are printed are counted",
    "_PARTNERS": "entries of a memory of what was made",
    "MOST_NESTED": "Python's stack",
    "MOST_REWRITES": "finds rules that undo one another",
    "_HALF_PI_HIGH": "a coefficient",
    "_HALF_PI_LOW": "a coefficient",
    "primitives/kernels/sums.py": "how sums are rounded",
    "primitives/kernels/threefry.py": "numbers of the cipher",
    "_LARGEST_STEP": "the range of an integer",
    "NEVER": "a time after all others",
    "SPARE": "no number of a result",
    "AWAY_FROM_ZERO": "an enumeration",
    "TO_NEAREST_EVEN": "an enumeration",
    "AXES_OF_A_COPY": "parameters of a function",
    "_STIRLING_RESTS": "coefficients",
    "_STEPS_WALKED": "a multiple of the lengths of cycles",
    "PRE": "an enumeration",
    "POST": "an enumeration",
    "ACROSS": "an enumeration",
}


def numbers_in(text: str) -> Iterator[str]:
    """The names in capitals that a module, or a class in it, sets to numbers, or to tuples of numbers."""
    tree = ast.parse(text)
    for body in [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
        for statement in body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                if is_number(statement.value):
                    yield from (name for name in names if name.isupper())


def is_number(value: ast.expr) -> bool:
    """Whether an expression is made of nothing but numbers (a bool is none)."""
    nodes = [n for n in ast.walk(value) if not isinstance(n, ast.operator | ast.unaryop | ast.expr_context)]
    leaves = [n.value for n in nodes if isinstance(n, ast.Constant)]
    return all(isinstance(n, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Tuple | ast.List) for n in nodes) and any(
        type(leaf) in (int, float) for leaf in leaves
    )


def elsewhere() -> list[tuple[str, str]]:
    """The files of the rooms, and the numbers in them."""
    found = []
    for room in ROOMS:
        place = PACKAGE / room
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            found += [(name, number) for number in numbers_in(path.read_text(encoding="utf-8"))]
    return found


def excuse_of(file: str, number: str) -> str | None:
    return next((e for e in NOT_TUNED if number == e or file == e or file.startswith(f"{e}/")), None)


def test_no_tuned_number_stands_in_another_file():
    tuned = [f"{file} {number}" for file, number in elsewhere() if excuse_of(file, number) is None]
    assert not tuned, "move them to functad/machine_model/, or say in NOT_TUNED why no measurement would change them"


def test_every_excuse_is_needed():
    assert set(NOT_TUNED) == {excuse_of(file, number) for file, number in elsewhere()} - {None}


def test_the_walker_sees_numbers():
    text = (
        "FEW = 3\nBYTES: int = 1 << 20\n_A, B = 8, -2.5\nclass C:\n    SIZES = (4, 8)\n"
        "SECOND = 2 * FEW\nlimit = 7\nNAMES = ('a', 'b')\nON = True\nNONE = ()\n"
    )
    assert list(numbers_in(text)) == ["FEW", "BYTES", "_A", "B", "SIZES"]


def test_every_number_has_a_unit_and_an_origin():
    texts = descriptions()
    assert set(texts) == set(NAMES)
    for name, text in texts.items():
        unit = text.split()[0].rstrip(".")
        assert re.fullmatch(r"[a-z]+", unit), f"{name} begins with no unit: {text}"
        assert re.search(r"\b(Measured|Derived|Compared|Unproven|Bound|Chosen)\b", text), f"{name} has no origin"


def assignments() -> list[ast.Assign]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((PACKAGE / "machine_model").glob("*.py"))]
    return [statement for tree in trees for statement in tree.body if isinstance(statement, ast.Assign)]


def test_no_number_is_set_twice():
    names = [ast.unparse(statement.targets[0]) for statement in assignments()]
    assert sorted(names) == sorted(NAMES)


def test_just_what_is_a_formula_is_derived():
    formulas = {
        ast.unparse(statement.targets[0])
        for statement in assignments()
        if any(isinstance(n, ast.Name) for n in ast.walk(statement.value))
    }
    assert formulas == {name for name, text in descriptions().items() if re.search(r"\bDerived\b", text)}


def test_every_number_is_read():
    formulas = " ".join(ast.unparse(statement.value) for statement in assignments())
    files = [p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py") if p.name != "measure.py"]
    read = set(re.findall(r"\bmachine_model\.([A-Z_]+)\b", "".join(files))) | set(re.findall(r"[A-Z_]+", formulas))
    assert not set(NAMES) - read, "delete them"


# What is read when a module is imported, by file or folder, so that a number that is set later is not seen.
READ_AT_IMPORT = {
    "backends/cpu/products/own": "its language and its tables have constants",
    "backends/cpu/scalars/lines_numba.py": "a type of the size of a cache line, which nobody tunes",
    "primitives/loops/sorting_buckets.py": "the same",
    "backends/cpu/runtime/tape.py": "the default of a field",
    "primitives/kernels/pieces.py": "a table of dtypes",
    "backends/cuda/lowering.py": "another number in the simulator",
    "backends/cuda/launches.py": "another number in the simulator",
}


def read_at_import(text: str) -> list[str]:
    """The numbers that a module reads outside of functions, and as their defaults."""
    found = []
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            continue
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "machine_model" and node.attr.isupper():
            found.append(node.attr)
        waiting += ast.iter_child_nodes(node)
    return found


def test_no_module_copies_a_number_when_it_is_imported():
    copying = set()
    for path in PACKAGE.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()
        if path.parent.name == "machine_model":
            continue
        assert "from functad.machine_model" not in text, path
        if read_at_import(text):
            copying.add(next((e for e in READ_AT_IMPORT if name == e or name.startswith(f"{e}/")), name))
    assert copying == set(READ_AT_IMPORT)


def test_what_is_read_at_import_is_seen():
    text = (
        "A = machine_model.FEW // 2\nclass C:\n    n: int = machine_model.MORE\n"
        "def f(x=machine_model.MOST): return machine_model.NONE\ng = lambda: machine_model.NONE\n"
    )
    assert sorted(read_at_import(text)) == ["FEW", "MORE", "MOST"]
