"""Machine code of kernels: Numba's CUDA compiler writes PTX, and NVIDIA's assembler makes of it what a GPU runs.

The only file that calls Numba's compiler for CUDA, that of Numba itself or of the package numba-cuda, which takes its
place where it is installed. Needs NVIDIA's libNVVM, and no GPU. Cannot be imported in the simulator.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from numba import cuda
from numba.cuda import dispatcher
from numba.cuda.cudadrv import nvvm

from functad.backends.cpu.compile import objects
from functad.backends.cuda.runtime.launching import Launch
from functad.backends.cuda.scalars.intrinsics import types
from functad.errors import CompilationError
from functad.primitives.user_kernels import PREFIX
from functad.system.once import unforked
from functad.system.source_files import files_of

_ENTRY = re.compile(r"\.visible\s+\.entry\s+(\w+)")
_OUTSIDE = re.compile(r"\.extern\s+\.func\s+(?:\([^)]*\)\s*)?(\w+)")
_OF_THE_DRIVER = {"vprintf", "malloc", "free", "__assertfail"}  # functions that it brings itself


def machine_code(launch: Launch, capability: tuple[int, int]) -> tuple[bytes, str]:
    """A kernel's machine code for a compute capability, and the name of its entry: from the disk, or made now.

    It is a cubin where there is NVIDIA's assembler, else PTX, which the driver translates whenever it is loaded.

    Raises:
        CompilationError: the compiler is missing, or refuses the kernel.
    """
    key = objects.compilation_key(launch.kernel.text, repr((launch.types, capability, _made_by())))
    name = f"{key}.cubin"
    kept = objects.read_packed(name, key)
    if kept is None:
        text = ptx(launch.kernel.function, launch.types, capability, launch.kernel.fused)
        _check_calls(text, launch.kernel.name)
        kept = _entry(text).encode() + b"\0" + (assembled(text, capability) or text.encode() + b"\0")
        objects.write_packed(name, key, kept)
    entry, _, code = kept.partition(b"\0")
    return code, entry.decode()


def ptx(function: Any, arguments: Sequence[tuple[str, str]], capability: tuple[int, int], fused: bool = True) -> str:
    """The PTX of a kernel for arguments of such kinds and dtypes (see `Launch.types`).

    fused: whether a product may be added without being rounded first.

    Raises:
        CompilationError: the compiler is missing, or refuses the kernel.
    """
    given = tuple([_type(kind, dtype) for kind, dtype in arguments])
    try:
        with unforked, _nvvm_option("fma", fused), _plain_indices(function), _device(capability):
            text, _ = cuda.compile_ptx(function, given, cc=capability)
    except Exception as problem:
        raise CompilationError(_explained(problem, _calls_users(function))) from problem
    return str(text)


@contextmanager
def _in_place_of(module: Any, name: str, own: Callable[..., Any]) -> Iterator[None]:
    """A context in which this thread finds another function in a module of Numba's; users' threads find what was there.

    Of functad's threads only one compiles at a time.
    """
    usual, thread = getattr(module, name), threading.get_ident()
    setattr(module, name, lambda *args, **kw: (own if threading.get_ident() == thread else usual)(*args, **kw))
    try:
        yield
    finally:
        setattr(module, name, usual)


def _nvvm_option(name: str, value: bool) -> AbstractContextManager[None]:
    """A context in which libNVVM is given an option for which Numba's compiler has no argument."""
    return _in_place_of(nvvm, "compile_ir", partial(nvvm.compile_ir, **{name: value}))


def _plain_indices(function: Any) -> AbstractContextManager[None]:
    """A context in which no index counts from the end of an array: those of functad's kernels never do.

    Elsewhere each access asks whether its index is negative, and keeps the array's size for that. Users' functions may
    count from the end, and what is a part of Numba itself compiles for the CPU, too.
    """
    if _arrays is None or _calls_users(function):
        return nullcontext()
    return _in_place_of(
        _arrays,
        "fix_integer_index",
        lambda context, builder, kind, index, size: context.cast(builder, index, kind, types.intp),
    )


def _calls_users(function: Any) -> bool:
    """Whether a kernel calls a function that a user wrote."""
    return any(name.startswith(PREFIX) for name in function.__code__.co_names)


def _device(capability: tuple[int, int]) -> AbstractContextManager[None]:
    """A context in which functions that users wrote are compiled for a device that Numba need not start."""
    return _in_place_of(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=capability))


_arrays: Any = import_module("numba.cuda.np.arrayobj") if find_spec("numba.cuda.np") else None


def _type(kind: str, dtype: str) -> Any:
    scalar = types.boolean if dtype == "bool" else getattr(types, dtype)
    return scalar[::1] if kind == "array" else scalar


def _check_calls(text: str, name: str) -> None:
    """
    Raises:
        CompilationError: a kernel calls a function that nobody brings.
    """
    missing = sorted(set(_OUTSIDE.findall(text)) - _OF_THE_DRIVER)
    if missing:
        raise CompilationError(
            f"the kernel `{name}` calls {', '.join(missing)}, which Numba's CUDA compiler does not bring along. A "
            "function given to numba_primitive cannot reshape arrays, nor make new ones, on a GPU: let it read and "
            "write elements by their indices; backend='cpu' runs it as it is"
        )


def _entry(text: str) -> str:
    found = _ENTRY.search(text)
    assert found, "PTX without an entry"
    return found[1]


def _explained(problem: Exception, of_users: bool = False) -> str:
    if type(problem).__name__ in ("NvvmSupportError", "NvvmError", "OSError", "DynamicLibNotFoundError"):
        return (
            f"NVIDIA's compiler library libNVVM, or what it needs, is missing or does not work ({problem}): "
            "python -m pip install 'functad[cuda]' brings it; or set CUDA_HOME to the folder of a CUDA toolkit of "
            "version 12.1 or later. "
            "`python -m functad doctor` shows what is found"
        )
    if type(problem).__name__ == "CCSupportError":
        return (
            f"the CUDA compiler that is installed makes no machine code for this GPU ({problem}): that of CUDA 12 does "
            "for all since compute capability 5.0 (python -m pip install 'functad[cuda]', without CUDA_HOME)"
        )
    if of_users:
        return (
            f"the CUDA compiler refused a kernel that calls a function given to numba_primitive ({problem}). On a GPU "
            "such a function has numbers and indices, and makes no arrays: numpy.zeros, and slices that are added or "
            "summed, are loops there; backend='cpu' runs it as it is"
        )
    return (
        f"the CUDA compiler refused a kernel ({type(problem).__name__}: {problem}). Please report this with the "
        "kernels that `.lower(…).kernels` prints; backend='cpu' runs the function"
    )


@cache
def _made_by() -> str:
    """What machine code depends on: the compilers, and this backend."""
    return f"{compilers()}, {objects.digest_of(files_of(Path(__file__).parent.parent))}"


def compilers() -> str:
    """The packages that make machine code, with their versions."""
    found = []
    for package in ("numba-cuda", "numba", "llvmlite", *_WHEELS):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    home = os.environ.get("CUDA_HOME")
    return ", ".join([*found, *([f"CUDA_HOME={home}"] if home else [])])


_WHEELS = ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc", "nvidia-nvvm")


# --- the assembler --------------------------------------------------------------------------------------


def assembled(text: str, capability: tuple[int, int]) -> bytes | None:
    """The cubin of a PTX; None where there is no assembler, or one that is older than the PTX.

    Raises:
        CompilationError: the assembler finds a mistake.
    """
    program = assembler()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(text, encoding="utf-8")
        command = [program, f"-arch=sm_{capability[0]}{capability[1]}", "-o", str(target), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == 0:
            return target.read_bytes()
    if "Unsupported .version" in done.stderr or "is not defined for option 'gpu-name'" in done.stderr:
        return None  # the driver may be newer
    raise CompilationError(
        f"NVIDIA's assembler {program} refused a kernel, so no GPU can run it: {_shortened(done.stderr)}. Please "
        "report this with the kernel's .ptx"
    )


def _shortened(message: str) -> str:
    """What an assembler says, without the names of its files."""
    lines = [re.sub(r"^ptxas \S+kernels\.ptx, ", "", line) for line in message.splitlines() if line.strip()]
    return " | ".join(lines[:5]) or "it does not say why"


@cache
def assembler() -> str | None:
    """The path of NVIDIA's assembler, ptxas: of the wheels, of CUDA_HOME, or on the PATH."""
    for folder in folders():
        path = folder / "bin" / "ptxas"
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return shutil.which("ptxas")


def found_library(pattern: str) -> str | None:
    """The path of a library of CUDA, by a pattern of its name; None if it is not found."""
    for folder in folders():
        for path in sorted(path for place in ("lib64", "lib", "bin") for path in (folder / place).glob(pattern)):
            return str(path)
    return None


def folders() -> Iterator[Path]:
    """Where parts of CUDA may lie: in the wheels, the folder of CUDA_HOME, and the usual one."""
    package = find_spec("nvidia")
    for place in (package.submodule_search_locations or ()) if package is not None else ():
        yield from (Path(place, name) for name in ("cuda_nvcc", "cu13", "cublas", "cuda_runtime"))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")
