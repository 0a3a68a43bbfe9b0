"""Integer index expressions: sums of loop variables times constants, with known ranges.

Knows nothing of arrays or kernels. Quotients and remainders are simplified where the ranges allow it, so that a
reshape or transpose between two loops costs nothing; what remains becomes a symbol of its own.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from itertools import accumulate, count
from operator import mul

_numbers = count()


class Symbol:
    """A loop variable, or a number computed from data, whose value lies in `low..high`."""

    __slots__ = ("base", "derived", "divisor", "high", "length", "low", "name", "number", "operator")

    def __init__(self, name: str, low: int, high: int) -> None:
        self.number = next(_numbers)
        self.derived: dict[tuple[Affine, str, int], Symbol] = {}  # quotients and remainders of sums with this symbol
        self.name = name
        self.low = low
        self.high = high
        self.base: Affine | None = None  # of a quotient or remainder: what is divided
        self.divisor = 0
        self.operator = ""
        self.length = 1  # how many names its text has

    @property
    def extent(self) -> int:
        """The number of values of a loop variable, which starts at 0."""
        return self.high + 1

    def __repr__(self) -> str:
        return f"{self.name}:{self.low}..{self.high}"


class Affine:
    """`constant + Σ coefficient · symbol`; immutable, hashable; arithmetic with ints and with one another.

    >>> i, j = loop("i", 4), loop("j", 6)
    >>> flat = i * 6 + j
    >>> flat // 6, flat % 6, flat // 3, flat.low, flat.high
    (Affine(i), Affine(j), Affine(2*i + j // 3), 0, 23)
    """

    __slots__ = ("_hash", "constant", "terms")

    def __init__(self, constant: int, terms: Iterable[tuple[Symbol, int]] = ()) -> None:
        self.constant = constant
        self.terms: tuple[tuple[Symbol, int], ...] = tuple(terms)
        self._hash: int | None = None

    # --- arithmetic ----------------------------------------------------------------------------------

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms) if other else self
        if not (self.terms and other.terms):
            return Affine(self.constant + other.constant, self.terms or other.terms)
        total = dict(self.terms)
        _add_terms(total, other, 1)
        return _sum(self.constant + other.constant, total)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other)

    def __rsub__(self, other: int) -> Affine:
        return (-self) + other

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine(0)
        if factor == 1:
            return self
        return Affine(self.constant * factor, [(s, c * factor) for s, c in self.terms])

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Affine:
        if divisor == 1:
            return self
        whole = Affine(self.constant // divisor, [(s, c // divisor) for s, c in self.terms if c % divisor == 0])
        rest = Affine(self.constant % divisor, [(s, c) for s, c in self.terms if c % divisor])
        if 0 <= rest.low and rest.high < divisor:
            return whole
        for step in rest._steps(divisor):
            big, small = rest._split(step)
            if 0 <= small.low and small.high < step:
                return whole + _derived(big, "//", divisor // step)
        return whole + _derived(rest, "//", divisor)

    def __mod__(self, divisor: int) -> Affine:
        if divisor == 1:
            return Affine(0)
        rest = Affine(self.constant % divisor, [(s, c) for s, c in self.terms if c % divisor])
        if 0 <= rest.low and rest.high < divisor:
            return rest
        for step in rest._steps(divisor):
            big, small = rest._split(step)
            if 0 <= small.low and small.high < step:
                return _derived(big, "%", divisor // step) * step + small
        return _derived(rest, "%", divisor)

    def _steps(self, divisor: int) -> list[int]:
        """Common factors that a divisor shares with some coefficients, largest first."""
        return sorted({g for _, c in self.terms if (g := math.gcd(c, divisor)) > 1}, reverse=True)

    def _split(self, step: int) -> tuple[Affine, Affine]:
        """`(big, small)` with `self == step * big + small`, the multiples of `step` being in `big`."""
        big = Affine(self.constant // step, [(s, c // step) for s, c in self.terms if c % step == 0])
        return big, Affine(self.constant % step, [(s, c) for s, c in self.terms if c % step])

    # --- what is known ---------------------------------------------------------------------------------

    @property
    def low(self) -> int:
        return self.constant + sum(c * (s.low if c > 0 else s.high) for s, c in self.terms)

    @property
    def high(self) -> int:
        return self.constant + sum(c * (s.high if c > 0 else s.low) for s, c in self.terms)

    @property
    def length(self) -> int:
        """How many names its text has, those within quotients and remainders as often as they stand there."""
        return sum(s.length for s, _ in self.terms)

    def coefficient(self, symbol: Symbol) -> int:
        return next((c for s, c in self.terms if s is symbol), 0)

    def is_constant(self) -> bool:
        return not self.terms

    def symbols(self) -> set[Symbol]:
        """All symbols that the value depends on, those inside quotients and remainders included."""
        found: set[Symbol] = set()
        for symbol, _ in self.terms:
            found.add(symbol)
            if symbol.base is not None:
                found |= symbol.base.symbols()
        return found

    def is_plain(self) -> bool:
        """No quotients or remainders."""
        return all(s.base is None for s, _ in self.terms)

    def substitute(self, replacement: dict[Symbol, Affine]) -> Affine:
        constant, total = self.constant, dict[Symbol, int]()
        for symbol, coefficient in self.terms:
            if symbol in replacement:
                value = replacement[symbol]
            elif symbol.base is not None:
                inner = symbol.base.substitute(replacement)
                value = inner // symbol.divisor if symbol.operator == "//" else inner % symbol.divisor
            else:
                total[symbol] = total.get(symbol, 0) + coefficient
                continue
            constant += coefficient * value.constant
            _add_terms(total, value, coefficient)
        return _sum(constant, total)

    # --- text and identity -----------------------------------------------------------------------------

    def text(self) -> str:
        """Python source of the value.

        >>> (loop("i", 4) * 6 - 1).text()
        '6*i - 1'
        """
        parts: list[str] = []
        for symbol, coefficient in self.terms:
            name = _symbol_text(symbol, coefficient != 1)
            if coefficient == 1:
                parts.append(f"+ {name}")
            elif coefficient == -1:
                parts.append(f"- {name}")
            else:
                parts.append(f"{'-' if coefficient < 0 else '+'} {abs(coefficient)}*{name}")
        if self.constant or not parts:
            parts.append(f"{'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        first = parts[0][2:] if parts[0].startswith("+ ") else "-" + parts[0][2:]
        return " ".join([first, *parts[1:]])

    def _key(self) -> tuple[int, frozenset[tuple[Symbol, int]]]:
        return (self.constant, frozenset(self.terms))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return not self.terms and self.constant == other
        return isinstance(other, Affine) and self._key() == other._key()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key())
        return self._hash

    def __repr__(self) -> str:
        return f"Affine({self.text()})"


def loop(name: str, extent: int) -> Affine:
    """A loop variable that runs over `0 <= name < extent`."""
    return Affine(0) if extent == 1 else Affine(0, [(Symbol(name, 0, extent - 1), 1)])


def new_loop(wanted: str, extent: int, taken: Container[str]) -> Affine:
    """A loop variable under a name that is not taken: with underscores behind what is wanted, if need be."""
    while wanted in taken:
        wanted += "_"
    return loop(wanted, extent)


def of_symbol(symbol: Symbol) -> Affine:
    """The symbol as an index."""
    return Affine(0, [(symbol, 1)])


def symbols_of(*indices: Affine) -> list[Symbol]:
    """The symbols of which indices are sums, in order; `Affine.symbols` has those within them, too."""
    return [s for index in indices for s, _ in index.terms]


def data(name: str, low: int, high: int) -> Affine:
    """A number that the kernel computes, under a name; it is known to lie in `low..high`."""
    return Affine(0, [(Symbol(name, low, high), 1)])


def linear(index: Sequence[Affine], shape: Sequence[int]) -> Affine:
    """The row-major position of an index.

    >>> linear((loop("i", 2), loop("j", 3)), (2, 3))
    Affine(3*i + j)
    """
    strides = [*accumulate(reversed(shape[1:]), mul, initial=1)][::-1]
    constant, total = 0, dict[Symbol, int]()
    for i, stride in zip(index, strides):
        constant += stride * i.constant
        _add_terms(total, i, stride)
    return _sum(constant, total)


def delinear(position: Affine, shape: Sequence[int]) -> tuple[Affine, ...]:
    """The index at a row-major position.

    >>> delinear(loop("i", 6), (2, 3))
    (Affine(i // 3), Affine(i % 3))
    """
    if 0 in shape:
        return (Affine(0),) * len(shape)
    index: list[Affine] = []
    for n in reversed(shape):
        index.append(position % n)
        position = position // n
    return tuple(reversed(index))


def _derived(base: Affine, operator: str, divisor: int) -> Affine:
    """`base // divisor` or `base % divisor` as one symbol, the same for the same operands.

    It is kept by the first symbol of the base, so it lives as long as that, and lowerings have nothing in common.
    """
    if operator == "//":
        low, high = base.low // divisor, base.high // divisor
    else:
        low, high = 0, divisor - 1
    key, known = (base, operator, divisor), _derived_from(base)
    found = known.get(key)
    if found is None:
        found = Symbol("", low, high)
        found.base, found.operator, found.divisor, found.length = base, operator, divisor, base.length
        known[key] = found
    return Affine(0, [(found, 1)])


def _derived_from(base: Affine) -> dict[tuple[Affine, str, int], Symbol]:
    """What is known of the quotients and remainders of a sum; equal sums may have their terms in another order."""
    return min([s for s, _ in base.terms], key=lambda s: s.number).derived


def _add_terms(total: dict[Symbol, int], value: Affine, factor: int) -> None:
    for symbol, coefficient in value.terms:
        total[symbol] = total.get(symbol, 0) + factor * coefficient


def _sum(constant: int, total: dict[Symbol, int]) -> Affine:
    return _rejoin(Affine(constant, [t for t in total.items() if t[1]] if 0 in total.values() else total.items()))


def _rejoin(value: Affine) -> Affine:
    """`c·d·(x // d) + c·(x % d)` is `c·x`."""
    remainders = [(s, c) for s, c in value.terms if s.operator == "%"]
    for remainder, coefficient in remainders:
        assert remainder.base is not None
        quotient = _derived_from(remainder.base).get((remainder.base, "//", remainder.divisor))
        if quotient is not None and value.coefficient(quotient) == coefficient * remainder.divisor:
            pair = remainder, quotient
            at = max(k for k, (s, _) in enumerate(value.terms) if s in pair)
            before = Affine(value.constant, [t for t in value.terms[:at] if t[0] not in pair])
            return before + remainder.base * coefficient + Affine(0, value.terms[at + 1 :])
    return value


def _symbol_text(symbol: Symbol, is_factor: bool) -> str:
    if symbol.base is None:
        return symbol.name
    base = symbol.base.text()
    compound = len(symbol.base.terms) != 1 or symbol.base.constant or symbol.base.terms[0][1] != 1
    text = f"({base}) {symbol.operator} {symbol.divisor}" if compound else f"{base} {symbol.operator} {symbol.divisor}"
    return f"({text})" if is_factor else text
