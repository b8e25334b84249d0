"""How fast a solution is that is right: its bandwidth beside that of a copy, timed the same way a moment
later."""

import random
from collections.abc import Callable
from typing import Any

import torch

from kernels.lab import _mode
from kernels.lab._diagnose import Finding, agrees, tolerance
from kernels.lab._exercise import KernelExercise, Speed

_CHANGED = Finding(
    "wrong-after-timing",
    "after many calls with the same input, new input gave a wrong result",
    "Something is kept from call to call.",
    "Compute everything anew in each call.",
)


def time_launcher(
    exercise: KernelExercise, speed: Speed, launcher: Callable[..., Any]
) -> tuple[float, float]:
    """Return the time [s] of one call on the exercise's speed case, and of a copy that moves as many bytes.

    Both are medians of `triton.testing.do_bench`, which empties the L2 cache between calls.
    """
    import triton

    inputs = _inputs(exercise, speed)
    source = torch.randn(speed.bytes // 8, device=_mode.device())  # read once, written once, 4 bytes each
    target = torch.empty_like(source)
    times = [
        1e-3 * triton.testing.do_bench(work, warmup=100, rep=200, return_mode="median")
        for work in (lambda: launcher(*inputs), lambda: target.copy_(source))
    ]
    return times[0], times[1]


def still_right(exercise: KernelExercise, speed: Speed, launcher: Callable[..., Any]) -> Finding | None:
    """Check one more call with new values on the case that was timed."""
    inputs = _inputs(exercise, speed)
    expected = exercise.reference(*(t.double() for t in inputs))
    out = launcher(*inputs)
    tolerated = tolerance(exercise, inputs, expected, out.dtype)
    return None if bool(agrees(out.double(), expected, tolerated).all()) else _CHANGED


def _inputs(exercise: KernelExercise, speed: Speed) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(random.SystemRandom().getrandbits(60))
    return tuple(t.to(_mode.device()) for t in exercise.inputs(speed.case, generator))
