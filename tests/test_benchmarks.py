"""The benchmarks: results are compared before anything is timed; workers, tables, files. With functad alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import functad
from benchmarks import (
    compiling,
    frameworks,
    operations_table,
    optimizers,
    processes,
    report,
    training,
    training_peers,
    tuning,
    tuning_cases,
    tuning_table,
    workloads,
)
from benchmarks.__main__ import BENCHMARKS, GROUPS, main
from benchmarks.agreement import disagreement
from benchmarks.measure import Timing, summary
from benchmarks.processes import WorkerError, compete, worker
from benchmarks.published import operators
from benchmarks.record import Options, Section, compared
from benchmarks.task import Adam, Outcome, Training
from functad import machine_model
from functad.__main__ import main as functad_main
from functad.data import Reviews
from functad.train.text import review_sets

OPTIONS = Options(["functad"], rounds=1, seconds=0.01, threads=1)


# --- what is compared ---------------------------------------------------------------------------------


def outcome(gradient, update=None):
    updates = {} if update is None else {"gradient of w": np.array(update)}
    return Outcome({"loss": np.float32(1), "gradient of w": np.array(gradient)}, updates)


def test_equal_outcomes_do_not_disagree():
    assert disagreement(outcome([1.0, 2.0]), outcome([1.0, 2.0]))[0] == 0


@pytest.mark.parametrize(
    ("other", "difference"), [([1.0, 2.2], 0.1), ([1.0, np.nan], np.inf), ([1.0, 2.0, 3.0], np.inf)]
)
def test_a_wrong_gradient_is_found_and_named(other, difference):
    found, where = disagreement(outcome([1.0, 2.0]), outcome(other))
    assert found == pytest.approx(difference) and where == "gradient of w"


def test_what_is_found_as_a_difference_may_differ_by_the_rounding_of_its_numbers():
    reference = outcome([1.0, 2.0])._replace(rounding={"gradient of w": np.array([0.1, 0.01])})
    assert disagreement(reference, outcome([1.05, 2.005]))[0] == 0
    assert disagreement(reference, outcome([1.05, 2.05]))[0] == pytest.approx(0.025)
    assert disagreement(reference, outcome([np.nan, 2.0]))[0] == np.inf


def test_updates_count_where_the_gradient_is_more_than_noise():
    reference = outcome([1.0, 1e-9, 0.0], [0.1, 0.1, 0.0])
    assert disagreement(reference, outcome([1.0, 1e-9, 0.0], [0.1, -0.1, 0.0]))[0] == 0
    assert disagreement(reference, outcome([1.0, 1e-9, 0.0], [0.2, 0.1, 0.0])) == (1, "update of w")
    assert disagreement(reference, outcome([1.0, 1e-9, 0.0], [0.1, 0.1, 0.1])) == (1, "update of w")


def test_outcomes_of_other_names_are_an_error():
    with pytest.raises(ValueError, match="loss are in one only"):
        disagreement(outcome([1.0]), Outcome({"gradient of w": np.ones(1)}, {}))


# --- the workloads ------------------------------------------------------------------------------------

TRAININGS = ["W1", "W2", "W2-scan", "W3", "W5-128", "W5-512", "lstm", "characters"]


@pytest.mark.parametrize("name", TRAININGS)
def test_layouts_of_the_frameworks_are_undone(name):
    task = workloads.WORKLOADS[name].task()
    assert isinstance(task, Training)
    for form in task.forms.values():
        restored = form.restore(form.convert(task.params))
        for key, value in task.params.items():
            np.testing.assert_array_equal(restored[key], value, strict=True)
    assert all(value.dtype == np.float32 for value in task.params.values())


def test_a_scan_of_w2_computes_what_the_loop_does():
    plain, scanned = (frameworks.contender("functad", workloads.WORKLOADS[n].task()) for n in ("W2", "W2-scan"))
    assert disagreement(plain.outcome(), scanned.outcome())[0] < 1e-4


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("name", TRAININGS)
def test_a_step_goes_downhill_as_its_gradient_says(name):
    task = workloads.WORKLOADS[name].task()
    contender = frameworks.contender("functad", task)
    first = contender.outcome()
    assert set(first.values) == {"loss", *(f"gradient of {key}" for key in task.params)}
    again = contender.outcome()
    assert disagreement(first, again)[0] == 0
    # The loss after a small step along the gradient, by a task that starts there.
    squares = sum(float((g.astype(np.float64) ** 2).sum()) for key, g in first.values.items() if key != "loss")
    size = 1e-2 * float(first.values["loss"]) / squares
    moved = {key: (p - size * first.values[f"gradient of {key}"]).astype(np.float32) for key, p in task.params.items()}
    after = frameworks.contender("functad", task._replace(params=moved)).outcome()
    assert float(first.values["loss"] - after.values["loss"]) == pytest.approx(size * squares, rel=0.1)


def test_adam_steps_by_its_rate():
    task = workloads.STEPS["W3"].task()
    assert isinstance(task.optimizer, Adam)
    update = frameworks.contender("functad", task).outcome().updates["gradient of out"]
    np.testing.assert_allclose(np.abs(update), task.optimizer.rate, rtol=1e-2)


def test_programs_have_about_the_number_of_equations_in_their_name():
    for name in ("chain-125", "recurrent-125"):
        contender = frameworks.contender("functad", workloads.EQUATIONS[name].task())
        count = len(contender.step.lower(*contender.arguments()).optimized.eqns)
        assert count == pytest.approx(125, rel=0.2)


def test_a_pytree_goes_in_and_out_of_the_call():
    values = frameworks.contender("functad", workloads.CALLS["call-tree"].task()).outcome().values
    assert len(values) == 10
    np.testing.assert_array_equal(values["result layer3 kernel"], np.full((4, 4), 6, np.float32), strict=True)


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("name", workloads.FAMILIES)
def test_an_operation_is_one_function_jitted_or_not_and_numpys(name):
    family = workloads.FAMILIES[name]
    task = family.task(1_000)
    ours, numpys = (frameworks.contender(framework, task) for framework in ("functad", "numpy"))
    found = ours.outcome()
    assert disagreement(numpys.outcome(), found)[0] <= family.tolerance(1_000)
    numpys.run(1)
    assert len(numpys.arguments()) == len(task.arguments)
    plain = task.forms["functad"].function()(*map(functad.numpy.asarray, task.arguments))
    restored = task.forms["functad"].restore({"result": np.asarray(plain)})
    assert disagreement(found, Outcome(restored, {}))[0] < 1e-4


def test_operations_have_rows_from_a_thousand_to_ten_million():
    assert list(workloads.FAMILIES["sort"].sizes) == [10**k for k in (3, 4, 5, 6, 7)]
    assert {"sort-1000", "sort-10000000", "eigh-1000"} <= workloads.OPERATIONS.keys()
    assert "eigh-10000000" not in workloads.OPERATIONS  # a matrix of 3,162 rows takes a minute


# --- the workers --------------------------------------------------------------------------------------


def test_a_worker_loads_times_and_measures():
    with worker("functad", "W2", 1) as process:
        assert process.ask("load")["import"] > 0
        first = process.ask("first", steps=1)
        burst = process.ask("burst", seconds=0.02)
        assert 0 < burst["least"] <= burst["median"] < 1 and burst["steps"] >= 1
        assert first["first"] > 0
        assert process.ask("memory", steps=2)["step"] >= 0


def test_what_a_worker_cannot_do_is_said():
    with worker("torch.compile", "call-numpy", 1) as process, pytest.raises(WorkerError, match="torch"):
        process.ask("load")
    with worker("functad", "no such workload", 1) as process, pytest.raises(WorkerError, match="KeyError"):
        process.ask("load")


def test_without_peers_functad_is_timed_alone(monkeypatch):
    monkeypatch.setattr(frameworks, "find_spec", lambda package: None if package in ("torch", "jax") else package)
    contest = compete("call-scalar", ["functad", "torch", "jax"], rounds=2, seconds=0.01, threads=1)
    assert list(contest.timings) == ["functad"] and contest.ratio is None
    assert contest.failures == {"torch": "torch is not installed", "jax": "jax is not installed"}
    assert 0 < contest.least["functad"] <= contest.timings["functad"].low


def test_torch_compile_needs_a_compiler(monkeypatch):
    monkeypatch.setattr(frameworks, "find_spec", lambda package: package)
    monkeypatch.setattr(frameworks.shutil, "which", lambda compiler: None)
    assert frameworks.absent("torch") is None
    assert frameworks.absent("torch.compile") == "no C++ compiler found, which torch.compile needs"


def test_operations_are_compared_with_numpy_before_they_are_timed(monkeypatch):
    options = OPTIONS._replace(elements=(1_000, 10_000))
    sections = list(operations_table.measure(["sum", "take"], options))
    assert [s.name for s in sections] == ["sum-1000", "sum-10000", "take-1000", "take-10000"]
    assert all(set(s.figures) == {"numpy", "functad"} and s.agreement["functad"] < 1e-4 for s in sections)
    wrong = workloads.FAMILIES["sum"]._replace(tolerance=lambda n: -1)
    monkeypatch.setitem(workloads.FAMILIES, "sum", wrong)
    (section,) = operations_table.measure(["sum"], OPTIONS._replace(elements=(1_000,)))
    assert "computes something else" in section.failures["functad"] and set(section.figures) == {"numpy"}


def test_who_is_far_behind_is_timed_once():
    class Fixed:
        def __init__(self, seconds):
            self.seconds, self.asked = seconds, 0

        def ask(self, do, seconds):
            self.asked += 1
            return {"median": self.seconds, "least": self.seconds, "steps": 1}

    quick, slow = Fixed(1e-6), Fixed(2e-5)
    agreed = processes.Agreed({"functad": quick, "jax": slow}, {}, {}, {})
    contest = processes.timed(agreed, processes.Rules(rounds=3, seconds=0.01, threads=1, hopeless=10))
    assert (quick.asked, slow.asked) == (3, 1) and contest.ratio.median == pytest.approx(0.05)


# --- tables and files ---------------------------------------------------------------------------------

SECTION = compared(
    Section(
        "W1",
        "W1: a network",
        "µs",
        {"functad": Timing(600.0, 590.0, 620.0), "torch": Timing(2500.0, 2400.0, 2600.0), "jax": summary([5000.0])},
        failures={"torch.compile": "no C++ compiler found, which torch.compile needs"},
        agreement={"torch": 1e-6, "jax": 2e-6},
    )
)
ALONE = Section("trace", "trace of a gradient", "ms", {"functad": Timing(2.0, 1.9, 2.1)}, notes=["a note"])


def test_the_ratio_is_to_the_fastest_peer():
    assert SECTION.fastest == "torch" and SECTION.ratio is not None
    assert SECTION.ratio.median == pytest.approx(0.24)
    assert compared(ALONE) == ALONE


def test_the_text_names_everything():
    text = report.text(SECTION)
    for part in ("W1: a network", "600 µs", "functad / torch: 0.240", "largest relative difference 2.0e-06"):
        assert part in text
    assert "no figure of torch.compile: no C++ compiler found" in text
    assert "a note" in report.text(ALONE)


def test_results_are_kept_and_become_markdown(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    record = report.record([SECTION, ALONE], OPTIONS)
    paths = [report.save(record), report.save(record)]
    assert [path.name for path in paths] == [f"{record['date']}.json", f"{record['date']}-2.json"]
    kept = json.loads(paths[0].read_text(encoding="utf-8"))
    table = report.markdown(kept)
    assert table == report.markdown(record)
    assert f"Measured on {record['date']}" in table and "numpy" in table
    assert "| W1: a network | 600 µs | 2,500 µs | 5,000 µs | **0.24** (0.24–0.25) |" in table
    assert "| trace of a gradient: functad | 2 ms |" in table


def rows(**ratios):
    return {
        name.replace("_", "-"): Section(
            name, workloads.OPERATIONS[name.replace("_", "-")].title, "µs", {}, least={"functad": 100 * r, "numpy": 100}
        )._asdict()
        for name, r in ratios.items()
    }


def test_the_table_of_operations_has_the_worst_rows_last():
    results = {"results": rows(sum_1000=1.5, sum_1000000=0.5, take_1000=0.25)}
    lines = operations_table.text(results).split("\n")
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "x[i], as many of as many, 1,000",
        "sum, 1,000,000",
        "sum, 1,000",
    ]
    table = operations_table.markdown(results).split("\n")
    assert table[2].startswith("| x[i], as many of as many | 0.25 | – |")
    assert table[3] == "| sum | **1.50** | – | – | 0.50 | – | 50 µs |"


def test_results_of_families_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    first, second = (report.record([SECTION._replace(name=name)], OPTIONS) for name in ("sum-1000", "take-1000"))
    path = report.save(first, "operations")
    assert report.save(second, "operations") == path and path.name == f"{first['date']}-operations.json"
    assert list(json.loads(path.read_text(encoding="utf-8"))["results"]) == ["sum-1000", "take-1000"]
    elsewhere = report.save({**second, "machine": "another"}, "operations")
    assert elsewhere.name == f"{first['date']}-operations-2.json"
    assert report.save({**first, "machine": "another"}, "operations") == elsewhere
    assert list(json.loads(elsewhere.read_text(encoding="utf-8"))["results"]) == ["take-1000", "sum-1000"]


# --- the command line ---------------------------------------------------------------------------------


def test_one_benchmark_from_the_command_line(capsys):
    arguments = ["call-scalar", "--frameworks", "functad", "--rounds", "1", "--seconds", "0.01", "--markdown"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "call of a scalar function" in out and "Measured on" in out


def test_operations_from_the_command_line(capsys):
    arguments = ["sum", "--elements", "1000", "--frameworks", "functad", "--rounds", "1", "--seconds", "0.01"]
    assert main(arguments) == 0
    assert "sum, 1,000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["W9"], "no benchmark named W9"), (["W1", "--frameworks", "tf"], "no framework named tf")],
)
def test_unknown_names_are_named(arguments, text, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert text in capsys.readouterr().err


def test_a_step_of_adam_is_one_pass_over_memory():
    (section,) = optimizers.measure(OPTIONS, parameters=1000)
    assert section.figures["functad"].median > 0 and set(section.figures) <= {"functad", "torch"}
    assert section.notes[0].startswith("functad moves 28 bytes a parameter")  # reads p, g, m, v; writes p, m, v
    assert all(difference < 1e-3 for difference in section.agreement.values())


def test_groups_hold_benchmarks():
    assert all(set(names) <= set(BENCHMARKS) for names in GROUPS.values())


def test_compiling_is_measured_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(compiling, "_WORKLOADS", ("W2",))
    sections = list(BENCHMARKS["compile"](OPTIONS))
    assert [s.name for s in sections] == ["compile-W2-cold", "compile-W2-warm"]
    assert all(s.figures["functad"].median > 0 and not s.failures for s in sections)
    assert all("imports, which are counted: functad" in s.notes[0] for s in sections)
    assert len(sections[1].notes) == 1  # a second process takes the kernels from the cache, without numba


def test_first_steps_are_measured_from_an_empty_cache(monkeypatch):
    monkeypatch.setattr(compiling, "COLD", {"cold-5x5": workloads.COLD["cold-5x5"]})
    (section,) = BENCHMARKS["cold"](OPTIONS._replace(frameworks=["functad", "torch"]))
    assert section.name == "compile-cold-5x5-cold" and not section.failures  # PyTorch does not take part
    assert section.title.endswith("import and first step, cold cache")
    assert section.figures["functad"].median > 0 and "imports, which are counted" in section.notes[0]


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("name", workloads.COLD)
def test_what_is_compiled_computes_what_each_operation_alone_does(name):
    contender = frameworks.contender("functad", workloads.COLD[name].task())
    compiled = contender.outcome()
    with functad.disable_jit():
        assert disagreement(contender.outcome(), compiled)[0] < 1e-4


# --- whole trainings ----------------------------------------------------------------------------------


def test_the_rows_of_a_training_are_read():
    rows = "epoch     time     loss   test acc.\n    1    0.9 s   0.40      0.9300\n    2  13.45 s   0.30      0.9412\n"
    assert training._ROW.findall(rows) == [("0.9", "0.9300"), ("13.45", "0.9412")]


@pytest.mark.parametrize("name", training.JOBS)
def test_the_command_lines_of_a_training_are_understood(name, monkeypatch):
    job, asked = training.JOBS[name], []
    monkeypatch.setattr("functad.train.digit_commands.train_cnn", asked.append)
    monkeypatch.setattr("functad.train.text_commands.train_text", asked.append)
    monkeypatch.setattr("functad.train.text_commands.train_language", asked.append)
    functad_main(training.command("functad", job)[1:])
    (options,) = asked
    assert options.epochs == job.epochs and options.batch == int(job.flags[1]) and options.lr == float(job.flags[3])
    module, *words = training.command("torch", job, epochs=1)
    parsed = training_peers.parser().parse_args(words)
    assert module == "benchmarks.training_peers" and (parsed.job, parsed.epochs) == (job.peer, 1)
    assert (parsed.batch, parsed.lr) == (options.batch, options.lr)


def test_trainings_become_tables():
    runs = {
        "functad": [training.Outcome(4.0, [1.0, 1.0], 100_000_000, ["0.8", "0.9"])],
        "torch": [training.Outcome(9.0, [4.0, 4.0], 400_000_000, ["0.7", "0.8"])],
        "jax": [],
    }
    sections = training._sections("text", training.JOBS["text"], 2, runs, {"jax": "jax is not installed"})
    assert [s.name for s in sections] == ["text", "text-epochs", "text-memory"]
    assert [round(s.ratio.median, 3) for s in sections] == [0.444, 0.25, 0.25]
    assert sections[0].failures == {"jax": "jax is not installed"}
    assert sections[0].notes[0] == "functad: test accuracy 0.8 / 0.9"


def test_a_whole_training_is_measured_in_a_process_of_its_own(monkeypatch):
    own = ["functad", "train", "cnn", "--data", "synthetic", "--limit", "200"]
    job = training.JOBS["train"]._replace(own=own)
    monkeypatch.setitem(training.JOBS, "train", job)
    process, epochs, memory = BENCHMARKS["train"](OPTIONS._replace(epochs=1))
    assert process.figures["functad"].median > epochs.figures["functad"].median > 0
    assert 20 < memory.figures["functad"].median < 2000
    assert process.notes[0].startswith("functad: test accuracy 0.")


def test_a_training_that_fails_is_told(monkeypatch):
    job = training.JOBS["train"]._replace(own=["functad", "train", "cnn", "--limit", "none"])
    monkeypatch.setitem(training.JOBS, "train", job)
    sections = BENCHMARKS["train"](OPTIONS)
    assert "'none' is not a whole number" in sections[0].failures["functad"]


def test_programs_of_users_are_as_long_as_is_said():
    folder = Path(training.__file__).parent / "published"
    page = (folder.parent / "published.md").read_text(encoding="utf-8")
    counts = {}
    for path in folder.glob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        counts[path.stem] = sum(bool(line.strip()) and not line.startswith('"""') for line in lines)
    for name in ("cnn", "rnn", "text", "operators", "perceptron"):
        own, peer = counts.pop(name), counts.pop(f"{name}_torch")
        assert (
            f"Lines of user code: {own} (`published/{name}.py`), PyTorch {peer} (`published/{name}_torch.py`)." in page
        )
    assert counts == {"__init__": 0}


def test_operators_of_the_published_system_and_their_derivatives():
    """Derivatives of their sums along the arrays themselves, against differences."""
    arrays = np.random.default_rng(0).uniform(0.5, 1.5, (2, 6, 6))
    for operation in operators.OPERATIONS.values():
        arguments = list(arrays[: operation.__code__.co_argcount])
        result, grads = operators.both_ways.__wrapped__(operation, *arguments)
        up, down = (operation(*(a * (1 + h) for a in arguments)) for h in (1e-5, -1e-5))
        slope = sum(float((g * a).sum()) for g, a in zip(grads, arguments, strict=True))
        assert slope == pytest.approx(float((up - down).sum()) / 2e-5, rel=1e-5, abs=1e-9)
        assert result.shape == up.shape
    assert len(operators.OPERATIONS) == 15


def test_reviews_are_read_as_a_user_of_pytorch_reads_them():
    texts = ["The film's the best<br />of 'all' FILMS", "worst film''ever it's", ""]
    own = review_sets(Reviews(texts, np.zeros(3), texts[::-1], np.zeros(3)), words=9, length=5)
    for part, plain in zip(own, training_peers.numbered_words(texts, texts[::-1], 9, 5)):
        np.testing.assert_array_equal(part.inputs, plain)


# --- tuned numbers --------------------------------------------------------------------------------------


def test_other_values_of_a_number_are_tried_where_they_change_kernels(capsys):
    small = ["--workloads", "cumulative-max-10000,call-scalar", "--seconds", "0.01"]
    assert main(["tuning", "RUNNING_BLOCK", "MOST_IN_PAIRS", *small]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "RUNNING_BLOCK = 128: cumulative-max-10000" in lines[0] and "RUNNING_BLOCK = 512:" in lines[1]
    assert [line.split()[0] for line in lines[2:] if line[:1].isupper()] == ["RUNNING_BLOCK"]
    assert machine_model.RUNNING_BLOCK == 256


def test_other_values_of_a_number_are_tried_in_its_own_programs(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    for _ in range(2):  # the second time in the place of the first one
        assert main(["tuning", "FEW_STEPS", "PAIRED_ROW", "--seconds", "0.01", "--save", "here"]) == 0
    assert "FEW_STEPS: sines of 48" in capsys.readouterr().out and machine_model.FEW_STEPS == 64
    kept = json.loads((tmp_path / "tuning" / "here.json").read_text())
    assert [[row["number"], [*row["microseconds"]]] for row in kept["rows"]] == [
        ["FEW_STEPS", ["64", "32"]],
        ["FEW_STEPS", ["64", "128"]],
        ["PAIRED_ROW", ["1024", "512"]],
        ["PAIRED_ROW", ["1024", "2048"]],
    ]
    assert all(least > 0 for row in kept["rows"] for least in row["microseconds"].values())
    assert "| FEW_STEPS = 64 | sines of 48 | jitted |" in (tmp_path / "tuning" / "here.md").read_text()


def test_what_tuning_cannot_do_is_told(capsys):
    assert main(["tuning", "CUDA_THREADS"]) == 0
    assert "CUDA_THREADS: no program in benchmarks/tuning_cases/" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["tuning", "RUNNING_BLOCK", "--workloads", "call-scalar", "--save", "here"])
    assert "leave out --workloads, or --save" in capsys.readouterr().err


def test_a_program_runs_in_a_process_of_its_own():
    (case, *_) = (c for c in tuning_cases.CASES if c.numbers == "BEFORE_A_RESULT")
    assert 0 < tuning_table._in_another_process(case, "BEFORE_A_RESULT", 1024, 0.01) < 1


def test_a_value_that_cannot_be_is_told(monkeypatch):
    monkeypatch.setattr(tuning, "others", lambda value: (0,))
    (found,) = tuning.compare("cumulative-max-10000", ["RUNNING_BLOCK"], 0.01)
    assert found.ratio is None and "fails: ZeroDivisionError" in str(found)


def test_what_to_try():
    assert tuning.others(8) == (4, 16) and tuning.others(1) == (2,) and tuning.others(0.5) == (0.25, 1.0)
    assert tuning.others(1.5) == (1.25, 2.0) and tuning.others((8, 4)) == ()


def test_an_unknown_number_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main(["tuning", "NUMBER"])
    assert "no number and no workload is named NUMBER" in capsys.readouterr().err
