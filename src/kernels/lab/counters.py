"""What the hardware counted while a kernel ran: bytes, hits, sectors, lanes, warps, and what the warps waited for.

The numbers are Nsight Compute's, read in a child process and recorded like a timing, so that a page without a GPU replays
them. Where a GPU is there and its counters cannot be read, the table says why and how to mend it, shows what needs no
permission (what was launched, its registers and shared memory, the occupancy they allow), and beside it the counters of
the reference GPU, named as such.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from kernels.lab import _ncu, _source, record
from kernels.lab._launched import Launched, launched
from kernels.lab._quantities import METRICS, QUANTITIES, STALLS, Quantity, quantities, stalls
from kernels.lab._standalone import standalone
from kernels.lab.machine import Problem
from kernels.lab.record import Source
from kernels.lab.show import Group, Table, escape, notes_html, wrap
from kernels.lab.units import count, digits, percent, si

METHOD = (
    "hardware counters of one call after one that compiles, by Nsight Compute: each kernel repeated for each group of "
    "counters, caches emptied before every repetition, clocks left as they are"
)

Make = Callable[..., Callable[[], Any]]

_STALLS_SHOWN = 3


class CountersError(RuntimeError):
    """The counters of a callable could not be read because of the callable, or of how it was declared."""


@dataclass(frozen=True)
class Kernel:
    """One kernel that the callable launched: its name and its quantities."""

    name: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Counters(Mapping[str, float]):
    """The counters of one call, by readable name; all its kernels together.

    `counted["dram_read"]` is in bytes, `counted["seconds"]` in seconds, every rate and share a fraction of one. The names
    are those of `kernels.lab.counters.QUANTITIES`.

    Attributes
    ----------
    name
        As declared.
    total
        The quantities over all kernels of the call.
    stalls
        The share of the warps' time by what they were doing, the largest first; in NVIDIA's words, see `STALLS`.
    kernels
        Each kernel by itself, in the order of launch.
    missing
        Labels of the quantities that this GPU or this version of Nsight Compute does not give.
    tool
        The profiler and its version.
    source
        Where the numbers come from; None where there are none.
    needed
        The bytes that the algorithm must move [B], where the chapter says so.
    problem
        Why the counters could not be read on this machine, where it has a GPU.
    here
        What was launched on this machine, where its counters could not be read.
    shown
        The names of the rows that the table has; all where empty. See `only`.
    """

    name: str
    total: Mapping[str, float]
    stalls: Mapping[str, float]
    kernels: tuple[Kernel, ...]
    missing: tuple[str, ...] = ()
    tool: str = ""
    source: Source | None = None
    needed: float | None = None
    problem: Problem | None = None
    here: tuple[Launched, ...] = ()
    shown: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        if name in self.total:
            return self.total[name]
        if self.source is None and self.problem is not None:
            raise KeyError(f"{name!r} of {self.name!r} is not known: {self.problem.what}")
        raise KeyError(f"{self.name!r} has no {name!r}; there are {', '.join(self.total)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.total)

    def __len__(self) -> int:
        return len(self.total)

    @property
    def moved(self) -> float:
        """Bytes that went between device memory and the L2 cache, both ways [B]."""
        return self["dram_read"] + self["dram_written"]

    def text(self, name: str) -> str:
        """Return a quantity as people read it, or a dash where it is not known."""
        return _text(_quantity(name), self.total)

    def only(self, *names: str) -> "Counters":
        """Return the same counters with a table of some rows only.

        Parameters
        ----------
        names
            Of quantities; `"needed"` for the rows about the bytes needed, `"stalls"` for what the warps waited for.
        """
        for name in names:
            if name not in ("needed", "stalls"):
                _quantity(name)
        return replace(self, shown=names)

    # --- showing it ---

    def _rows(self) -> list[tuple[str, str, str]]:
        rows = []
        for quantity in QUANTITIES:
            if quantity.name in self.total and self._shows(quantity.name):
                rows.append((quantity.label, _text(quantity, self.total), quantity.meaning))
            if quantity.name == "dram_written" and self._shows("needed"):
                rows += self._needed_rows()
        return rows + (self._stall_rows() if self._shows("stalls") else [])

    def _shows(self, name: str) -> bool:
        return not self.shown or name in self.shown

    def _needed_rows(self) -> list[tuple[str, str, str]]:
        if self.needed is None:
            return []
        rows = [("bytes needed", si(self.needed, "B"), "that the algorithm must move at least")]
        if "dram_read" in self.total and "dram_written" in self.total:
            ratio = f"{digits(self.moved / self.needed)} ×"
            rows.append(("moved, of the needed", ratio, "read and written together, over the bytes needed"))
        return rows

    def _stall_rows(self) -> list[tuple[str, str, str]]:
        waits = [(reason, share) for reason, share in self.stalls.items() if reason != "selected"]
        return [
            (f"warps: {STALLS[reason][0]}", percent(share), f"of their time; {STALLS[reason][1]}")
            for reason, share in waits[:_STALLS_SHOWN]
            if share >= 0.01
        ]

    def _caption(self) -> str:
        names = [kernel.name for kernel in self.kernels]
        return (
            f"{self.name}: {names[0]}" if len(names) == 1 else f"{self.name}: {len(names)} kernels together"
        )

    def _notes(self) -> tuple[str, ...]:
        if self.source is None:
            return ()
        without = (f"Not counted on this GPU: {', '.join(self.missing)}.",) if self.missing else ()
        return (self.source.line, f"{self.tool}: one call, caches emptied before it.", *without)

    def _kernel_table(self) -> Table:
        shown = [
            q
            for q in QUANTITIES
            if q.name in ("seconds", "dram_read", "dram_written", "dram_share", "instructions")
        ]
        rows = [(kernel.name, *(_text(q, kernel.values) for q in shown)) for kernel in self.kernels]
        return Table(("kernel", *(q.label for q in shown)), rows, f"{self.name}: kernel by kernel")

    def _here_table(self) -> Table:
        def fits(one: Launched) -> tuple[str, str]:
            found = one.occupancy
            return (
                (f"{found.warps} ({percent(found.share)})", ", ".join(found.limited_by))
                if found
                else ("–", "–")
            )

        rows = [
            (
                one.kernel,
                count(one.programs),
                count(one.threads),
                count(one.registers),
                si(one.shared_bytes, "B"),
                *fits(one),
            )
            for one in self.here
        ]
        columns = ("kernel", "programs", "threads per program", "registers per thread", "shared memory",
                   "warps that fit on an SM", "limited by")  # fmt: skip
        needed = (f"The algorithm must move {si(self.needed, 'B')}.",) if self.needed is not None else ()
        note = "Launched on this GPU; seen by torch.profiler, which needs no permission. Occupancy is calculated."
        return Table(columns, rows, f"{self.name}: on this machine", (note, *needed))

    def _parts(self) -> list[Any]:
        """What stands before the table of counters."""
        parts: list[Any] = [self.problem] if self.problem else []
        parts += [self._here_table()] if self.here else []
        return parts + ([self._kernel_table()] if len(self.kernels) > 1 else [])

    def __str__(self) -> str:
        table = Table(("counter", "value", "meaning"), self._rows(), self._caption(), self._notes())
        return str(Group([*self._parts(), *([table] if self.kernels else [])]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        above = Group(self._parts())._repr_html_()
        return above + self._counter_html() if self.kernels else above

    def _counter_html(self) -> str:
        # Not a `Table`: names and meanings are long, and a phone must be able to wrap them.
        wrapping = "white-space:normal;vertical-align:baseline;font-weight:inherit;color:inherit"
        rows = "".join(
            f'<tr style="vertical-align:baseline"><th scope="row" style="{wrapping}">{escape(label)}</th>'
            f'<td class="lab-number">{escape(value)}</td>'
            f'<td style="{wrapping};min-width:9rem">{escape(meaning)}</td></tr>'
            for label, value, meaning in self._rows()
        )
        head = "".join(f'<th scope="col">{name}</th>' for name in ("counter", "value", "meaning"))
        caption = escape(self._caption())
        return wrap(
            f'<div class="lab-scroll" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes_html(self._notes())}",
            kind="lab-table",
        )


def _quantity(name: str) -> Quantity:
    for quantity in QUANTITIES:
        if quantity.name == name:
            return quantity
    raise KeyError(f"no quantity is called {name!r}; there are {', '.join(q.name for q in QUANTITIES)}")


def _text(quantity: Quantity, values: Mapping[str, float]) -> str:
    if quantity.name not in values:
        return "–"
    value = values[quantity.name]
    if quantity.unit in ("B", "s"):
        return si(value, quantity.unit)
    return {"share": percent, "count": count, "ratio": digits}[quantity.unit](value)


def side_by_side(counted: Mapping[str, Counters], *names: str, caption: str = "") -> Table:
    """Return a table with a row a quantity and a column a callable.

    Parameters
    ----------
    counted
        A heading for each.
    names
        The quantities to show, by name; all that any of them has where none is given.
    """
    wanted = names or tuple(q.name for q in QUANTITIES if any(q.name in one for one in counted.values()))
    rows = [(_quantity(name).label, *(one.text(name) for one in counted.values())) for name in wanted]
    lines = [one.source.line for one in counted.values() if one.source]
    return Table(("counter", *counted), rows, caption, tuple(dict.fromkeys(lines)))


# --- counting ----------------------------------------------------------------------------------------------------------


def counters(name: str, make: Make, *, bytes: Callable[..., float] | None = None, **params: Any) -> Counters:
    """Read the hardware counters of one call, or replay what was recorded.

    Parameters
    ----------
    name
        Unique in the workshop, together with the parameters.
    make
        A named function `make(**params)` that makes random inputs on `lab.device()` and returns the callable to count. It
        runs in a child process, so everything it uses must be a function, an import or plain data. It is never called
        when replaying.
    bytes
        What the algorithm must move [B], as a function of the parameters.
    params
        Passed on to `make`.

    Raises
    ------
    CountersError
        `make` or the callable failed, launched no kernel, or uses something that a child process cannot have.
    RecordError, StaleError
        See `kernels.lab.record.recorded`.
    """
    key = f"{name}[{','.join(f'{k}={v}' for k, v in params.items())}]" if params else name
    fingerprint = record.fingerprint(make, params)
    needed = bytes(**params) if bytes else None
    try:
        values, source = record.recorded(
            key, kind="counters", method=METHOD, fingerprint=fingerprint, take=lambda: _take(make, params)
        )
    except _ncu.UnavailableError as error:
        return _without_permission(name, key, fingerprint, needed, error.problem, launched(make(**params)))
    return _counters(
        name, values, source, needed=needed, problem=_ncu.missing() if torch.version.hip else None
    )


def _counters(
    name: str,
    values: Mapping[str, Any],
    source: Source,
    *,
    needed: float | None,
    problem: Problem | None,
    here: tuple[Launched, ...] = (),
) -> Counters:
    kernels = tuple(Kernel(kernel["kernel"], kernel["quantities"]) for kernel in values["kernels"])
    total = values["total"] if len(kernels) > 1 else kernels[0].values
    by_share = dict(sorted(values["stalls"].items(), key=lambda item: -item[1]))
    missing = tuple(q.label for q in QUANTITIES if q.name in values["missing"])
    return Counters(name, total, by_share, kernels, missing, values["tool"], source, needed, problem, here)


def _without_permission(
    name: str, key: str, fingerprint: str, needed: float | None, problem: Problem, here: tuple[Launched, ...]
) -> Counters:
    """Return what this machine can say without counters, and the reference GPU's counters if they are recorded."""
    reference = record.reference()
    entry = reference["entries"].get(key) if reference else None
    if reference is None or entry is None:
        return Counters(name, {}, {}, (), needed=needed, problem=problem, here=here)
    source = record._source_of(
        reference["runs"][entry["run"]],
        live=False,
        stale=entry["fingerprint"] != fingerprint or entry["method"] != METHOD,
        method=entry["method"],
    )
    record.used.append(source)
    return _counters(name, entry["values"], source, needed=needed, problem=problem, here=here)


def _take(make: Make, params: Mapping[str, Any]) -> dict[str, Any]:
    """Profile `make(**params)()` in a child process."""
    function = _source.unwrap(make)
    try:
        job = standalone(function, __arguments__=dict(params))
    except _source.SourceError as error:
        raise CountersError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="counters-") as folder:
        (Path(folder) / "job.py").write_text(job, encoding="utf-8")
        left = Path(folder) / "error.txt"
        try:
            launches = _ncu.profile(
                [sys.executable, "-m", "kernels.lab._counters_child", folder, function.__name__],
                METRICS,
                Path(folder),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                failure=lambda: left.read_text(encoding="utf-8") if left.exists() else None,
            )
        except _ncu.ProfileError as failed:
            raise CountersError(
                f"the counters of {function.__name__} could not be read: {failed}"
            ) from failed
    ncu = _ncu.find()
    assert ncu is not None
    return summary(launches, f"Nsight Compute {_ncu.version(ncu)}")


def summary(launches: list[_ncu.Launch], tool: str) -> dict[str, Any]:
    """Return what is recorded of some launches: readable quantities of each, and of all together where there are several."""
    values = [launch.values for launch in launches]
    together = {"total": quantities(values)} if len(launches) > 1 else {}
    return {
        **together,
        "tool": tool,
        "stalls": {reason: share for reason, share in stalls(values).items() if share >= 0.001},
        "kernels": [
            {"kernel": launch.kernel, "quantities": quantities([launch.values])} for launch in launches
        ],
        # A kernel without loads has no sectors per load, and that is no fault of the GPU: only the unknown is missing.
        "missing": [q.name for q in QUANTITIES if not q.offered(values)],
    }
