"""Where there is no Numba, as in a browser, everything works but speed. `make no-numba` runs many other tests there."""

from __future__ import annotations

import os
import subprocess
import sys

# Pyodide, a Python for browsers, has no Numba, none of these parts of Python's library, and starts no threads.
BROWSER = """
import sys, threading
for name in "numba llvmlite fcntl termios resource grp ssl curses multiprocessing sqlite3 lzma".split():
    sys.modules[name] = None
def refuse(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse

import numpy as np
import functad, functad.numpy as jnp

def loss(w, x):
    return jnp.sum(jnp.tanh(x @ w) ** 2)

w, x = jnp.linspace(-1, 1, 12).reshape(4, 3), jnp.ones((5, 4))
"""


def in_browser(program: str, **variables: str) -> tuple[str, str]:
    """What a program prints on stdout and on stderr."""
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_DISABLE_JIT"} | variables
    done = subprocess.run(
        [sys.executable, "-c", BROWSER + program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_jit_is_run_by_numpy_which_is_said_once():
    out, err = in_browser("""
step = functad.jit(functad.grad(loss))
for compiled in (step, functad.jit(functad.vmap(functad.grad(loss), in_axes=(None, 0))).lower(w, x[:, None]).compile()):
    data = x if compiled is step else x[:, None]
    total = np.asarray(compiled(w, data)).reshape(-1, 4, 3).sum(0)
    np.testing.assert_allclose(total, functad.grad(loss)(w, x), rtol=1e-5)
print(functad.jit(lambda n: functad.lax.fori_loop(0, n, lambda k, c: c * 2, 1.0))(5))
""")
    assert out == "32.0\n"
    assert err.count("Numba is not installed") == 1 and "python -m pip install numba" in err


def test_every_stage_but_machine_code_is_shown():
    out, _ = in_browser("""
lowered = functad.jit(loss).lower(w, x)
print(lowered.optimized, lowered.kernels, lowered.memory_plan, lowered.cost)
print(functad.explain(functad.grad(loss))(w, x))
print(functad.graph(functad.grad(loss), optimized=True)(w, x))
try:
    lowered.compile().profile(w, x)
except functad.errors.ArgumentError as problem:
    print(problem)
""")
    assert "dot_general" in out and "def " in out and "arena" in out and "flops" in out
    assert "Transposed" in out and "kernels become no machine code" in out and "<Graph of loss" in out
    assert "only compiled kernels are measured, and nothing is compiled here without Numba" in out


def test_the_doctor_finds_no_problem_and_says_what_works():
    out, _ = in_browser("""
from functad.__main__ import main
print(main(["doctor"]))
""")
    assert out.endswith("no problems found\n0\n") and "PROBLEM" not in out
    assert "works         everything, run by NumPy" in out and "python -m pip install numba" in out


def test_kernels_for_cuda_are_shown():
    out, _ = in_browser("""
print(functad.jit(loss, backend="cuda").lower(w, x).kernels)
try:
    functad.jit(loss, backend="cuda")(w, x)
except functad.errors.DeviceError as problem:
    print(problem)
""")
    assert "from numba import cuda" in out and "cuda.grid(1)" in out
    assert 'the backend "cuda" compiles with Numba, which is not installed: python -m pip install numba' in out


def test_kernels_run_as_plain_python():
    out, err = in_browser(
        """
@functad.numba_primitive(elementwise=True)
def cube(x):
    return x * x * x

step = functad.jit(lambda w, x: loss(w, x) + jnp.sum(cube(w)))
print(type(functad.execution.executable(step.trace(w, x).jaxpr)).__name__)
np.testing.assert_allclose(step(w, x), loss(w, x) + jnp.sum(w**3), rtol=1e-5)
""",
        NUMBA_DISABLE_JIT="1",
    )
    assert out == "PlainExecutable\n" and not err


def test_primitives_made_of_python_functions_run_as_python():
    out, _ = in_browser("""
@functad.numba_primitive(elementwise=True)
def cube(x):
    return x * x * x

x = jnp.float32([-1, 2])
print(cube(x).tolist(), functad.jit(cube)(x).tolist())
""")
    assert out == "[-1.0, 8.0] [-1.0, 8.0]\n"


def test_training_goes_on():
    out, _ = in_browser("""
from functad import data, nn, optim, random
from functad.train import Dataset, classifier, fit

points = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
examples = Dataset(points, (points[:, 0] > points[:, 1]).astype(np.int32))
network = nn.serial(nn.Dense(4), nn.Relu(), nn.Dense(2))
params = network.init(random.key(0), points)
history = fit(
    classifier(network), params, optim.adam(0.1), examples, test=examples, until=5, batch_size=20, key=random.key(1)
)
print(history.best.test["accuracy"] > 0.95)
print([len(batch[0]) for batch in data.loader((points, points), 80, key=random.key(2))])
""")
    assert out == "True\n[80, 80, 40]\n"
