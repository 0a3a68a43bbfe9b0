"""From kernel text to machine code: values of every dtype, vector instructions, calls, symbols, loading."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
import subprocess
import sys
import threading

import llvmlite.binding as llvm
import numpy as np
import pytest
from kernel_ir import optimized_ir, optimized_kernels
from llvmlite import ir
from numba import types

from functad import machine_model
from functad.backends.cpu.compile import frontend, machine
from functad.backends.cpu.compile.loader import PREFIX, load_object
from functad.backends.cpu.compile.symbols import undefined_symbols
from functad.backends.cpu.compile.target import has_masked_vectors, missing_symbols, target_machine
from functad.backends.cpu.kernels.arguments import Count
from functad.errors import CompilationError

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS += ["float16", "float32", "float64", "complex64", "complex128"]

COPY = """
def copy(x, out, start, stop):
    for i in range(start, stop):
        out[i] = x[i]
"""
ARITHMETIC = """
def arithmetic(x, y, out, start, stop):
    for i in range(start, stop):
        out[i] = x[i] * y[i] + x[i]
"""
TANH = """
import math
def tanh(x, out, start, stop):
    for i in range(start, stop):
        out[i] = math.tanh(x[i])
"""


def run(addresses, name, *arrays, start=0, stop=None):
    """Call a compiled kernel; the slots are in another order than the parameters."""
    slots = np.array([a.ctypes.data for a in reversed(arrays)], np.int64)
    params = np.arange(len(arrays) - 1, -1, -1)
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(addresses[name])
    kernel(slots.ctypes.data, params.ctypes.data, start, arrays[-1].size if stop is None else stop)


def compiled(source, name, *dtypes):
    object_bytes = machine.compile_kernels(source, "kernels.py", {name: [np.dtype(d) for d in dtypes]})
    return load_object(object_bytes, [name])


def plain(source, name):
    namespace = {}
    exec(source, namespace)
    return namespace[name]


def values(dtype, n=70, seed=0):
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(n) < 0.5
    if np.dtype(dtype).kind == "c":
        return (random.normal(size=n) + 1j * random.normal(size=n)).astype(dtype)
    return (
        random.normal(size=n).astype(dtype) if np.dtype(dtype).kind == "f" else random.integers(0, 99, n).astype(dtype)
    )


def optimized(source, name, *dtypes):
    signatures = {name: [np.dtype(d) for d in dtypes]}
    return str(optimized_kernels(source, "kernels.py", signatures))


@pytest.mark.parametrize("dtype", ["bool", *NUMBERS])
def test_copies_every_dtype(dtype):
    x = values(dtype)
    out = np.zeros_like(x)
    run(compiled(COPY, "copy", dtype, dtype), "copy", x, out)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arithmetic_as_numpy_and_as_plain_python(dtype):
    x, y = values(dtype), values(dtype, seed=1)
    out, plain_out = np.zeros_like(x), np.zeros_like(x)
    run(compiled(ARITHMETIC, "arithmetic", dtype, dtype, dtype), "arithmetic", x, y, out)
    with np.errstate(over="ignore"):
        plain(ARITHMETIC, "arithmetic")(x, y, plain_out, 0, x.size)
        expected = x * y + x
    for found in (out, plain_out):
        if x.dtype.kind in "iu":
            np.testing.assert_array_equal(found, expected)
        else:
            # float16 is computed in float32.
            accuracy = 4 * np.finfo(dtype).eps * (abs(x * y) + abs(x))
            assert np.all(abs(found - expected) <= accuracy)


def test_half_rounds_to_nearest_even_and_keeps_what_is_not_finite():
    x = np.float32([1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, -0.0, np.nan, np.inf, 2**-25, 6e-8])
    out = np.zeros(x.size, np.float16)
    run(compiled(COPY, "copy", "float32", "float16"), "copy", x, out)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, x.astype(np.float16))
    assert np.signbit(out[4])


def test_every_half_is_read_exactly():
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    out = np.zeros(x.size, np.float32)
    run(compiled(COPY, "copy", "float16", "float32"), "copy", x, out)
    np.testing.assert_array_equal(out, x.astype(np.float32))


def test_any_nonzero_byte_is_true():
    x = np.array([0, 1, 2, 255], np.uint8)
    out = np.zeros(4, bool)
    run(compiled(COPY, "copy", "bool", "bool"), "copy", x.view(bool), out)
    assert out.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_only_the_given_range_is_done():
    x = values("float32")
    whole, parts = np.zeros_like(x), np.full_like(x, -1)
    kernel = compiled(TANH, "tanh", "float32", "float32")
    run(kernel, "tanh", x, whole)
    run(kernel, "tanh", x, parts, start=3, stop=40)
    np.testing.assert_array_equal(parts[3:40], whole[3:40])
    assert np.all(parts[:3] == -1) and np.all(parts[40:] == -1)
    run(kernel, "tanh", x, parts, start=40, stop=40)
    assert np.all(parts[40:] == -1)


def test_kernel_may_be_called_as_a_function_of_the_c_library():
    x = values("float64")
    out = np.zeros_like(x)
    run(compiled(TANH, "tanh", "float64", "float64"), "tanh", x, out)
    np.testing.assert_allclose(out, np.tanh(x), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float32", "float64"])
def test_simple_loops_become_vector_instructions_without_alias_checks(dtype):
    copies = optimized(COPY, "copy", dtype, dtype)
    text = copies if dtype == "bool" else optimized(ARITHMETIC, "arithmetic", dtype, dtype, dtype)
    assert re.search(r"<(4|8|16|32|64) x (float|double|i\d+)>", text)
    assert "vector.memcheck" not in text


@pytest.mark.skipif(llvm.llvm_version_info[0] < 17, reason="LLVM before 17 cannot be told to do without gathers")
def test_rows_become_vectors_without_run_time_checks_and_gathers():
    source = """
def scale_rows(x, out, start, stop):
    for i in range(start, stop):
        for j in range(10):
            out[10 * i + j] = x[10 * i + j] * x[10 * i]
"""
    text = optimized(source, "scale_rows", "float32", "float32")
    assert re.search(r"<(4|8|16) x float>", text)
    assert "vector.scevcheck" not in text
    if platform.machine().lower() in ("x86_64", "amd64"):
        assert "masked.gather" not in text and "masked.scatter" not in text


@pytest.mark.parametrize("limit", [1, 10_000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_the_last_elements_of_a_long_loop_are_a_vector_with_a_mask(dtype, limit, monkeypatch):
    monkeypatch.setattr(machine_model, "LONG_LOOP", limit)
    masked = limit == 1 and has_masked_vectors()
    text = optimized(ARITHMETIC, "arithmetic", dtype, dtype, dtype)
    assert ("masked.store" in text) == masked
    loops = len(re.findall(r"store (<\d+ x )?(float|double|i16)", text))  # else there is one without vectors, too
    assert (loops == 0) if masked else (loops >= 2)
    addresses = compiled(ARITHMETIC, "arithmetic", dtype, dtype, dtype)
    for n in (1, 7, 16, 33, 70):
        x, y, out = values(dtype, n), values(dtype, n, seed=1), np.full(n + 40, 3, dtype)
        run(addresses, "arithmetic", x, y, out[:n])
        np.testing.assert_allclose(out[:n], x * y + x, rtol=1e-6)
        assert (out[n:] == 3).all()


SHORT_ROWS = """
from functad.backends.cpu.scalars.elementary import accumulate
def short_rows(x, y, out, start, stop):
    for i in range(start, stop):
        s = out[i]
        for j in range({n}):
            v = x[{n} * i + j]
            {place}[{n} * i + j] = v * v
            s = accumulate(s, v)
        out[i] = s
"""


@pytest.mark.skipif(not has_masked_vectors(), reason="this processor has no vectors with masks")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "place"), [(31, "y"), (36, "y"), (31, "x"), (200, "y")])
def test_a_loop_of_few_steps_is_vectors_written_out_the_last_one_with_a_mask(n, place, dtype):
    masked = n <= machine_model.FEW_STEPS
    source = SHORT_ROWS.format(n=n, place=place)
    text = optimized(source, "short_rows", dtype, dtype, dtype)
    assert ("masked.store" in text) == masked
    if masked:
        assert text.count("br i1") == 2 and "reduce.fadd" in text  # whether there is a row, and another one
    addresses = compiled(source, "short_rows", dtype, dtype, dtype)
    x, y, out = values(dtype, 6 * n), np.zeros(6 * n, dtype), np.zeros(5, dtype)
    before = x.copy()
    run(addresses, "short_rows", x, y, out)
    np.testing.assert_allclose((x if place == "x" else y)[: 5 * n], before[: 5 * n] ** 2)
    np.testing.assert_array_equal((x[5 * n :], y[5 * n :]), (before[5 * n :], np.zeros(n)))
    np.testing.assert_allclose(out, before[: 5 * n].reshape(5, n).sum(1), rtol=1e-5)


@pytest.mark.skipif(not has_masked_vectors(), reason="this processor has no vectors with masks")
@pytest.mark.parametrize("place", ["x", "y"])
def test_where_the_next_row_is_written_too_no_mask_makes_it_wait_for_memory(place):
    without_sums = SHORT_ROWS.format(n=31, place=place).replace("s = accumulate(s, v)", "pass")
    assert ("masked.store" in optimized(without_sums, "short_rows", *["float32"] * 3)) == (place == "y")


@pytest.mark.parametrize("n", [31, 36, 100, 300])
def test_rows_are_summed_in_one_order_wherever_results_lie(n):
    sums = []
    for place in "xy":
        addresses = compiled(SHORT_ROWS.format(n=n, place=place), "short_rows", *["float32"] * 3)
        x, y, out = values("float32", 6 * n), np.zeros(6 * n, "float32"), np.zeros(5, "float32")
        run(addresses, "short_rows", x, y, out)
        sums.append(out)
    np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize("factor, is_vector", [("2", True), ("8", True), ("9", False), ("n", False)])
def test_copies_of_what_lies_far_apart_are_no_vectors(factor, is_vector):
    source = f"""
def move(x, out, n, start, stop):
    for i in range(start, stop):
        out[i] = x[3 + {factor} * i]
"""
    signature = [np.dtype("float32"), np.dtype("float32"), Count(np.dtype("int64"))]
    text = str(optimized_kernels(source, "kernels.py", {"move": signature}))
    assert bool(re.search(r"store <\d+ x float>", text)) == is_vector


def test_what_is_computed_or_lies_where_memory_says_is_left_to_llvm():
    for read in ("x[9 * i] * x[9 * i]", "x[places[9 * i]]"):
        source = f"def move(x, places, out, start, stop):\n    for i in range(start, stop):\n        out[i] = {read}\n"
        signature = [np.dtype("float32"), np.dtype("int64"), np.dtype("float32")]
        text = optimized_ir(machine._kernels(source, "kernels.py", {"move": signature}, {}, fused=False))
        assert "llvm.loop.vectorize.enable" not in str(text)


@pytest.mark.parametrize(
    "next_second, is_told", [("x[3 * i + 1] + x[3 * i] * first", True), ("second + x[3 * i] * first", False)]
)
def test_numbers_handed_on_through_two_variables_are_no_vectors(next_second, is_told):
    """LLVM may find no order for vectors of the first, and would end the process; the second is a sum."""
    source = f"""
def hand_on(x, out, start, stop):
    first = x[0]
    second = x[0]
    for i in range(start, stop):
        out[i] = second * x[2]
        second = {next_second}
        first = x[3 * i + 2]
"""
    signature = [np.dtype("float64")] * 2
    text = optimized_ir(machine._kernels(source, "kernels.py", {"hand_on": signature}, {}, fused=False))
    assert ("llvm.loop.vectorize.enable" in str(text)) == is_told


@pytest.mark.parametrize("divisor", [1, 2, 7, 64])
def test_divisions_by_counts_round_down(divisor):
    source = """
def divide(x, quotients, remainders, n, start, stop):
    for i in range(start, stop):
        quotients[i] = x[i] // n
        remainders[i] = x[i] % n
"""
    word = np.dtype("int64")
    signature = [word, word, word, Count(word)]
    assert str(optimized_kernels(source, "kernels.py", {"divide": signature})).count("br i1") <= 4
    addresses = load_object(machine.compile_kernels(source, "kernels.py", {"divide": signature}), ["divide"])
    x = np.array([0, 1, -1, 6, 7, -7, -8, 63, 64, -65, 1 << 62, -(1 << 62)])
    found = [np.zeros_like(x), np.zeros_like(x)]
    slots = np.array([a.ctypes.data for a in (x, *found)])
    params = np.array([0, 1, 2, divisor])
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(addresses["divide"])
    kernel(slots.ctypes.data, params.ctypes.data, 0, x.size)
    np.testing.assert_array_equal(found, [x // divisor, x % divisor])


def test_sums_are_not_reordered():
    source = """
def total(x, out, start, stop):
    for row in range(start, stop):
        s = x[row]
        for i in range(1000):
            s = s + x[1000 * row + i]
        out[row] = s
"""
    assert "reassoc" not in optimized(source, "total", "float32", "float32")


def powers(count):
    """The lines of a step of a loop, three instructions each."""
    return "".join(f"        s_{k + 1} = s_{k} * s_{k} - x[i]\n" for k in range(count))


FIRST = "    for i in range(start, stop):\n        s_0 = x[i]\n"
LONG_LOOPS = {
    "along rows": (f"{FIRST}{powers(40)}        out[i] = s_40\n", False),
    "few instructions": (f"{FIRST}{powers(4)}        out[i] = s_4\n", True),
    "rows of three": (f"{FIRST}{powers(40)}        out[3 * i] = s_40\n", True),
    "one place": (f"{FIRST}{powers(40)}        out[start] = s_40\n", True),
    "not innermost": (f"{FIRST}{powers(40)}        for j in range(3):\n            out[i + j] = s_40\n", True),
    "carried on": (
        f"    t = x[start]\n{FIRST}{powers(40)}        t = t * s_40\n        out[i] = t\n",
        True,
    ),
}


@pytest.mark.parametrize("case", LONG_LOOPS)
def test_in_long_loops_along_rows_only_the_loops_become_vectors(case):
    body, wanted = LONG_LOOPS[case]
    signatures = {"power": [np.dtype("float32")] * 2}
    source = f"def power(x, out, start, stop):\n{body}"
    (batch,) = machine._batches(machine._kernels(source, "kernels.py", signatures, {}, fused=False))
    assert batch.in_straight_code == wanted


def test_a_long_loop_is_compiled_by_itself_whichever_kernels_stand_beside():
    body, _ = LONG_LOOPS["along rows"]
    texts = {"copy": COPY, "power": f"def power(x, out, start, stop):\n{body}"}
    texts["copy_again"] = COPY.replace("copy", "copy_again")
    signatures = dict.fromkeys(texts, [np.dtype("float32")] * 2)
    kernels = machine._kernels("\n".join(texts.values()), "kernels.py", signatures, {}, fused=False)
    batches = [(batch.in_straight_code, len(batch.texts)) for batch in machine._batches(kernels)]
    assert batches == [(False, 1), (True, 2)]
    addresses = load_object(machine.compile_kernels("\n".join(texts.values()), "kernels.py", signatures), list(texts))
    x = np.linspace(0, 1, 77, dtype="f4")
    run(addresses, "power", x, out := np.empty_like(x))
    expected = x
    for _ in range(40):
        expected = expected * expected - x
    np.testing.assert_array_equal(out, expected)


def test_several_kernels_share_one_object_file():
    count = 5
    source = "".join(COPY.replace("copy", f"copy_{k}").replace("= x[i]", f"= x[i] + {k}") for k in range(count))
    names = [f"copy_{k}" for k in range(count)]
    signatures = {name: [np.dtype("int64")] * 2 for name in names}
    addresses = load_object(machine.compile_kernels(source, "kernels.py", signatures), names)
    assert list(addresses) == names and len(addresses) == count
    x = values("int64")
    for k, name in enumerate(names):
        out = np.zeros_like(x)
        run(addresses, name, x, out)
        np.testing.assert_array_equal(out, x + k)


def test_text_uses_the_words_of_kernels():
    source = """
from functad.backends.cpu.scalars.elementary import f32, maximum
def relu(x, out, start, stop):
    for i in range(start, stop):
        out[i] = maximum(x[i], f32(0))
"""
    x = values("float32")
    out, plain_out = np.zeros_like(x), np.zeros_like(x)
    run(compiled(source, "relu", "float32", "float32"), "relu", x, out)
    plain(source, "relu")(x, plain_out, 0, x.size)
    np.testing.assert_array_equal(out, np.maximum(x, 0))
    np.testing.assert_array_equal(plain_out, out)


def test_compiling_in_several_threads_at_once():
    found = {}

    def work(k):
        x = values("float32", seed=k)
        out = np.zeros_like(x)
        run(compiled(COPY.replace("= x[i]", f"= x[i] * {k}"), "copy", "float32", "float32"), "copy", x, out)
        found[k] = np.array_equal(out, x * np.float32(k))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), True)


def test_what_numba_does_not_understand_is_named():
    source = "def kernel(x, start, stop):\n    x[start] = no_such_function(stop)\n"
    with pytest.raises(CompilationError, match=r"kernel \(kernels.py:1\) cannot be compiled(.|\n)*no_such_function"):
        compiled(source, "kernel", "float32")


# ---- object files

SYMBOLS = """
declare double @tanh(double)
declare void @a_rather_long_name(double)
@common_here = common global i64 0
@elsewhere = external global double
define double @f(double %x) {
  %y = call double @tanh(double %x)
  call void @a_rather_long_name(double %y)
  %z = load double, double* @elsewhere
  store i64 2, i64* @common_here
  %s = fadd double %z, 3.25
  ret double %s
}
define internal double @local(double %x) noinline { ret double %x }
"""


@pytest.mark.parametrize(
    "system",
    [
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
        "x86_64-pc-windows-msvc",
    ],
)
def test_undefined_symbols_of_every_format(system):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(SYMBOLS)
    module.triple = system
    object_bytes = llvm.Target.from_triple(system).create_target_machine().emit_object(module)
    assert undefined_symbols(object_bytes) == ("a_rather_long_name", "elsewhere", "tanh")


@pytest.mark.parametrize("content", [b"", b"no object", b"\x7fELF" + b"\xff" * 80])
def test_what_is_no_object_file_is_refused(content):
    with pytest.raises(CompilationError, match="object file"):
        load_object(content, ["f"])


def test_missing_function_is_an_error_and_not_the_end_of_the_process():
    assert missing_symbols(["tanh", "functad_no_such_function"]) == ["functad_no_such_function"]
    object_bytes = target_machine().emit_object(llvm.parse_assembly(SYMBOLS.replace("@f(", f"@{PREFIX}f(")))
    with pytest.raises(CompilationError, match="does not have: a_rather_long_name, elsewhere"):
        load_object(object_bytes, ["f"])


def test_missing_export_is_named():
    object_bytes = machine.compile_kernels(COPY, "kernels.py", {"copy": [np.dtype("int8")] * 2})
    with pytest.raises(CompilationError, match="does not define other"):
        load_object(object_bytes, ["copy", "other"])


def test_calls_of_the_c_library_are_undefined_symbols():
    def calls(x):
        return math.erf(x)

    assert undefined_symbols(machine.compile_exports({"f": (calls, (types.float64,), types.float64)})) == ("erf",)


def test_pointer_types_differ_where_memory_and_registers_do():
    assert frontend.pointer_type(np.dtype("float32")) == types.CPointer(types.float32)
    assert frontend.pointer_type(np.dtype("bool")) == frontend.BoolPointer
    assert frontend.pointer_type(np.dtype("float16")).memory == ir.HalfType()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the memory of a process is read as Linux shows it")
def test_compiling_leaves_little_memory():
    script = """
import gc, numpy as np
from functad.backends.cpu.compile import machine

def compile_one(k):
    source = f"def add(x, out, start, stop):\\n    for i in range(start, stop):\\n        out[i] = x[i] * {k} + 1\\n"
    machine.compile_kernels(source, "kernels.py", {"add": (np.dtype("int64"),) * 2})

def pages():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1])

for k in range(20):
    compile_one(k)
before = pages()
for k in range(60):
    compile_one(k)
print((pages() - before) * 4096 / 60)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 50_000  # it was twice as much; a few kB are Numba's types
