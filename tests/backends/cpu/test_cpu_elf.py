"""Object files loaded without LLVM: as with LLVM, what is not known left to it, and threads that end in such code."""

from __future__ import annotations

import ctypes
import gc
import platform
import subprocess
import sys
import weakref
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from functad.backends.cpu.compile import elf, loader, machine, processor, target
from functad.backends.cpu.compile.loader import PREFIX, archive, load_object
from functad.errors import CompilationError

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="object files are loaded by LLVM here"
)
KERNELS = """
import math
def wave(x, out, start, stop):
    for i in range(start, stop):
        out[i] = math.exp(x[i] * 0.5) + math.pow(x[i], 3.0) if x[i] > 0.25 else 7.0
def zero(x, out, start, stop):
    for i in range(start, stop):
        out[i] = 0.0
"""
NAMES = ("wave", "zero")
# Functions, constants, calls of one another, of another object and of the C library.
ASSEMBLY = """
@table = private unnamed_addr constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 64
declare i64 @labs(i64)
declare i64 @functad_other(i64)
define i64 @functad_look(i64 %i) {
  %place = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %found = load i64, ptr %place
  %more = call i64 @functad_other(i64 %found)
  %size = call i64 @labs(i64 %more)
  ret i64 %size
}
"""
OTHER = """
define i64 @functad_other(i64 %i) {
  %found = sub i64 0, %i
  ret i64 %found
}
"""


def emitted(text: str) -> bytes:
    return target.target_machine().emit_object(llvm.parse_assembly(text))


def values(addresses: loader.Loaded, name: str, x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    slots, params = np.array([x.ctypes.data, out.ctypes.data], np.int64), np.arange(2)
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(addresses[name])
    kernel(slots.ctypes.data, params.ctypes.data, 0, x.size)
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_code_is_that_of_llvm(dtype: str) -> None:
    made = machine.compile_kernels(KERNELS, "kernels.py", {name: [np.dtype(dtype)] * 2 for name in NAMES})
    members = loader._members(made)
    code = elf.linked_without_llvm(members)
    assert code is not None
    here, there = loader.functions_of(code, NAMES), loader.functions_of(target.linked(members), NAMES)
    x = np.linspace(-1, 1, 1003, dtype=dtype)
    for name in NAMES:
        np.testing.assert_array_equal(values(here, name, x), values(there, name, x))


def test_objects_of_an_archive_find_one_another_and_the_c_library() -> None:
    found = load_object(archive([emitted(ASSEMBLY), emitted(OTHER)]), ["look", "other"])
    assert isinstance(found._kept, elf.ElfCode)
    look = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found["look"])
    assert [look(i) for i in range(4)] == [3, 5, 7, 11]


@pytest.mark.parametrize(
    "text",
    [
        "@counter = global i64 1\n" + OTHER,
        "@llvm.global_ctors = appending global [1 x {i32, ptr, ptr}] [{i32, ptr, ptr} {i32 1, ptr @f, ptr null}]\n"
        "define void @f() { ret void }\n" + OTHER,
        OTHER.replace("define", "$functad_other = comdat any\ndefine").replace("{", "comdat {", 1),
    ],
    ids=["what is written", "what runs first", "one of many"],
)
def test_what_is_not_known_is_left_to_llvm(text: str) -> None:
    assert elf.linked_without_llvm([emitted(text)]) is None
    found = load_object(emitted(text), ["other"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found["other"])(4) == -4


def test_a_function_that_nobody_has_is_left_to_llvm_which_says_so() -> None:
    text = OTHER.replace("%found = sub i64 0, %i", "%found = call i64 @functad_nowhere(i64 %i)")
    text = "declare i64 @functad_nowhere(i64)\n" + text
    assert elf.linked_without_llvm([emitted(text)]) is None
    with pytest.raises(CompilationError, match="does not have: functad_nowhere"):
        load_object(emitted(text), ["other"])


def test_two_of_one_name_and_what_each_thread_has_are_left_to_llvm() -> None:
    assert elf.linked_without_llvm([emitted("@counter = thread_local global i64 1\n" + OTHER)]) is None
    assert elf.linked_without_llvm([emitted(OTHER), emitted(OTHER)]) is None


def test_damaged_files_are_no_crash() -> None:
    content = emitted(ASSEMBLY)
    other = emitted(OTHER)
    rng = np.random.default_rng(0)
    for length in rng.integers(0, len(content), 50):
        assert elf.linked_without_llvm([content[:length], other]) is None
    for place in range(16, 64):
        elf.linked_without_llvm([content[:place] + b"\xff" + content[place + 1 :], other])


def test_code_goes_with_the_last_that_needs_it() -> None:
    code = elf.linked_without_llvm([emitted(ASSEMBLY), emitted(OTHER)])
    assert code is not None and code.address(PREFIX + "other") and not code.address("other")
    memory = weakref.ref(code._memory)
    del code
    gc.collect()
    assert memory() is None


def test_memory_of_code_is_not_written_to_nor_that_of_constants_run() -> None:
    code = elf.linked_without_llvm([emitted(ASSEMBLY), emitted(OTHER)])
    assert code is not None
    start = ctypes.addressof(ctypes.c_char.from_buffer(code._memory))
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [(*(int(end, 16) for end in line.split()[0].split("-")), line.split()[1]) for line in lines]
    rights = [right for low, high, right in spans if low <= start < high or start <= low < start + len(code._memory)]
    assert all("w" not in right for right in rights)
    assert any("x" in right for right in rights) and any("x" not in right for right in rights)


THREAD_ENDS = """
import ctypes, threading
from functad.backends.cpu.compile import elf, loader, target
import llvmlite.binding as llvm
text = '''
define i64 @functad_call(ptr %f) uwtable {
  %room = alloca [64 x i64]
  store volatile i64 1, ptr %room
  call void %f(ptr null)
  %found = load volatile i64, ptr %room
  ret i64 %found
}
'''
code = elf.linked_without_llvm([target.target_machine().emit_object(llvm.parse_assembly(text))])
call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address("functad_call"))
libc = ctypes.CDLL(None)
ends = ctypes.cast(libc.pthread_exit, ctypes.c_void_p).value
start = ctypes.cast(code.address("functad_call"), ctypes.c_void_p)
thread = ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), None, start, ctypes.c_void_p(ends)) == 0
assert libc.pthread_join(thread, None) == 0
print("ended")
"""


def test_a_thread_may_end_in_the_midst_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", THREAD_ENDS], capture_output=True, text=True, timeout=120)
    assert done.stdout == "ended\n", done.stderr


WAKES_AFTER_PYTHON = """
import ctypes, sys, threading, time
import functad, functad.numpy as jnp
functad.jit(jnp.sin)(jnp.ones(5))
libc = ctypes.CDLL(None)
assert libc.on_exit(libc.sleep, None) == 0  # as many seconds as the status of the process says
asleep = threading.Event()
def sleep():
    asleep.set()
    time.sleep(0.5)
threading.Thread(target=sleep, daemon=True).start()
asleep.wait()
sys.exit(2)
"""


def test_a_thread_may_end_when_python_has() -> None:
    done = subprocess.run([sys.executable, "-c", WAKES_AFTER_PYTHON], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr


def test_the_processor_is_told_apart_without_llvm() -> None:
    name, features = processor.processor()
    assert name.split()[0] in Path("/proc/cpuinfo").read_text()
    of_llvm = set(target.host()[1].split(","))
    for feature in ("+avx", "+avx2", "+fma", "+avx512f"):
        assert (feature in features.split(",")) == (feature in of_llvm)
    processor.processor.cache_clear()
    assert processor.processor() == (name, features)
