"""Optimizers of the rows that a step sees: their mathematics in NumPy, what they cost, messages."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import nn, optim
from functad.errors import ArgumentError, DTypeError, ShapeError, TreeError

rng = np.random.default_rng(0)
TABLE = rng.normal(size=(9, 3)).astype(np.float32)
STEPS = [(rng.integers(0, 7, (2, 3)), rng.normal(size=(2, 3, 3)).astype(np.float32)) for _ in range(5)]


def gradient(table, numbers, weights):
    """Of the sum of the rows times weights, in float64."""
    found = np.zeros(table.shape)
    np.add.at(found, numbers, weights)
    return found


def adam_by_hand(rate, b1=0.9, b2=0.999, eps=1e-8):
    """Adam of rows that occur; the others and their means stay as they are."""
    x, m, v = TABLE.astype(np.float64), np.zeros(TABLE.shape), np.zeros(TABLE.shape)
    for t, (numbers, weights) in enumerate(STEPS, 1):
        rows = np.unique(numbers)
        g = gradient(x, numbers, weights)[rows]
        m[rows] = b1 * m[rows] + (1 - b1) * g
        v[rows] = b2 * v[rows] + (1 - b2) * g**2
        x[rows] -= rate * m[rows] / (1 - b1**t) / (np.sqrt(v[rows] / (1 - b2**t)) + eps)
    return x, m, v


def momentum_by_hand(rate, decay):
    x, velocity = TABLE.astype(np.float64), np.zeros(TABLE.shape)
    for numbers, weights in STEPS:
        rows = np.unique(numbers)
        velocity[rows] = gradient(x, numbers, weights)[rows] + decay * velocity[rows]
        x[rows] -= rate * velocity[rows]
    return x


def stepper(inner, layer=nn.Embedding(9, 3)):  # noqa: B008
    optimizer = optim.lazy(inner)

    def step(table, state, numbers, weights):
        rows, places = optim.rows_of(table, numbers)
        g = functad.grad(lambda values: jnp.sum(layer.apply({"rows": values}, places) * weights))(rows.values)
        updates, state = optimizer.update(rows._replace(values=g), state, table)
        return optim.apply_updates(table, updates), state

    return optimizer, step


def run(inner, transform=lambda f: f):
    optimizer, step = stepper(inner)
    step, table = transform(step), jnp.asarray(TABLE)
    state = optimizer.init(table)
    for numbers, weights in STEPS:
        table, state = step(table, state, jnp.asarray(numbers, "int32"), weights)
    return np.asarray(table), state


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit], ids=["plain", "jit"])
def test_lazy_adam_by_hand(transform):
    table, (moments, _) = run(optim.adam(0.1), transform)
    x, m, v = adam_by_hand(0.1)
    np.testing.assert_allclose(table, x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moments.mu, m, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(moments.nu, v, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(table[7:], TABLE[7:])  # rows that never occurred, to the bit
    assert int(moments.count) == len(STEPS)


def test_other_optimizers_and_where_it_is_the_same_as_without():
    np.testing.assert_allclose(run(optim.sgd(0.1, momentum=0.9))[0], momentum_by_hand(0.1, 0.9), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(optim.sgd(0.1))[0], momentum_by_hand(0.1, 0.0), rtol=1e-5, atol=1e-6)
    optimizer, x = optim.adagrad(0.1), jnp.asarray(TABLE)
    state = optimizer.init(x)
    for numbers, weights in STEPS:  # rows without a gradient stay as they are in Adagrad, too
        updates, state = optimizer.update(gradient(TABLE, numbers, weights).astype(np.float32), state, x)
        x = optim.apply_updates(x, updates)
    np.testing.assert_allclose(run(optim.adagrad(0.1))[0], x, rtol=1e-5, atol=1e-6)


def test_several_tables():
    tables = {"a": jnp.ones((4, 2)), "b": [jnp.ones(5)]}
    optimizer = optim.lazy(optim.adam(0.5))
    state = optimizer.init(tables)
    first = optim.TableRows(jnp.array([1, 4]), jnp.ones((2, 2)))  # 4 is no row of the first table
    grads = {"a": first, "b": [optim.TableRows(jnp.array([0]), jnp.ones(1))]}
    updates, state = optimizer.update(grads, state, tables)
    new = optim.apply_updates(tables, updates)
    np.testing.assert_allclose(new["a"][:, 0], [1, 0.5, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(new["b"][0], [0.5, 1, 1, 1, 1], rtol=1e-6)


def test_a_step_costs_what_its_rows_cost():
    """Bytes, operations and temporary memory are to the number the same for a table of a hundred times the rows."""
    costs = []
    for count in (1_000, 100_000):
        optimizer, step = stepper(optim.adam(0.1), nn.Embedding(count, 16))
        table = functad.ShapeDtypeStruct((count, 16), "float32")
        state = functad.eval_shape(optimizer.init, table)
        numbers = functad.ShapeDtypeStruct((4, 8), "int32")
        weights = functad.ShapeDtypeStruct((4, 8, 16), "float32")
        lowered = functad.jit(step, donate_argnums=(0, 1)).lower(table, state, numbers, weights)
        costs.append((lowered.cost.bytes, lowered.cost.flops, str(lowered.memory_plan)))
    assert costs[0] == costs[1] and costs[0][0] < 1_000 * 16 * 4 * 3


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda o, s: o.update(jnp.ones((9, 3)), s, TABLE), ArgumentError, r"must be TableRows\(indices, values\)"),
        (lambda o, s: o.update(optim.TableRows(jnp.arange(2), jnp.ones((3, 3))), s, TABLE), ShapeError, r"\(3, 3\)"),
        (lambda o, s: o.update(optim.TableRows(jnp.arange(2), jnp.ones((2, 3))), s), ArgumentError, "needs the tables"),
        (lambda o, s: optim.lazy(optim.scale_by_lbfgs()).init(jnp.ones((9, 3))), ArgumentError, "each row"),
        (lambda o, s: optim.rows_of(TABLE, jnp.ones(2)), DTypeError, "dtype float32"),
        (lambda o, s: optim.rows_of(jnp.ones(()), jnp.arange(2)), ShapeError, "is a scalar"),
        (
            lambda o, s: optim.apply_updates(jnp.ones(3), optim.TableRows(jnp.arange(2), jnp.ones((2, 3)))),
            ShapeError,
            r"the table has shape \(3,\)",
        ),
        (
            lambda o, s: nn.Embedding(9, 3).apply({"rows": jnp.ones((2, 3))}, jnp.array([2])),
            ArgumentError,
            r"there are 2 rows \(0..1\)",
        ),
    ],
)
def test_messages(call, error, text):
    optimizer = optim.lazy(optim.adam(0.1))
    with pytest.raises(error, match=text):
        call(optimizer, optimizer.init(jnp.asarray(TABLE)))


def test_some_params_are_tables():
    params = {"dense": jnp.ones(3), "table": jnp.ones((5, 2))}
    grads = {"dense": jnp.full(3, 2.0), "table": optim.TableRows(jnp.array([1]), jnp.ones((1, 2)))}
    rows = optim.lazy(optim.sgd(0.5))
    labelled = optim.multi_transform({"rows": rows, "all": optim.sgd(0.5)}, {"dense": "all", "table": "rows"})
    masked = optim.chain(
        optim.masked(rows, {"dense": False, "table": True}),
        optim.masked(optim.sgd(0.5), {"dense": True, "table": False}),
    )
    for optimizer in (labelled, masked):
        updates, _ = optimizer.update(grads, optimizer.init(params), params)
        new = optim.apply_updates(params, updates)
        assert new["dense"].tolist() == [0.0] * 3 and new["table"][:, 0].tolist() == [1.0, 0.5, 1.0, 1.0, 1.0]
    with pytest.raises(TreeError, match="gradients"):
        masked.update({"dense": jnp.ones(3)}, masked.init(params), params)
