"""Code and drawings that a chapter shows: a function's source, and pictures made for the workshop."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from kernels.lab import _source
from kernels.lab.show import asset, escape, wrap


@dataclass(frozen=True)
class Listing:
    """The source of a function or kernel, as it stands in its file."""

    name: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"# {self.where}\n{self.text}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        body = highlight(self.text, PythonLexer(), HtmlFormatter(wrapcode=True))
        label = f'<p class="lab-note"><code>{escape(self.where)}</code></p>'
        return wrap(f"{label}{body}", kind="lab-listing", assets=("lab.css", "code.css"))


def code(thing: Any) -> Listing:
    """Return the source of a function or of a Triton kernel, to be shown.

    What the page shows is what runs: there is no second copy of it.
    """
    function = _source.unwrap(thing)
    return Listing(
        function.__name__, f"{function.__module__}.{function.__qualname__}", _source.source(function).rstrip()
    )


@dataclass(frozen=True)
class Drawing:
    """A picture of one idea, with the text that stands for it where it cannot be seen."""

    svg: str
    title: str
    description: str

    def __str__(self) -> str:
        return f"[drawing] {self.title}: {self.description}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return wrap(self.svg, kind="lab-drawing")


def drawing(name: str) -> Drawing:
    """Return a drawing by its file name without the ending.

    Raises
    ------
    FileNotFoundError
        There is no drawing of that name.
    """
    svg = asset(f"drawings/{name}.svg")
    space = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring(svg)
    return Drawing(
        svg, root.findtext(f"{space}title", ""), " ".join(root.findtext(f"{space}desc", "").split())
    )
