"""Plans on disk, where other processes find them: what was compiled once is only traced and loaded there.

Knows what decides about a plan; not how one is made. A plan lies beside the kernels that it names, and is found by the
text of the traced Program: passes, lowering, and the modules that have them, are not needed then.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from functad import machine_model
from functad.backends.cpu.compile import objects
from functad.backends.cpu.products.blas import blas
from functad.backends.cpu.runtime.linking import Plan
from functad.config import IMPORTED_AT_NS, config, own_optimisations
from functad.editing.fingerprint import fingerprint
from functad.ir import Program
from functad.options import JIT_OPTIONS, available_cores
from functad.system.blas_library import numpys_blas
from functad.system.source_files import python_files

_PACKAGE = Path(machine_model.__path__[0]).parent
# The folders of the layers above the backends: they decide what is traced, which the text of the Program says.
ABOVE = frozenset(
    "cli data debug experimental interpreters io lax nn numpy optim random scipy train views".split()
)  # fmt: skip


def plan_key(program: Program, donated: Sequence[bool]) -> str | None:
    """The name under which the plan of a traced Program lies; None if it is not to be looked for, or kept."""
    of_user = own_optimisations()  # functions, of which no text says what they do
    text = None if config.check_programs or of_user else fingerprint(program)
    sources = None if text is None else _sources()
    if text is None or sources is None:
        return None
    options = [getattr(config, name) for name in JIT_OPTIONS]
    numbers = [value for name, value in sorted(vars(machine_model).items()) if name.isupper()]
    libraries = (blas()[:1], blas().description, (numpys_blas() or ())[:2])
    facts = (tuple(donated), options, available_cores()[0], libraries, numbers)
    return objects.compilation_key("plan", text, repr(facts), sources)


def find_plan(key: str) -> Plan | None:
    """The plan that lies on disk under a key."""
    content = objects.read_packed(f"{key}.plan", key)
    plan = None if content is None else pickle.loads(content)
    return plan if isinstance(plan, Plan) else None


def keep_plan(key: str, plan: Plan) -> None:
    """Keep a plan, unless it holds large arrays."""
    if sum(value.nbytes for _, value in plan.constants) <= machine_model.LARGEST_KNOWN_CONSTANT:
        objects.write_packed(f"{key}.plan", key, pickle.dumps(plan, pickle.HIGHEST_PROTOCOL))


@cache
def _sources() -> str | None:
    """Which functad this is: its folder, and names, sizes and times of the files that decide what becomes of a Program.

    None if that cannot be said: not in a folder, or changed since it was imported.
    """
    try:
        found = [(file.path, file.stat()) for file in python_files(str(_PACKAGE), ABOVE)]
    except OSError:
        return None
    files = sorted((path, status.st_size, status.st_mtime_ns) for path, status in found)
    changed = any(nanoseconds > IMPORTED_AT_NS for _, _, nanoseconds in files)
    return None if changed else repr((str(_PACKAGE), files))
