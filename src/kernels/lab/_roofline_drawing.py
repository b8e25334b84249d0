"""The drawing of a roofline: roofs, ridges and points, each with its label beside it."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernels.lab._axes import Axis, frame, text_height, text_width
from kernels.lab._placing import Box, Segment, Spot, around, place, spread, wrap
from kernels.lab._svg import COLOURS, FONT_PX, NARROW, SMALL_PX, WIDE, Size
from kernels.lab.units import si

_INK = {"memory": "memory", "arithmetic": "arithmetic", "neither": "waiting", "above": "bad"}
_SHAPE = {"memory": "o", "arithmetic": "s", "neither": "D", "above": "^"}


@dataclass(frozen=True)
class Roof:
    """A ceiling: slanted for a bandwidth [B/s], flat for an arithmetic peak [FLOP/s]."""

    name: str
    value: float
    slanted: bool
    faint: bool = False


@dataclass(frozen=True)
class Mark:
    """A point as it is drawn: `bound` chooses its colour and shape."""

    label: str
    intensity: float
    rate: float
    bound: str
    path: tuple[tuple[float, float], ...] = ()
    faint: bool = False


@dataclass(frozen=True)
class _Text:
    """A label and the places where it could stand."""

    text: str
    colour: str
    px: float
    spots: Sequence[Spot]


_DIRECT = 5  # names that a phone has room for; more become numbers with a key below
_KEY_ROW_PX = 17.0

Key = list[list[str]]
"""What the numbers beside the points stand for, row by row; empty where the names stand there themselves."""


@dataclass(frozen=True)
class Drawing:
    """Roofs and marks, ready to be drawn at any size."""

    roofs: Sequence[Roof]
    marks: Sequence[Mark]

    @property
    def sizes(self) -> tuple[Size, Size]:
        """The wide and the narrow size, higher where there is a key."""
        wide, narrow = (replace(s, height=s.height + round(_height(self._key(s)))) for s in (WIDE, NARROW))
        return wide, narrow

    def draw(self, figure: Figure, size: Size) -> None:
        """Draw on an empty figure of one of the sizes."""
        self._draw(figure, size, self._key(size))

    def _key(self, size: Size) -> Key:
        named = self._named(size)
        if len(named) <= _DIRECT or (not size.narrow and not self._crowded):
            return []
        entries = [f"{number}  {mark.label}" for number, mark in enumerate(named, 1)]
        columns = max(1, int(size.width / (max(text_width(entry, SMALL_PX) for entry in entries) + 12)))
        rows = math.ceil(len(entries) / columns)
        return [entries[row::rows] for row in range(rows)]

    def _named(self, size: Size) -> list[Mark]:
        """The marks that get a name, from left to right: on a phone not those that an earlier page named."""
        return sorted(
            (m for m in self.marks if not (m.faint and size.narrow)), key=lambda m: (m.intensity, m.rate)
        )

    @cached_property
    def _crowded(self) -> bool:
        """Whether a wide drawing has no room for all the names: tried on a figure that nobody sees."""
        return self._draw(Figure(figsize=(WIDE.width / 72, WIDE.height / 72), dpi=72), WIDE, [])

    def _draw(self, figure: Figure, size: Size, key: Key) -> bool:
        """Draw, and return whether names hide each other."""
        x, y = self._axes()
        flats = sorted((roof for roof in self.roofs if not roof.slanted), key=lambda roof: roof.value)
        names = [_flat_name(roof, size) for roof in flats]
        right = max(text_width(name, SMALL_PX) for name in names) + 12
        axes = frame(figure, size, x, y, right_px=right, top_px=46.0, bottom_px=_height(key))
        canvas = _Canvas(axes, size)
        memory = next(roof for roof in self.roofs if roof.slanted and not roof.faint)
        lines = [canvas.roof(r, self._ends(r, memory, flats[-1].value, x, y)) for r in self.roofs]
        canvas.flat_labels(flats, names)
        canvas.ridges([(roof.value / memory.value, roof.value) for roof in flats])
        for mark in sorted(self.marks, key=lambda mark: not mark.faint):
            canvas.mark(mark)
        for roof, line in zip(self.roofs, lines, strict=True):
            if roof.slanted:
                canvas.slanted_label(roof, line)
        canvas.key(key)
        named = self._named(size)
        labels = (
            [str(number) for number in range(1, len(named) + 1)] if key else [mark.label for mark in named]
        )
        return canvas.write(
            [canvas.mark_label(m, label) for m, label in zip(named, labels, strict=True)], lines
        )

    def _axes(self) -> tuple[Axis, Axis]:
        memory = next(roof.value for roof in self.roofs if roof.slanted and not roof.faint)
        peaks = [roof.value for roof in self.roofs if not roof.slanted]
        xs = [mark.intensity for mark in self.marks] + [x for mark in self.marks for x, _ in mark.path]
        ys = [mark.rate for mark in self.marks] + [y for mark in self.marks for _, y in mark.path]
        low, high = min([0.05, *(x / 2 for x in xs)]), max([8 * max(peaks) / memory, *(x * 2 for x in xs)])
        bottom = min([low * memory, *(y / 3 for y in ys)])
        return (
            Axis("arithmetic intensity", "FLOP/B", True, low, high),
            Axis("rate", "FLOP/s", True, bottom, max([*peaks, *ys]) * 4),
        )

    @staticmethod
    def _ends(roof: Roof, memory: Roof, top: float, x: Axis, y: Axis) -> tuple[float, float, float, float]:
        if not roof.slanted:
            return roof.value / memory.value, roof.value, x.high, roof.value
        start = max(x.low, y.low / roof.value)
        return start, start * roof.value, top / roof.value, top


def _height(key: Key) -> float:
    return len(key) * _KEY_ROW_PX


def _flat_name(roof: Roof, size: Size) -> str:
    """A flat roof's name beside it: on a phone in two short lines, with the unit left to the axis."""
    return (
        f"{roof.name}\n{si(roof.value, '')}".rstrip()
        if size.narrow
        else f"{roof.name} {si(roof.value, 'FLOP/s')}"
    )


def _square(x: float, y: float, half: float) -> Box:
    return Box(x - half, y - half, x + half, y + half)


class _Canvas:
    """Axes in which everything is placed in pixels."""

    def __init__(self, axes: Axes, size: Size):
        self.axes, self.size = axes, size
        (x0, y0), (x1, y1) = axes.transAxes.transform([(0, 0), (1, 1)])
        self.bounds = Box(float(x0) + 2, float(y0) + 2, float(x1), float(y1))
        self.taken: list[Box] = []
        self.paths: list[Segment] = []

    def px(self, x: float, y: float) -> tuple[float, float]:
        """Where a point of the data lies on the screen."""
        across, up = self.axes.transData.transform((x, y))
        return float(across), float(up)

    def hairline(self, x0: float, y0: float, x1: float, y1: float, colour: str) -> None:
        """Tie a label to what it names."""
        self.axes.plot(
            [x0, x1], [y0, y1], color=COLOURS[colour], lw=0.8, transform=None, zorder=1, clip_on=False
        )

    def write_at(
        self, x: float, y: float, text: str, colour: str, px: float, anchor: float, angle: float = 0.0
    ) -> None:
        """Write a text whose `anchor` (0 left, 1 right) stands at a place."""
        self.axes.text(
            x, y, text, color=COLOURS[colour], size=px, transform=None,
            ha=("left", "center", "right")[round(2 * anchor)], va="center", rotation=angle,
            rotation_mode="anchor", linespacing=1.15, zorder=6, clip_on=False,
        )  # fmt: skip

    def roof(self, roof: Roof, ends: tuple[float, float, float, float]) -> Segment:
        """Draw a roof; return where it lies on the screen."""
        x0, y0, x1, y1 = ends
        dashes, width = ((0, (4, 3)), 1.2) if roof.faint else ("-", 2.0)
        ink = COLOURS["memory" if roof.slanted else "arithmetic"]
        self.axes.plot(
            [x0, x1], [y0, y1], color=ink, ls=dashes, lw=width, alpha=0.7 if roof.faint else 1.0, zorder=2
        )
        return (*self.px(x0, y0), *self.px(x1, y1))

    def slanted_label(self, roof: Roof, line: Segment) -> None:
        """Name a slanted roof along it: above the fainter one, below the other, where points leave room."""
        x0, y0, x1, y1 = line
        length = math.hypot(x1 - x0, y1 - y0)
        across, up = (x1 - x0) / length, (y1 - y0) / length
        label = f"{roof.name} {si(roof.value, 'B/s')}"
        width = text_width(label, SMALL_PX)
        side = 10.0 if roof.faint else -11.0
        best: tuple[float, float, list[Box]] | None = None
        for step in range(25):
            middle = width / 2 + 4 + step * (length - width - 8) / 24
            # A slanted label is tried as a chain of small squares.
            steps = [middle - width / 2 + 6 + k * (width - 12) / 11 for k in range(12)]
            boxes = [_square(x0 + s * across - side * up, y0 + s * up + side * across, 6) for s in steps]
            cost = abs(step - 12) + 100.0 * sum(box.overlaps(point) for box in boxes for point in self.taken)
            if best is None or cost < best[0]:
                best = (cost, middle, boxes)
        assert best is not None
        _, middle, boxes = best
        self.taken += boxes
        angle = math.degrees(math.atan2(up, across))
        self.write_at(
            x0 + middle * across - side * up,
            y0 + middle * up + side * across,
            label,
            "memory",
            SMALL_PX,
            0.5,
            angle,
        )

    def flat_labels(self, roofs: Sequence[Roof], names: Sequence[str]) -> None:
        """Name the flat roofs at their right ends, apart from each other."""
        ends = [self.px(1.0, roof.value)[1] for roof in roofs]
        heights = [text_height(name) for name in names]
        edge = self.bounds.x1
        middles = spread(ends, heights, self.bounds.y0, self.bounds.y1 + 20)
        for name, end, middle in zip(names, ends, middles, strict=True):
            self.hairline(edge, end, edge + 7, middle, "arithmetic")
            self.write_at(edge + 10, middle, name, "arithmetic", SMALL_PX, 0.0)

    def ridges(self, ridges: Sequence[tuple[float, float]]) -> None:
        """Mark where the flat roofs meet the memory roof, and name the place above, where nothing can be."""
        texts = [
            f"ridge {intensity:,.0f}" if intensity >= 10 else f"ridge {intensity:.2g}"
            for intensity, _ in ridges
        ]
        places = [self.px(*ridge) for ridge in ridges]
        widths = [text_width(text, SMALL_PX) + 8 for text in texts]
        row = self.bounds.y1 + 9
        middles = spread([x for x, _ in places], widths, self.bounds.x0, self.bounds.x1)
        for text, (x, y), middle in zip(texts, places, middles, strict=True):
            self.axes.plot(
                [x], [y], "o", ms=5, mew=1.4, mfc="none", mec=COLOURS["text"], transform=None, zorder=4
            )
            self.hairline(x, y + 4, x, self.bounds.y1 - 6, "rule")
            self.hairline(x, self.bounds.y1 - 6, middle, row - 7, "rule")
            self.write_at(middle, row, text, "muted", SMALL_PX, 0.5)
            self.taken.append(_square(x, y, 4))

    def mark(self, mark: Mark) -> None:
        """Draw a point, with the path that led to it."""
        ink = COLOURS["muted" if mark.faint else _INK[mark.bound]]
        if mark.path:
            xs, ys = zip(*mark.path, strict=True)
            self.axes.plot(xs, ys, color=ink, lw=1.2, marker=".", ms=4, mew=0, zorder=3)
            corners = [self.px(*pair) for pair in mark.path]
            self.paths += [(*a, *b) for a, b in itertools.pairwise(corners)]
        hollow = mark.bound == "neither"
        self.axes.plot(
            [mark.intensity], [mark.rate], marker=_SHAPE[mark.bound], ms=5.5 if mark.faint else 8, mew=1.4,
            mfc="none" if hollow else ink, mec=ink, ls="", alpha=0.75 if mark.faint else 1.0, zorder=5,
            clip_on=False,
        )  # fmt: skip
        x, y = self.px(mark.intensity, mark.rate)
        self.taken.append(_square(x, y, 5))

    def mark_label(self, mark: Mark, label: str) -> _Text:
        """A point's name or number, near it."""
        px = SMALL_PX if mark.faint else FONT_PX
        text = wrap(label, 104.0 if self.size.narrow else 170.0, lambda line: text_width(line, px))
        x, y = self.px(mark.intensity, mark.rate)
        spots = around(x, y, text_width(text, px), text_height(text), gap=8)
        return _Text(text, "muted" if mark.faint else "text", px, spots)

    def write(self, texts: Sequence[_Text], lines: Sequence[Segment]) -> bool:
        """Place all labels, then write them; return whether any hide each other or a point."""
        chosen = place(
            [t.spots for t in texts], bounds=self.bounds, points=self.taken, lines=[*lines, *self.paths]
        )
        for text, spot in zip(texts, chosen, strict=True):
            if spot.leader:
                self.hairline(*spot.leader, "muted")
            x = spot.box.x0 + spot.anchor * (spot.box.x1 - spot.box.x0)
            self.write_at(x, (spot.box.y0 + spot.box.y1) / 2, text.text, text.colour, text.px, spot.anchor)
        boxes = [spot.box for spot in chosen]
        hidden = any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
        return hidden or any(box.overlaps(point) for box in boxes for point in self.taken)

    def key(self, rows: Sequence[Sequence[str]]) -> None:
        """Write what the numbers stand for, below the axes."""
        for index, row in enumerate(rows):
            y = (len(rows) - index - 0.6) * _KEY_ROW_PX
            for column, entry in enumerate(row):
                self.write_at(column * self.size.width / len(rows[0]) + 2, y, entry, "text", SMALL_PX, 0.0)
