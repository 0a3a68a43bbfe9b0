"""The fuzzer finds what is wrong: a fixed sample agrees, injected mistakes are found, and failures become small.

`python -m tests.fuzz` tries other programs, for as long as one likes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import machine, operations, session
from fuzz.check import Setting
from fuzz.generator import random_program
from fuzz.reducer import reduced
from fuzz.rounding import Expected
from fuzz.session import GROUP, STEPS, Failure, Report, try_group

import functad
from functad import machine_model
from functad.all_primitives import registry
from functad.editing.rewriting import Rule
from functad.lowering_rules import Scalar
from functad.optimize import pipeline
from functad.primitives.elementwise import mul

pytestmark = pytest.mark.generated(every=3)  # tables of kinds and ways

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("part", range(3))
def test_a_fixed_sample_agrees(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        session, "TOGETHER", dict.fromkeys(("compiled", "at once", "compiled at once"), float(part == 0))
    )
    report = Report()
    for group in range(2 * part, 2 * part + 2):
        report.add(try_group("suite", group, reduce_for=20))
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.programs == 2 * GROUP
    assert min(report.compared[name] for name in ("eager", "passes", "kernels")) > GROUP / 2
    assert len({name for name, _ in report.covered}) > 30


# --- negative controls -----------------------------------------------------------------------------------------

Break = Callable[[pytest.MonkeyPatch], None]


def with_rule(name: str, **rules: Any) -> Break:
    """A primitive's record with other rules."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        primitive = registry[name]
        for field, rule in rules.items():
            before = getattr(primitive, field)
            object.__setattr__(primitive, field, rule)
            monkeypatch.callbacks.append(lambda f=field, b=before: object.__setattr__(primitive, f, b))

    return apply


@pytest.fixture
def broken() -> Any:
    """Applies a mistake, and takes it back."""
    taken_back: list[Callable[[], None]] = []

    class Patch(pytest.MonkeyPatch):
        callbacks = taken_back

    patch = Patch()
    yield lambda mistake: mistake(patch)
    patch.undo()
    for undo in reversed(taken_back):
        undo()


def negates_instead_of_subtracting(patch: pytest.MonkeyPatch) -> None:
    """`0 - x` is 0 for x = 0, but `-x` is -0."""

    def sub(eqn: Any, view: Any) -> Any:
        zero = getattr(eqn.invars[0], "value", None) == 0
        return eqn.replace(primitive=registry["neg"], invars=eqn.invars[1:]) if zero else None

    wrong = Rule(name="0 − x", of=(registry["sub"],), make=sub, because="it is not")
    patch.setattr(pipeline, "SCALAR_RULES", (wrong, *pipeline.SCALAR_RULES))


def rounds_to_half(patch: pytest.MonkeyPatch) -> None:
    """An error of one part in two thousand, in one function."""
    with_rule("tanh", impl=lambda x: np.tanh(x) * x.dtype.type(1.0005))(patch)


def one_name_for_all_threads(patch: pytest.MonkeyPatch) -> None:
    """A global that belongs to whoever wrote it last."""
    state: dict[str, Any] = {}

    def mixed(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(program: Any, *more: Any) -> Any:
            state["program"] = program
            time.sleep(1e-3)  # the others come meanwhile, however busy the machine is
            return make(state["program"], *more)

        return made

    for name in ("CpuLowering", "OpenExecutable"):
        patch.setattr(machine, name, mixed(getattr(machine, name)))


MISTAKES: dict[str, tuple[str, list[Any], Break]] = {  # the oracle that finds it, the steps of programs, the mistake
    "a derivative that is 0.1 % off": (
        "differences",
        [operations.unary, operations.binary],
        with_rule("sin", jvp=lambda ps, out, ts: mul(ts[0], functad.lax.cos(ps[0]) * 1.001)),
    ),
    "a transpose that forgets to reverse": (
        "reverse",
        [operations.rev, operations.binary],
        with_rule("rev", transpose=lambda ct, x, **params: [ct]),
    ),
    "a reversal mapped to nothing": (
        "loop",
        [operations.rev, operations.binary],
        with_rule("rev", batch=lambda n, args, dims, dimensions: (args[0], dims[0])),
    ),
    "a pass that changes the sign of zero": (
        "passes",
        [operations.constant, operations.binary],
        negates_instead_of_subtracting,
    ),
    "kernels of another function": (
        "kernels",
        [operations.unary, operations.binary],
        with_rule("tanh", lower=Scalar(lambda dtype: "sin({0})")),
    ),
    "machine code of another function": (
        "compiled",
        [operations.unary, operations.binary],
        with_rule("sin", lower=Scalar(lambda dtype: "cos({0})")),
    ),
    "an implementation that is 0.05 % off": ("kernels", [operations.unary, operations.binary], rounds_to_half),
    "a global that compiling threads share": (
        "compiled at once",
        [operations.unary, operations.rev],
        one_name_for_all_threads,
    ),
    "a global that threads share": ("at once", [operations.unary, operations.rev], one_name_for_all_threads),
}


def findings(mistake: str, broken: Callable[[Break], None], monkeypatch: pytest.MonkeyPatch) -> list[Failure]:
    """What is found in the first programs that show a mistake."""
    oracle, steps, apply = MISTAKES[mistake]
    monkeypatch.setattr(session, "STEPS", steps)
    broken(apply)
    for group in range(20):
        found = try_group("mistakes", group, only=oracle, reduce_for=20.0 * (oracle == "kernels")).failures
        if found:
            return found
    raise AssertionError(f"{oracle!r} found nothing in {20 * GROUP} programs")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_injected_mistakes_are_found(
    mistake: str, broken: Callable[[Break], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(mistake, broken, monkeypatch)[0].oracle == MISTAKES[mistake][0]


def test_differences_of_rounding_are_none() -> None:
    x = np.array([1.0, 1e-3, -0.0, np.nan], np.float32)
    noise = iter([x * np.float32(1 + 1e-5), x * np.float32(1 - 1e-5)] * 50)
    expected = Expected([x], lambda: [next(noise)])
    assert expected.mismatch([x * np.float32(1 + 2e-5)]) is None
    assert "result 0[0]" in str(expected.mismatch([x * np.float32(1 + 1e-3)]))
    assert "float32(0.0) instead of" in str(expected.mismatch([np.array([1.0, 1e-3, 0.0, np.nan], np.float32)]))
    assert "nan" in str(expected.mismatch([np.array([np.nan, 1e-3, -0.0, np.nan], np.float32)]))
    assert "float64" in str(expected.mismatch([x.astype(np.float64)]))


def test_a_failure_becomes_small_and_prints_as_a_test(
    broken: Callable[[Break], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings("kernels of another function", broken, monkeypatch)[0]
    assert f"again: python -m tests.fuzz --seed {found.label.replace('/', ' --program ')}\n" in str(found)
    body = found.test[found.test.index("def test_") :]
    assert body.count(" = ") <= 3 and "tanh" in body, body
    scope: dict[str, Any] = {}
    exec(found.test, scope)
    test = next(v for k, v in scope.items() if k.startswith("test_"))
    with pytest.raises(AssertionError, match="kernels"):
        test()


def test_a_step_that_crashes_prints_its_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(maker: Any) -> None:
        maker.emit("np.zeros(3)[$0.size + 7]", maker.values[0])

    monkeypatch.setattr(session, "STEPS", [crash])
    report = Report()
    assert session.try_program(report, "crash", 1, {}, None, 1.0) is None
    (found,) = report.failures
    name = found.what[found.what.index("[a") + 1 : found.what.index(".size")]
    assert "IndexError" in found.what and f"\n{name} = np.array(" in found.what, found.what
    scope = {"np": np}
    with pytest.raises(IndexError):
        exec(found.what[found.what.index(f"{name} = ") :], scope)


@pytest.mark.parametrize(("error", "failures"), [(KeyError("lost"), 1), (functad.errors.ShapeError("refused"), 0)])
def test_tracing_that_crashes_is_a_failure_whatever_is_asked(
    error: Exception, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(trial: Any) -> None:
        raise error

    monkeypatch.setattr(session.Trial, "traced", property(crash))
    report = Report()
    assert session.try_program(report, "crash", 1, {}, "compiled", 1.0) is None
    assert len(report.failures) == failures and report.skipped.total() == 1 - failures
    assert all("KeyError" in failure.what for failure in report.failures)


def test_a_program_without_end_is_named() -> None:
    hang = "or_end(lambda: time.sleep(60), '--seed 1 --program 2', 0.2)"
    code = f"import time; from tests.fuzz.patience import or_end; {hang}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 1
    assert "no end after 0 s; again: python -m tests.fuzz --seed 1 --program 2" in done.stdout
    assert "or_end" in done.stderr


def test_several_processes_share_the_work_and_say_where_one_hangs() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "1", "--only", "passes", "--jobs", "2", "--programs", "16"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0 and "16 programs, 0 mismatches" in done.stdout, done.stderr
    done = subprocess.run([*command, "--patience", "0.01"], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 1
    assert "no end after 0 s; again: python -m tests.fuzz --seed 1 --program" in done.stdout
    assert "Traceback" not in done.stderr and "try_group" in done.stderr, done.stderr


def test_a_reduced_program_fails_alike() -> None:
    def verdict(program: Any) -> str | None:
        text = program.function.source()
        return "result 0 differs" if "dot_general" in text and program.args else None

    programs = (random_program(f"reduce/{k}", STEPS) for k in range(200))
    program = next(p for p in programs if verdict(p.but(p.function.without_dead_steps())))  # what is dead goes first
    small = reduced(program, verdict)
    assert len(small.function.steps) == 1 and small.function.steps[0].text.startswith(("lax.dot_general", "bind('dot"))
    assert all(np.count_nonzero(a) == 0 for a in small.args)


def test_programs_are_made_again_by_their_numbers() -> None:
    for k in range(10):
        one, other = (random_program(f"again/{k}", STEPS) for _ in range(2))
        assert one.function.source() == other.function.source()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one.args, other.args, strict=True))


def test_no_step_asks_for_an_argument_as_large_as_a_square_of_the_largest_size() -> None:
    made = random_program("7024/25701", STEPS)  # whose matrix product had asked for one
    assert max(a.size for a in made.args) == 8193


def test_a_setting_changes_numbers_only_meanwhile() -> None:
    name = "UNROLLED_STEPS"
    before = machine_model.UNROLLED_STEPS
    seen = []

    class Program:
        args = (np.ones(2, np.float32),)
        traits: frozenset[str] = frozenset()

        def __call__(self, x: Any) -> list[Any]:
            seen.append(machine_model.UNROLLED_STEPS)
            return [x]

    setting = replace(Setting("eager"), thresholds={name: 77})
    assert setting.verdict(Program()) is None
    assert set(seen) == {77} and machine_model.UNROLLED_STEPS == before
