"""The values of the options: global ones and thread-local overrides. `options.py` lists which there are.

This file must not know what the options do: the files that read an option decide that.

Shapes:
    No arrays are taken or given.

Raises:
    ArgumentError: the option does not take that value, when the context is entered.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from typing import Any

from functad.errors import ArgumentError, close_names
from functad.options import (
    ACCEPTED,
    CHECKS,
    JIT_OPTIONS,
    OPTIONS,
    OTHER_SPELLINGS,
    TRACE_OPTIONS,
    Value,
    allowed_text,
    parse_value,
)

IMPORTED_AT_NS = time.time_ns()
"""When this process imported functad, in ns since 1970: what files are younger it may not have read."""


extensions: dict[tuple[str, str], Any] = {}
"""What users have registered, by kind and name, that decides how jitted functions run: backends, rules and passes."""


# An element for each trace that is active, and for each block of `Config.context`, in whichever thread. While there is
# none, no thread records anything, and all of them see `Config.jit_settings`: a look at a list, where one into a
# thread's own state takes as long as a small kernel.
exceptional: list[None] = []


class Config(threading.local):
    """The value of every option, seen from the current thread.

    `config.enable_x64` reads an option. `config.update` sets it for all threads, `config.context` for the
    current thread until the block ends. JAX's names (`jax_enable_x64`) are accepted everywhere.

    >>> from functad.config import config
    >>> config.update("jax_log_compiles", True)
    >>> config.log_compiles
    True
    >>> config.update("log_compiles", False)
    >>> with config.context(enable_x64=True):
    ...     config.enable_x64
    True
    >>> config.enable_x64
    False
    """

    # A global value is an attribute of the class, an override one of the instance, of which
    # threading.local keeps one dict a thread: so reading an option is one plain attribute access.
    enable_x64: bool
    numpy_dtypes: str
    debug_nans: bool
    debug_index: bool
    debug_key_reuse: bool
    debug_infs: bool
    log_compiles: bool
    announce_compiles: bool
    default_backend: str
    default_device: Any
    disable_jit: bool
    num_threads: int
    fuse_multiply_add: bool
    cuda_products: str
    default_matmul_precision: str | None
    cuda_atomics: bool
    cuda_capability: str
    numpy_dtype_promotion: str
    numpy_rank_promotion: str
    check_programs: bool
    traceback_filtering: str
    may_check_values: bool  # False where none of `CHECKS` is set, which every operation asks
    jit_settings: tuple[Value, ...] | None  # of `JIT_OPTIONS`; None where this thread overrides some option
    settings_within: tuple[Any, Any] = (None, None)  # there: those of all threads, and what this thread made of them

    def update(self, name: str, value: Value) -> None:
        """Set an option for all threads.

        Args:
            name: the option, such as `"enable_x64"`, or JAX's name for it, `"jax_enable_x64"`.
            value: the new value; `True` or `False` for a switch.

        Raises:
            ArgumentError: there is no such option, or it does not take that value.
        """
        plain = name.removeprefix("jax_")
        if plain in ACCEPTED:
            _accepted[plain] = _checked_accepted(plain, value)
            return
        _set_for_all(*_checked_option(name, value))

    @contextmanager
    def context(self, **overrides: Value) -> Iterator[None]:
        """Override options in the current thread until the `with` block ends; `num_threads` in all threads.

        Args:
            **overrides: the options and their values, such as `enable_x64=True`.

        Raises:
            ArgumentError: there is no such option, or it does not take that value.
        """
        values = dict(_checked_option(name, value) for name, value in overrides.items())
        active = self.__dict__
        previous = {name: active[name] for name in values if name in active}
        shared = [name for name in values if OPTIONS[name].one_for_all]
        active.update(values)
        outermost = "jit_settings" not in active
        active["jit_settings"] = None
        active.pop("settings_within", None)
        exceptional.append(None)
        checked = active.get("may_check_values", False)
        if any(values.get(option) for option in CHECKS):
            active["may_check_values"] = True
        overrides_for_all = [_Override(name, active.pop(name)) for name in shared]
        try:
            yield
        finally:
            for name in values.keys() - set(shared):
                del active[name]
            active.update(previous)
            active.pop("settings_within", None)
            if outermost:
                del active["jit_settings"]
            if not checked:
                active.pop("may_check_values", None)
            for override in overrides_for_all:
                override.end()
            exceptional.pop()

    def watch(self, name: str, changed: Callable[[Any], None]) -> None:
        """Call `changed` with the value of an option now, and from now on whenever it is set for all threads."""
        _watchers.setdefault(name, []).append(changed)
        changed(getattr(Config, name))

    def read(self, name: str) -> Value:
        """The value of the option `name`, which may be JAX's name for it."""
        plain = name.removeprefix("jax_")
        if plain in ACCEPTED:
            return _accepted[plain]
        if plain in OTHER_SPELLINGS:
            return str(getattr(self, plain))
        value: Value = getattr(self, _option_name(name))
        return value

    def parse_flags_with_absl(self) -> None:
        """Set options as the arguments of the process say: `--jax_enable_x64=1`, `--jax_debug_nans`, up to a `--`.

        The name is JAX's; absl is not needed. Arguments that name no option are left to others.
        """
        for argument in takewhile("--".__ne__, sys.argv):
            flag, _, text = argument.partition("=")
            name = flag.removeprefix("--jax_")
            if name != flag and name in OPTIONS:
                _set_for_all(name, parse_value(flag, text or "1", OPTIONS[name]))

    @property
    def traceback(self) -> str:
        """ "full" where `traceback_filtering` is "off", else "short"; it can be set, too."""
        return "full" if self.traceback_filtering == "off" else "short"

    @property
    def x64_enabled(self) -> bool:
        """JAX's other name for `enable_x64`."""
        return self.enable_x64

    @property
    def trace_settings(self) -> tuple[Value, ...]:
        """On what a traced Program depends: the values of `TRACE_OPTIONS`, and which primitives mean what."""
        return (*[getattr(self, name) for name in TRACE_OPTIONS], redefinitions)

    @property
    def values(self) -> dict[str, Value]:
        """All options and their values in the current thread."""
        return {name: getattr(self, name) for name in OPTIONS}

    def __setattr__(self, name: str, value: Value) -> None:
        # Python would set it for this thread alone; whoever assigns means all threads.
        self.update(name, value)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"Config({settings})"


def set_defaults(environment: Mapping[str, str]) -> None:
    """Give every option its default, or what `FUNCTAD_<OPTION>` in `environment` says."""
    for name, option in OPTIONS.items():
        variable = f"FUNCTAD_{name.upper()}"
        text = environment.get(variable)
        parsed = option.default if text is None else parse_value(f"environment variable {variable}", text, option)
        _set_for_all(name, parsed)


def set_extension(kind: str, name: str, value: Any) -> None:
    """Note what a user has registered under a name; None forgets it. What was compiled before is not used with it."""
    global extensions
    with _setting:
        others = {key: known for key, known in extensions.items() if key != (kind, name)}
        extensions = others if value is None else {**others, (kind, name): value}
        _note_jit_settings()


_setting = threading.RLock()  # held by who changes what all threads see


redefinitions = 0  # of primitives: what was traced before is not used after one


def note_redefinition() -> None:
    """Note that a user gave a primitive another meaning: what was traced before is not used again."""
    global redefinitions
    with _setting:
        redefinitions += 1
        _note_jit_settings()


def extensions_of(kind: str) -> dict[str, Any]:
    """What users have registered of a kind, by name."""
    return {name: value for (of, name), value in extensions.items() if of == kind}


def own_optimisations() -> tuple[Any, ...]:
    """The rules and passes of the optimiser that users have registered: what it makes depends on them."""
    return tuple(value for (kind, _), value in extensions.items() if kind in ("rule", "pass"))


def _note_jit_settings() -> None:
    Config.jit_settings = jit_settings_of(Config)


def jit_settings_of(options: Any) -> tuple[Any, ...]:
    """What decides how a jitted function runs: options, seen from this thread or all, and what users registered."""
    values = (getattr(options, option, OPTIONS[option].default) for option in JIT_OPTIONS)
    return (*values, redefinitions, *extensions.items())


def current_settings() -> tuple[Any, ...]:
    """What decides how a jitted function runs in this thread: found once for all calls within a `context`."""
    if config.jit_settings is not None:
        return config.jit_settings
    shared = Config.jit_settings  # another one as soon as an option is set for all threads
    known, settings = config.settings_within
    if known is not shared:
        settings = jit_settings_of(config)
        config.__dict__["settings_within"] = shared, settings
    return settings


def _set_for_all(name: str, value: Value) -> None:
    with _setting:
        setattr(Config, name, value)
        Config.may_check_values = any(getattr(Config, option, False) for option in CHECKS)
        _note_jit_settings()
        for changed in _watchers.get(name, ()):
            changed(value)


class _Override:
    """A block that overrides an option for all threads. Such blocks of several threads may end in any order."""

    def __init__(self, name: str, value: Value) -> None:
        self.name, self.value = name, value
        with _setting:
            self.before = getattr(Config, name)
            _overrides.append(self)
            _set_for_all(name, value)

    def end(self) -> None:
        with _setting:
            later = [o for o in _overrides[_overrides.index(self) + 1 :] if o.name == self.name]
            _overrides.remove(self)
            if later:  # it has what this one has set for what was before
                later[0].before = self.before
            else:
                _set_for_all(self.name, self.before)


_overrides: list[_Override] = []


_watchers: dict[str, list[Callable[[Any], None]]] = {}


def _alias(name: str) -> property:
    return property(lambda config: getattr(config, name), doc=f"JAX's name for `{name}`.")


# Aliases are properties because a `__getattr__` on the class would slow down reading every option.
for _name in OPTIONS:
    setattr(Config, f"jax_{_name}", _alias(_name))


_accepted = {name: option.default for name, option in ACCEPTED.items()}


def _reader(name: str) -> property:
    return property(lambda config: _accepted[name], doc=f"JAX's option, which decides nothing: {ACCEPTED[name].doc}.")


for _name in ACCEPTED:
    setattr(Config, f"jax_{_name}", _reader(_name))


def _checked_accepted(name: str, value: Any) -> Any:
    harmless = ACCEPTED[name].harmless
    if harmless is None or value in harmless:
        return value
    raise ArgumentError(
        f"option 'jax_{name}' decides nothing in functad, as {ACCEPTED[name].doc}; it takes "
        f"{' or '.join(map(repr, harmless))} only, got {value!r}"
    )


def accepted_context(name: str) -> Callable[..., AbstractContextManager[None]]:
    """JAX's context manager for an option that decides nothing: it takes what `config.update` takes."""

    @contextmanager
    def context(new_val: Any = ACCEPTED[name].default) -> Iterator[None]:
        before = _accepted[name]
        _accepted[name] = _checked_accepted(name, new_val)
        try:
            yield
        finally:
            _accepted[name] = before

    context.__name__ = context.__qualname__ = name
    context.__doc__ = (
        f"A context for JAX's option of that name, which decides nothing: {ACCEPTED[name].doc}.\n\n"
        f">>> import functad\n>>> with functad.{name}({ACCEPTED[name].default!r}):\n"
        f"...     functad.config.jax_{name}\n{'' if ACCEPTED[name].default is None else repr(ACCEPTED[name].default)}\n"
    )
    return context


allow_f16_reductions = accepted_context("allow_f16_reductions")
array_garbage_collection_guard = accepted_context("array_garbage_collection_guard")
auto_pcast = accepted_context("auto_pcast")
check_tracer_leaks = checking_leaks = accepted_context("check_tracer_leaks")
default_prng_impl = accepted_context("default_prng_impl")
enable_custom_prng = accepted_context("enable_custom_prng")
explain_cache_misses = accepted_context("explain_cache_misses")
jax2tf_associative_scan_reductions = accepted_context("jax2tf_associative_scan_reductions")
legacy_prng_key = accepted_context("legacy_prng_key")
no_execution = accepted_context("no_execution")
no_tracing = accepted_context("no_tracing")
remove_size_one_mesh_axis_from_type = accepted_context("remove_size_one_mesh_axis_from_type")
softmax_custom_jvp = accepted_context("softmax_custom_jvp")
thread_guard = accepted_context("thread_guard")
threefry_partitionable = accepted_context("threefry_partitionable")
transfer_guard = accepted_context("transfer_guard")
transfer_guard_device_to_device = accepted_context("transfer_guard_device_to_device")
transfer_guard_device_to_host = accepted_context("transfer_guard_device_to_host")
transfer_guard_host_to_device = accepted_context("transfer_guard_host_to_device")


def enable_checks(new_val: bool = True) -> AbstractContextManager[None]:
    """A context in which every Program is verified after every pass: `config.check_programs`.

    >>> import functad
    >>> with functad.enable_checks():
    ...     functad.config.check_programs
    True
    """
    return config.context(check_programs=new_val)


def enable_x64(new_val: bool = True) -> AbstractContextManager[None]:
    """A context in which Python scalars and new arrays take 64 bits (or 32, for `enable_x64(False)`).

    >>> from functad.config import config, enable_x64
    >>> with enable_x64(True):
    ...     config.enable_x64
    True
    """
    return config.context(enable_x64=new_val)


def debug_nans(new_val: bool = True) -> AbstractContextManager[None]:
    """A context in which an operation that makes a NaN raises.

    >>> import functad, functad.numpy as jnp
    >>> with functad.debug_nans():
    ...     jnp.log(-1.)
    Traceback (most recent call last):
        ...
    FloatingPointError: ...
    """
    return config.context(debug_nans=new_val)


def default_device(new_val: Any = None) -> AbstractContextManager[None]:
    """A context in which arrays are made on a device, and jitted functions run there, unless they follow others.

    Args:
        new_val: a device, its name, or None for the CPU.

    >>> import functad, functad.numpy as jnp
    >>> with functad.default_device(functad.devices("cpu")[0]):
    ...     jnp.ones(2).device
    CpuDevice(id=0)
    """
    return config.context(default_device=new_val)


def default_matmul_precision(new_val: str | None = None) -> AbstractContextManager[None]:
    """A context in which cuBLAS may multiply matrices of float32 on GPUs by its faster, less exact units.

    Functions that are compiled in it do so wherever they are called in it. All other products, those on a CPU among
    them, are exact to their dtype, whatever it says.

    Args:
        new_val: `"tensorfloat32"` or `"high"` for operands rounded to 11 bits, `"bfloat16"` or `"fastest"` to 8; None,
            `"highest"`, `"float32"` and JAX's other words for products that are exact to the dtype.

    >>> import functad, functad.numpy as jnp
    >>> with functad.default_matmul_precision("tensorfloat32"):
    ...     jnp.ones((2, 2)) @ jnp.ones(2)
    Array([2., 2.], dtype=float32)
    """
    return config.context(default_matmul_precision=new_val)


def debug_infs(new_val: bool = True) -> AbstractContextManager[None]:
    """A context in which an operation that makes an infinity raises.

    >>> import functad, functad.numpy as jnp
    >>> with functad.debug_infs():
    ...     jnp.log(0.)
    Traceback (most recent call last):
        ...
    FloatingPointError: ...
    """
    return config.context(debug_infs=new_val)


def numpy_dtype_promotion(new_val: str = "standard") -> AbstractContextManager[None]:
    """A context in which `"strict"` lets no array's dtype change to another array's: only Python's numbers adapt.

    >>> import functad, functad.numpy as jnp
    >>> with functad.numpy_dtype_promotion("strict"):
    ...     jnp.int32(1) + jnp.float32(2)
    Traceback (most recent call last):
    ...
    functad.errors.DTypeError: float32 and int32 have no joint dtype while numpy_dtype_promotion is 'strict': convert...
    """
    return config.context(numpy_dtype_promotion=new_val)


def numpy_rank_promotion(new_val: str = "allow") -> AbstractContextManager[None]:
    """A context in which `"raise"`, or `"warn"`, tells where operands of different ranks are broadcast.

    Operands of rank 0 go with all others.

    >>> import functad, functad.numpy as jnp
    >>> with functad.numpy_rank_promotion("raise"):
    ...     jnp.ones((2, 3)) + jnp.ones(3)
    Traceback (most recent call last):
        ...
    functad.errors.ArgumentError: ...
    """
    return config.context(numpy_rank_promotion=new_val)


def debug_key_reuse(new_val: bool = True) -> AbstractContextManager[None]:
    """A context in which using a typed random key twice raises, and says where the first time was.

    Keys are used by `random.split` and by all functions that draw numbers; `fold_in`, `key_data` and comparisons do not
    use them, and `clone` makes a new one. In jitted functions, loops and branches, too; but keys picked by a traced
    index are not followed. It takes time: for debugging.

    >>> import functad
    >>> from functad import random
    >>> key = random.key(0)
    >>> with functad.debug_key_reuse(True):
    ...     x = random.normal(key)
    ...     y = random.normal(key)
    Traceback (most recent call last):
        ...
    functad.errors.KeyReuseError: a random key is used for the second time, which would give the same numbers again...
    """
    return config.context(debug_key_reuse=new_val)


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """A context in which `jit` runs functions as they stand, so that prints and debuggers see values.

    >>> from functad.config import config, disable_jit
    >>> with disable_jit():
    ...     config.disable_jit
    True
    """
    return config.context(disable_jit=disable)


def log_compiles(new_val: bool = True) -> AbstractContextManager[None]:
    """A context in which each trace and compilation by jit is logged.

    >>> from functad.config import config, log_compiles
    >>> with log_compiles():
    ...     config.log_compiles
    True
    """
    return config.context(log_compiles=new_val)


def _checked_option(name: str, value: Value) -> tuple[str, Value]:
    """The name and the value of an option as they are kept."""
    if name in OTHER_SPELLINGS:
        kept, values = OTHER_SPELLINGS[name]
        if value not in values:
            raise ArgumentError(f"option {name!r} takes {' or '.join(map(repr, values))}, got {value!r}")
        return kept, values[value]
    kept = _option_name(name)
    return kept, _checked_value(kept, value)


def _option_name(name: str) -> str:
    plain = name.removeprefix("jax_")
    if plain in OPTIONS:
        return plain
    close = close_names(plain, OPTIONS) or close_names(plain, ACCEPTED)
    suggestion = f" Did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
    raise ArgumentError(f"functad has no option {name!r}. The options are {', '.join(OPTIONS)}.{suggestion}")


# What else an option takes, by its name: a function that gives its value, or raises.
values_by: dict[str, Callable[[Any], Any]] = {}


def _checked_value(name: str, value: Value) -> Value:
    option = OPTIONS[name]
    if name in values_by:
        return values_by[name](value)
    for choice in option.choices:
        if choice == value:
            return choice
    if name == "default_backend" and value in extensions_of("backend"):
        return value
    raise ArgumentError(f"option {name!r} ({option.doc}) takes {allowed_text(option, repr)}, got {value!r}")


config = Config()
set_defaults(os.environ)
