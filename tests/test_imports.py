"""What is imported decides on no result: functions import what they need, and names find all there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(program: str) -> str:
    """What a fresh process prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


REGISTRIES = """
import sys, functad
from functad.all_primitives import registry
from functad.numpy import protocols
from functad.pytrees.nodes import _registered
first = set(registry), set(vars(functad.Array)), {t for t in _registered}
import importlib, pkgutil
skipped = ("functad.backends", "functad.data", "functad.__main__")  # which need Numba, or are none of it
for found in pkgutil.walk_packages(functad.__path__, "functad."):
    if not found.name.startswith(skipped):
        importlib.import_module(found.name)
assert set(registry) == first[0], set(registry) - first[0]
assert set(vars(functad.Array)) == first[1]
print(sorted(t.__module__ for t in _registered - first[2]))
"""


def test_importing_more_registers_no_operation() -> None:
    """`functad.all_primitives` has all. Node types are an exception: there is none without its module."""
    modules = eval(run(REGISTRIES))
    allowed = (
        "functad.api",
        "functad.nn",
        "functad.optim",
        "functad.io",
        "functad.scipy",
        "functad.experimental",
        "collections",
    )
    assert all(m.startswith(allowed) for m in modules)


PROGRAMS = {
    "products of embedded rows": """
table, w, i = np.ones((100, 64), np.float32), np.ones((64, 512), np.float32), np.arange(1000, dtype=np.int32) % 100
gradient = functad.grad(lambda t, w: jnp.sum(jnp.tanh(t[i] @ w)), (0, 1))
""",
    "a loop": """
table, w = np.ones(200, np.float32), np.float32(0.5)
gradient = functad.grad(lambda t, w: jnp.cumsum(t * w).sum() + jnp.searchsorted(t, w), (0, 1))
""",
    "functions that are made of loops": """
table, w = np.linspace(0.1, 0.9, 12, dtype=np.float32), np.float32(0.5)
gradient = functad.grad(lambda t, w: jnp.sum(jnp.vectorize(lambda a: a * w)(t)) + jnp.median(t) * w, (0, 1))
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_without_other_parts_of_functad(name: str) -> None:
    program = f"""
import functad, functad.numpy as jnp, numpy as np
{PROGRAMS[name]}
for found, expected in zip(functad.jit(gradient)(table, w), gradient(table, w)):
    np.testing.assert_allclose(found, expected, rtol=1e-4)
"""
    run(program)


SELDOM = """
import sys, functad, functad.numpy as jnp, functad.optim
seldom = "lax optim.averaging optim.factored optim.moments optim.quasi_newton optim.variants".split()
seldom += "core debug.bounds debug.callbacks debug.prompt debug.stepping extend key_reuse user_kernels".split()
seldom += "api.checkpointing api.custom_rules api.environment api.jacobians api.mapping api.residuals".split()
seldom += "control.scan transforms.batching transforms.programs primitives.fourier primitives.incomplete".split()
seldom += "numpy.bessel numpy.numeric numpy.polynomials numpy.statistics primitives.linear_algebra.qr".split()
print([name for name in seldom if f"functad.{name}" in sys.modules])
from functad import jacfwd, typeof
assert jacfwd is functad.api.jacfwd and typeof is functad.core.typeof
def all_names(x):
    for module in (functad, functad.api, functad.debug, functad.numpy, functad.optim):
        assert all(hasattr(module, name) for name in dir(module))
        assert all(name in vars(module) for names in module._PLACES.values() for name in names)
    return x
assert not functad.make_jaxpr(all_names)(1.).eqns  # nothing is traced where modules are imported
from functad.numpy import *
assert polyfit is functad.numpy.polyfit
"""


def test_what_few_programs_use_is_imported_when_it_is_asked_for() -> None:
    assert run(SELDOM) == "[]\n"


ON_THE_CPU = """
import sys
import numpy as np, functad, functad.numpy as jnp
from functad import data, lax, nn, optim, random, train, views
x = functad.device_put(np.ones(3, np.float32))
functad.grad(lambda x: jnp.sin(x).sum())(x), functad.jit(lambda x: jnp.sin(x) @ x)(x)
random.normal(random.key(0), (3,))
assert functad.devices()[0] is x.device and repr(x)
print([m for m in sys.modules if m.startswith(("functad.backends.cuda", "numba.cuda", "numba_cuda", "cuda"))])
"""


def test_nothing_of_cuda_is_imported_unless_it_is_asked_for() -> None:
    """But what packages of CUDA put into each process of Python themselves."""
    before = run(ON_THE_CPU.splitlines()[1] + "\n" + ON_THE_CPU.splitlines()[-1])
    assert run(ON_THE_CPU) == before
