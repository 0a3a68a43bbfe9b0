"""The frameworks that compete: which there are, which are installed here, and how each runs a task.

A module a framework, imported only in the process that runs it.
"""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# How a framework is called in tables → its module here, and the package that it needs.
FRAMEWORKS = {
    "functad": ("with_functad", "functad"),
    "torch": ("with_torch", "torch"),
    "torch.compile": ("with_torch", "torch"),
    "jax": ("with_jax", "jax"),
    "numpy": ("with_numpy", "numpy"),
}


def absent(framework: str) -> str | None:
    """Why a framework cannot run here, or None if it can."""
    package = FRAMEWORKS[framework][1]
    if not find_spec(package):
        return f"{package} is not installed"
    compilers = [os.environ.get("CXX") or "g++", "g++", "clang++"]
    if framework == "torch.compile" and not any(shutil.which(compiler) for compiler in compilers):
        return "no C++ compiler found, which torch.compile needs"
    return None


def contender(framework: str, task: Any) -> Any:
    """The task, ready to run in a framework, which this imports."""
    if framework not in task.forms:
        raise LookupError(f"this workload is not written for {framework}")
    module = import_module(f"benchmarks.frameworks.{FRAMEWORKS[framework][0]}")
    return module.contender(task, task.forms[framework], compiled=framework == "torch.compile")


def version(framework: str) -> str:
    """The version of the framework's package."""
    return str(import_module(FRAMEWORKS[framework][1]).__version__)
