"""The page of JAX's names, and how it is read again.

Knows its layout alone.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from .compare import Section
from .modules import KINDS_OF_ABSENT

_HEAD = """# What of JAX is here

Every public name of JAX {version}'s modules, under the same name in functad: `jax.numpy.sort` is `functad.numpy.sort`.
{counts}. A name that is absent raises with the sentence that stands here.

Made by `python -m tests.jax_names JAX_NAMES.md` in an environment with JAX, which compares names, arguments and
defaults; what the functions compute is compared with JAX in `tests/oracle`. Arguments that lay arrays out over devices
(`out_sharding` and the like) are left out, and not mentioned.

What is absent:

| kind | names |
| --- | ---: |
{kinds}

Where functad differs on purpose:

| JAX | functad |
| --- | --- |
{differences}
"""

# What a user of JAX would not expect, and what functad does.
_DIFFERENCES = (
    (
        "a 64-bit input is cut to 32 bits unless x64 is enabled",
        "an explicit 64-bit dtype or NumPy array is kept; with `config.numpy_dtypes = 'jax'` NumPy's arrays and "
        "scalars are cut, and dtypes that are asked for",
    ),
    (
        "`np.float64(2)` counts as float32, so it makes float32 of float16",
        "it adapts like the Python number 2.0, `np.int64(2)` like 2",
    ),
    (
        "`x[5]` of 3 elements is clamped, `x.at[5].set(v)` dropped",
        "raises where a Python integer or list says so; positions in arrays are JAX's, and raise with "
        "`config.debug_index`",
    ),
    (
        "`x[i] = v` says that arrays are immutable",
        "and prints the `x.at[i].set(v)` that you meant",
    ),
    (
        "`x.at[i].set(1.5)` on integers casts, with a warning",
        "raises: convert the array or the value",
    ),
    (
        "results of operations lie where their operands do",
        "`x.sharding` is the one given to `device_put`, `with_sharding_constraint` or `jit(out_shardings=…)`; other"
        " results have that of their device",
    ),
    (
        "gradients through `jit(f, device=…)` and `checkpoint` stay on the device of f",
        "they go back to where the arguments lie",
    ),
    (
        "a list is refused as operand or index",
        "lists work where NumPy takes them",
    ),
    (
        "`fori_loop` counts in the dtype of traced bounds, and known ones must fit in 32 bits",
        "i is like a Python integer, unless bounds need more",
    ),
    (
        "`sign(-0.)` is −0, `-0. // 1` and `-1. % 1` have signs of their own",
        "`sign(-0.)` is 0: signs of zeros are NumPy's, and the Array API standard's; its values, too, of complex "
        "`expm1` and `tanh` at infinities",
    ),
    (
        "complex `arccosh`, `arccos`, `arcsin` and `sqrt` take an imaginary part of −0 for 0: `arccosh(-2-0j)` is "
        "1.32+3.14j",
        "on branch cuts the sign of zero says from which side, as in NumPy: 1.32−3.14j",
    ),
    (
        "`1. // 0.`, `modf(inf)[0]` and `heaviside(nan, y)` are NaN, NaN and y",
        "inf, 0 and NaN, as in NumPy",
    ),
    (
        "numbers below the least normal one (1.2e-38 of float32) are 0 to many operations, as in `log(1e-40)`",
        "they are numbers: −92.1",
    ),
    (
        "integers to negative powers are what the machine's integers make of them",
        "so they are here, but other ones: take floats",
    ),
    (
        "`angle`, `diagflat`, `divmod`, `floor_divide`, `rint`, `spacing`, `nn.gelu`, `multigammaln`, "
        "`poisson.entropy`, `truncnorm` and `uniform.cdf` make strong types of weak ones",
        "results of weak types are weak; those of `take`, `unravel_index`, `tensorsolve`, `lax.conj` and "
        "`lax.igamma_grad_a`, which JAX has weak, are strong where positions or other steps are",
    ),
    (
        "kernels may keep float32 between operations on bfloat16 and float16",
        "each operation rounds its result, in every mode; reductions and products round once",
    ),
    (
        "`asarray(x, copy=False)` copies",
        "raises where a copy is needed, as the standard says",
    ),
    (
        "the gradient through `unique` and set functions is 0",
        "that of the elements that the values come from",
    ),
    (
        "where singular values are equal, `linalg.cond` has the slope of LAPACK's first or last vectors",
        "the mean of the slopes of all of them, as `linalg.norm(a, 2)` has in JAX, too",
    ),
    ("`lax.rng_bit_generator` of mapped states makes all numbers of the first one", "each state makes its own"),
    (
        "NumPy's `maximum(+0, −0)` depends on order and CPU",
        "+0 > −0 (IEEE 754-2019; as in JAX), in every mode: `kernels/extrema.py`",
    ),
    (
        "the slope of `logaddexp(inf, y)` in y is e^y",
        "0; all derivatives at ties and kinks that differ, and why: `tests/oracle/test_kinks_oracle.py`",
    ),
)


def page(version: str, sections: Sequence[Section]) -> str:
    """The whole page."""
    there, different, absent = (sum(len(s[k]) for s in sections) for k in (1, 2, 3))
    counts = f"{there:,} are there, {different} are there but differ, {absent} are absent"
    differences = "\n".join(f"| {theirs} | {ours} |" for theirs, ours in _DIFFERENCES)
    of_kind = Counter(kind_of_absent(f"{s.module}.{name}") for s in sections for name in s.absent)
    kinds = "\n".join(f"| {kind} | {of_kind[kind]} |" for kind in KINDS_OF_ABSENT if of_kind[kind])
    parts = [_HEAD.format(version=version, counts=counts, kinds=kinds, differences=differences)]
    for s in sections:
        parts.append(f"## {s.module}\n")
        if s.there:
            names = ", ".join(f"`{n}`" for n in s.there)
            parts.append(textwrap.fill(names, 120, break_on_hyphens=False) + "\n")
        for title, rows in (("There, but different", s.different), ("Absent", s.absent)):
            if rows:
                lines = [f"- `{name}`: {text}" for name, text in rows.items()]
                parts.append("\n".join([f"{title}:", "", *lines]) + "\n")
    return "\n".join(parts)


def kind_of_absent(name: str) -> str:
    """Which kind of names an absent one, such as `jax.pmap`, is of.

    Raises:
        KeyError: it is of none.
    """
    for kind, patterns in KINDS_OF_ABSENT.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return kind
    raise KeyError(name)


def read(text: str) -> list[Section]:
    """The sections of a page."""
    found = []
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        module, _, body = part.partition("\n")
        made = Section(module.strip(), [], {}, {})
        rows: dict[str, str] | None = None
        for line in body.splitlines():
            if line.startswith("There, but"):
                rows = made.different
            elif line.startswith("Absent"):
                rows = made.absent
            elif rows is None:
                made.there.extend(re.findall(r"`([^`]+)`", line))
            elif line.startswith("- "):
                name, _, why = line[2:].partition(": ")
                rows[name.strip("`")] = why
        found.append(made)
    return found
