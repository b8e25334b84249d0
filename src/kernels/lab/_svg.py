"""From a matplotlib drawing to an inline SVG whose colours and font are the page's.

Matplotlib knows no CSS variables, so a drawing uses stand-in colours, which are replaced afterwards. Figures
are made without pyplot, whose state would leak from one page of the site to the next.
"""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_NAMES = ("text", "muted", "rule", "surface", "memory", "arithmetic", "waiting", "ours", "bad")
COLOURS = {name: f"#fe01{index:02x}" for index, name in enumerate(_NAMES)}
"""What to draw with: each stands for the variable `--lab-NAME` of the style sheet."""

FONT_PX = 13.0
SMALL_PX = 12.0

_DPI = 72  # at which matplotlib's point is the SVG's pixel: sizes in a drawing are sizes on the screen

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    # Travels with matplotlib, and is wider than the fonts of pages: what fits here fits there.
    "font.family": "DejaVu Sans",
    "font.size": FONT_PX,
    "figure.dpi": _DPI,
    "axes.linewidth": 1.0,
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.facecolor": "none",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "text.color": COLOURS["text"],
    "text.parse_math": False,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelsize": SMALL_PX,
    "ytick.labelsize": SMALL_PX,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "ytick.major.size": 0.0,
    "grid.color": COLOURS["rule"],
    "grid.linewidth": 0.8,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True)
class Size:
    """The size of a drawing in pixels. A narrow one is for phones: the text is as large, the rest smaller."""

    width: int
    height: int
    narrow: bool


WIDE = Size(690, 413, narrow=False)
NARROW = Size(346, 404, narrow=True)

Draw = Callable[[Figure, Size], None]


class DrawingError(ValueError):
    """A drawing cannot be shown in both themes."""


def render(draw: Draw, size: Size, name: str) -> str:
    """Return the body of an `<svg>` element, the same bytes each time.

    Parameters
    ----------
    draw
        Draws on an empty figure, with `COLOURS` only.
    name
        Unique on a page: the ids in the drawing begin with it.

    Raises
    ------
    DrawingError
        The drawing has a colour that is not one of `COLOURS`, so it would not follow the theme.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**_STYLE, "svg.hashsalt": name})
        figure = Figure(figsize=(size.width / _DPI, size.height / _DPI))
        FigureCanvasSVG(figure)
        draw(figure, size)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return _inline(file.getvalue(), name)


def _inline(document: str, name: str) -> str:
    body = document[document.index("<svg") :]
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    # Matplotlib styles `*`, which in a page would style the page; plot.css says the same for plots alone.
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"font(-family)?: ([^;\"]*?)('[^;\"]*|sans-serif)(;|(?=\"))", _font, body)
    body = body.replace("xlink:href=", "href=")
    return _compact(_own_ids(_themed(body), name))


def _compact(body: str) -> str:
    """Write coordinates to a hundredth of a pixel, and leave out white space that means nothing."""

    def tag(match: re.Match[str]) -> str:
        rounded = re.sub(
            r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), match[0]
        )
        return re.sub(r"\s+", " ", rounded).replace(" rotate(-0 ", " rotate(0 ")

    return re.sub(r">\s+<", "><", re.sub(r"<[^>]+>", tag, body)).strip()


def _font(match: re.Match[str]) -> str:
    """Keep the size of a text, and the weight, and leave the family to the page."""
    if match[1]:
        return ""
    size = re.search(r"[\d.]+px", match[2])
    weight = "; font-weight: 600" if re.search(r"bold|600|700", match[2]) else ""
    return f"font-size: {size[0] if size else f'{FONT_PX}px'}{weight}{match[4]}"


def _themed(body: str) -> str:
    for name, stand_in in COLOURS.items():
        body = body.replace(stand_in, f"var(--lab-{name})")
    if left := re.search(r"(?:fill|stroke): (#[0-9a-f]{6})", body):
        raise DrawingError(
            f"the drawing uses the colour {left[1]}, which follows no theme: use {', '.join(COLOURS)}"
        )
    return body


def _own_ids(body: str, name: str) -> str:
    """Prefix the ids that are referred to, and drop the others: several drawings share one page."""
    used = set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", body))
    kept = {one or other for one, other in used}

    def renamed(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in kept else ""

    body = re.sub(r"\s+id=\"([^\"]+)\"", renamed, body)
    return re.sub(r"(url\(#|href=\"#)", rf"\g<1>{name}-", body)
