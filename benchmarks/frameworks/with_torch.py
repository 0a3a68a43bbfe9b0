"""PyTorch as a contender, eager or compiled.

Knows PyTorch's public names.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import torch

from benchmarks.frameworks.functional import named, training_outcome
from benchmarks.task import Adam, Arrays, Form, Outcome, Sgd, Training

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "0")) or torch.get_num_threads())


class TorchTraining:
    """Leaves that require gradients, `backward`, and a fused optimizer."""

    def __init__(self, task: Training, form: Form, compiled: bool) -> None:
        self._task, self._form = task, form
        loss = form.function()
        self._loss_function = torch.compile(loss) if compiled else loss
        self._batches = [tuple(map(_tensor, form.batch(*batch))) for batch in task.batches]
        start = form.convert(task.params)
        self._params = {name: _tensor(value).requires_grad_() for name, value in start.items()}
        self._start = {name: _tensor(value) for name, value in start.items()}
        self.reset()

    def reset(self) -> None:
        with torch.no_grad():
            for name, param in self._params.items():
                param.copy_(self._start[name])
        self._optimizer = _optimizer(self._task.optimizer, list(self._params.values()))
        self._loss: Any = None
        self._order = itertools.cycle(self._batches)

    def run(self, count: int) -> None:
        params, loss_function, optimizer, order = self._params, self._loss_function, self._optimizer, self._order
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_function(params, *next(order))
            loss.backward()
            optimizer.step()
            self._loss = loss.detach()

    def allocated(self) -> int:
        """Bytes that the operators of a step took, as far as they outlived each operator."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            self.run(1)
        taken = (event.self_cpu_memory_usage for event in profile.events())
        return sum(size for size in taken if size > 0)

    def outcome(self) -> Outcome:
        self.reset()
        self.run(1)
        params = self._form.restore({name: _array(value) for name, value in self._params.items()})
        moments: Arrays | None = None
        if isinstance(self._task.optimizer, Adam):
            state = self._optimizer.state
            moments = self._form.restore({n: _array(state[p]["exp_avg"]) for n, p in self._params.items()})
        return training_outcome(self._task, _array(self._loss), params, moments)


class TorchCalling:
    """A function of arguments that stay, without gradients unless it asks for them."""

    def __init__(self, task: Any, form: Form, compiled: bool) -> None:
        self._form = form
        function = form.function()
        self._call = torch.compile(function) if compiled else function
        self._arguments = _tensors(form.batch(*task.arguments))

    def reset(self) -> None:
        """Nothing changes from call to call."""

    def run(self, count: int) -> None:
        call, arguments = self._call, self._arguments
        for _ in range(count):
            call(*arguments)

    def outcome(self) -> Outcome:
        return Outcome(self._form.restore(named(self._call(*self._arguments), _array)), {})


def contender(task: Any, form: Form, *, compiled: bool) -> Any:
    """The task in PyTorch."""
    return (TorchTraining if isinstance(task, Training) else TorchCalling)(task, form, compiled)


def _optimizer(options: Sgd | Adam, params: list[torch.Tensor]) -> torch.optim.Optimizer:
    if isinstance(options, Sgd):
        return torch.optim.SGD(params, options.rate, fused=True)
    return torch.optim.Adam(params, options.rate, (options.b1, options.b2), options.eps, fused=True)


def _tensor(value: Any) -> Any:
    # What a form has made a tensor of its own, such as one in channels-last order, stays as it is.
    return value if isinstance(value, torch.Tensor) else torch.tensor(np.array(value, order="C"))


def _tensors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tensors(item) for key, item in value.items()}
    return tuple(map(_tensors, value)) if isinstance(value, tuple) else _tensor(value)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy().copy()
