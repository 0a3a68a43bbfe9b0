"""Executables found on disk by the traced Program: with the same results, and without the compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import config, grad, jit, lax, machine_model
from functad.backends.cpu import executable, kept_plans
from functad.backends.cpu.compile import objects, shared_kernels
from functad.backends.cpu.executable import CpuExecutable
from functad.config import IMPORTED_AT_NS

X = np.linspace(-1, 1, 300, dtype=np.float32)
M = np.linspace(-1, 1, 900, dtype=np.float32).reshape(30, 30)


def until_large(x: Any) -> Any:
    return lax.while_loop(lambda c: jnp.sum(c * c) < 1e3, lambda c: c * 1.5, x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elements": (lambda x: (jnp.sin(x) * 2.5, x + 1), (X,)),
    "a product": (lambda a, b: a @ jnp.tanh(b @ a.T), (M, M)),
    "a scan": (lambda x, m: lax.scan(lambda c, r: (jnp.tanh(c @ m + r), c[0]), x, m), (M[0], M)),
    "a loop of small steps": (lambda x: lax.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x), (X[:3],)),
    "memory that grows": (lambda x: grad(lambda x: jnp.sum(until_large(x)))(x), (X,)),
    "a branch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x), (np.int32(1), X)),
    "a constant": (lambda x: lax.fori_loop(0, 9, lambda i, c: c + np.arange(300, dtype=np.float32), x), (X,)),
    "a view of an argument": (lambda x: (x.reshape(30, 10), jnp.sum(x)), (X,)),
    "sorting": (lambda x: jnp.sort(x[::-1]), (X,)),
    "nothing": (lambda x: jnp.zeros((0, 3)) * x, (np.float32(2),)),
}


@pytest.fixture(autouse=True)
def _with_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of one's own; no plan is looked for as long as every pass is checked, as in all other tests."""
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    shared_kernels._known.clear()  # what other tests have compiled does not lie there
    with config.context(check_programs=False):
        yield


def plans() -> list[Path]:
    return sorted(objects.cache_folder().glob("*.plan"))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The Programs that are lowered from now on."""
    found: list[Any] = []
    lower = executable.lower_program
    monkeypatch.setattr(
        executable, "lower_program", lambda program, *more: found.append(program) or lower(program, *more)
    )
    return found


def results(fun: Callable[..., Any], args: tuple[Any, ...], **options: Any) -> list[np.ndarray]:
    """What a new jitted function gives."""
    found = jit(lambda *xs: fun(*xs), **options)(*map(jnp.asarray, args))
    return [np.array(x) for x in functad.tree_util.tree_leaves(found)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found_gives_the_same(name: str, lowered: list[Any]) -> None:
    fun, args = PROGRAMS[name]
    for donated in ((), (len(args) - 1,)):
        lowered.clear()
        first = results(fun, args, donate_argnums=donated)
        assert len(lowered) == 1
        shared_kernels._known.clear()  # as in another process
        again = results(fun, args, donate_argnums=donated)
        assert len(lowered) == 1, "it was compiled once more"
        for one, other in zip(first, again, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    assert len(plans()) == 2


def test_what_decides_about_kernels_decides_which_plan_is_found(
    lowered: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    results(jnp.sin, (X,))
    with config.context(fuse_multiply_add=True):
        results(jnp.sin, (X,))
    monkeypatch.setattr(machine_model, "SMALLEST_CHUNK", 1)
    results(jnp.sin, (X,))
    monkeypatch.setattr(kept_plans, "available_cores", lambda: (77, ""))
    results(jnp.sin, (X,))
    monkeypatch.setattr(kept_plans, "_sources", lambda: "another functad")
    results(jnp.sin, (X,))
    assert len(lowered) == len(plans()) == 5
    results(jnp.sin, (X,))
    assert len(lowered) == 5


def test_nothing_is_looked_for_while_passes_are_checked(lowered: list[Any]) -> None:
    with config.context(check_programs=True):
        results(jnp.sin, (X,))
        results(jnp.sin, (X,))
    assert len(lowered) == 2 and not plans()


def test_python_functions_are_not_kept(lowered: list[Any]) -> None:
    def f(x: Any) -> Any:
        return functad.pure_callback(np.sin, functad.ShapeDtypeStruct((300,), np.float32), x) * 2

    results(f, (X,))
    results(f, (X,))
    assert len(lowered) == 2 and not plans()


@pytest.mark.parametrize("kind", ["a bit", "the end", "another plan", "no kernels", "other users", "a folder"])
def test_damage_is_compiled_again(kind: str, lowered: list[Any]) -> None:
    expected = results(jnp.sin, (X,))
    (path,) = plans()
    content = path.read_bytes()
    if kind == "a bit":
        path.write_bytes(content[:50] + bytes([content[50] ^ 4]) + content[51:])
    elif kind == "the end":
        path.write_bytes(content[:-1])
    elif kind == "another plan":
        results(jnp.cos, (X,))
        (other,) = set(plans()) - {path}
        path.write_bytes(other.read_bytes())
    elif kind == "no kernels":
        shared_kernels._known.clear()
        for file in objects.cache_folder().glob("*.o"):
            file.unlink()
    elif kind == "other users":
        path.chmod(0o666)
    else:
        path.unlink()
        path.mkdir()
    lowered.clear()
    shared_kernels._known.clear()
    assert results(jnp.sin, (X,))[0].tobytes() == expected[0].tobytes()
    assert len(lowered) == 1


def test_what_is_found_can_be_measured(lowered: list[Any]) -> None:
    results(jnp.sin, (X,))
    compiled = jit(lambda x: jnp.sin(x)).lower(X).compile()
    assert isinstance(compiled._executable, CpuExecutable) and len(lowered) == 1
    assert "sin_" in str(compiled.profile(X)) and len(lowered) == 2


def test_an_executable_does_not_keep_its_program(lowered: list[Any]) -> None:
    results(jnp.sin, (X,))
    program = functad.make_jaxpr(lambda x: jnp.sin(x))(X)
    found, life = executable.compile_program(program), weakref.ref(program)
    assert not lowered[1:]
    del program
    assert life() is None and found([X])[0].tobytes() == results(jnp.sin, (X,))[0].tobytes()


OTHER_PROCESS = """
import json, sys
import numpy as np
import functad, functad.numpy as jnp
w, x = jnp.ones((40, 40)), jnp.linspace(0, 1, 40)
step = functad.jit(lambda w, x: w - 0.1 * functad.grad(lambda w: jnp.sum(jnp.tanh(w @ x) ** 2))(w), donate_argnums=0)
print(json.dumps([np.asarray(step(w, x)).tobytes().hex(), sorted(sys.modules)]))
"""


def test_another_process_does_without_the_compiler() -> None:
    def run() -> tuple[str, set[str]]:
        root = Path(functad.__file__).parents[1]
        command = [sys.executable, "-c", OTHER_PROCESS]
        env = {**os.environ, "FUNCTAD_CHECK_PROGRAMS": "0"}
        done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True, timeout=120, env=env)
        result, modules = json.loads(done.stdout)
        return result, set(modules)

    first, compiler = run()
    second, modules = run()
    assert first == second
    needed = {
        "numba",
        "llvmlite.binding",
        "functad.optimize.pipeline",
        "functad.lowering.schedule",
        "functad.backends.cpu.lowering",
    }
    assert needed <= compiler and not needed & modules


def test_what_cannot_be_read_is_no_part_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text("")
    os.utime(package / "module.py", (0, 0))
    monkeypatch.setattr(kept_plans, "_PACKAGE", package)
    sources = kept_plans._sources.__wrapped__
    known = sources()
    assert known is not None
    (package / ".#module.py").symlink_to("nobody@nowhere")  # what Emacs makes as long as there is something to save
    assert sources() == known
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "module.py").write_text("")  # where Python imports no text from
    assert sources() == known
    os.utime(package / "module.py", (1, 1))
    assert sources() not in (known, None)
    os.utime(package / "module.py", ns=(0, IMPORTED_AT_NS + 1))
    assert sources() is None  # this process may have imported what stood there before
    monkeypatch.setattr(kept_plans, "_PACKAGE", package / "module.py")
    assert sources() is None
