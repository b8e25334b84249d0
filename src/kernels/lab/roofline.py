"""How fast could it be: arithmetic intensity, attainable performance, and the plot that shows both.

The model is that of S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance
model for multicore architectures", Communications of the ACM 52 (2009), with ceilings measured rather than
promised.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from kernels.lab import _mode, record
from kernels.lab._roofline_drawing import Drawing, Mark, Roof
from kernels.lab.ceilings import Ceilings
from kernels.lab.ceilings import ceilings as measured_ceilings
from kernels.lab.measure import Measurement, Row
from kernels.lab.plot import Plot
from kernels.lab.show import Table
from kernels.lab.units import digits, percent, si

FAR_BELOW = 0.2
"""Under this share of what is attainable, neither roof explains a kernel's speed."""

_TOLERANCE = 1.02  # above its roof by more than what two runs differ

# --- arithmetic ---------------------------------------------------------------------------------------------


def intensity(flops: float, bytes: float) -> float:
    """Return the arithmetic intensity [FLOP/B] of work that does `flops` operations and moves `bytes` bytes.

    >>> intensity(flops=1, bytes=12)  # a float32 vector add, for each element
    0.08333333333333333

    Raises
    ------
    ValueError
        `bytes` is not positive, or `flops` is negative.
    """
    if not (math.isfinite(flops) and flops >= 0):
        raise ValueError(f"flops must be zero or more, not {flops}")
    return flops / _positive("bytes", bytes)


def attainable(intensity: float, bandwidth: float, peak: float) -> float:
    """Return the highest rate [FLOP/s] at an intensity [FLOP/B], a bandwidth [B/s] and a peak [FLOP/s].

    >>> attainable(0.5, bandwidth=4e12, peak=60e12), attainable(100, bandwidth=4e12, peak=60e12)
    (2000000000000.0, 60000000000000.0)

    Raises
    ------
    ValueError
        The bandwidth or the peak is not positive, or the intensity is negative.
    """
    if not (math.isfinite(intensity) and intensity >= 0):
        raise ValueError(f"intensity must be zero or more, not {intensity}")
    return min(intensity * _positive("bandwidth", bandwidth), _positive("peak", peak))


def bound(intensity: float, bandwidth: float, peak: float) -> Literal["memory", "arithmetic"]:
    """Return which roof is the lower at an intensity: below the ridge memory, from there on arithmetic.

    Raises
    ------
    ValueError
        As for `attainable`.
    """
    limit = attainable(intensity, bandwidth, peak)
    return "memory" if intensity * bandwidth == limit < peak else "arithmetic"


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, not {value}")
    return value


# --- points -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One measured kernel on the roofline.

    Attributes
    ----------
    label
        What stands beside it.
    flops, bytes
        What the algorithm must do [FLOP] and move [B].
    seconds
        How long it took [s].
    roof
        The arithmetic ceiling that holds for it: `"FP32"`, `"TF32"`, `"FP16"` or `"BF16"`.
    path
        The sweep that led to it, as pairs of intensity [FLOP/B] and rate [FLOP/s] in order.
    faint
        Whether it is there for comparison only, such as a point of an earlier chapter.
    """

    label: str
    flops: float
    bytes: float
    seconds: float
    roof: str = "FP32"
    path: Sequence[tuple[float, float]] = ()
    faint: bool = False

    def __post_init__(self) -> None:
        for name in ("flops", "bytes", "seconds"):
            try:
                _positive(name, getattr(self, name))
            except ValueError as error:
                raise ValueError(
                    f"the point {self.label!r} has no place on a logarithmic plot: {error}"
                ) from None

    @property
    def intensity(self) -> float:
        """Operations per byte [FLOP/B]."""
        return intensity(self.flops, self.bytes)

    @property
    def rate(self) -> float:
        """Operations per second [FLOP/s]."""
        return self.flops / self.seconds

    @classmethod
    def of(cls, label: str, row: Row, *, roof: str = "FP32") -> "Point":
        """Return the point of one row of a measurement that was declared with `bytes=` and `flops=`."""
        if row.flops is None or row.bytes is None:
            raise ValueError(
                f"the point {label!r} needs a measurement that was declared with bytes= and flops="
            )
        return cls(label, row.flops, row.bytes, row.seconds, roof)

    @classmethod
    def swept(cls, label: str, measurement: Measurement, *, roof: str = "FP32") -> "Point":
        """Return the point of a sweep's last row, with the path that led there."""
        point = cls.of(label, measurement.rows[-1], roof=roof)
        return replace(point, path=tuple((row.intensity, row.rate) for row in measurement.rows))


@dataclass(frozen=True)
class Standing:
    """How a point stands to the roofs above it.

    Attributes
    ----------
    attainable
        The lower of the two roofs at its intensity [FLOP/s].
    share
        The part of it that the kernel reaches.
    bound
        `"memory"`, `"arithmetic"`, `"neither"` where it stays so far below that no roof explains it, or
        `"above"` where it is faster than the roof.
    """

    attainable: float
    share: float
    bound: Literal["memory", "arithmetic", "neither", "above"]

    def words(self, ceilings: Ceilings, roof: str) -> str:
        """Say which roof bounds the point."""
        if self.bound == "above":
            return "above its roof: served from a cache, or with its bytes or operations miscounted"
        if self.bound == "neither":
            return "bound by neither roof"
        return f"bound by {ceilings['memory'].name if self.bound == 'memory' else ceilings[roof].name}"


def standing(point: Point, ceilings: Ceilings) -> Standing:
    """Set a point against the memory roof and the arithmetic roof that hold for it."""
    roofs = (ceilings.bandwidth, ceilings.peak(point.roof))
    limit = attainable(point.intensity, *roofs)
    share = point.rate / limit
    if share > _TOLERANCE:
        return Standing(limit, share, "above")
    return Standing(limit, share, "neither" if share < FAR_BELOW else bound(point.intensity, *roofs))


# --- the thread through the chapters ------------------------------------------------------------------------


def earlier(chapter: int) -> tuple[Point, ...]:
    """Return, faint, the points of the chapters before this one that this GPU's record holds.

    They come from the record alone, so that a chapter needs no other chapter's code. On a GPU where the
    earlier chapters have not run there are none. Of points with the same label the latest counts.
    """
    entries = _entries()
    found: dict[str, Point] = {}
    for number in range(1, chapter):
        entry = entries.get(_key(number))
        for values in entry["values"]["points"] if entry else ():
            found[values["label"]] = Point(**values, faint=True)
    return tuple(found.values())


def _entries() -> dict[str, Any]:
    if not _mode.live():
        return dict(record.replayed()["entries"])
    path = record.directory() / f"{record.slug(record.current().gpu)}.json"
    return dict(record.load(path)["entries"]) if path.exists() else {}


def _key(chapter: int) -> str:
    return f"roofline/{chapter}"


def _keep(points: Iterable[Point], chapter: int) -> record.Source:
    """Put a chapter's points into the record for the chapters after it."""
    plain = [
        {"label": p.label, "flops": p.flops, "bytes": p.bytes, "seconds": p.seconds, "roof": p.roof}
        for p in points
    ]
    what = [{name: value for name, value in values.items() if name != "seconds"} for values in plain]
    _, source = record.recorded(
        _key(chapter),
        kind="observation",
        method="the chapter's measurements, as its roofline shows them",
        fingerprint=record.fingerprint(what),
        take=lambda: {"points": plain},
    )
    return source


# --- the plot -----------------------------------------------------------------------------------------------


def roofline(
    points: Sequence[Point], *, title: str = "", chapter: int | None = None, ceilings: Ceilings | None = None
) -> Plot:
    """Plot points under this machine's measured roofs.

    Parameters
    ----------
    points
        What to show, each labelled.
    title
        What the plot finds; without it, whose roofline it is.
    chapter
        The chapter's number: its points are kept in the record, and those of the chapters before it are shown
        faint.
    ceilings
        The roofs, where they are not to be this machine's.

    Raises
    ------
    KeyError
        A point names an arithmetic roof that this GPU does not have.
    RecordError, StaleError
        See `kernels.lab.record.recorded`.
    """
    roofs = ceilings or measured_ceilings()
    shown = list(points)
    notes = []
    stale = False
    if chapter is not None:
        stale = _keep([point for point in points if not point.faint], chapter).stale
        own = {point.label for point in points}
        before = [point for point in earlier(chapter) if point.label not in own]
        shown = [*before, *shown]
        if before:
            notes.append("Faint: earlier chapters.")
        elif chapter > 1:
            notes.append("The points of earlier chapters join once those have run on this GPU.")
    if stale and not roofs.source.stale:
        notes.append("STALE: the points have changed since they were recorded.")
    standings = [standing(point, roofs) for point in shown]
    drawing = Drawing(_roofs(roofs, shown), [_mark(p, s) for p, s in zip(shown, standings, strict=True)])
    return Plot(
        title or f"Roofline of {roofs.source.gpu}",
        drawing.draw,
        _words(roofs, shown, standings),
        _table(roofs, shown, standings),
        (_legend(standings), *notes, roofs.source.line),
        drawing.sizes,
    )


_LEGEND = {
    "memory": "● bound by memory",
    "arithmetic": "■ bound by arithmetic",
    "neither": "◇ bound by neither roof",
    "above": "▲ above its roof",
}


def _legend(standings: Sequence[Standing]) -> str:
    there = {stands.bound for stands in standings}
    return ", ".join(text for bound, text in _LEGEND.items() if bound in there) + ". Ridges in FLOP/B."


def _flat(ceilings: Ceilings, points: Sequence[Point]) -> list[str]:
    """The arithmetic roofs to draw: FP16's is BF16's where there is both, so only where a point needs it."""
    used = {point.roof for point in points}
    return [
        k
        for k in ("FP32", "TF32", "FP16", "BF16")
        if k in ceilings and (k != "FP16" or k in used or "BF16" not in ceilings)
    ]


def _roofs(ceilings: Ceilings, points: Sequence[Point]) -> list[Roof]:
    bandwidths = [key for key in ("memory", "L2") if key in ceilings]
    slanted = [Roof(ceilings[k].name, ceilings[k].value, slanted=True, faint=k == "L2") for k in bandwidths]
    return slanted + [Roof(key, ceilings[key].value, slanted=False) for key in _flat(ceilings, points)]


def _mark(point: Point, standing: Standing) -> Mark:
    return Mark(point.label, point.intensity, point.rate, standing.bound, tuple(point.path), point.faint)


def _words(ceilings: Ceilings, points: Sequence[Point], standings: Sequence[Standing]) -> str:
    said = ["A roofline plot: rate over arithmetic intensity, both axes logarithmic."]
    memory = ceilings["memory"]
    said.append(f"The slanted roof is {memory.name}, {si(memory.value, 'B/s')} ({memory.how}).")
    if "L2" in ceilings:
        said.append(f"Above it, faint, is the {ceilings['L2'].name}, {si(ceilings['L2'].value, 'B/s')}.")
    for key in _flat(ceilings, points):
        flat = ceilings[key]
        said.append(
            f"The flat roof of {flat.name} is at {si(flat.value, 'FLOP/s')}, "
            f"its ridge at {digits(flat.value / memory.value)} FLOP/B."
        )
    for point, stands in zip(points, standings, strict=True):
        swept = ", reached by a sweep" if point.path else ""
        before = ", from an earlier chapter" if point.faint else ""
        said.append(
            f"{point.label}{before}: {digits(point.intensity)} FLOP/B, {si(point.rate, 'FLOP/s')}{swept}, "
            f"{percent(stands.share)} of the attainable {si(stands.attainable, 'FLOP/s')}, "
            f"{stands.words(ceilings, point.roof)}."
        )
    return " ".join(said)


def _table(ceilings: Ceilings, points: Sequence[Point], standings: Sequence[Standing]) -> Table:
    rows = [
        (
            point.label,
            digits(point.intensity),
            si(point.rate, "FLOP/s"),
            si(stands.attainable, "FLOP/s"),
            percent(stands.share),
            stands.words(ceilings, point.roof),
        )
        for point, stands in zip(points, standings, strict=True)
    ]
    columns = ("kernel", "intensity [FLOP/B]", "rate", "attainable", "share", "which roof")
    return Table(columns, rows, "Points under the roofs")
