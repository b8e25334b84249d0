"""Axes for a drawing: ticks that read well, units and scale said, margins that fit their labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from kernels.lab._svg import COLOURS, FONT_PX, SMALL_PX, Size
from kernels.lab.units import digits, si

LINE_PX = 15.0
"""From one line of a label to the next."""

_BOTTOM_PX, _GAP_PX = 44.0, 8.0
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@cache
def text_width(text: str, px: float = FONT_PX) -> float:
    """Return the width of a text in pixels, of its longest line if it has several."""
    renderer: Any = RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call]
    font = FontProperties(family="DejaVu Sans", size=px)
    return max(
        float(renderer.get_text_width_height_descent(line, font, ismath=False)[0])
        for line in text.split("\n")
    )


def text_height(text: str) -> float:
    """Return the height of a text in pixels."""
    return LINE_PX * (text.count("\n") + 1)


@dataclass(frozen=True)
class Axis:
    """One direction of a plot: what it shows, in which unit, from where to where."""

    label: str
    unit: str
    log: bool
    low: float
    high: float
    binary: bool = False

    def ticks(self, most: int) -> list[float]:
        """Return at most about so many round positions."""
        if not self.log:
            step = _linear_step(self)
            found = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(
                self.low / step, self.high / step
            )
            return [float(tick) * step for tick in found if self.low <= tick * step <= self.high * (1 + 1e-9)]
        if self.binary:
            return _powers(2.0, self.low, self.high, most)
        if math.log10(self.high / self.low) < 2.5:
            fine = [m * 10.0**e for e in range(-15, 19) for m in (1, 2, 5)]
            return [tick for tick in fine if self.low * 0.999 <= tick <= self.high * 1.001]
        return _powers(10.0, self.low, self.high, most)

    def text(self, tick: float) -> str:
        """Return what stands at a tick."""
        if not self.log:
            return f"{tick / _linear_step(self):,.10g}"
        if self.binary:
            return _binary_text(tick, self.unit, superscript=self.high > 2**14)
        if self.unit in ("", "FLOP/B"):
            return digits(tick, 1)
        # The prefix goes with the number; a unit as short as the second does too.
        return si(tick, self.unit if self.unit == "s" else "", 1).strip()

    @property
    def title(self) -> str:
        """The label with its unit, and the scale where it is not linear."""
        unit = self.unit
        if not self.log and unit:
            unit = si(_linear_step(self), unit, 1).removeprefix("1 ")
        # Binary sizes carry their unit at each tick.
        shown = f" [{unit}]" if unit and not (self.binary and unit == "B") else ""
        return f"{self.label}{shown}{', log scale' if self.log else ''}"


def _linear_step(axis: Axis) -> float:
    """The power of a thousand in which a linear axis counts."""
    top = max(abs(axis.low), abs(axis.high))
    if not axis.unit or top == 0:
        return 1.0
    return float(1000.0 ** math.floor(math.log10(top) / 3 + 1e-9))


def _powers(base: float, low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log(low, base) - 1e-6), math.floor(math.log(high, base) + 1e-6)
    stride = max(1, math.ceil((last - first + 1) / most))
    if base == 2:
        stride = 1 << (stride - 1).bit_length()  # 2^12, 2^16, 2^20 are easier to follow than 2^12, 2^15, 2^18
    return [float(base**power) for power in range(first, last + 1) if power % stride == 0]


def _binary_text(value: float, unit: str, *, superscript: bool) -> str:
    if unit == "B":
        for size, prefix in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
            if value >= size:
                return f"{value / size:g} {prefix}"
        return f"{value:g} B"
    if superscript:
        return f"2{str(round(math.log2(value))).translate(_SUPERSCRIPT)}"
    return f"{value:,.0f}"


def is_binary(values: Sequence[float]) -> bool:
    """Whether all values are powers of two, so that an axis should count in these."""
    return all(
        value >= 1 and float(value).is_integer() and int(value) & (int(value) - 1) == 0 for value in values
    )


def frame(
    figure: Figure,
    size: Size,
    x: Axis,
    y: Axis,
    *,
    right_px: float,
    top_px: float = 30.0,
    bottom_px: float = 0.0,
) -> Axes:
    """Return axes that fill a figure but for the margins that the labels need.

    The label of the vertical axis stands above it, where it reads without turning the head and takes no
    width. `right_px`, `top_px` and `bottom_px` are left free for what the drawing writes there.
    """
    bottom = _BOTTOM_PX + bottom_px
    y_ticks = y.ticks(7)
    y_texts = [y.text(tick) for tick in y_ticks]
    left = max(text_width(text, SMALL_PX) for text in y_texts) + _GAP_PX
    widest = max(text_width(x.text(edge), SMALL_PX) for edge in x.ticks(100))
    x_ticks = x.ticks(max(2, min(8, int((size.width - left - right_px) / (widest + 8)))))
    # Half of the outermost tick's text hangs over the edge.
    right = max(right_px, text_width(x.text(x_ticks[-1]), SMALL_PX) / 2 + 2)
    axes = figure.add_axes(
        (
            left / size.width,
            bottom / size.height,
            (size.width - left - right) / size.width,
            (size.height - top_px - bottom) / size.height,
        )
    )
    axes.set_xscale("log" if x.log else "linear")
    axes.set_yscale("log" if y.log else "linear")
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)
    for axis, ticks, texts in (
        (axes.xaxis, x_ticks, [x.text(tick) for tick in x_ticks]),
        (axes.yaxis, y_ticks, y_texts),
    ):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter(texts))
        axis.set_minor_locator(NullLocator())
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    figure.text(0, 1 - 14 / size.height, y.title, color=COLOURS["muted"], size=SMALL_PX)
    middle, below = (left + size.width - right) / 2 / size.width, (bottom_px + 5) / size.height
    figure.text(middle, below, x.title, color=COLOURS["muted"], size=SMALL_PX, ha="center")
    return axes
