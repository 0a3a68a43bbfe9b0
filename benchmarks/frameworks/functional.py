"""What functad and JAX have in common: the training step of pure functions, and its contender.

Knows neither: it is given their functions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.task import Adam, Arrays, Form, Outcome, Sgd, Training


class Api(NamedTuple):
    """The functions of a framework that the contenders use.

    `wait` waits for one array; None where results are finished when a call returns.
    """

    jit: Callable[..., Any]
    value_and_grad: Callable[..., Any]
    tree_map: Callable[..., Any]
    sqrt: Callable[[Any], Any]
    zeros_like: Callable[[Any], Any]
    device_put: Callable[[Any], Any]
    block: Callable[[Any], Any]
    wait: Callable[[Any], Any] | None
    sgd: Callable[[float], tuple[Callable[..., Any], Callable[..., Any]]]


class FunctionalTraining:
    """A jitted step with parameters and optimizer state donated."""

    def __init__(self, task: Training, form: Form, api: Api) -> None:
        self._task, self._form, self._api = task, form, api
        init, update = api.sgd(task.optimizer.rate) if isinstance(task.optimizer, Sgd) else adam(task.optimizer, api)
        loss = form.function()

        def step(params: Any, state: Any, *batch: Any) -> Any:
            value, grads = api.value_and_grad(loss)(params, *batch)
            params, state = update(params, state, grads)
            return params, state, value

        self.step = api.jit(step, donate_argnums=(0, 1))
        self._init = init
        self._batches = [api.tree_map(api.device_put, form.batch(*batch)) for batch in task.batches]
        self.reset()

    def reset(self) -> None:
        # Fresh copies: a donated buffer may be the NumPy array's own memory.
        start = self._form.convert(self._task.params)
        self._params = {name: self._api.device_put(np.array(value)) for name, value in start.items()}
        self._state = self._api.tree_map(self._api.device_put, self._init(self._params))
        self._loss: Any = None
        self._order = itertools.cycle(self._batches)

    def run(self, count: int) -> None:
        params, state, loss, step, order = self._params, self._state, self._loss, self.step, self._order
        for _ in range(count):
            params, state, loss = step(params, state, *next(order))
        self._params, self._state, self._loss = params, state, loss
        self._api.block((loss, params))

    def arguments(self) -> tuple[Any, ...]:
        return self._params, self._state, *self._batches[0]

    def outcome(self) -> Outcome:
        self.reset()
        self.run(1)
        params = self._form.restore({name: np.array(value) for name, value in self._params.items()})
        moments: Arrays | None = None
        if isinstance(self._task.optimizer, Adam):
            moments = self._form.restore({name: np.array(value) for name, value in self._state[0].items()})
        return training_outcome(self._task, np.array(self._loss), params, moments)


class FunctionalCalling:
    """A jitted function of arguments that stay."""

    def __init__(self, task: Any, form: Form, api: Api) -> None:
        self._form, self._api = form, api
        self._wait = api.wait if task.waited_for else None
        self.step = api.jit(form.function())
        arguments = form.batch(*task.arguments)
        self._arguments = api.tree_map(api.device_put, arguments) if task.on_device else arguments

    def reset(self) -> None:
        """Nothing changes from call to call."""

    def run(self, count: int) -> None:
        # Nobody holds a result while the next one is computed: it may lie in the same memory, as NumPy's does.
        call, arguments, wait, result = self.step, self._arguments, self._wait, None
        if wait is not None:
            for _ in range(count):
                result = array = None
                result = call(*arguments)
                for array in result if isinstance(result, tuple) else (result,):
                    wait(array)
            return
        for _ in range(count):
            result = None
            result = call(*arguments)
        self._api.block(result)

    def arguments(self) -> tuple[Any, ...]:
        return self._arguments

    def outcome(self) -> Outcome:
        return Outcome(self._form.restore(named(self.step(*self._arguments), np.array)), {})


def named(results: Any, to_array: Callable[[Any], np.ndarray], name: str = "result") -> Arrays:
    """The arrays of nested dicts and tuples, each under a name that says where it was."""
    if isinstance(results, dict):
        items = [(f"{name} {key}", value) for key, value in results.items()]
    elif isinstance(results, tuple):
        items = [(f"{name} {i}", value) for i, value in enumerate(results)]
    else:
        return {name: to_array(results)}
    return {key: array for inner, value in items for key, array in named(value, to_array, inner).items()}


def training_outcome(task: Training, loss: np.ndarray, params: Arrays, moments: Arrays | None) -> Outcome:
    """The gradients, as the timed step itself tells them: by the change, or by Adam's first moment."""
    changes = {name: params[name].astype(np.float64) - task.params[name] for name in task.params}
    if isinstance(task.optimizer, Sgd):
        grads = {f"gradient of {name}": -change / task.optimizer.rate for name, change in changes.items()}
        # Params show no smaller changes than the distance to the next number.
        places = {name: np.spacing(np.maximum(np.abs(params[name]), np.abs(task.params[name]))) for name in changes}
        rounding = {f"gradient of {name}": place / task.optimizer.rate for name, place in places.items()}
        return Outcome({"loss": loss, **grads}, {}, rounding)
    assert moments is not None
    grads = {f"gradient of {name}": m / (1 - task.optimizer.b1) for name, m in moments.items()}
    return Outcome({"loss": loss, **grads}, {f"gradient of {name}": change for name, change in changes.items()})


def adam(options: Adam, api: Api) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Init and update; the state is first moments, second moments and the number of steps."""
    rate, b1, b2, eps = options

    def init(params: Any) -> Any:
        return api.tree_map(api.zeros_like, params), api.tree_map(api.zeros_like, params), np.float32(0)

    def update(params: Any, state: Any, grads: Any) -> Any:
        m, v, count = state
        count = count + 1
        m = api.tree_map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
        v = api.tree_map(lambda v, g: b2 * v + (1 - b2) * (g * g), v, grads)
        size, scale = rate / (1 - b1**count), 1 / api.sqrt(1 - b2**count)
        params = api.tree_map(lambda p, m, v: p - size * m / (api.sqrt(v) * scale + eps), params, m, v)
        return params, (m, v, count)

    return init, update
