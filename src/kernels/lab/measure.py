"""Time a callable properly, and sweep it over sizes.

The timer is `triton.testing.do_bench` around the replay of a CUDA graph. Each known bias of that tool is met:

- *Launch cost.* A graph holds many calls, so what is left between two of them is the GPU's own step from one kernel to the
  next, not Python's launch. It still is part of a very short kernel's time.
- *Warm L2.* Every call in the graph has inputs of its own until together they exceed three times the L2 cache, and each
  output lives as long as its inputs. Where that many do not fit, the row says `cold: false`.
- *Dirty L2.* `do_bench` zeroes a buffer before each replay, which leaves lines to write back; over a graph of several
  milliseconds that is noise.
- *Short warm-up.* The first measurement of a process keeps the card busy for 200 ms before it counts.
- *Drift.* Rivals take turns, round by round, so that clocks, temperature and the power limit hit all of them alike.

Inputs are random, never zeros: data that does not toggle uses less power and can run faster.
"""

import gc
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernels.lab import _mode, record
from kernels.lab.machine import conditions
from kernels.lab.record import Source
from kernels.lab.show import Table, progress
from kernels.lab.units import count, si

METHOD = (
    "device time of one call: CUDA graph of calls over rotated inputs of three times the L2 cache, "
    "timed by triton.testing.do_bench, median with 20th and 80th percentile"
)

_GRAPH_MS = 4.0  # a replay lasts about this long, so that what do_bench does around it is noise
_MOST_CALLS = 4096  # in one graph
_ROUNDS = 3  # how often rivals take turns
_ROUND_MS = 25.0  # of replays in each turn

Make = Callable[..., Callable[[], Any]]


class MeasureError(RuntimeError):
    """A measurement was refused because its number would mislead."""


@dataclass(frozen=True)
class Row:
    """One point of a sweep.

    Attributes
    ----------
    params
        The parameters of this point.
    seconds, low, high
        Median, 20th and 80th percentile of the device time of one call [s].
    bytes, flops
        What the algorithm must move [B] and do [FLOP]; None where the chapter does not say.
    cold
        Whether the inputs came from device memory, and not from a cache warmed by the call before.
    """

    params: Mapping[str, Any]
    seconds: float
    low: float
    high: float
    bytes: float | None = None
    flops: float | None = None
    cold: bool = True

    @property
    def bandwidth(self) -> float:
        """Bytes that had to move, per second [B/s]."""
        return _needed(self.bytes, "bytes") / self.seconds

    @property
    def rate(self) -> float:
        """Operations that had to be done, per second [FLOP/s]."""
        return _needed(self.flops, "flops") / self.seconds

    @property
    def intensity(self) -> float:
        """Operations per byte [FLOP/B]."""
        return _needed(self.flops, "flops") / _needed(self.bytes, "bytes")


def _needed(value: float | None, what: str) -> float:
    if value is None:
        raise ValueError(f"this measurement was declared without {what}=, so what depends on them is unknown")
    return value


@dataclass(frozen=True)
class Measurement:
    """One callable, timed over a sweep."""

    name: str
    label: str
    rows: tuple[Row, ...]
    source: Source
    dropped: tuple[Mapping[str, Any], ...] = ()

    def at(self, **params: Any) -> Row:
        """Return the row with these parameters.

        Raises
        ------
        KeyError
            There is none: it was not in the sweep, or did not fit into this GPU's memory.
        """
        for row in self.rows:
            if all(row.params.get(key) == value for key, value in params.items()):
                return row
        why = (
            "did not fit into this GPU's memory"
            if any(dict(d) == params for d in self.dropped)
            else "is not in the sweep"
        )
        raise KeyError(
            f"{self.name}, {self.label}: {params} {why}; there are {[dict(r.params) for r in self.rows]}"
        )

    @property
    def best(self) -> Row:
        """The row with the highest bandwidth."""
        return max(self.rows, key=lambda row: row.bandwidth)


class Comparison(Mapping[str, Measurement]):
    """Rivals timed in one run over the same sweep: label to `Measurement`."""

    def __init__(self, name: str, rivals: Mapping[str, Measurement]):
        self.name = name
        self._rivals = dict(rivals)

    def __getitem__(self, label: str) -> Measurement:
        return self._rivals[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rivals)

    def __len__(self) -> int:
        return len(self._rivals)

    @property
    def source(self) -> Source:
        """The source of the rivals' numbers; stale if any rival's is."""
        sources = [rival.source for rival in self._rivals.values()]
        return next((source for source in sources if source.stale), sources[0])

    def ratio(self, fast: str, slow: str, **params: Any) -> float:
        """How many times faster `fast` is than `slow`; 1 where the difference is smaller than the spread."""
        first, second = self[fast].at(**params), self[slow].at(**params)
        return second.seconds / first.seconds if differ(first, second) else 1.0

    def table(self, of: str = "bandwidth", caption: str = "") -> Table:
        """Return a table with a row a size and a column a rival.

        Parameters
        ----------
        of
            `"bandwidth"`, `"rate"` or `"seconds"`.
        """
        unit = {"bandwidth": "B/s", "rate": "FLOP/s", "seconds": "s"}[of]
        points = _merge(rival.rows for rival in self._rivals.values())
        rows = []
        for params in points:
            cells = []
            for rival in self._rivals.values():
                row = next((r for r in rival.rows if dict(r.params) == params), None)
                cells.append(si(getattr(row, of), unit) if row else "–")
            rows.append((*(count(v) if isinstance(v, int) else str(v) for v in params.values()), *cells))
        heads = [f"{label} (stale)" if rival.source.stale else label for label, rival in self._rivals.items()]
        names = list(points[0]) if points else []
        return Table((*names, *heads), rows, caption, self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """The small print: where the numbers come from, and what was left out."""
        dropped = _merge(rival.dropped for rival in self._rivals.values())
        left_out = [
            ", ".join(f"{k} = {count(v) if isinstance(v, int) else v}" for k, v in d.items()) for d in dropped
        ]
        more = (f"Left out, too large for this GPU's memory: {'; '.join(left_out)}.",) if left_out else ()
        return (self.source.line, *more)

    def __str__(self) -> str:
        return str(self.table("seconds"))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table("seconds")._repr_html_()


def _merge(lists: Any) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = []
    for items in lists:
        for item in items:
            params = dict(item.params if isinstance(item, Row) else item)
            if params not in merged:
                merged.append(params)
    return merged


def differ(a: Row, b: Row) -> bool:
    """Whether two times differ by more than their spread: the 20th to 80th percentiles do not overlap."""
    return a.high < b.low or b.high < a.low


def measure(
    name: str,
    rivals: Mapping[str, Make],
    over: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    *,
    bytes: Callable[..., float] | None = None,
    flops: Callable[..., float] | None = None,
) -> Comparison:
    """Time rivals over a sweep, or replay what was recorded.

    Parameters
    ----------
    name
        Unique in the workshop; each rival is recorded as `name/label`.
    rivals
        A label for each named function `make(**params)` that makes random inputs on `lab.device()` and returns the callable
        to time. It is called several times for each point, and never when replaying.
    over
        The sweep: the values of each parameter, all combinations in order, or a list of points.
    bytes, flops
        What the algorithm must move [B] and do [FLOP] at a point, as functions of its parameters.

    Raises
    ------
    MeasureError
        The callable cannot be captured in a CUDA graph, usually because it waits for the GPU.
    RecordError, StaleError
        See `kernels.lab.record.recorded`.
    """
    points = _points(over)
    timed: dict[str, dict[str, Any]] = {}

    def take(label: str) -> dict[str, Any]:
        if not timed:  # all rivals are timed in turns when the first is asked for
            timed.update(_sweep(name, rivals, points))
        return timed[label]

    measured = {}
    for label, make in rivals.items():
        values, source = record.recorded(
            f"{name}/{label}",
            kind="sweep",
            method=METHOD,
            fingerprint=record.fingerprint(make, points),
            take=lambda label=label: take(label),  # type: ignore[misc]
        )
        rows = tuple(_row(values_of_row, bytes, flops) for values_of_row in values["rows"])
        measured[label] = Measurement(name, label, rows, source, tuple(values["dropped"]))
    return Comparison(name, measured)


def _points(over: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(over, Mapping):
        return [dict(zip(over, values, strict=True)) for values in itertools.product(*over.values())]
    return [dict(point) for point in over]


def _row(
    values: Mapping[str, Any], bytes: Callable[..., float] | None, flops: Callable[..., float] | None
) -> Row:
    params = values["params"]
    return Row(
        params,
        values["seconds"],
        values["low"],
        values["high"],
        bytes(**params) if bytes else None,
        flops(**params) if flops else None,
        values["cold"],
    )


# --- on the GPU --------------------------------------------------------------------------------------------------------


def _sweep(
    name: str, rivals: Mapping[str, Make], points: Sequence[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    if not _mode.live():
        raise MeasureError(
            "there is no GPU in this process, and the interpreter's time says nothing about one"
        )
    taken: dict[str, dict[str, Any]] = {
        label: {"rows": [], "dropped": [], "throttle": set()} for label in rivals
    }
    for params in progress(points, f"measuring {name}"):
        for label, row in _time_point(rivals, params).items():
            if row is None:
                taken[label]["dropped"].append(params)
            else:
                taken[label]["throttle"].update(row.pop("throttle"))
                taken[label]["rows"].append({"params": params, **row})
    return {label: {**values, "throttle": sorted(values["throttle"])} for label, values in taken.items()}


def _time_point(rivals: Mapping[str, Make], params: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    """Time every rival at one point; None for one that does not fit into memory."""
    graphs: dict[str, _Graph | None] = {}
    for label, make in rivals.items():
        try:
            graphs[label] = _Graph(make, params)
        except torch.cuda.OutOfMemoryError:
            graphs[label] = None
            _free()
    fitting = {label: graph for label, graph in graphs.items() if graph is not None}
    for _ in range(_ROUNDS):
        for graph in fitting.values():
            graph.turn()
    rows: dict[str, dict[str, Any] | None] = {
        label: graph.result() if graph else None for label, graph in graphs.items()
    }
    del graphs, fitting
    _free()
    return rows


def _free() -> None:
    gc.collect()
    torch.cuda.empty_cache()


class _Graph:
    """A CUDA graph of calls whose inputs rotate, and the times of its replays."""

    _warm = False  # whether this process has warmed the card up

    def __init__(self, make: Make, params: Mapping[str, Any]):
        before = torch.cuda.memory_allocated()
        first = make(**params)
        output = _first_call(first)
        torch.cuda.synchronize()
        held = max(1, torch.cuda.memory_allocated() - before)
        del output
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        wanted = math.ceil(3 * l2 / held)
        calls = [first] + [make(**params) for _ in range(min(wanted, _MOST_CALLS) - 1)]
        self.cold = wanted <= _MOST_CALLS
        self.calls = max(len(calls), min(_MOST_CALLS, math.ceil(_GRAPH_MS / _rough_ms(first))))
        self.graph = torch.cuda.CUDAGraph()
        outputs: deque[Any] = deque(maxlen=len(calls))
        try:
            with torch.cuda.graph(self.graph):
                for index in range(self.calls):
                    outputs.append(calls[index % len(calls)]())
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise MeasureError(
                f"{_ONLY_LAUNCH} Restart Python before you measure again. CUDA said: {error}"
            ) from error
        self.keep = (calls, outputs)  # a replay reads and writes their memory
        self.times_ms: list[float] = []
        self.throttle: set[str] = set()
        self.clock: float | None = None
        self.power: float | None = None

    def turn(self) -> None:
        from triton.testing import do_bench

        warmup, _Graph._warm = (5.0 if _Graph._warm else 200.0), True
        self.times_ms += do_bench(self.graph.replay, warmup=warmup, rep=_ROUND_MS, return_mode="all")
        if state := conditions():
            self.clock, self.power = state.sm_clock_hz, state.power_w
            self.throttle.update(state.throttle)

    def result(self) -> dict[str, Any]:
        times = torch.tensor(self.times_ms, dtype=torch.float64) * 1e-3 / self.calls
        low, median, high = torch.quantile(times, torch.tensor([0.2, 0.5, 0.8], dtype=torch.float64)).tolist()
        return {
            "seconds": median,
            "low": low,
            "high": high,
            "calls": self.calls,
            "cold": self.cold,
            "sm_clock_hz": self.clock,
            "power_w": self.power,
            "throttle": self.throttle,
        }


_ONLY_LAUNCH = (
    "the callable could not be captured in a CUDA graph. It must only launch work: no .item(), no print of a tensor, "
    "no copy to the CPU, no synchronize."
)


def _first_call(fn: Callable[[], Any]) -> Any:
    """Call once, to compile and to see how much memory a call holds; then make sure that a call does not wait for the GPU."""
    output = fn()
    # Asked for here and not found out in the capture: a capture that fails leaves this process's random numbers unusable.
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        fn()
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        raise MeasureError(f"{_ONLY_LAUNCH} torch said: {error}") from error
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return output


def _rough_ms(fn: Callable[[], Any]) -> float:
    """About how long a call takes, launch included: only for choosing how many go into a graph."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(3):
        fn()
    end.record()
    torch.cuda.synchronize()
    return max(1e-3, float(start.elapsed_time(end)) / 3)
