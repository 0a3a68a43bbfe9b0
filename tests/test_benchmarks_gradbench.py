"""The tool for GradBench: its protocol, and the program of each eval on small inputs. With functad alone."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.gradbench.evals import EVALS
from benchmarks.gradbench.runner import row
from benchmarks.gradbench.table import markdown, picture
from benchmarks.gradbench.task import run
from benchmarks.gradbench.tool import serve
from benchmarks.measure import Timing
from benchmarks.record import Section

RNG = np.random.default_rng(0)


def result(module, function, given):
    return run(EVALS[module][function], given).output


def differences(f, x, step=1e-6):
    """The derivatives of f, whose value is a number or an array, at a flat x, by central differences: x's axis last."""
    pairs = [(f(x + step * unit), f(x - step * unit)) for unit in np.eye(x.size)]
    return np.stack([(np.asarray(up) - np.asarray(down)) / (2 * step) for up, down in pairs], axis=-1)


# --- the protocol -------------------------------------------------------------------------------------


def answers(*messages):
    written = io.StringIO()
    serve([json.dumps({"id": number, **message}) for number, message in enumerate(messages)], written)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def evaluation(function, given, module="hello"):
    return {"kind": "evaluate", "module": module, "function": function, "input": given}


def test_a_conversation():
    start, define, square, double, analysis = answers(
        {"kind": "start", "eval": "hello"},
        {"kind": "define", "module": "hello"},
        evaluation("square", 3.0),
        evaluation("double", 9.0),
        {"kind": "analysis", "of": 2, "valid": True},
    )
    assert start == {"id": 0, "tool": "functad"}
    assert define == {"id": 1, "success": True}
    assert (square["id"], square["success"], square["output"]) == (2, True, 9.0)
    assert double["output"] == 18.0
    assert analysis == {"id": 4}


def test_what_is_unknown_or_fails_is_answered_and_the_eval_goes_on():
    define, wrong, right = answers(
        {"kind": "define", "module": "sudoku"}, evaluation("cube", 3.0), evaluation("square", 2.0)
    )
    assert define == {"id": 0, "success": False, "error": "no eval named sudoku"}
    assert wrong["success"] is False and "KeyError: 'cube'" in wrong["error"]
    assert right["output"] == 4.0


def test_runs_are_as_many_as_asked_for_and_compiling_is_apart():
    given = {"x": [0.0, 0.0], "min_runs": 3, "min_seconds": 0}
    (answer,) = answers(evaluation("primal", given, "lse"))
    assert [timing["name"] for timing in answer["timings"]] == ["compile", "evaluate", "evaluate", "evaluate"]
    assert all(timing["nanoseconds"] > 0 for timing in answer["timings"])
    (answer,) = answers(evaluation("primal", given | {"min_runs": 1, "min_seconds": 0.02}, "lse"))
    assert sum(timing["nanoseconds"] for timing in answer["timings"][1:]) >= 0.02e9


# --- the runner, with an eval and a C++ tool that only pretend --------------------------------------------

_EVAL = """
import json, sys

def say(**message):
    print(json.dumps(message), flush=True)
    return json.loads(sys.stdin.readline())

say(id=0, kind="start", eval="lse")
if say(id=1, kind="define", module="lse")["success"]:
    given = {"x": [0.0, 0.0], "min_runs": 3, "min_seconds": 0}
    right = say(id=2, kind="evaluate", module="lse", function="primal", input=given, description="n=2")
    valid = abs(right["output"] - 0.6931471805599453) < 1e-9
    say(id=3, kind="analysis", of=2, valid=valid)
    say(id=4, kind="evaluate", module="lse", function="gradient", input=given, description="n=2")
    say(id=5, kind="analysis", of=4, valid=False, error="too good to be true")
"""
_TOOL = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    times = [{"name": "evaluate", "nanoseconds": n} for n in (9_000_000_000, 4_000_000_000)]
    known = {"success": "--multithreaded" not in sys.argv, "output": 0.6931471805599453, "timings": times}
    print(json.dumps({"id": message["id"], **known, "error": "no OpenMP here"}), flush=True)
"""


def test_the_runner_compares_what_evals_accept(tmp_path, capsys):
    package = tmp_path / "python" / "gradbench" / "gradbench"
    (package / "evals" / "lse").mkdir(parents=True)
    (package / "evals" / "lse" / "run.py").write_text(_EVAL)
    (package / "cpp.py").write_text(_TOOL)
    code = main(["gradbench", "--checkout", str(tmp_path), "--evals", "lse", "--tools", "functad,manual"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["eval", "function", "size", "functad", "/", "manual"]
    assert printed[1] == "lse: no manual, OpenMP: no OpenMP here"
    assert printed[2].startswith("lse      primal    n=2")
    assert 0 < float(printed[2].split()[-1]) < 0.1  # of the four seconds that the tool claims
    assert printed[3].split()[-2:] == ["–", "–"]
    assert printed[4:] == ["  functad: too good to be true", "  manual: too good to be true"]
    assert code == 1


def test_a_ratio_is_to_the_faster_of_a_tools_builds():
    times = {"functad": 3.0, "manual": 6.0, "manual, OpenMP": 4.0}
    section = Section("", "lse primal n=2", "ms", {label: Timing(t, t, t) for label, t in times.items()})
    assert row(section, ["functad", "jax", "manual"]).split() == ["lse", "primal", "n=2", "3", "ms", "–", "0.75"]


def test_a_runner_without_such_a_tool(capsys):
    with pytest.raises(SystemExit):
        main(["gradbench", "--checkout", ".", "--tools", "abacus"])
    assert "no tool named abacus; there are functad, jax, pytorch, manual" in capsys.readouterr().err


# --- programs with results known by hand --------------------------------------------------------------


def test_lse():
    assert result("lse", "primal", {"x": [700.0, 700.0]}) == pytest.approx(700 + math.log(2))
    assert result("lse", "gradient", {"x": [0.0, math.log(3)]}) == pytest.approx([0.25, 0.75])


def test_llsq():
    x = RNG.random(3)
    t = np.linspace(-1, 1, 5)
    powers = np.vander(t, 3, increasing=True)
    lack = np.sign(t) - powers @ x
    assert result("llsq", "primal", {"x": x.tolist(), "n": 5}) == pytest.approx(lack @ lack / 2)
    assert result("llsq", "gradient", {"x": x.tolist(), "n": 5}) == pytest.approx(-powers.T @ lack)


def test_ode():
    # y₀ = 2 x₀ and y₁ = x₀ x₁ 2² / 2 at the end, which the method finds exactly.
    given = {"x": [3.0, 5.0], "s": 4}
    assert result("ode", "primal", given) == pytest.approx([6.0, 30.0])
    assert result("ode", "gradient", given) == pytest.approx([10.0, 6.0])


@pytest.mark.parametrize("size", [1, 2, 4])
def test_det(size):
    matrix = RNG.random((size, size))
    given = {"A": matrix.ravel().tolist(), "ell": size}
    assert result("det", "primal", given) == pytest.approx(np.linalg.det(matrix))
    cofactors = np.linalg.det(matrix) * np.linalg.inv(matrix).T
    assert result("det", "gradient", given) == pytest.approx(cofactors.ravel())


def test_kmeans():
    points = [[0.0, 0.0], [1.0, 0.0], [10.0, 10.0], [10.0, 12.0], [12.0, 8.0]]
    given = {"points": points, "centroids": [[1.0, 1.0], [10.0, 10.0]]}
    assert result("kmeans", "cost", given) == 2 + 1 + 0 + 4 + 8
    # From a centre to the mean of its points.
    expected = np.array([[0.5, 1.0], [10 - 32 / 3, 0.0]])
    np.testing.assert_allclose(result("kmeans", "dir", given), expected, atol=1e-12)


@pytest.mark.parametrize("function", EVALS["saddle"])
def test_saddle(function):
    # |x|² − |y|² has its saddle at 0; descent stops where the gradient or a step is short.
    assert result("saddle", function, {"start": [1.0, 1.0]}) == pytest.approx([0.0] * 4, abs=2e-5)


@pytest.mark.parametrize("function", EVALS["particle"])
def test_particle(function):
    w = result("particle", function, {"w": 0.0})
    x, v = np.array([0.0, 8.0]), np.array([0.75, 0.0])
    while x[1] + 0.1 * v[1] >= 0:
        away = [x - charge for charge in ([10.0, 10 - w], [10.0, 0.0])]
        x, v = x + 0.1 * v, v + 0.1 * sum(a / np.linalg.norm(a) ** 3 for a in away)
    assert x[0] - x[1] * v[0] / v[1] == pytest.approx(0, abs=1e-3)


# --- programs compared with plain NumPy and finite differences ----------------------------------------


def test_gmm():
    d, k, n, m, gamma = 2, 3, 4, 1, 1.5
    sizes = {"alpha": (k,), "mu": (k, d), "q": (k, d), "l": (k, 1)}
    flat = RNG.normal(size=sum(math.prod(size) for size in sizes.values()))
    points = RNG.normal(size=(n, d))

    def given(flat):
        parts = np.split(flat, np.cumsum([math.prod(size) for size in sizes.values()])[:-1])
        parameters = {name: part.reshape(sizes[name]).tolist() for name, part in zip(sizes, parts, strict=True)}
        return {"d": d, "k": k, "n": n, "m": m, "gamma": gamma, "x": points.tolist(), **parameters}

    def density(given):
        weights = np.exp(given["alpha"]) / np.exp(given["alpha"]).sum()
        factors = [np.array([[math.exp(q[0]), 0], [low[0], math.exp(q[1])]]) for q, low in zip(given["q"], given["l"])]
        precisions = [factor.T @ factor for factor in factors]
        likelihood = [
            sum(
                w * math.exp(-0.5 * (x - mu) @ p @ (x - mu)) * math.sqrt(np.linalg.det(p)) / (2 * math.pi) ** (d / 2)
                for w, mu, p in zip(weights, np.array(given["mu"]), precisions)
            )
            for x in points
        ]
        freedom = d + m + 1
        multigamma = math.sqrt(math.pi) * math.gamma(freedom / 2) * math.gamma((freedom - 1) / 2)
        prior = [
            np.linalg.det(p) ** (m / 2) * math.exp(-(gamma**2) * np.trace(p) / 2) * (gamma**2 / 2) ** freedom
            for p in precisions
        ]
        return np.log(likelihood).sum() + np.log(prior).sum() - k * math.log(multigamma)

    assert result("gmm", "objective", given(flat)) == pytest.approx(density(given(flat)))
    found = result("gmm", "jacobian", given(flat))
    gradient = np.concatenate([np.ravel(found[name]) for name in sizes])
    np.testing.assert_allclose(gradient, differences(lambda flat: density(given(flat)), flat), rtol=1e-5, atol=1e-7)


def test_lstm():
    layers, bits = 2, 3
    flat, state = RNG.random(8 * layers * bits + 3 * bits), RNG.random((2 * layers, bits))
    text = RNG.integers(0, 2, (4, bits)).astype(float)

    def given(flat):
        main, extra = np.split(flat, [8 * layers * bits])
        matrices = {"main_params": main.reshape(2 * layers, -1), "extra_params": extra.reshape(3, bits)}
        return {name: value.tolist() for name, value in (matrices | {"state": state, "sequence": text}).items()}

    def loss(flat):
        parameters, (into, out, bias) = given(flat)["main_params"], np.array(given(flat)["extra_params"])
        states, total = state.copy(), 0.0
        for character, following in zip(text, text[1:]):
            output = character * into
            for i in range(layers):
                (wf, wi, wo, wc), (bf, bi, bo, bc) = (np.split(np.array(p), 4) for p in parameters[2 * i : 2 * i + 2])
                hidden, cell = states[2 * i], states[2 * i + 1]
                forget, ingate, outgate = (
                    1 / (1 + np.exp(-z)) for z in (output * wf + bf, hidden * wi + bi, output * wo + bo)
                )
                cell = cell * forget + ingate * np.tanh(hidden * wc + bc)
                output = outgate * np.tanh(cell)
                states[2 * i], states[2 * i + 1] = output, cell
            scores = output * out + bias
            total += following @ (scores - np.log(2 + np.exp(scores).sum()))
        return -total / (bits * (len(text) - 1))

    assert result("lstm", "objective", given(flat)) == pytest.approx(loss(flat))
    np.testing.assert_allclose(result("lstm", "jacobian", given(flat)), differences(loss, flat), atol=1e-8)


@pytest.mark.parametrize("rotation", [[0.0, 0.0, 0.0], [0.3, -0.2, 0.5]])
def test_ba(rotation):
    n, m, p = 2, 3, 4
    camera = np.array([*rotation, 0.1, 0.2, -3.0, 2.0, 0.5, -0.5, 0.01, 0.02])
    point, weight, feature = np.array([0.4, -0.3, 0.7]), 0.8, np.array([0.25, 0.75])

    def given(flat):
        camera, point, (weight,) = np.split(flat, [11, 14])
        parts = {"cam": camera.tolist(), "x": point.tolist(), "w": weight, "feat": feature.tolist()}
        return {"n": n, "m": m, "p": p, **parts}

    def error(flat):
        camera, point, (weight,) = np.split(flat, [11, 14])
        angle = np.linalg.norm(camera[:3])
        cross = np.cross(np.eye(3), camera[:3])
        turn = np.eye(3) + cross * np.sinc(angle / np.pi) + cross @ cross * np.sinc(angle / 2 / np.pi) ** 2 / 2
        seen = turn @ (point - camera[3:6])
        flat_point = seen[:2] / seen[2]
        radius = flat_point @ flat_point
        distorted = flat_point * (1 + camera[9] * radius + camera[10] * radius**2)
        return weight * (distorted * camera[6] + camera[7:9] - feature)

    flat = np.concatenate([camera, point, [weight]])
    found = result("ba", "objective", given(flat))
    assert found["reproj_error"]["elements"] == pytest.approx(error(flat)) and found["reproj_error"]["repeated"] == p
    assert found["w_err"] == {"element": pytest.approx(1 - weight**2), "repeated": p}
    matrix = result("ba", "jacobian", given(flat))
    np.testing.assert_allclose(matrix["vals"][:30], differences(error, flat).ravel(), atol=1e-7)
    assert matrix["vals"][30] == pytest.approx(-2 * weight)
    assert matrix["rows"] == [*range(0, 8 * 15, 15), *range(120, 125), 124]  # all of them, and the last again
    assert matrix["cols"][:15] == matrix["cols"][15:30] == [*range(11), 22, 23, 24, 31]
    assert (matrix["rows"][-1], matrix["cols"][-1]) == (124, 34)


def hand(us):
    """A hand at rest: bones a unit apart, a vertex beside each, and points that lie at its vertices."""
    bones, points = 22, 5
    parents = [-1, *(0 if bone % 4 == 1 else bone - 1 for bone in range(1, bones))]
    relatives = np.tile(np.eye(4), (bones, 1, 1))
    relatives[1:, 0, 3] = 1.0
    absolutes = []
    for bone, parent in enumerate(parents):
        absolutes.append(relatives[bone] if parent == -1 else absolutes[parent] @ relatives[bone])
    positions = np.concatenate([RNG.normal(size=(bones, 3)), np.ones((bones, 1))], axis=1)
    weights = np.eye(bones) / 2 + np.roll(np.eye(bones), 1, axis=1) / 2
    triangles = RNG.integers(0, bones, (7, 3))
    model = {
        "bone_count": bones,
        "parents": parents,
        "base_relatives": relatives.tolist(),
        "inverse_base_absolutes": np.linalg.inv(absolutes).tolist(),
        "base_positions": positions.tolist(),
        "weights": weights.tolist(),
        "triangles": triangles.tolist(),
        "is_mirrored": False,
    }
    places = RNG.integers(0, 7, points)
    corners = positions[:, :3][triangles[places]]
    at = corners[:, 0] * us[0] + corners[:, 1] * us[1] + corners[:, 2] * (1 - sum(us)) if us else positions[places, :3]
    data = {"model": model, "correspondences": places.tolist(), "points": at.tolist()}
    return {"theta": [0.0] * 26, "data": data, "us": [us] * points if us else []}


@pytest.mark.parametrize("us", [[], [0.2, 0.3]])
def test_ht(us):
    given = hand(us)
    assert result("ht", "objective", given) == pytest.approx([0.0] * 15, abs=1e-12)
    moved = given | {"theta": [0.0] * 3 + [1.0, 2.0, 3.0] + [0.0] * 20}
    assert result("ht", "objective", moved) == pytest.approx([-1.0, -2.0, -3.0] * 5)
    theta = RNG.normal(size=26)

    def errors(flat):
        places = [(np.array(us) + flat[:2]).tolist()] * 5 if us else []
        return result("ht", "objective", given | {"theta": flat[2:].tolist(), "us": places})

    expected = differences(errors, np.concatenate([np.zeros(2), theta]))[:, 0 if us else 2 :]
    np.testing.assert_allclose(result("ht", "jacobian", given | {"theta": theta.tolist()}), expected, atol=1e-7)


def test_turns_of_a_hand():
    """A quarter turn about z of the whole hand, then of the first bone that bends about x."""
    given = hand([])
    errors = np.reshape(result("ht", "objective", given | {"theta": [0.0, 0.0, math.pi / 2] + [0.0] * 23}), (5, 3))
    points = np.array(given["data"]["points"])
    turned = np.stack([-points[:, 1], points[:, 0], points[:, 2]], axis=1)
    np.testing.assert_allclose(errors, points - turned, atol=1e-12)
    bent = given | {"theta": [0.0] * 6 + [math.pi / 2] + [0.0] * 19}
    bent["data"] = bent["data"] | {"correspondences": [2]}
    bent["data"]["model"] = bent["data"]["model"] | {"weights": np.eye(22).tolist()}
    point = np.array(given["data"]["model"]["base_positions"][2][:3])
    bent["data"]["points"] = [point.tolist()]
    # The bone's own place is (2, 0, 0): about its x axis y becomes z, and z becomes −y.
    x, y, z = point
    assert result("ht", "objective", bent) == pytest.approx([x - x, y + z, z - y], abs=1e-12)


def test_kept_results_become_a_table_and_a_picture():
    def section(title, **medians):
        return {"title": title, "figures": {name.replace("_", ", "): {"median": x} for name, x in medians.items()}}

    sections = [
        section("ode gradient n=10", functad=2.0, manual=400.0, manual_OpenMP=100.0, jax=0.5),
        section("ode gradient n=100", functad=30.0, manual=10.0),
        section("ode primal n=10", functad=1.0, pytorch=1.0),
        section("ode primal n=100", manual=1.0),
    ]
    kept = {"results": {f"gradbench {s['title']}": s for s in sections} | {"W1": section("W1", functad=1.0)}}
    assert markdown(kept).splitlines()[2:] == [
        "| ode gradient | 2 | 2 – 30 ms | 0.020 – 3.00 | 4.00 | – |",
        "| ode primal | 1 | 1 ms | – | – | 1.00 |",
    ]
    drawn = picture(kept)
    assert drawn.count("<circle") == 3 + 4  # the legend, and a dot for each ratio
    assert "ode primal" in drawn and "W1" not in drawn
