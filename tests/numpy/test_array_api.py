"""`functad.numpy` as a namespace of the Array API standard 2024.12: its names, arguments, and the values that the
standard says. The public suite runs by `python -m tests.array_api`."""

from __future__ import annotations

import ast
import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, AxisError, CopyError, DeviceError, DTypeError, MaskError, ShapeError
from tests.array_api import second_values
from tests.array_api.__main__ import XFAILS, counts_of, run
from tests.array_api.signatures import SIGNATURES

RUNS = pytest.mark.parametrize("transform", [lambda f: f, functad.jit, functad.vmap])
INF, NAN = np.inf, np.nan


# --- names and arguments ----------------------------------------------------------------------------


def place_of(name):
    kind, _, rest = name.rpartition(".")
    places = {"array": jnp.ones((1, 1)), "info": jnp.__array_namespace_info__(), "": jnp}
    return getattr(places.get(kind) or getattr(jnp, kind), rest)


@pytest.mark.parametrize("text", [s.strip() for s in SIGNATURES.split(";")])
def test_a_name_takes_the_arguments_of_the_standard(text):
    name, bracket, _ = text.partition("(")
    found = place_of(name)
    if not bracket:
        return  # an attribute
    kind, _, rest = text.rpartition(".") if "." in name else ("", "", text)
    (definition,) = ast.parse(f"def {text.removeprefix(name.rpartition('.')[0] + '.')}: ...").body
    arguments = definition.args
    skipped = 1 if kind and name.startswith("array.") else 0
    positional = [a.arg for a in arguments.posonlyargs][skipped:]
    optional = len(arguments.defaults)
    named = {a.arg: None for a in arguments.args} | {a.arg: None for a in arguments.kwonlyargs}
    signature = inspect.signature(found)
    several = [0, 0] if arguments.vararg else []
    signature.bind(*positional, *several, **({} if several and positional else named))
    required = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][skipped:]
    signature.bind(*required[: len(required) - optional], *several)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        standard = ast.literal_eval(default)
        if standard is not None and argument.arg in signature.parameters and argument.arg != "copy":
            assert signature.parameters[argument.arg].default in (standard, None), argument.arg


def test_a_name_that_is_missing_or_takes_less_is_seen():
    with pytest.raises(AttributeError):
        test_a_name_takes_the_arguments_of_the_standard("no_such_name(x, /)")
    with pytest.raises(TypeError):
        test_a_name_takes_the_arguments_of_the_standard("abs(x, /, *, no_such_argument=0)")


def test_what_the_namespace_says_of_itself():
    info = jnp.__array_namespace_info__()
    assert jnp.__array_api_version__ == "2024.12"
    assert jnp.ones(1).__array_namespace__(api_version="2024.12") is jnp
    with pytest.raises(ArgumentError, match="follows the Array API standard 2024.12, not '2031.12'"):
        jnp.ones(1).__array_namespace__(api_version="2031.12")
    assert info.devices() == [info.default_device()] == [jnp.ones(1).device]
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    for wide in (False, True):
        with functad.enable_x64(wide):
            defaults = info.default_dtypes(device=info.default_device())
            assert defaults["real floating"] == jnp.ones(1).dtype and defaults["integral"] == jnp.arange(1).dtype
            assert defaults["indexing"] == jnp.argsort(jnp.ones(1)).dtype
            assert defaults["complex floating"] == jnp.asarray(1j).dtype
    assert info.dtypes(kind="real floating") == {"float32": np.float32, "float64": np.float64}
    assert len(info.dtypes()) == 13 and set(info.dtypes(kind=("bool", "unsigned integer"))) > {"bool", "uint64"}
    with pytest.raises(DeviceError):
        info.dtypes(device="gpu")


def test_dtypes_compare_with_any_text():
    assert jnp.float32 != "a text, which is no dtype:\n" and jnp.float32 == "float32"


# --- sharing memory ---------------------------------------------------------------------------------


def test_copies_are_made_and_refused():
    x = jnp.array([1.0, 2.0])
    assert jnp.asarray(x, copy=False) is x and jnp.from_dlpack(x, copy=False) is x
    for copied in (jnp.asarray(x, copy=True), jnp.from_dlpack(x, copy=True)):
        assert copied is not x and not np.shares_memory(np.asarray(copied), np.asarray(x))
    for refused in (
        lambda: jnp.asarray([1.0], copy=False),
        lambda: jnp.asarray(np.ones(1), copy=False),
        lambda: jnp.asarray(x, dtype="int32", copy=False),
        lambda: jnp.from_dlpack(np.ones(1), copy=False),
    ):
        with pytest.raises(CopyError, match="copy=False"):
            refused()
    assert issubclass(CopyError, (ValueError, BufferError)) and issubclass(CopyError, BufferError)


def test_dlpack_shares_what_cannot_be_written():
    x = jnp.array([1.0, 2.0])
    assert np.from_dlpack(x).tolist() == [1, 2] and x.__dlpack_device__() == (1, 0)
    with pytest.raises(CopyError, match=r"max_version=\(1, 0\)"):
        x.__dlpack__(copy=False)
    with pytest.raises(CopyError, match="lies on cpu:0"):
        x.__dlpack__(dl_device=(2, 0))
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        shared = np.from_dlpack(x, copy=False)
        assert np.shares_memory(shared, np.asarray(x)) and not shared.flags.writeable


# --- values -----------------------------------------------------------------------------------------

QUOTIENTS = np.array(
    [(a, b) for a in (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 7.5, -7.5) for b in (0.0, -0.0, 2.5, -2.5, INF, -INF, NAN)]
)


def assert_equal_with_signs(found, expected):
    np.testing.assert_array_equal(np.asarray(found), expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@RUNS
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "sign", "signbit", "copysign", "fmod"])
def test_signs_of_zeros_are_numpys(name, dtype, transform):
    a, b = QUOTIENTS.astype(dtype).T
    operands = (a,) if name.startswith("sign") and name != "copysign" else (a, b)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*operands)
    assert_equal_with_signs(transform(getattr(jnp, name))(*operands), expected)


@RUNS
def test_divmod_has_the_signs_of_its_parts(transform):
    a, b = QUOTIENTS.T
    with np.errstate(all="ignore"):
        expected = np.floor_divide(a, b), np.remainder(a, b)
    for f, e in zip(transform(lambda a, b: tuple(jnp.divmod(a, b)))(a, b), expected):
        assert_equal_with_signs(f, e)


def test_a_remainder_has_its_slope_where_it_is_zero():
    for a, b in ((6.0, 2.0), (-6.0, 2.0), (6.0, -2.0)):
        assert functad.grad(lambda a, b=b: jnp.remainder(a, b))(a) == 1


@RUNS
def test_the_sign_bit_of_nan(transform):
    x = np.copysign(np.float32([NAN, NAN, 1]), np.float32([-1, 1, -1]))
    assert transform(jnp.signbit)(x).tolist() == [True, False, True]


EXPM1 = [
    (0j, 0j), (complex(-0.0, 0), 0j), (complex(0.0, -0.0), complex(0.0, -0.0)), (complex(INF, 0), complex(INF, 0)),
    (complex(-INF, INF), -1 + 0j), (complex(INF, INF), complex(INF, NAN)), (complex(-INF, NAN), -1 + 0j),
    (complex(INF, NAN), complex(INF, NAN)), (complex(NAN, 0), complex(NAN, 0)), (complex(NAN, 1), complex(NAN, NAN)),
    (complex(1, INF), complex(NAN, NAN)), (complex(INF, 2), complex(-INF, INF)),
]  # fmt: skip
TANH = [
    (complex(INF, 2), 1 + 0j), (complex(INF, -2), complex(1, -0.0)), (complex(-INF, 2), -1 + 0j),
    (complex(INF, 1), 1 + 0j), (complex(0, INF), complex(0, NAN)), (complex(INF, NAN), 1 + 0j),
    (complex(NAN, 0), complex(NAN, 0)),
]  # fmt: skip


@RUNS
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("name", "values"), [("expm1", EXPM1), ("tanh", TANH)])
def test_complex_functions_at_infinities(name, values, dtype, transform):
    found = np.asarray(transform(getattr(jnp, name))(np.array([z for z, _ in values], dtype)))
    expected = np.array([w for _, w in values], dtype)
    for part in ("real", "imag"):
        assert_equal_with_signs(getattr(found, part), getattr(expected, part))


def test_running_sums_are_as_wide_as_sums():
    for name in ("cumulative_sum", "cumulative_prod"):
        function = getattr(jnp, name)
        assert function(jnp.array([1], dtype="uint8")).dtype == np.uint32
        assert function(jnp.array([1], dtype="int8"), include_initial=True).dtype == np.int32
        assert function(jnp.array([1], dtype="int8"), dtype="int8").dtype == np.int8
        with functad.enable_x64(True):
            assert function(jnp.array([1], dtype="int32")).dtype == np.int64


def test_masks_and_axes_that_do_not_fit():
    x = jnp.ones((2, 3))
    assert x[np.zeros(0, bool)].shape == np.ones((2, 3))[np.zeros(0, bool)].shape == (0, 3)
    assert x[np.zeros((2, 0), bool)].shape == (0,)
    with pytest.raises(MaskError, match="does not fit axis 0"):
        x[np.zeros(3, bool)]
    assert issubclass(MaskError, IndexError) and issubclass(MaskError, ShapeError)
    with pytest.raises(AxisError, match="out of bounds"):
        jnp.expand_dims(x, 7)
    assert issubclass(AxisError, IndexError) and issubclass(AxisError, ValueError)
    with pytest.raises(ValueError, match="squeeze: axis 0"):
        jnp.squeeze(x, 0)


def test_diagonals_that_are_far_away():
    for k in (2**40, -(2**40), 3, -2):
        np.testing.assert_array_equal(np.asarray(jnp.eye(2, 3, k=k)), np.eye(2, 3, k))
        for name in ("tril", "triu"):
            x = np.arange(6.0).reshape(2, 3)
            np.testing.assert_array_equal(np.asarray(getattr(jnp, name)(x, k=k)), getattr(np, name)(x, k))


@pytest.mark.parametrize("kind", ["real floatin", "f8,,", 3, ("numeric", "nothing")])
def test_a_kind_that_is_none_is_named_beside_those_there_are(kind):
    with pytest.raises(DTypeError, match="isdtype: .* is no kind of dtypes. The kinds are 'bool', .*; or a dtype: "):
        jnp.isdtype(jnp.int8, kind)


# --- the public suite -------------------------------------------------------------------------------


def test_each_exception_has_a_reason():
    reason = ""
    names = []
    for line in XFAILS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            reason = line
        elif not line:
            reason = ""
        else:
            assert reason and re.match(r"array_api_tests/test_\w+\.py::test_\w+(\[.*\])?$", line), line
            names.append(line)
    assert len(names) == len(set(names))


def test_the_runner_counts_what_passes(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--xfails-file')\n    parser.addoption('--max-examples')\n"
        "    parser.addoption('--disable-deadline', action='store_true')\n"
        "def pytest_collection_modifyitems(config, items):\n"
        "    listed = open(config.getoption('--xfails-file')).read().splitlines()\n"
        "    for item in items:\n        item.nodeid in listed and item.add_marker(pytest.mark.xfail)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "array_api_tests").mkdir()
    (tmp_path / "array_api_tests" / "test_array_object.py").write_text(
        "import importlib, os\n"
        "xp = importlib.import_module(os.environ['ARRAY_API_TESTS_MODULE'])\n"
        "def test_getitem():\n    assert xp.ones(3)[1].dtype == xp.float64\n"
        "def test_setitem():\n    xp.ones(3)[1] = 2\n"
        "def test_wrong():\n    xp.no_such_name\n"
    )
    output = run(tmp_path, 1, "array_api_tests")
    assert counts_of(output) == [1, 1, 1, 0, 0, 0], output


# The conditions of cases with two values, as the suite names them, and operands that meet them.
CASES_OF_TWO_VALUES = {
    "x1_i is +infinity and isfinite(x2_i) and x2_i > 0": (INF, 2.0),
    "x1_i is +infinity and isfinite(x2_i) and x2_i < 0": (INF, -2.0),
    "x1_i is -infinity and isfinite(x2_i) and x2_i > 0": (-INF, 2.0),
    "x1_i is -infinity and isfinite(x2_i) and x2_i < 0": (-INF, -2.0),
    "isfinite(x1_i) and x1_i > 0 and x2_i is -infinity": (2.0, -INF),
    "isfinite(x1_i) and x1_i < 0 and x2_i is +infinity": (-2.0, INF),
}


@RUNS
@pytest.mark.parametrize("condition", second_values.SECOND_VALUES)
def test_where_the_standard_permits_two_values_the_second_is_checked(transform, condition):
    x1, x2 = CASES_OF_TWO_VALUES[condition]
    case = SimpleNamespace(cond_expr=condition, check_result=None)
    for name in ({"func_name": "floor_divide"}, {"func_name": "__floordiv__"}, {"iop_name": "__ifloordiv__"}):
        case.check_result = None
        second_values.pytest_collection_modifyitems([item_of(case, name)])
        result = transform(jnp.floor_divide)(jnp.array([x1]), jnp.array([x2]))[0]
        assert case.check_result(x1, x2, float(result))
        assert not case.check_result(x1, x2, float(np.floor(x1 / x2)))  # the first value
        assert not case.check_result(x1, x2, 5.0)


def test_other_cases_keep_their_check():
    case = SimpleNamespace(cond_expr="x1_i is +infinity and isfinite(x2_i) and x2_i > 0", check_result="its own")
    second_values.pytest_collection_modifyitems([item_of(case, {"func_name": "divide"}), SimpleNamespace()])
    case.cond_expr, items = "x1_i is +0 and x2_i > 0", [item_of(case, {"func_name": "floor_divide"})]
    second_values.pytest_collection_modifyitems(items)
    assert case.check_result == "its own"


def item_of(case, name):
    return SimpleNamespace(callspec=SimpleNamespace(params={"case": case, **name}))
