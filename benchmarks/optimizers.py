"""A step of Adam over many parameters, beside the time that it takes to move as many bytes.

Knows functad's and PyTorch's; both run in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np

import functad
from benchmarks.measure import in_turn
from benchmarks.peers import installed
from benchmarks.record import Options, Section, compared
from functad import optim

PARAMETERS = 10_000_000
RATE = 1e-3
MOVING, COPYING = "moving the same bytes in place", "copying"


def measure(options: Options, parameters: int = PARAMETERS) -> list[Section]:
    """Milliseconds."""
    rng = np.random.default_rng(0)
    start, grads = (rng.normal(size=parameters).astype(np.float32) for _ in range(2))
    step, result, nbytes = _functad(start, grads)
    contenders, agreement = {"functad": step, MOVING: _moving(nbytes), COPYING: _copying(nbytes)}, {}
    if "torch" in options.frameworks and installed(["torch"]):
        contenders["torch"], theirs = _torch(start, grads, options.threads)
        agreement["torch"] = float(np.max(np.abs(result() - theirs())) / RATE)
    timings = in_turn(contenders, rounds=options.rounds, seconds=options.seconds)
    figures = {row: timing.scaled(1e3) for row, timing in timings.items() if row not in (MOVING, COPYING)}
    speeds = {row: nbytes / timing.median / 1e9 for row, timing in timings.items()}
    section = Section(
        "optimizers",
        f"Adam, a step of {parameters:,} parameters",
        "ms",
        figures,
        agreement=agreement,
        notes=[
            f"functad moves {nbytes / parameters:.0f} bytes a parameter at {speeds['functad']:.1f} GB/s; a kernel that "
            f"changes signs where they lie {speeds[MOVING]:.1f} GB/s, numpy.copyto {speeds[COPYING]:.1f} GB/s"
        ],
    )
    return [compared(section)]


def _functad(start: np.ndarray, grads: np.ndarray) -> tuple[Callable[[], object], Callable[[], np.ndarray], float]:
    """A step to repeat, the parameters after the steps so far, and the bytes that its kernels move."""
    optimizer = optim.adam(RATE)

    def update(params: object, state: object, grads: object) -> tuple[object, object]:
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    fast = functad.jit(update, donate_argnums=(0, 1))
    params, grads = functad.numpy.array(start), functad.numpy.asarray(grads)
    now = [params, optimizer.init(params)]
    nbytes = fast.lower(*now, grads).cost.bytes

    def step() -> None:
        now[:] = fast(*now, grads)

    step()
    return step, lambda: np.array(now[0]), nbytes


def _moving(nbytes: float) -> Callable[[], object]:
    """What reads and writes an array of half as many bytes where it lies."""
    negated = functad.jit(lambda x: -x, donate_argnums=0)
    now = [functad.numpy.ones(int(nbytes) // 8, "float32")]

    def step() -> None:
        now[0] = negated(now[0])

    return step


def _copying(nbytes: float) -> Callable[[], object]:
    source = np.ones(int(nbytes) // 8, np.float32)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def _torch(start: np.ndarray, grads: np.ndarray, threads: int) -> tuple[Callable[[], object], Callable[[], np.ndarray]]:
    """PyTorch's fused Adam, the fastest of its own."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    params = torch.tensor(start, requires_grad=True)
    params.grad = torch.tensor(grads)
    optimizer = torch.optim.Adam([params], lr=RATE, fused=True)
    optimizer.step()
    return optimizer.step, lambda: params.detach().numpy().copy()
