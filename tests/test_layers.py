"""The layers of the package: imports only go down the list, and `import functad` stays light."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

from functad.backends.cpu.kept_plans import ABOVE

PACKAGE = Path(__file__).parent.parent / "functad"

# Lowest first; a file may import from its own layer and from those before it. Longest prefix wins.
LAYERS = [
    ["errors", "records", "lowering_rules", "version", "absent", "absent_names", "machine_model"],
    "exact options config known_dtypes promotion dtypes pytrees hints layouts tree_util tree system".split(),
    ["primitive_record", "ir"],
    [
        "array",
        "array_types",
        "device_arrays",
        "user_source",
        "local_names",
        "evaluation",
        "key_reuse",
        "observing",
        "tracing",
        "eager",
        "widening",
        "pretty",
        "interpreter",
    ],
    ["primitives"],
    ["editing"],
    ["transforms"],
    ["calls"],
    ["control", "all_primitives"],
    ["optimize"],
    ["lowering"],
    ["backends"],
    ["announcing", "execution"],
    "api ad_checkpoint api_util checkpoint_policies core custom_derivatives debug extend interpreters".split()
    + ["sharding", "stages", "test_util", "typing", "views"],
    ["numpy", "lax", "random"],
    [
        "nn",
        "optim",
        "data",
        "experimental",
        "flatten_util",
        "image",
        "io",
        "ops",
        "user_kernels",
        "scipy",
        "custom_batching",
        "dlpack",
    ],
    ["train"],
    ["", "__main__", "cli"],
]

# Class names that annotations need, or names that are only strings, are imports like any other: no exceptions.


def layer_of(module: str) -> int:
    parts = module.split(".")[1:]
    top = parts[0] if parts else ""
    for number, names in enumerate(LAYERS):
        if top in names:
            return number
    raise AssertionError(f"{module} is in no layer: add it to LAYERS in tests/test_layers.py and to ARCHITECTURE.md")


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "functad":
                found |= {f"functad.{a.name}" for a in node.names if is_module(a.name)}
            else:
                found.add(node.module)
    return {m for m in found if m.split(".")[0] == "functad"}


def is_module(name: str) -> bool:
    return (PACKAGE / f"{name}.py").exists() or (PACKAGE / name).is_dir()


def module_name(path: Path) -> str:
    parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_only_go_down(path):
    module = module_name(path)
    own = layer_of(module)
    for imported in imports_of(path):
        assert layer_of(imported) <= own, f"{module} (layer {own}) imports {imported} (layer {layer_of(imported)})"


# The rooms of the backend for GPUs, lowest first; the files beside them stand above all.
CUDA = "functad.backends.cuda"
CUDA_ROOMS = ["scalars", "runtime", "compile", "kernels", "products"]


def cuda_room_of(module: str) -> int:
    room, _, file = module.removeprefix(f"{CUDA}.").partition(".")
    return CUDA_ROOMS.index(room) if file or room in CUDA_ROOMS else len(CUDA_ROOMS)


CUDA_FILES = sorted((PACKAGE / "backends" / "cuda").rglob("*.py"))


@pytest.mark.parametrize("path", CUDA_FILES, ids=module_name)
def test_imports_only_go_down_the_rooms_of_the_backend_for_gpus(path):
    module = module_name(path)
    for imported in imports_of(path):
        if imported.startswith(f"{CUDA}."):
            assert cuda_room_of(imported) <= cuda_room_of(module), f"{module} imports {imported}: {CUDA_ROOMS}"


def test_the_walker_sees_an_import_that_goes_up(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("from functad.api import grad\nfrom functad import numpy as jnp\n")
    assert imports_of(bad) == {"functad.api", "functad.numpy"}
    assert layer_of("functad.api") > layer_of("functad.ir")
    assert cuda_room_of(f"{CUDA}.generate") > cuda_room_of(f"{CUDA}.products.kernels") > cuda_room_of(f"{CUDA}.kernels")


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_import_hides_inside_a_function(path):
    nodes = nodes_of(path)
    imports = [n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
    for f in nodes:
        if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [n.lineno for n in imports if f.lineno <= n.lineno <= (f.end_lineno or f.lineno)]
            assert not inner, f"{module_name(path)}: import inside {f.name}, line {inner[0]}"


def test_what_says_which_functad_this_is_leaves_out_what_stands_above_the_backends():
    at = next(number for number, names in enumerate(LAYERS) if "backends" in names)
    assert {name for names in LAYERS[at + 1 :] for name in names} >= ABOVE
    assert all((PACKAGE / name).is_dir() for name in ABOVE)


def test_importing_functad_loads_nothing_heavy():
    code = (
        "import sys, functad; functad.grad(lambda x: x)\n"
        "heavy = {'numba', 'llvmlite', 'scipy', 'torch', 'jax', 'urllib.request', 'matplotlib'}\n"
        "heavy = (heavy | {'secrets', 'tempfile', 'hashlib', 'shutil'}) & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
