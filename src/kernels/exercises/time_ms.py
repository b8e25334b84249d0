"""Exercise: time one call of a function on a device that works asynchronously.

The device of the exercise is simulated: it has a virtual clock, so its true time is known and no GPU is
needed. The same `time_ms` times the real GPU through `RealDevice`, which has the same two methods.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kernels.exercises import FunctionExercise, Mistake, Sign, Trial

_TOLERANCE = 0.06
_DEVICES = 24


class Device(Protocol):
    """What `time_ms` may ask of a device."""

    def now(self) -> float:
        """Return the host's clock [ms]."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was launched."""


class RealDevice:
    """The GPU of this machine, or the CPU where there is none."""

    def now(self) -> float:
        """Return the host's clock [ms]."""
        return time.perf_counter() * 1e3

    def synchronize(self) -> None:
        """Wait until the GPU has done all that was launched."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()


@dataclass
class Interval:
    """What lay between two readings of the clock, and whether the device was still at work at either."""

    elapsed: float
    calls: int
    compiled: bool
    busy_before: bool
    busy_after: bool


class SimulatedDevice:
    """A device with a virtual clock: launches return at once, the work is done in order, later.

    A call of `launch` costs the host `launch_ms`; the very first one also compiles. The work then takes
    `true_ms`, give or take 2 %. One call in twelve takes 0.7 times as long, one in sixteen 8 to 30 times; the
    first three after compiling take 1.4 times, while the clock speeds rise.
    """

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self.true_ms = self._random.uniform(0.5, 4.0)
        self._launch_ms = 0.002 * self.true_ms
        self._compile_ms = self._random.uniform(200, 400)
        self._clock = 1000 * self._random.random()
        self._done_at = 0.0
        self.calls = 0
        self.synchronized = 0
        self.readings: list[
            tuple[float, int, bool]
        ] = []  # the clock, the calls so far, whether the device was busy

    def now(self) -> float:
        """Return the host's clock [ms]."""
        self.readings.append((self._clock, self.calls, self._done_at > self._clock))
        return self._clock

    def synchronize(self) -> None:
        """Wait until the device has done all that was launched."""
        self.synchronized += 1
        self._clock = max(self._clock, self._done_at)

    def launch(self) -> None:
        """Launch one call of the work to be timed."""
        self._clock += self._launch_ms + (0 if self.calls else self._compile_ms)
        self._done_at = max(self._done_at, self._clock) + self._duration()
        self.calls += 1

    def _duration(self) -> float:
        usual = self.true_ms * self._random.gauss(1, 0.02)
        kind = self._random.random()
        if self.calls <= 3:
            return 1.4 * usual
        if kind < 1 / 12:
            return 0.7 * usual
        return usual * self._random.uniform(8, 30) if kind > 1 - 1 / 16 else usual

    def intervals(self) -> list[Interval]:
        """Return what lay between each two neighbouring readings, if a call did."""
        pairs = zip(self.readings, self.readings[1:], strict=False)
        return [
            Interval(t1 - t0, n1 - n0, n0 == 0, busy0, busy1)
            for (t0, n0, busy0), (t1, n1, busy1) in pairs
            if n1 > n0
        ]


def time_ms(fn: Callable[[], object], device: Device) -> float:
    """Return the time of one typical call of fn [ms], from launch until the device has done the work."""
    # <your turn> warm up, then take many samples, each between two synchronisations, and return a typical one
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(50):
        start = device.now()
        fn()
        device.synchronize()
        samples.append(device.now() - start)
    return statistics.median(samples)
    # </your turn>


def _trials(function: Callable[..., Any]) -> Iterator[Trial]:
    for number in range(1, _DEVICES + 1):
        device = SimulatedDevice(random.SystemRandom().getrandbits(40))
        result = function(device.launch, device)
        right = isinstance(result, int | float) and not isinstance(result, bool)
        passed = right and abs(result - device.true_ms) <= _TOLERANCE * device.true_ms
        got = f"{result:.4g} ms" if right else repr(result)[:40]
        signs = (
            []
            if passed
            else list(_signs(device, result))
            if right
            else [Sign("not-a-number", f"it returned a {type(result).__name__}")]
        )
        yield Trial(
            f"device {number}", passed, f"{device.true_ms:.4g} ms, within 6 %", got, signs, result=result
        )


def _signs(device: SimulatedDevice, result: float) -> Iterator[Sign]:
    """Say what the device saw, then which wrong number of its readings the result is."""
    intervals = device.intervals()
    if not device.calls:
        yield Sign("never-called", "fn was never called")
    elif not intervals:
        yield Sign("clock-unread", "no call of fn lies between two readings of device.now()")
    if device.calls and not device.synchronized:
        yield Sign("never-synchronised", "device.synchronize() was never called")
    if not intervals:
        return
    if any(i.busy_after for i in intervals):
        yield Sign("stopped-early", "the clock was stopped while the device was still at work")
    if any(i.busy_before for i in intervals):
        yield Sign(
            "started-late", "the clock was started while the device was still at work on earlier calls"
        )
    if intervals[0].compiled:
        yield Sign("compiled", "the first call, which compiles, lies inside the time taken")
    if result < 0:
        yield Sign("negative", f"{result:.4g} ms is less than nothing")
    if len(intervals) == 1:
        yield Sign("one-sample", f"the clock was started once, for {intervals[0].calls:,} calls")
    yield from _arithmetic([i.elapsed / i.calls for i in intervals], intervals, result, device.true_ms)


def _arithmetic(
    samples: list[float], intervals: list[Interval], result: float, true: float
) -> Iterator[Sign]:
    guesses = {
        "seconds": (true / 1000, "it is a thousandth of the true time"),
        "microseconds": (true * 1000, "it is a thousand times the true time"),
        "mean": (statistics.fmean(samples), "it is the mean of the times taken"),
        "minimum": (min(samples), "it is the smallest of the times taken"),
        "maximum": (max(samples), "it is the largest of the times taken"),
        "total": (sum(i.elapsed for i in intervals), "it is the time of all calls together"),
        "median-of-batches": (
            statistics.median(i.elapsed for i in intervals),
            "it is the time of a batch of calls",
        ),
        "divided-twice": (
            statistics.median(samples) / len(samples),
            "a time was divided by the number of samples too often",
        ),
    }
    for tag, (value, seen) in guesses.items():
        of_unit = tag.endswith("seconds")
        near = abs(result - value) <= (_TOLERANCE if of_unit else 1e-6) * abs(value)
        if near and (of_unit or len(samples) > 1):  # of one sample, mean and minimum are the same
            yield Sign(tag, seen)


EXERCISE = FunctionExercise(
    name="time_ms",
    chapter=1,
    signature="time_ms(fn: () -> None, device: Device) -> float",
    task="Return the time of one call of fn in milliseconds: a typical call, from its launch until the "
    "device has done its work, "
    "compilation not counted. fn() only launches the work and returns; its very first call compiles. "
    "device.now() reads the host's "
    "clock in milliseconds, device.synchronize() waits until everything launched is done. Some calls take "
    "far longer than "
    "a typical one, some a little less. The answer must be within 6 % on each of 24 devices.",
    hints=(
        (
            "Three things spoil a first attempt: the first call compiles; fn() returns before the work is "
            "done; and one call is not "
            "like another. Which line of yours deals with each?"
        ),
        (
            "Call fn a few times and synchronise before the first reading. In each sample synchronise "
            "before the second reading, so "
            "that the work is inside. Then ask which number of a skewed sample is typical: the mean is not."
        ),
        (
            "Warm up with about 5 calls. Then 50 times: `start = device.now()`, `fn()`, "
            "`device.synchronize()`, keep "
            "`device.now() - start`. Return `statistics.median` of what you kept."
        ),
    ),
    trials=_trials,
    time_limit=20.0,
    mistakes=(
        Mistake(
            "never-calls",
            "never-called",
            "Nothing was run, so there was nothing to time.",
            "fn is a function: call it, `fn()`.",
        ),
        Mistake(
            "other-clock",
            "clock-unread",
            "The time comes from another clock, or the call lies outside the readings.",
            "Read device.now() before and after: time.time() and its like know nothing of this device.",
        ),
        Mistake(
            "start-minus-end",
            "negative",
            "The end was subtracted from the start.",
            "The later reading is the larger one.",
        ),
        Mistake(
            "wrong-unit-seconds",
            "seconds",
            "The result is in seconds.",
            "device.now() is in milliseconds already.",
        ),
        Mistake(
            "wrong-unit-microseconds",
            "microseconds",
            "The result is in microseconds.",
            "device.now() is in milliseconds already.",
        ),
        Mistake(
            "no-synchronisation",
            "never-synchronised",
            "fn() only launches; the clock was read before the work was done.",
            "What is between your two readings: the work, or only the order to do it?",
        ),
        Mistake(
            "synchronises-too-early",
            "stopped-early",
            "There is a synchronisation, but not between the call and the second reading.",
            "In which order must the call, the waiting and the second reading come?",
        ),
        Mistake(
            "counts-compilation",
            "compiled",
            "There is no warm-up, or it is timed too.",
            "Call fn before the clock starts for the first time.",
        ),
        Mistake(
            "warm-up-not-awaited",
            "started-late one-sample",
            "The clock starts while the warm-up calls are still being worked on, so their time is counted.",
            "What else is the device doing when you start the clock?",
        ),
        Mistake(
            "total",
            "total",
            "The time of all calls was not divided by their number.",
            "How many calls lie between your readings?",
        ),
        Mistake(
            "batch-not-divided",
            "median-of-batches",
            "The time of a batch of calls was not divided by the calls in it.",
            "How many calls lie between two readings?",
        ),
        Mistake(
            "divides-too-often",
            "divided-twice",
            "Each sample is one call's time already.",
            "A median needs no further division.",
        ),
        Mistake(
            "mean",
            "mean",
            "A few calls take many times longer, and each pulls the mean up.",
            "Sort ten samples by hand: which one would you call typical?",
        ),
        Mistake(
            "minimum",
            "minimum",
            "The fastest call was a lucky one, not a typical one.",
            "Half of the calls should be faster than your answer, and half slower.",
        ),
        Mistake(
            "maximum",
            "maximum",
            "The slowest call was an unlucky one, not a typical one.",
            "Half of the calls should be slower than your answer.",
        ),
        Mistake(
            "one-sample",
            "one-sample",
            "One stretch of time was taken: if a slow call is in it, nothing tells.",
            "Take many samples, each with a start and an end of its own.",
        ),
    ),
    solution=(time_ms,),
)
