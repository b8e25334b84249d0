"""Display objects: what is rich in a page or a notebook is plain text in a terminal.

Every object that an instrument returns has `_repr_html_` for pages and notebooks and `__str__` for
terminals. `show` picks the one that suits where the script runs.
"""

import html
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from kernels.lab import _mode

Item = TypeVar("Item")

ASSETS = files("kernels.lab") / "assets"


@cache
def asset(name: str) -> str:
    """Return the text of a style sheet or script that travels with the lab."""
    return (ASSETS / name).read_text(encoding="utf-8")


def escape(text: object) -> str:
    """Escape text for HTML, quotes included."""
    return html.escape(str(text), quote=True)


def wrap(body: str, *, kind: str = "", assets: Sequence[str] = ("lab.css", "lab.js")) -> str:
    """Put an object's HTML into the lab's frame.

    The site links the lab's style sheets and scripts once for all pages. A notebook has no such place, so there each
    object carries them itself and still works after the notebook was saved and opened elsewhere.
    """
    carried = ""
    if _mode.home() != "page":
        for name in assets:
            tag = "style" if name.endswith(".css") else "script"
            carried += f"<{tag}>{asset(name)}</{tag}>"
    return f'<div class="lab {kind}">{carried}{body}</div>'


class Group:
    """Several display objects, shown one below the other."""

    def __init__(self, things: Sequence[Any]):
        self.things = tuple(things)

    def __str__(self) -> str:
        return "\n\n".join(str(thing) for thing in self.things)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "\n".join(_html(thing) for thing in self.things)


def _html(thing: Any) -> str:
    if hasattr(thing, "_repr_html_"):
        return str(thing._repr_html_())
    return wrap(f'<pre class="lab-text">{escape(thing)}</pre>')


def show(*things: Any) -> Group | None:
    """Show display objects wherever the script runs.

    In a terminal they are printed and nothing is returned. In a page or a notebook the group that is returned shows
    itself, because `show(...)` is the last line of its cell.
    """
    group = Group(things)
    if _mode.home() == "terminal":
        print(group, end="\n\n", flush=True)
        return None
    return group


def progress(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Go through the items, and say on a terminal's or a notebook's error stream how far the work has come."""
    watched = sys.stderr.isatty() or _mode.home() == "notebook"
    for number, item in enumerate(items, 1):
        if watched:
            print(f"\r{what}: {number} of {len(items)} ", end="", file=sys.stderr, flush=True)
        yield item
    if watched:
        print("\r" + " " * (len(what) + 24) + "\r", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Table:
    """A small table that reads well in HTML and in a terminal.

    Parameters
    ----------
    columns
        The headings, units included.
    rows
        The cells as text. A cell that starts with a digit, a sign or `<` is a number and is aligned to the right.
    caption
        One line above the table.
    notes
        Lines below it: what the numbers are, where they come from.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    notes: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"a row of {len(row)} cells, {list(row)}, in a table of {len(self.columns)} columns"
                )

    def _right(self, index: int) -> bool:
        filled = [row[index] for row in self.rows if row[index] not in ("", "–")]
        return bool(filled) and all(cell[0].isdigit() or cell[0] in "+-−<>" for cell in filled)

    def __str__(self) -> str:
        widths = [
            max(len(c) for c in (head, *(row[i] for row in self.rows))) for i, head in enumerate(self.columns)
        ]
        right = [self._right(i) for i in range(len(self.columns))]

        def line(cells: Sequence[str]) -> str:
            padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
            return "  ".join(padded).rstrip()

        lines = [self.caption] if self.caption else []
        lines += [line(self.columns), "  ".join("─" * w for w in widths)]
        lines += [line(row) for row in self.rows]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        right = [' class="lab-number"' if self._right(i) else "" for i in range(len(self.columns))]
        head = "".join(
            f'<th scope="col"{r}>{escape(c)}</th>' for c, r in zip(self.columns, right, strict=True)
        )
        body = "".join(
            "<tr>" + "".join(f"<td{r}>{escape(c)}</td>" for c, r in zip(row, right, strict=True)) + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        # A wide table scrolls inside its own box, which the keyboard can reach; the page itself never scrolls sideways.
        scroll = f'<div class="lab-scroll" tabindex="0" role="region" aria-label="{escape(self.caption or "table")}">'
        return wrap(f"{scroll}{table}</div>{notes_html(self.notes)}", kind="lab-table")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Table:
    """Make a `Table` from headings and rows of text."""
    return Table(columns, rows, caption)


def notes_html(notes: Sequence[str]) -> str:
    """Return the small print below a table, a plot or a trace."""
    return "".join(f'<p class="lab-note">{escape(note)}</p>' for note in notes)


def fold_html(summary: str, body: str) -> str:
    """Return HTML that stays folded until the reader opens it."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"
