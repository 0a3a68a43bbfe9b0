"""The options: reading, setting, overriding in one thread, environment variables, errors."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.config import (
    Config,
    config,
    current_settings,
    debug_infs,
    debug_nans,
    enable_x64,
    jit_settings_of,
    log_compiles,
    set_defaults,
)
from functad.errors import ArgumentError
from functad.options import OPTIONS, available_cores


@pytest.fixture(autouse=True)
def _restore_options() -> Iterator[None]:
    before = config.values
    yield
    for name, value in before.items():
        config.update(name, value)


def test_defaults():
    set_defaults({})
    assert config.values == {
        "num_threads": available_cores()[0],
        "enable_x64": False,
        "debug_nans": False,
        "debug_infs": False,
        "debug_key_reuse": False,
        "numpy_dtypes": "keep",
        "debug_index": False,
        "log_compiles": False,
        "announce_compiles": True,
        "default_backend": "cpu",
        "default_device": None,
        "disable_jit": False,
        "fuse_multiply_add": False,
        "cuda_products": "cublas",
        "default_matmul_precision": None,
        "cuda_atomics": False,
        "cuda_capability": "9.0",
        "numpy_dtype_promotion": "standard",
        "numpy_rank_promotion": "allow",
        "check_programs": False,
        "traceback_filtering": "auto",
    }
    assert all(option.doc for option in OPTIONS.values())


@pytest.mark.parametrize("name", ["enable_x64", "jax_enable_x64"])
def test_update_and_read_under_both_names(name):
    config.update(name, True)
    assert config.enable_x64 is True
    assert config.jax_enable_x64 is True
    assert config.read("enable_x64") is True
    assert config.read("jax_enable_x64") is True


def test_a_full_traceback_by_its_short_name():
    try:
        config.traceback = "full"
        assert (config.traceback, config.traceback_filtering, config.read("traceback")) == ("full", "off", "full")
        with config.context(traceback="short"):
            assert (config.traceback, config.traceback_filtering) == ("short", "auto")
        with pytest.raises(ArgumentError, match="option 'traceback' takes 'full' or 'short', got 'all'"):
            config.update("traceback", "all")
    finally:
        config.traceback = "short"
    assert config.traceback_filtering == "auto"


def test_assignment_sets_for_all_threads():
    config.enable_x64 = True
    seen = _in_another_thread(lambda: config.enable_x64)
    assert seen is True
    config.jax_enable_x64 = False
    assert config.enable_x64 is False


def test_update_reaches_other_threads_and_context_does_not():
    config.update("debug_nans", True)
    with config.context(enable_x64=True):
        seen = _in_another_thread(lambda: (config.debug_nans, config.enable_x64))
    assert seen == (True, False)


def test_context_nests_and_restores():
    with config.context(enable_x64=True, jax_debug_nans=True):
        assert (config.enable_x64, config.debug_nans) == (True, True)
        with config.context(enable_x64=False):
            assert (config.enable_x64, config.debug_nans) == (False, True)
        assert config.enable_x64 is True
    assert (config.enable_x64, config.debug_nans) == (False, False)


def test_context_restores_after_an_exception():
    with pytest.raises(KeyError), config.context(enable_x64=True):
        raise KeyError
    assert config.enable_x64 is False


def test_context_shadows_update_until_it_ends():
    with config.context(enable_x64=False):
        config.update("enable_x64", True)
        assert config.enable_x64 is False
    assert config.enable_x64 is True


@pytest.mark.parametrize(
    "manager, name",
    [
        (enable_x64, "enable_x64"),
        (debug_nans, "debug_nans"),
        (debug_infs, "debug_infs"),
        (log_compiles, "log_compiles"),
    ],
)
def test_context_functions(manager, name):
    with manager():
        assert config.read(name) is True
        with manager(False):
            assert config.read(name) is False
    assert config.read(name) is False


def test_a_context_is_also_a_decorator():
    @enable_x64(True)
    def read() -> bool:
        return config.enable_x64

    assert read() is True
    assert config.enable_x64 is False


def test_unknown_option_lists_the_options_and_the_closest():
    with pytest.raises(ArgumentError, match=r"no option 'enable_x46'.* Did you mean 'enable_x64'\?") as info:
        config.update("enable_x46", True)
    assert all(name in str(info.value) for name in OPTIONS)
    with pytest.raises(ArgumentError, match="no option 'jax_shapes'"):
        config.read("jax_shapes")
    with pytest.raises(ArgumentError, match="no option 'x64'"), config.context(x64=True):
        pytest.fail("the block must not run")
    with pytest.raises(ArgumentError, match="no option 'foo'"):
        config.foo = True


def test_unknown_attribute():
    assert not hasattr(config, "enable_x46")


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("enable_x64", "yes", "False or True"),
        ("enable_x64", 2, "False or True"),
        ("default_backend", "gpu", "'cpu' or 'cuda' or 'interpreter'"),
    ],
)
def test_wrong_value(name, value, allowed):
    with pytest.raises(ArgumentError, match=f"{name}.* takes {allowed}, got {value!r}"):
        config.update(name, value)


def test_a_failing_context_overrides_nothing():
    with pytest.raises(ArgumentError), config.context(enable_x64=True, debug_nans="maybe"):
        pytest.fail("the block must not run")
    assert config.enable_x64 is False


def test_one_and_zero_are_switch_values():
    config.update("enable_x64", 1)
    assert config.enable_x64 is True
    config.update("enable_x64", 0)
    assert config.enable_x64 is False


@pytest.mark.parametrize(
    "text, value", [("1", True), ("true", True), ("ON", True), ("0", False), ("off", False), ("", False)]
)
def test_environment(text, value):
    set_defaults({"FUNCTAD_ENABLE_X64": text, "FUNCTAD_DEBUG_NANS": "yes"})
    assert config.enable_x64 is value
    assert config.debug_nans is True
    assert config.debug_infs is False


def test_wrong_environment():
    with pytest.raises(ArgumentError, match="FUNCTAD_ENABLE_X64 must be 1, true.*got 'maybe'"):
        set_defaults({"FUNCTAD_ENABLE_X64": "maybe"})
    with pytest.raises(ArgumentError, match="FUNCTAD_DEFAULT_BACKEND must be cpu or cuda or interpreter, got 'tpu'"):
        set_defaults({"FUNCTAD_DEFAULT_BACKEND": "tpu"})


def test_repr_shows_the_values():
    with enable_x64():
        assert repr(config).startswith("Config(enable_x64=True, numpy_dtypes='keep', debug_nans=False")


def test_reading_is_one_attribute_access():
    assert "__getattr__" not in vars(Config)


def _in_another_thread(read):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(read()))
    thread.start()
    thread.join()
    return seen[0]


def test_a_whole_number_is_checked_and_read_from_the_environment():
    config.update("num_threads", 3)
    assert config.num_threads == config.jax_num_threads == 3
    with pytest.raises(ArgumentError, match="takes a whole number from 1 to 1024, got 0"):
        config.update("num_threads", 0)
    set_defaults({"FUNCTAD_NUM_THREADS": " 5 "})
    assert config.num_threads == 5
    with pytest.raises(ArgumentError, match="FUNCTAD_NUM_THREADS must be a whole number from 1 to 1024, got 'all'"):
        set_defaults({"FUNCTAD_NUM_THREADS": "all"})


def test_an_override_of_the_threads_holds_for_all_threads_and_watchers_hear_of_it():
    config.update("num_threads", 3)
    heard = []
    config.watch("num_threads", heard.append)
    with config.context(num_threads=2, enable_x64=True):
        assert config.num_threads == 2
        assert _in_another_thread(lambda: (config.num_threads, config.enable_x64)) == (2, False)
        with pytest.raises(KeyError), config.context(num_threads=1):
            raise KeyError
    assert (config.num_threads, config.enable_x64) == (3, False)
    assert heard == [3, 2, 1, 2, 3]


def test_available_cores_says_why():
    count, reason = available_cores()
    assert 1 <= count <= (os.cpu_count() or 1)
    assert reason


def test_values_may_be_checked_wherever_an_override_could_hide_that_they_are():
    assert not config.may_check_values
    with config.context(enable_x64=True):
        config.update("debug_infs", True)
        assert config.may_check_values
    assert config.may_check_values and _in_another_thread(lambda: config.may_check_values)
    config.update("debug_infs", False)
    assert not config.may_check_values
    with debug_nans(True):
        assert config.may_check_values and not _in_another_thread(lambda: config.may_check_values)
    assert not config.may_check_values


def test_options_from_the_arguments_of_the_process(monkeypatch):
    arguments = ["program", "--jax_enable_x64=1", "--jax_debug_nans", "--jax_platform_name=cpu", "--other=1", "x"]
    monkeypatch.setattr("sys.argv", [*arguments, "--", "--jax_debug_infs=1"])
    config.parse_flags_with_absl()
    assert (config.enable_x64, config.debug_nans, config.debug_infs) == (True, True, False) and config.x64_enabled
    monkeypatch.setattr("sys.argv", ["program", "--jax_enable_x64=maybe"])
    with pytest.raises(ArgumentError, match="--jax_enable_x64 must be 1, true"):
        config.parse_flags_with_absl()


def test_promotion_can_be_strict():
    x, n = jnp.ones(2), jnp.arange(2)
    f = functad.jit(lambda x, n: x * n)
    assert f(x, n).dtype == "float32"
    with functad.numpy_dtype_promotion("strict"):
        assert (x * 2).dtype == (x * 2.0).dtype == "float32" and (n * 2 + n).dtype == "int32"
        for refused in (lambda: x * n, lambda: f(x, n), lambda: jnp.concatenate([x, n]), lambda: n * 1.5):
            with pytest.raises(functad.errors.TypePromotionError, match="no joint dtype while.*'strict'"):
                refused()
    assert f(x, n).dtype == "float32"
    with (
        functad.numpy_rank_promotion("raise"),
        pytest.raises(ValueError, match=r"\(2,\), \(3, 2\) have different ranks"),
    ):
        x + jnp.ones((3, 2))
    with functad.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="different ranks"):
        jnp.maximum(x, jnp.ones((3, 2)))


V, M = np.arange(3, dtype=np.float32) + 1, np.array([[4, 1, 0], [1, 3, 1], [0, 1, 5]], np.float32)
WRITTEN_OUT = {  # functions that join operands of several ranks or dtypes within
    "one_hot": lambda: functad.nn.one_hot(jnp.arange(3), 3),
    "orthogonal": lambda: functad.nn.initializers.orthogonal()(functad.random.key(0), (3, 4)),
    "polyfit": lambda: jnp.polyfit(V, V, 1),
    "cov": lambda: jnp.cov(M, aweights=V),
    "isin": lambda: jnp.isin(M, V),
    "unpackbits": lambda: jnp.unpackbits(np.array([[3]], np.uint8), axis=1),
    "det": lambda: functad.grad(jnp.linalg.det)(M),
    "slogdet": lambda: jnp.linalg.slogdet(M[None]),
    "pinv": lambda: jnp.linalg.pinv(M[None]),
    "lu": lambda: functad.scipy.linalg.lu(M[None]),
    "expm": lambda: functad.scipy.linalg.expm(M[None]),
    "nanmedian": lambda: jnp.nanmedian(M, 1),
    "count_nonzero": lambda: (jnp.count_nonzero(M > 1), jnp.packbits(M > 1, axis=0)),
    "minimize": lambda: functad.scipy.optimize.minimize(lambda x: jnp.sum(x**4), V, method="BFGS").x,
    "odeint": lambda: functad.experimental.ode.odeint(lambda y, t: -y, V, jnp.arange(3.0)),
    "histogram2d": lambda: jnp.histogram2d(V, V, bins=np.float32([1, 2, 3]), density=True),
    "multivariate_normal": lambda: functad.random.multivariate_normal(functad.random.key(0), V, M, (2,)),
    "sqrtm": lambda: functad.scipy.linalg.sqrtm(M),
    "hilbert": lambda: functad.scipy.linalg.hilbert(3),
    "bessel_jn": lambda: functad.jvp(lambda z: functad.scipy.special.bessel_jn(z, v=2), (V,), (V,)),
    "stft": lambda: functad.scipy.signal.stft(jnp.ones(64), nperseg=16),
    "istft": lambda: functad.scipy.signal.istft(jnp.ones((9, 9), "complex64"), nperseg=16),
    "welch": lambda: functad.scipy.signal.welch(jnp.ones((2, 64)), nperseg=16),
    "csd": lambda: functad.scipy.signal.csd(jnp.ones(64), 2 * jnp.ones(64), nperseg=16),
}
TWO_DTYPES = ("stft", "welch", "csd")  # complex spectra times real scales


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_strictness_is_for_the_users_operands(name):
    expected = functad.tree.leaves(WRITTEN_OUT[name]())
    with (
        functad.numpy_rank_promotion("raise"),
        functad.numpy_dtype_promotion("standard" if name in TWO_DTYPES else "strict"),
    ):
        for found, wanted in zip(functad.tree.leaves(WRITTEN_OUT[name]()), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_what_decides_how_functions_run_is_found_once_within_a_context() -> None:
    outside = current_settings()
    with config.context(enable_x64=True):
        within = current_settings()
        assert current_settings() is within != outside
        with config.context(fuse_multiply_add=not config.fuse_multiply_add):
            assert current_settings() not in (within, outside)
        assert current_settings() == within
        before = config.default_matmul_precision
        try:
            config.update("default_matmul_precision", "highest")  # for all threads
            assert current_settings() not in (within, outside)
        finally:
            config.update("default_matmul_precision", before)
        assert current_settings() == within
    assert current_settings() == outside


def test_operations_within_a_context_look_at_values_where_an_option_asks_for_it() -> None:
    with config.context(enable_x64=True):
        assert not config.may_check_values
        with config.context(debug_nans=True):
            assert config.may_check_values
            with config.context(debug_nans=False), pytest.raises(FloatingPointError), debug_nans(True):
                jnp.log(jnp.float32(-1))
            assert config.may_check_values
        assert not config.may_check_values
        config.update("debug_infs", True)  # for all threads
        with pytest.raises(FloatingPointError):
            jnp.log(jnp.float32(0))
    with pytest.raises(FloatingPointError):
        jnp.log(jnp.float32(0))


def test_overrides_of_an_option_of_all_threads_may_end_in_any_order():
    before = functad.config.num_threads
    first, second, third = (functad.config.context(num_threads=n) for n in (1, 2, 1))
    try:
        for context in (first, second, third):
            context.__enter__()
        first.__exit__(None, None, None)
        assert functad.config.num_threads == 1
        third.__exit__(None, None, None)
        assert functad.config.num_threads == 2
        second.__exit__(None, None, None)
        assert functad.config.num_threads == before
    finally:
        functad.config.update("num_threads", before)


def test_no_older_settings_stay_where_two_threads_set_options(monkeypatch):
    other = threading.Thread(target=functad.config.update, args=("enable_x64", True))
    found = jit_settings_of

    def interrupted(options):
        settings = found(options)
        if threading.current_thread() is threading.main_thread():
            other.start()
            other.join(0.2)  # without a lock it sets its own, and this thread the older ones afterwards
        return settings

    before = functad.config.fuse_multiply_add
    try:
        monkeypatch.setattr(sys.modules["functad.config"], "jit_settings_of", interrupted)
        functad.config.update("fuse_multiply_add", not before)
        monkeypatch.undo()
        other.join()
        assert found(Config) == Config.jit_settings
    finally:
        functad.config.update("enable_x64", False)
        functad.config.update("fuse_multiply_add", before)
