"""Modules that are imported when a function of theirs is called, and what `import functad` does without."""

from __future__ import annotations

import pickle
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from functad.system.later import LaterFunction, LaterModule, later


def test_a_function_is_imported_when_called_and_pickled_as_itself() -> None:
    module = LaterModule("functad.primitives.kernels.special")
    assert module.lgamma is module.lgamma and isinstance(module.lgamma, LaterFunction)
    assert module.lgamma.__name__ == "lgamma" and module.lgamma.__module__ == "functad.primitives.kernels.special"
    np.testing.assert_allclose(module.lgamma(np.array([1.0, 5.0])), [0, np.log(24)], atol=1e-12)
    function = pickle.loads(pickle.dumps(module.lgamma))
    assert function is vars(sys.modules["functad.primitives.kernels.special"])["lgamma"]


def test_other_names_are_no_modules() -> None:
    find = later("functad.primitives.kernels", ["special"])
    assert isinstance(find("special"), ModuleType)
    with pytest.raises(AttributeError, match="no attribute 'specal'"):
        find("specal")
    with pytest.raises(AttributeError):
        _ = find("special").__wrapped__


NOT_NEEDED = {
    "cmd",
    "difflib",
    "json",
    "logging",
    "uuid",
    "functad.debug.console",
    "functad.primitives.kernels.special",
    "functad.primitives.loops.convolution",
    "functad.primitives.loops.moving",
}


def test_an_import_and_a_gradient_do_without_what_seldom_runs() -> None:
    code = (
        "import sys, functad, functad.numpy as jnp\n"
        "functad.make_jaxpr(functad.grad(lambda x: jnp.sort(jnp.tanh(x[1:])).sum()))(jnp.ones(3))\n"
        f"print(sorted({NOT_NEEDED!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


SECOND = """
import sys, functad, functad.numpy as jnp, numpy as np
a = np.arange(40000, dtype=np.float32).reshape(200, 200) % 7 + 9 * np.eye(200, dtype=np.float32)
print(float(functad.jit(lambda a: jnp.linalg.svd(a)[1].sum() + jnp.linalg.cholesky(a @ a.T).sum())(a)))
print("numba" in sys.modules)
"""


def test_functions_of_numpy_in_kept_plans_are_found_by_other_processes(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FUNCTAD_CHECK_PROGRAMS", "0")
    runs = [
        subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True, check=True, timeout=200)
        for _ in range(2)
    ]
    (first, compiled), (second, found) = (run.stdout.split() for run in runs)
    assert first == second and compiled == "True" and found == "False"
