"""Makes random programs: each step is tried on values as it is chosen, and kept if it computes something.

Knows how steps are put together; `records.py`, `operations.py`, `functions.py` and `control.py` say which there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import functad
from functad.array import Array, ArrayImpl
from functad.errors import FunctadError

from .program import NAMES, Function, RandomProgram, Step
from .values import (
    DTYPES,
    FLOATS,
    LARGE,
    LARGEST_ARGUMENT,
    LARGEST_MEDIUM,
    LARGEST_VALUE,
    MEDIUM,
    SIZES,
    array_of,
    count,
    shape_of,
    sizes,
)

NARROW = ("float16", "float32", "complex64")
UNUSED = 0.15  # the share of programs that compute what nobody uses
WILD = 1e4  # magnitudes that most programs do not go beyond, so that there is something to compare


class Crash(Exception):
    """A step raised what no user should see."""


class TooLarge(Exception):
    """A step asks for an argument far beyond what programs hold: it is left out."""


@dataclass(frozen=True, eq=False)
class Value:
    """A name with the array that it stands for while the program is made."""

    name: str
    x: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.x.dtype)

    @property
    def kind(self) -> str:
        return self.dtype.kind

    def written(self) -> str:
        """The array as an expression."""
        text = f"np.array({np.asarray(self.x).tolist()!r}, {self.dtype.name!r}).reshape({self.shape!r})"
        return text.replace("nan", "np.nan").replace("inf", "np.inf")


@dataclass
class Names:
    """The next number of a variable or function."""

    count: int = 0

    def new(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"


@dataclass
class Maker:
    """A function that is being made: what it has computed so far, and steps for more.

    values: its own, outer: those of the functions around it. depth: of functions in functions.
    """

    choose: random.Random
    profile: Profile
    names: Names
    values: list[Value]
    outer: Sequence[Value] = ()
    depth: int = 0
    steps: list[Step] = field(default_factory=list)
    scope: dict[str, Any] = field(default_factory=lambda: dict(NAMES))
    traits: set[str] = field(default_factory=set)
    inputs: list[Value] = field(default_factory=list)  # that steps asked for besides the first ones; outermost only

    def emit(
        self,
        text: str,
        *operands: Value,
        results: int = 1,
        bodies: Sequence[Function] = (),
        setup: Sequence[str] = (),
    ) -> list[Value]:
        """Add a statement; nothing if functad refuses it, or if its values say nothing."""
        if not results:
            return []
        names = tuple(self.names.new() for _ in range(results))
        step = Step(names, text, tuple(v.name for v in operands), tuple(bodies), tuple(setup))
        code = "\n".join(step.lines())
        try:
            exec(code, self.scope)
        except FunctadError:
            return []
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            given = "".join(f"{v.name} = {v.written()}\n" for v in operands)
            raise Crash(f"{type(error).__name__}: {error}\n{given}{code}") from error
        made = [Value(name, self.scope[name]) for name in names]
        if not all(self.worthwhile(v, operands) for v in made):
            return []
        self.steps.append(step)
        self.values += made
        return made

    def worthwhile(self, v: Value, operands: Sequence[Value]) -> bool:
        if not isinstance(v.x, (Array, np.generic, np.ndarray)) or count(v.shape) > self.profile.largest:
            return False
        if self.profile.wide and v.dtype.name in NARROW:
            return False
        if v.kind not in "fc" or self.choose.random() < self.profile.wild:
            return True
        magnitude = np.abs(np.asarray(v.x))
        return bool(np.all(magnitude <= (min(WILD, 200) if v.dtype == np.float16 else WILD)))

    # --- choosing ------------------------------------------------------------------------------------------

    @property
    def visible(self) -> list[Value]:
        return [*self.outer, *self.values]

    def pick(self, kinds: str = "biufc", rank: int = 0, elements: int = 0) -> Value | None:
        """A value, rather a late one; None if there is none of the kinds."""
        fitting = [v for v in self.visible if v.kind in kinds and len(v.shape) >= rank and count(v.shape) >= elements]
        if not fitting:
            return None
        return self.choose.choice(fitting[-4:] if self.choose.random() < 0.6 else fitting)

    def array(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        if count(shape) > LARGEST_ARGUMENT:
            raise TooLarge
        return array_of(self.choose, tuple(shape), np.dtype(dtype).name, self.profile.kind)

    def given(self, x: np.ndarray) -> Value:
        """An array as a further argument of the program, or written out where a function cannot ask for one."""
        if self.depth:
            made = Value(self.names.new("k"), ArrayImpl(np.array(x)))
            self.scope[made.name] = made.x
            self.steps.append(Step((made.name,), f"jnp.asarray({made.written()})"))
            return made
        made = Value(self.names.new("a"), ArrayImpl(np.array(x)))
        self.scope[made.name] = made.x
        self.inputs.append(made)
        return made

    def fitted(self, v: Value, shape: Sequence[int], dtype: Any) -> Value | None:
        """A value made to be of a type: converted, its elements repeated or left out."""
        dtype = self.profile.dtype(dtype)
        found: list[Value] = [v]
        if v.dtype != dtype:
            if not _converts(v, dtype):
                return None
            found = self.emit(f"lax.convert_element_type($0, {dtype.name!r})", v)
        if found and found[0].shape != tuple(shape):
            if not count(found[0].shape):
                return None
            found = self.emit(f"jnp.resize($0, {tuple(shape)!r})", found[0])
        return found[0] if found else None

    def of_type(self, shape: Sequence[int], dtype: Any) -> Value:
        """A value of a type: one that there is, one that is made to fit, or a new argument."""
        dtype, shape = self.profile.dtype(dtype), tuple(shape)
        same = [v for v in self.visible if v.dtype == dtype and v.shape == shape]
        chance = self.choose.random()
        if same and chance < 0.7:
            return self.choose.choice(same)
        if chance < 0.85 and (v := self.pick()) and (made := self.fitted(v, shape, dtype)):
            return made
        return self.choose.choice(same) if same else self.given(self.array(shape, dtype))

    def like(self, v: Value) -> Value:
        """A value that can stand beside another one: of its type, a scalar, repeated."""
        chance = self.choose.random()
        if chance < 0.25:
            return self.of_type((), v.dtype)
        if chance < 0.4 and v.shape:
            axis = self.choose.randrange(len(v.shape))
            small = self.of_type((v.shape[axis],), v.dtype)
            made = self.emit(f"lax.broadcast_in_dim($0, {v.shape!r}, ({axis},))", small)
            return made[0] if made else v
        return self.of_type(v.shape, v.dtype)

    # --- functions within ----------------------------------------------------------------------------------

    def inner(self, params: Sequence[Value], closes: bool = True) -> Maker:
        """The maker of a function with parameters whose first values are known."""
        values = [Value(self.names.new("p"), p.x) for p in params]
        scope = {**self.scope, **{v.name: v.x for v in values}}
        outer = [v for v in self.visible if self.choose.random() < 0.4] if closes else []
        return Maker(self.choose, self.profile, self.names, values, outer, self.depth + 1, [], scope, self.traits)

    def fill(self, steps: int) -> None:
        """Add about so many steps."""
        for _ in range(steps):
            with suppress(TooLarge):
                self.choose.choice(self.profile.moves)(self)

    def function(
        self, params: Sequence[Value], results: Sequence[Value], returns: str, signature: str = ""
    ) -> Function:
        name = self.names.new("f")
        made = Function(
            name, tuple(p.name for p in params), tuple(self.steps), tuple(v.name for v in results), returns, signature
        )
        return made.without_dead_steps()


def _converts(v: Value, dtype: np.dtype) -> bool:
    """Whether a conversion is defined for all elements, and loses nothing that a derivative would miss."""
    if v.kind == "c" and dtype.kind != "c":
        return False
    if dtype.kind in "iu" and v.kind in "fc":
        limits, x = np.iinfo(dtype), np.asarray(v.x, np.float64)
        return bool(np.all((x > limits.min) & (x < limits.max)))
    return True


Move = Callable[[Maker], Any]


@dataclass(frozen=True)
class Profile:
    """What one program is like.

    kind: of its arguments' values. wild: the chance that NaN, infinite or large results are kept.
    """

    dtypes: Sequence[str]
    kind: str
    sizes: tuple[int, ...]
    steps: int
    moves: Sequence[Move]
    wild: float
    largest: int = LARGEST_VALUE
    wide: bool = False  # floats have 64 bits, so that differences tell derivatives
    largest_of_records: int = LARGEST_VALUE  # elements of what an example of a primitive gives

    def dtype(self, wanted: Any) -> np.dtype:
        """A dtype, or the wide one of its kind if all are."""
        dtype = np.dtype(wanted)
        return np.dtype("complex128" if dtype.kind == "c" else "float64") if self.wide and dtype.kind in "fc" else dtype

    @staticmethod
    def random(choose: random.Random, moves: Sequence[Move], dtypes: str = "") -> Profile:
        dtypes = dtypes or choose.choice(["plain", "plain", "mixed", "mixed", "one", "double", "double"])
        kind = choose.choice(["whole", "normal", "normal", "special"] if dtypes != "double" else ["normal"])
        chosen = (choose.choice(FLOATS), "int32") if dtypes == "one" else DTYPES[dtypes]
        steps = choose.choice([2, 4, 8, 8, 14, 25])
        if choose.random() < 0.01:
            return Profile(("float32",), "normal", (choose.choice(LARGE), 1), 3, moves, 0.0, 3 * max(LARGE))
        pool = sizes(choose, empty=choose.random() < 0.1)
        wild = 0.8 if kind == "special" else 0.1
        return Profile(chosen, kind, pool, steps, moves, wild, wide=dtypes == "double")

    @staticmethod
    def medium(choose: random.Random, moves: Sequence[Move]) -> Profile:
        """Of programs whose arrays keep several blocks of a GPU at work."""
        pool = (*choose.sample(MEDIUM, 2), choose.choice(SIZES), 1)
        dtypes, steps = DTYPES[choose.choice(["plain", "plain", "mixed"])], choose.choice([2, 4, 8])
        return Profile(dtypes, "normal", pool, steps, moves, 0.0, LARGEST_MEDIUM, largest_of_records=LARGEST_MEDIUM)


def random_program(label: str, moves: Sequence[Move], dtypes: str = "", medium: bool = False) -> RandomProgram:
    """The program of a label: the same each time. medium: of sizes that keep several blocks of a GPU at work.

    Raises:
        Crash: one of its steps raised an error that is not functad's own.
    """
    choose = random.Random(label)
    profile = Profile.medium(choose, moves) if medium else Profile.random(choose, moves, dtypes)
    names = Names()
    maker = Maker(choose, profile, names, [])
    base = [choose.choice(profile.sizes) for _ in range(choose.randint(1, 4))]
    for _ in range(choose.randint(1, 3)):
        shape = base if choose.random() < 0.6 else choose.sample(base, choose.randint(0, len(base)))
        shape = shape_of(choose, [choose.choice(profile.sizes)], 1) if choose.random() < 0.1 else tuple(shape)
        while count(shape) > profile.largest:
            shape = shape[:-1]
        maker.given(maker.array(shape, choose.choice(profile.dtypes)))
    maker.values = list(maker.inputs)
    with functad.disable_jit(), np.errstate(all="ignore"):
        maker.fill(profile.steps)
    results = tuple(v.name for v in _results(maker))
    function = Function("f", tuple(v.name for v in maker.inputs), tuple(maker.steps), results, _listed(results))
    args = tuple(np.asarray(v.x) for v in maker.inputs)
    made = RandomProgram(function, args, label, frozenset(maker.traits))
    return made if choose.random() < UNUSED else made.but(function)


def _listed(results: Sequence[str]) -> str:
    return f"[{', '.join(f'${k}' for k in range(len(results)))}]"


def _results(maker: Maker) -> list[Value]:
    """Some of the values: mostly the last ones, at times an argument, one value twice."""
    late = maker.values[-3:]
    chosen = [maker.choose.choice(late), maker.values[-1]]
    chosen += [v for v in maker.values if maker.choose.random() < 0.15]
    found = list(dict.fromkeys(chosen))
    return [*found, found[0]] if maker.choose.random() < 0.1 else found


def random_programs(seed: int, numbers: Sequence[int], moves: Sequence[Move]) -> Iterator[RandomProgram]:
    for number in numbers:
        yield random_program(f"{seed}/{number}", moves)
