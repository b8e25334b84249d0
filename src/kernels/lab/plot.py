"""Plots that read in both themes, on a phone, through a screen reader and in a terminal."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernels.lab._axes import Axis, frame, is_binary, text_height, text_width
from kernels.lab._placing import spread, wrap
from kernels.lab._svg import COLOURS, NARROW, SMALL_PX, WIDE, Draw, Size, render
from kernels.lab.measure import Comparison, Measurement
from kernels.lab.show import Table, escape, fold_html, notes_html
from kernels.lab.show import wrap as in_frame
from kernels.lab.units import count, si


@dataclass(frozen=True)
class Plot:
    """A drawing that shows itself, with its data and with words that say what it shows.

    Parameters
    ----------
    title
        What the plot shows, or better what it finds; it stands above the drawing.
    draw
        Draws on an empty matplotlib figure of the given `Size`, in `COLOURS` only. It is called twice, for a
        wide and for a narrow place.
    alt
        What is to be seen, in words made from the data.
    data
        The data as a table.
    notes
        Lines below the drawing: what the marks mean, where the numbers come from.
    sizes
        The wide and the narrow size, where a drawing needs others than most.
    """

    title: str
    draw: Draw
    alt: str
    data: Table
    notes: Sequence[str] = field(default=())
    sizes: tuple[Size, Size] = (WIDE, NARROW)

    def __post_init__(self) -> None:
        if not self.title.strip() or not self.alt.strip():
            raise ValueError("a plot needs a title and a text alternative (alt), made from its data")

    def __str__(self) -> str:
        return "\n".join(
            [self.title, "", self.alt, "", str(self.data), *(f"  {note}" for note in self.notes)]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        drawings = "".join(self._svg(size) for size in self.sizes)
        words = f"<p>{escape(self.alt)}</p>{self.data._repr_html_()}"
        body = (
            f"<figure><figcaption>{escape(self.title)}</figcaption>{drawings}</figure>"
            f"{notes_html(self.notes)}{fold_html('This plot in words and numbers', words)}"
        )
        return in_frame(body, kind="lab-plot", assets=("lab.css", "plot.css"))

    def _svg(self, size: Size) -> str:
        kind = "narrow" if size.narrow else "wide"
        key = zlib.crc32(f"{self.title}\n{self.alt}\n{self.data}".encode())
        body = render(self.draw, size, f"plot-{key:08x}-{kind}")
        label = escape(f"{self.title}. {self.alt}")
        return (
            f'<svg class="lab-plot-{kind}" role="img" aria-label="{label}" '
            f'width="{size.width}" height="{size.height}" viewBox="0 0 {size.width} {size.height}">'
            f"{body}</svg>"
        )


@dataclass(frozen=True)
class Line:
    """One line of a plot: its name and its points, in base units.

    Attributes
    ----------
    low, high
        The 20th and 80th percentile at each point, where they are known.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def __post_init__(self) -> None:
        if not self.x:
            raise ValueError(f"the line {self.label!r} has no points")
        for name, values in (("y", self.y), ("low", self.low), ("high", self.high)):
            if len(values) != len(self.x) and not (name != "y" and not values):
                raise ValueError(
                    f"the line {self.label!r} has {len(self.x)} values of x, but {len(values)} of {name}"
                )


_QUANTITIES = {
    "bandwidth": ("bandwidth", "B/s"),
    "rate": ("rate", "FLOP/s"),
    "seconds": ("time of one call", "s"),
}
# Colour, line and marker change together, so that none is needed to tell lines apart.
_OURS = ("ours", "-", "o")
_OTHERS = (
    ("memory", (0, (6, 2)), "s"),
    ("arithmetic", (0, (6, 2, 1.5, 2)), "^"),
    ("waiting", (0, (2, 1.6)), "D"),
    ("text", "-", "v"),
    ("memory", "-", "P"),
    ("arithmetic", (0, (2, 1.6)), "X"),
    ("waiting", "-", "<"),
)


def plot(
    data: Mapping[str, Measurement] | Sequence[Line],
    x: str,
    y: str,
    *,
    title: str,
    x_label: str = "",
    x_unit: str = "",
    y_unit: str = "",
    log: str | None = None,
    ours: str = "",
    ceilings: Mapping[str, float] | None = None,
    region: tuple[str, float, float] | None = None,
    notes: Sequence[str] = (),
) -> Plot:
    """Plot lines over a sweep, each labelled at its end.

    Parameters
    ----------
    data
        A comparison, or lines made by hand.
    x, y
        For a comparison the parameter that is swept, and `"bandwidth"`, `"rate"` or `"seconds"`; for lines
        what the axes show.
    x_label, x_unit, y_unit
        What stands at the axes, where the names do not say it. A unit is a base unit: `"s"`, `"B/s"`, `"B"`.
    log
        Which axes are logarithmic: `"x"`, `"y"`, `"xy"` or `""`. Without it both for times, which grow with
        the size, and else the horizontal one.
    ours
        The label of the line that the page is about.
    ceilings
        Horizontal lines for reference, label to value.
    region
        A shaded part of the horizontal axis: label, from, to.
    notes
        Lines below the plot; a comparison adds where its numbers come from.

    Raises
    ------
    ValueError
        There is nothing to plot, or a value that is not positive on a logarithmic axis.
    """
    if isinstance(data, Mapping):
        if y not in _QUANTITIES:
            raise ValueError(f"{y!r} is not a measured quantity: choose one of {', '.join(_QUANTITIES)}")
        notes = (*notes, *Comparison(title, data).notes)
        lines = [_line(measurement, x, y) for measurement in data.values() if measurement.rows]
        log = log if log is not None else "xy" if y == "seconds" else "x"
        y, y_unit = _QUANTITIES[y]
    else:
        lines = list(data)
        log = "x" if log is None else log
    if not lines:
        raise ValueError(f"there is nothing to plot in {title!r}: no line has a point")
    ceilings = dict(ceilings or {})
    axes = _axes_of(lines, x_label or x, x_unit, y, y_unit, log, list(ceilings.values()), region)
    picture = _Picture(lines, *axes, ours, ceilings, region)
    if any(line.low for line in lines):
        notes = ("Marks are medians; bands reach from the 20th to the 80th percentile.", *notes)
    return Plot(title, picture.draw, picture.words(), picture.table(), notes)


def _line(measurement: Measurement, x: str, y: str) -> Line:
    rows = sorted(measurement.rows, key=lambda row: float(row.params[x]))
    xs = [float(row.params[x]) for row in rows]
    if len(set(xs)) < len(xs):
        raise ValueError(
            f"{measurement.name}, {measurement.label} has several rows with one {x}: more than {x} varies"
        )
    values, bands = [], []
    for row in rows:
        values.append(float(getattr(row, y)))
        # The slowest call has the lowest bandwidth: percentiles of time change sides.
        bands.append(
            sorted(float(getattr(replace(row, seconds=seconds), y)) for seconds in (row.low, row.high))
        )
    return Line(measurement.label, xs, values, [low for low, _ in bands], [high for _, high in bands])


def _axes_of(
    lines: Sequence[Line], x_label: str, x_unit: str, y_label: str, y_unit: str, log: str,
    ceilings: Sequence[float], region: tuple[str, float, float] | None,
) -> tuple[Axis, Axis]:  # fmt: skip
    xs = [value for line in lines for value in line.x]
    ys = [value for line in lines for value in (*line.y, *line.low, *line.high)] + list(ceilings)
    for name, values in (("x", xs), ("y", ys)):
        if not all(math.isfinite(value) for value in values):
            raise ValueError(f"a value of {name} is not finite")
        if name in log and min(values) <= 0:
            raise ValueError(f"a logarithmic axis has no place for {min(values):g}, a value of {name}")
    x_low, x_high = _padded(min(xs), max(xs), log="x" in log)
    if "y" in log:
        # Room for what is drawn, and for a region's label above it.
        y_low, y_high = _padded(min(ys), max(ys) * (1.5 if region else 1.0), log=True)
    else:
        y_low, y_high = min(0.0, min(ys)), max(ys) * (1.14 if region else 1.06) or 1.0
    x = Axis(x_label, x_unit, "x" in log, x_low, x_high, binary="x" in log and is_binary(xs))
    return x, Axis(y_label, y_unit, "y" in log, y_low, y_high)


def _padded(low: float, high: float, *, log: bool) -> tuple[float, float]:
    if log:
        factor = max((high / low) ** 0.03, 1.1)
        return low / factor, high * factor
    margin = 0.03 * (high - low) or 0.5
    return low - margin, high + margin


@dataclass(frozen=True)
class _End:
    """Where a line ends and its label belongs."""

    label: str
    colour: str
    x: float
    y: float


@dataclass(frozen=True)
class _Picture:
    """What `plot` shows: as a drawing, in words and as a table."""

    lines: Sequence[Line]
    x: Axis
    y: Axis
    ours: str
    ceilings: Mapping[str, float]
    region: tuple[str, float, float] | None

    # --- as a drawing

    def draw(self, figure: Figure, size: Size) -> None:
        limit = 96.0 if size.narrow else 170.0
        names = [*self.ceilings, *(line.label for line in self.lines)]
        labels = {name: wrap(name, limit, text_width) for name in names}
        right = max(text_width(label) for label in labels.values()) + 16
        axes = frame(figure, size, self.x, self.y, right_px=right)
        if self.region:
            self._shade(axes)
        ends = []
        for name, value in self.ceilings.items():
            axes.axhline(value, color=COLOURS["text"], lw=1.2, ls=(0, (1, 2)))
            ends.append(_End(labels[name], "text", self.x.high, value))
        styled = list(zip(self.lines, self._styles(), strict=True))
        for line, (colour, dashes, marker) in sorted(styled, key=lambda pair: pair[0].label == self.ours):
            self._draw_line(axes, line, colour, dashes, marker)
            ends.append(_End(labels[line.label], colour, line.x[-1], line.y[-1]))
        self._label_ends(axes, ends)

    def _styles(self) -> list[tuple[str, object, str]]:
        others = iter(_OTHERS * (1 + len(self.lines) // len(_OTHERS)))
        return [_OURS if line.label == self.ours else next(others) for line in self.lines]

    def _draw_line(self, axes: Axes, line: Line, colour: str, dashes: object, marker: str) -> None:
        ink = COLOURS[colour]
        if line.low and line.high:
            axes.fill_between(line.x, line.low, line.high, color=ink, alpha=0.18, lw=0)
        width = 2.4 if line.label == self.ours else 1.8
        size = 5.0 if len(line.x) <= 16 else 3.5
        axes.plot(
            line.x, line.y, color=ink, ls=dashes, lw=width, marker=marker, ms=size, mew=0, clip_on=False
        )

    def _label_ends(self, axes: Axes, ends: Sequence[_End]) -> None:
        """Write each line's name at its end; where names would meet they part, and a thin line leads back."""
        (_, bottom), (right, top) = axes.transAxes.transform([(0, 0), (1, 1)])
        starts = axes.transData.transform([(end.x, end.y) for end in ends])
        heights = [text_height(end.label) + 2 for end in ends]
        middles = spread([float(y) for _, y in starts], heights, float(bottom) - 4, float(top) + 8)
        for end, (x, y), middle in zip(ends, starts, middles, strict=True):
            ink = COLOURS[end.colour]
            axes.plot([x, right, right + 9], [y, y, middle], color=ink, lw=0.8, transform=None, clip_on=False)
            axes.text(right + 12, middle, end.label, color=ink, transform=None, va="center", linespacing=1.15)

    def _shade(self, axes: Axes) -> None:
        assert self.region is not None
        label, low, high = self.region
        low, high = max(low, self.x.low), min(high, self.x.high)
        axes.axvspan(low, high, color=COLOURS["waiting"], alpha=0.13, lw=0)
        (start, top), (end, _) = axes.transData.transform([(low, self.y.high), (high, self.y.high)])
        text = wrap(label, max(end - start - 10, 60), lambda line: text_width(line, SMALL_PX))
        axes.text(start + 6, top - 5, text, color=COLOURS["waiting"], size=SMALL_PX, transform=None, va="top")

    # --- in words and numbers

    def words(self) -> str:
        scales = {
            "both axes": self.x.log and self.y.log,
            "the horizontal axis": self.x.log,
            "the vertical axis": self.y.log,
        }
        log = next((f", {name} logarithmic" for name, is_log in scales.items() if is_log), "")
        said = [f"A line plot of {self.y.label} over {self.x.label}{log}."]
        said += [self._line_in_words(line) for line in self.lines]
        said += [f"For reference, {name}: {self._y(value)}." for name, value in self.ceilings.items()]
        if self.region:
            said.append(self._region_in_words(*self.region))
        return " ".join(said)

    def _region_in_words(self, label: str, low: float, high: float) -> str:
        xs = [value for line in self.lines for value in line.x]
        start = f" from {self._x(low)} on" if low > min(xs) else ""
        end = f" up to {self._x(high)}" if high < max(xs) else ""
        return f"Shaded{start}{end}: {label}."

    def _line_in_words(self, line: Line) -> str:
        said = [f"{self._y(y)} at {self._x(x)}" for x, y in zip(line.x, line.y, strict=True)]
        if len(said) == 1:
            return f"{line.label}: {said[0]}."
        parts = [f"from {said[0]} to {said[-1]}"]
        for what, extreme in (("highest", max(line.y)), ("lowest", min(line.y))):
            if extreme not in (line.y[0], line.y[-1]):
                parts.append(f"{what} {said[list(line.y).index(extreme)]}")
        return f"{line.label}: {'; '.join(parts)}."

    def table(self) -> Table:
        xs = sorted({value for line in self.lines for value in line.x})
        columns = [self.x.label, *(line.label for line in self.lines)]
        rows = []
        for value in xs:
            cells = [dict(zip(line.x, line.y, strict=True)).get(value) for line in self.lines]
            rows.append((self._x(value), *("–" if cell is None else self._y(cell) for cell in cells)))
        return Table(columns, rows, f"{self.y.label} over {self.x.label}")

    def _x(self, value: float) -> str:
        if self.x.unit == "B" and self.x.binary:
            return self.x.text(value)
        if self.x.unit:
            return si(value, self.x.unit)
        return count(value) if float(value).is_integer() else f"{value:g}"

    def _y(self, value: float) -> str:
        return si(value, self.y.unit).strip()
