"""Whether Numba's CUDA compiler can be imported: it is a package of its own, and not every one suits every NumPy.

Knows how its import fails; nothing of kernels.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from functad.errors import CompilationError


def require() -> None:
    """
    Raises:
        CompilationError: Numba's CUDA compiler cannot be imported; it says why, and what to install.
    """
    problem = _problem()
    if problem is not None:
        raise CompilationError(explained(problem)) from problem


@cache
def _problem() -> Exception | None:
    """Why its import fails: that of the first time, for a second one finds parts of it, and fails otherwise."""
    try:
        import_module("numba.cuda.cudaimpl")
    except Exception as problem:
        return problem
    return None


def explained(problem: Exception) -> str:
    """What it means that the import has failed."""
    compiler = _named("numba-cuda") or "the CUDA compiler of Numba"
    if isinstance(problem, AttributeError) and "module 'numpy' has no attribute" in str(problem):
        return (
            f"{compiler} does not work with {_named('numpy')}, in which functions are gone that it names ({problem}): "
            "python -m pip install 'numpy<2.5'"
        )
    return (
        f"{compiler} cannot be imported ({type(problem).__name__}: {problem}): python -m pip install 'functad[cuda]' "
        "brings versions that work together"
    )


def _named(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""
