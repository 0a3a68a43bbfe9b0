"""What JAX tells of a process: the environment it runs in, and the arrays that are alive.

Knows versions and Python's garbage collector; `python -m functad doctor` tells more, and tries it.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from functad.api.devices import devices
from functad.array import ArrayImpl
from functad.system.once import imported
from functad.version import __version__


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions of functad, NumPy, Numba and Python, the machine, and its devices; or return that text.

    >>> import functad
    >>> text = functad.print_environment_info(return_string=True)
    >>> [line.split(":")[0] for line in text.splitlines()]
    ['functad', 'numpy', 'numba', 'python', 'machine', 'devices']
    """
    machine = imported("platform")
    facts = {
        "functad": __version__,
        "numpy": np.__version__,
        "numba": _version_of("numba"),
        "python": machine.python_version(),
        "machine": machine.platform(),
        "devices": devices(),
    }
    text = "".join(f"{name}: {fact}\n" for name, fact in facts.items())
    if return_string:
        return text
    print(text, end="")
    return None


def _version_of(package: str) -> str:
    metadata = imported("importlib.metadata")  # which loads much, for whoever asks
    try:
        return str(metadata.version(package))
    except metadata.PackageNotFoundError:
        return "not installed"


def live_arrays(platform: str | None = None) -> list[Any]:
    """All arrays that are alive in this process, without those that were donated.

    Args:
        platform: only those on devices of this kind.

    >>> import functad, functad.numpy as jnp
    >>> x = jnp.ones(3)
    >>> any(x is y for y in functad.live_arrays())
    True
    """
    found = [x for x in gc.get_objects() if issubclass(type(x), ArrayImpl)]  # not `isinstance`, for dead proxies
    return [x for x in found if not x.is_deleted() and (platform is None or x.device.platform == platform)]
