"""Typed keys: the same in every mode, as JAX's under all transforms, and refused where numbers are wanted."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import dtypes, lax, random
from functad.all_primitives import registry
from functad.config import config
from functad.errors import ArgumentError, DataError, DonatedArrayError, DTypeError, FunctadError
from functad.evaluation import aval_of, infer_avals
from functad.experimental import checkify
from functad.ir import Absent
from tests.tools.key_cases import CASES, REFUSED, REFUSED_OF_VALUES

KEY = random.key(3)
KEYS = random.split(KEY, 3)


def words(tree: Any) -> Any:
    """A tree with the words of keys, and what tells types apart."""

    def plain(x: Any) -> Any:
        if getattr(x, "dtype", None) is dtypes.key_fry:
            return ("key", x.shape, np.asarray(random.key_data(x)).tolist())
        return (str(x.dtype), x.shape, np.asarray(x).tobytes())

    return functad.tree.map(plain, tree)


@pytest.mark.parametrize("name", CASES)
def test_all_modes_agree(name):
    def fun(k, ks, x):
        return CASES[name](functad, k, ks, x)

    x = np.float32(2)
    expected = words(fun(KEY, KEYS, x))
    assert words(functad.jit(fun)(KEY, KEYS, x)) == expected
    with config.context(default_backend="interpreter", check_programs=True):
        assert words(functad.jit(fun)(KEY, KEYS, x)) == expected
    with functad.debug_nans(True):
        assert words(functad.jit(fun)(KEY, KEYS, x)) == expected
    shapes = functad.eval_shape(fun, KEY, KEYS, x)
    found = functad.tree.map(lambda s: (s.shape, s.dtype), shapes)
    assert found == functad.tree.map(lambda a: (a.shape, a.dtype), fun(KEY, KEYS, x))


@pytest.mark.parametrize("name", CASES)
def test_mapped_calls_are_those_of_each_key(name):
    def fun(k, ks):
        return CASES[name](functad, k, ks, np.float32(2))

    many = random.split(random.key(9), (2, 3))
    rows = [words(fun(k, ks)) for k, ks in zip(KEYS[:2], many, strict=True)]
    mapped = functad.jit(functad.vmap(fun))(KEYS[:2], many)
    for i, row in enumerate(rows):
        assert words(functad.tree.map(lambda x, i=i: x[i], mapped)) == row


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_keys_are_no_numbers(name, jitted):
    def fun(k, ks):
        return REFUSED[name](functad, k, ks)

    with pytest.raises(FunctadError):
        (functad.jit(fun) if jitted else fun)(KEY, KEYS)


@pytest.mark.parametrize("name", REFUSED_OF_VALUES)
def test_keys_have_no_value_for_python(name):
    with pytest.raises(FunctadError):
        REFUSED_OF_VALUES[name](functad, KEY, KEYS)
    if name != "numpy_stack":
        with pytest.raises(FunctadError):
            functad.jit(lambda k, ks: REFUSED_OF_VALUES[name](functad, k, ks))(KEY, KEYS)


NUMBERS = {name: p for name, p in registry.items() if not isinstance(p.examples, Absent) and p.examples()[0].args}


@pytest.mark.parametrize("name", NUMBERS)
def test_no_operation_computes_with_keys(name):
    """What takes keys in the place of numbers only moves them: results are keys, places, or whether they are equal."""
    example = NUMBERS[name].examples()[0]
    avals = [aval_of(a) for a in example.args]
    keys = [a.update(dtype=dtypes.key_fry) if a.dtype == avals[-1].dtype else a for a in avals]
    try:
        results = infer_avals(NUMBERS[name], keys, example.params)
    except FunctadError:
        return
    assert all(r.dtype in (dtypes.key_fry, dtypes.bool_) for r in results)
    assert name not in ("lt", "is_finite", "and", "or")


def test_errors_say_what_to_do():
    with pytest.raises(DTypeError, match=r"add_any|add takes or makes key<fry>, but keys are no numbers; .*key_data"):
        KEY + KEY
    with pytest.raises(DTypeError, match=r"keys, of dtype key<fry>, do not combine with int32: .*key_data"):
        KEY + 1
    with pytest.raises(DTypeError, match=r"reduce_sum was given key<fry>\[3\], but keys are no numbers; .*key_data"):
        jnp.sum(KEYS)
    with pytest.raises(DTypeError, match=r"max takes or makes key<fry>, but keys are no numbers; .*key_data"):
        jnp.max(KEYS)
    with pytest.raises(DTypeError, match=r"takes or makes key<fry>, but keys are no numbers; .*key_data"):
        jnp.full(2, 0, KEY.dtype)  # JAX makes a key of the number
    with pytest.raises(DTypeError, match=r"type key<fry>\[\] cannot become an array of NumPy's: .*key_data\(key\)"):
        np.asarray(KEY)
    with pytest.raises(ArgumentError, match="impl='unsafe_rbg' is absent .*: the only generator is 'threefry2x32'"):
        random.key(0, impl="unsafe_rbg")


def test_what_a_key_says_of_itself():
    assert repr(KEY) == str(KEY) == f"{KEY}" == "Array((), dtype=key<fry>) overlaying:\n[0 3]"
    assert repr(KEYS.reshape(3, 1)[:1]).startswith("Array((1, 1), dtype=key<fry>) overlaying:\n[[[")
    assert str(KEY.dtype) == KEY.dtype.name == "key<fry>" and KEY.dtype.itemsize == KEY.itemsize == 8
    assert (KEYS.shape, KEYS.ndim, KEYS.size, KEYS.nbytes, len(KEYS)) == ((3,), 1, 3, 24, 3)
    assert isinstance(KEY, functad.Array) and np.shape(KEYS) == jnp.shape(KEYS) == (3,)
    assert np.ndim(KEYS) == 1 and np.size(KEYS) == 3
    assert repr(functad.ShapeDtypeStruct((2,), KEY.dtype)) == "ShapeDtypeStruct(shape=(2,), dtype=key<fry>)"


def test_its_dtype_has_a_kind():
    assert dtypes.issubdtype(KEY.dtype, dtypes.prng_key) and jnp.issubdtype(KEY.dtype, dtypes.extended)
    assert dtypes.issubdtype(KEY.dtype, np.generic) and dtypes.issubdtype(KEY.dtype, KEY.dtype)
    for other in (np.number, np.integer, np.uint32, np.dtype("uint64")):
        assert not dtypes.issubdtype(KEY.dtype, other)
    assert not dtypes.issubdtype(np.uint32, dtypes.prng_key) and not dtypes.issubdtype("uint32", KEY.dtype)
    assert pickle.loads(pickle.dumps(KEY.dtype)) is KEY.dtype
    assert jnp.result_type(KEY) is KEY.dtype


def test_copies():
    for other in (pickle.loads(pickle.dumps(KEYS)), copy.copy(KEYS), copy.deepcopy(KEYS), functad.device_get(KEYS)):
        assert words(other) == words(KEYS)


def test_close_keys_are_equal_ones():
    key, keys = random.key(0), random.split(random.key(0), 3)
    assert jnp.allclose(key, random.key(0)) and not jnp.allclose(key, random.key(1))
    assert jnp.isclose(keys, keys[1]).tolist() == [False, True, False]
    assert functad.jit(jnp.isclose)(keys[:, None], keys).tolist() == np.eye(3, dtype=bool).tolist()
    with pytest.raises(DTypeError, match="keys are no numbers"):
        jnp.isclose(key, 1.0)


def test_printed_programs():
    assert str(functad.make_jaxpr(lambda k: random.bits(random.fold_in(k, 1), (2,)))(KEY)) == (
        "{ lambda ; a:key<fry>[]. let\n"
        "    b:key<fry>[] = random_fold_in a 1:u32[]\n"
        "    c:u32[2] = random_bits[bit_width=32 shape=(2,)] b\n"
        "  in (c,) }"
    )
    closed = functad.make_jaxpr(lambda: random.bits(KEY))()
    assert "{ lambda a:key<fry>[]; . let" in str(closed)


def test_donated_keys():
    split = functad.jit(random.split, static_argnums=1, donate_argnums=0)
    key = random.key(5)
    first = words(split(key, 2))
    assert first == words(random.split(random.key(5)))
    with pytest.raises(DonatedArrayError, match="argument `key` of split was donated"):
        random.bits(key)
    step = functad.jit(lambda k: random.fold_in(k, 1), donate_argnums=0)
    for _ in range(3):  # by the short way
        key = step(random.clone(KEY))
    assert words(key) == words(random.fold_in(KEY, 1))


def test_compiled_ahead():
    compiled = functad.jit(random.split).lower(functad.ShapeDtypeStruct((), KEY.dtype)).compile()
    assert words(compiled(KEY)) == words(random.split(KEY))
    assert "key" not in str(functad.jit(random.split).lower(KEY).optimized)


def test_tangents_are_float0():
    zero = np.zeros((), dtypes.float0)
    out, tangent = functad.jvp(lambda k: random.uniform(k), (KEY,), (zero,))
    assert tangent == 0 and out.shape == ()
    (cotangent,) = functad.vjp(lambda k: random.uniform(k), KEY)[1](jnp.float32(1))
    assert cotangent.dtype == dtypes.float0 and cotangent.shape == ()
    key_out, key_tangent = functad.jvp(lambda x: random.fold_in(KEY, 1), (1.0,), (1.0,))
    assert key_out.dtype is dtypes.key_fry and key_tangent.dtype == dtypes.float0
    both = functad.grad(lambda x, k: x * random.uniform(k), (0, 1), allow_int=True)(2.0, KEY)
    assert both[1].dtype == dtypes.float0


def test_callbacks_are_given_keys(capsys):
    seen = []

    @functad.jit
    def fun(k):
        functad.debug.print("{}", k)
        functad.debug.callback(lambda k, name: seen.append((name, words(k))), k, "a key")
        wanted = functad.ShapeDtypeStruct((2,), np.float32)
        return functad.pure_callback(lambda k: random.normal(k, (2,)), wanted, k, vmap_method="sequential")

    assert fun(KEY).tolist() == random.normal(KEY, (2,)).tolist()
    assert capsys.readouterr().out == f"{KEY}\n" and seen == [("a key", words(KEY))]
    assert functad.vmap(fun)(KEYS).tolist() == [random.normal(k, (2,)).tolist() for k in KEYS]


def test_checkify_goes_through_programs_with_keys():
    def draw(k, x):
        return lax.scan(lambda k, _: (random.split(k)[0], random.uniform(k) * x), k, None, length=3)

    def checked(k, x):
        checkify.check(x > 0, "not positive")
        return draw(k, x)

    error, drawn = functad.jit(checkify.checkify(checked, errors=checkify.all_checks))(KEY, 2.0)
    assert error.get() is None and words(drawn) == words(draw(KEY, 2.0))
    assert "not positive" in checkify.checkify(checked)(KEY, -1.0)[0].get()


@pytest.mark.parametrize("make", [random.key, random.PRNGKey])
def test_keys_come_back_in_the_kind_that_was_given(make):
    key = make(1)
    others = [random.split(key), random.fold_in(key, 1), random.clone(key)]
    assert all(k.dtype == key.dtype for k in others)
    assert random.key_impl(key) == "threefry2x32"
    assert random.normal(key, (3,)).tolist() == random.normal(random.key(1), (3,)).tolist()


def test_keys_of_a_users_array_do_not_follow_it():
    given = np.zeros(2, np.uint32)
    keys = random.wrap_key_data(given), random.wrap_key_data(given[::-1])
    given[:] = 7
    assert [random.key_data(k).tolist() for k in keys] == [[0, 0], [0, 0]]


@pytest.mark.parametrize("keys", [KEY, KEYS, KEYS[:0]], ids=["one", "some", "none"])
def test_files_keep_keys_by_their_words(tmp_path, keys):
    path = tmp_path / "state.npz"
    functad.io.save(path, {"keys": keys, "raw": random.key_data(keys)})
    for loaded in (functad.io.load(path), functad.io.load(path, like={"keys": keys, "raw": random.key_data(keys)})):
        assert loaded["keys"].dtype == keys.dtype and words(loaded["keys"]) == words(keys)
        assert loaded["raw"].dtype == np.uint32 and loaded["raw"].tolist() == random.key_data(keys).tolist()
    with np.load(path) as file:
        assert file["['keys']"].dtype == np.uint32 and file["['keys']"].tolist() == random.key_data(keys).tolist()


def test_what_a_file_has_in_the_place_of_keys_is_compared(tmp_path):
    path = tmp_path / "state.npz"
    functad.io.save(path, [KEY, random.key_data(KEY), np.float32(1)])
    key, raw, number = functad.io.load(path)
    for like, message in (
        (
            [raw, raw, number],
            r"tree\[0\] is an array of shape \(\) and dtype key<fry>, but like has .*\(2,\) and dtype uint32",
        ),
        ([key, key, number], r"tree\[1\] is .* dtype uint32, but like has an array of shape \(\) and dtype key<fry>"),
        ([KEYS, raw, number], r"tree\[0\] is .* shape \(\) and dtype key<fry>, but like has .* and dtype key<fry>"),
        ([key, raw, key], r"tree\[2\] is .* dtype float32, but like has an array of shape \(\) and dtype key<fry>"),
    ):
        with pytest.raises(DataError, match=message):
            functad.io.load(path, like=like)


def test_batches_are_shuffled_by_keys_of_both_kinds():
    rows = np.arange(10)
    keys = random.key(3), random.PRNGKey(3)
    orders = [[np.asarray(b).tolist() for b in functad.data.batches(rows, 5, key=k)] for k in keys]
    assert orders[0] == orders[1] != [rows[:5].tolist(), rows[5:].tolist()]


@pytest.mark.parametrize("seed", [-1, -(2**31), 0, 7, 2**31 - 1, -(2**31) - 1, -(2**40), 2**40])
def test_equal_seeds_of_all_kinds_make_equal_keys(seed):
    wanted = random.key_data(random.key(seed)).tolist()
    kinds = [np.int64] if abs(seed) > 2**31 else [np.int64, np.int32]
    for kind in kinds:
        array = np.array(seed, kind)
        for made in (
            *(random.key(given) for given in (kind(seed), array, jnp.asarray(array))),
            *(random.PRNGKey(array), functad.jit(random.key)(array)),
        ):
            assert random.key_data(made).tolist() == wanted
