"""Kernels as plain Python: every primitive's examples, and whole functions in a process without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cpu_program_tools import check_plain
from primitive_checks import cases_of
from primitive_form_tools import forms

from functad.all_primitives import registry
from functad.ir import Absent

NAMES = sorted(name for name, p in registry.items() if not isinstance(p.examples, Absent))


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("name", NAMES)
def test_examples_as_plain_python_equal_the_interpreter(name: str) -> None:
    for case in cases_of(registry[name]):
        together = forms(case)
        for donated in (False, True):
            check_plain(together.program(), together.args, [donated] * len(together.args), case.index)


PROGRAM = """
import sys
import numpy as np
import functad
import functad.numpy as jnp
from functad import lax

x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
w = np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3)
labels = np.array([0, 2, 1, 2], np.int32)

def loss(w, b, x, labels):
    scores = jnp.tanh(x @ w) + b
    shifted = scores - jnp.max(scores, 1, keepdims=True)
    logits = shifted - jnp.log(jnp.exp(shifted).sum(1, keepdims=True))
    return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

def step(w, b, x, labels):
    value, (gw, gb) = functad.value_and_grad(loss, argnums=(0, 1))(w, b, x, labels)
    return value, w - 0.1 * gw, b - 0.1 * gb

results = [
    *functad.jit(step)(w, np.zeros(3, np.float32), x, labels),
    *functad.jit(lambda x: (jnp.sort(x, 1), jnp.cumsum(x, 0), jnp.argmax(x, 1)))(x[::-1]),
    functad.jit(functad.vmap(lambda r: jnp.convolve(r, r[:3])))(x),
    functad.jit(lambda x: x.astype(np.float16).sum(0) * 2)(x),
    functad.jit(lambda x: lax.population_count(labels) + x.astype(np.int32).sum())(x),
    functad.jit(lambda x: jnp.exp(1j * x).sum(1))(x),
]
np.savez(sys.argv[1], *map(np.asarray, results))
print("numba" in sys.modules)
"""


def results_of(path: Path, disable: str) -> tuple[list[np.ndarray], bool]:
    """The results of the program in a process of its own, and whether it has imported the compiler."""
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disable, "FUNCTAD_CACHE_DIR": str(path), "PYTHONPATH": root}
    saved = path / f"results{disable}.npz"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(saved)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    with np.load(saved) as arrays:
        return [arrays[f"arr_{i}"] for i in range(len(arrays.files))], done.stdout.strip() == "True"


def test_without_a_compiler_the_results_are_the_same(tmp_path: Path) -> None:
    plain, imported = results_of(tmp_path, "1")
    compiled, _ = results_of(tmp_path, "0")
    assert not imported
    for k, (a, b) in enumerate(zip(plain, compiled, strict=True)):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6, err_msg=f"result {k}")
