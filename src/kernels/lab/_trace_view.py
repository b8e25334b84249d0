"""How traces look: as HTML with linked, coloured lines, and as text."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mlir_pygments import MLIRLexer
from pygments.lexer import Lexer, RegexLexer, bygroups
from pygments.lexers import LlvmLexer, PythonLexer
from pygments.token import STANDARD_TYPES, Comment, Keyword, Name, Number, Text, _TokenType

from kernels.lab.show import escape, notes_html, wrap

if TYPE_CHECKING:
    from kernels.lab.traced import Excerpt, Line, Stage, Trace, TraceComparison

_ASSETS = ("lab.css", "code.css", "trace.css", "trace.js")
_MARKED = {"load": "load", "store": "store", "copy": "async copy", "tensor": "tensor core"}
_LONGEST_LINE = 180  # characters shown; one wgmma names more than a hundred registers
_MOST_LINES = 240  # of one stage in a page; more are folded
_SHORTEST_FOLD = 4  # fewer lines than this are shown rather than counted
_EXCERPT_LINES = 24


class AssemblyLexer(RegexLexer):  # type: ignore[misc]  # Pygments is not typed
    """PTX, SASS and GCN assembly alike: the predicate, the operation and the numbers. Registers stay plain."""

    name = "GPU assembly"
    tokens = {  # noqa: RUF012
        "root": [
            (r"^\s*[$.]?\w+:", Name.Label),
            (r"^(\s*)(\.\w+)", bygroups(Text, Keyword.Type)),
            (
                r"^(\s*)(@!?%?U?\w+)?(\s*)([A-Za-z][\w.:]*)",
                bygroups(Text, Name.Decorator, Text, Name.Function),
            ),
            (r"//.*?$", Comment),
            (r"\b0[xf][0-9a-fA-F]+\b|\b\d[\d.e+-]*\b", Number),
            (r"[$%.]?\w+|.|\n", Text),
        ]
    }


_LEXERS: dict[str, Lexer] = {
    "python": PythonLexer(stripnl=False),
    "ttir": MLIRLexer(stripnl=False),
    "ttgir": MLIRLexer(stripnl=False),
    "llir": LlvmLexer(stripnl=False),
    "ptx": AssemblyLexer(stripnl=False),
    "sass": AssemblyLexer(stripnl=False),
    "amdgcn": AssemblyLexer(stripnl=False),
}

# Few things have a colour: keywords and types, what is done, text, numbers, comments. Values are everywhere, and stay plain.
_COLOURS = {"nb": "nf", "nc": "nf", "nn": "nf", "fm": "nf", "ow": "k", "nf": "nf", "nd": "nd", "nl": "nl"}


def _coloured(lines: Sequence[str], language: str) -> list[str]:
    """Return each line as HTML with Pygments' class names. The lines are read as one text, so that strings may span them."""
    done: list[list[tuple[str, str]]] = [[]]
    for token, value in _LEXERS[language].get_tokens("\n".join(lines)):
        css = _css(token, language)
        for i, piece in enumerate(value.split("\n")):
            if i:
                done.append([])
            if piece:
                done[-1].append((css if piece.strip() else " ", piece))
    return ["".join(_spans(line)) for line in done[: len(lines)]]


def _spans(pieces: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Write neighbours of one colour as one span, the blanks between them included."""
    merged: list[tuple[str, str]] = []
    for css, text in pieces:
        if merged and css in (" ", merged[-1][0]):
            merged[-1] = (merged[-1][0], merged[-1][1] + text)
        else:
            merged.append((css.strip(), text))
    for css, text in merged:
        yield f'<span class="{css}">{escape(text)}</span>' if css else escape(text)


def _css(token: _TokenType, language: str) -> str:
    while token not in STANDARD_TYPES:
        assert token.parent is not None
        token = token.parent
    css = STANDARD_TYPES[token]
    if css == "k" and language != "python":  # what LLVM's lexer calls a keyword is mostly an operation
        return "nf"
    return css[0] if css[:1] in ("k", "s", "m", "c") else _COLOURS.get(css, "")


# --- a trace ---------------------------------------------------------------------------------------------------------


def trace_html(trace: "Trace") -> str:
    """Return the two panes: Python, and the stages with a picker."""
    stages = "".join(_stage_html(trace, stage) for stage in trace.stages.values())
    body = (
        f'<p class="lab-trace-title">{escape(trace.title)}</p>'
        f"{_facts_html(trace)}"
        f'<div class="lab-trace-panes"><div class="lab-trace-python"><p class="lab-trace-head">Python</p>'
        f"{_pane('Python', _python_html(trace))}</div>"
        f'<div class="lab-trace-stages">{stages}</div></div>'
        f"{notes_html([' '.join(_notes(trace))])}"
    )
    return wrap(f"<figure>{body}</figure>", kind="lab-trace", assets=_ASSETS)


def _notes(trace: "Trace") -> tuple[str, ...]:
    return (f"Compiled for {trace.target} by {trace.compiler}.", *trace.notes)


def _facts_html(trace: "Trace") -> str:
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in trace.facts()
        if value != "none"
    )
    return f'<div class="lab-trace-facts"><dl>{facts}</dl></div>'


def _pane(label: str, lines: str) -> str:
    return (
        f'<div class="highlight"><pre tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<code>{lines}</code></pre></div>"
    )


def _python_html(trace: "Trace") -> str:
    linked = {n for stage in trace.stages.values() for line in stage.lines for n in line.origins}
    statement_of = {number: s.numbers.start for s in trace.statements() for number in s.numbers}
    shown = []
    for function in trace.functions:
        for number, html in enumerate(_coloured(function.lines, "python"), function.first):
            origin = statement_of.get(number)
            link = f' data-o="{origin}"' if origin in linked else ""
            shown.append(f'<span class="tl" data-n="{number}"{link}>{html or " "}</span>')
        if function is not trace.functions[-1]:
            shown.append('<span class="tl"> </span>')
    return "\n".join(shown)


def _stage_html(trace: "Trace", stage: "Stage") -> str:
    opened = " open" if stage is trace.assembly else ""
    folded = _folded(stage.lines, _MOST_LINES)
    coloured = iter(_coloured([_cut(line.text) for line, _ in folded if line], stage.name))
    shown = []
    before = 0
    for line, hidden in folded:
        if line is None:
            shown.append(f'<span class="tl tl-fold">⋯ {hidden} more such lines</span>')
            continue
        shown.append(_line_html(line, next(coloured), before))
        before = line.origins[0] if line.origins else 0
    newline = "\n"
    return (
        f'<details class="lab-trace-stage" data-stage="{stage.name}"{opened}><summary>{stage.title}</summary>'
        f"{_pane(stage.title, newline.join(shown))}</details>"
    )


def _line_html(line: "Line", html: str, before: int) -> str:
    attributes = ""
    if line.origins:
        attributes += f' data-o="{" ".join(map(str, line.origins))}"'
        if line.origins[0] != before:
            attributes += f' data-n="{line.origins[0]}"'
    if mark := _mark(line):
        attributes += f' data-k="{mark}"'
    return f'<span class="tl"{attributes}>{html or " "}</span>'


def _mark(line: "Line") -> str:
    if line.kind not in _MARKED:
        return ""
    return _MARKED[line.kind] + (f" {line.bits} bit" if line.bits else "")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 1] + "…"


def _folded(lines: Sequence["Line"], most: int) -> list[tuple["Line | None", int]]:
    """Shorten the long runs of lines of one origin until a stage has about `most` lines.

    What moves data or uses the tensor cores stays. Each gap is None with the number of lines left out.
    """
    runs = [list(run) for _, run in itertools.groupby(lines, lambda line: line.origins)]
    keep = max(map(len, runs), default=0)
    while keep > 4 and sum(min(len(run), keep + 1) for run in runs) > most:
        keep = keep * 3 // 4
    shown: list[tuple[Line | None, int]] = []
    for run in runs:
        shown += _shortened(run, keep)
    return shown


def _shortened(run: Sequence["Line"], keep: int) -> Iterator[tuple["Line | None", int]]:
    if len(run) <= keep + 1:
        yield from ((line, 0) for line in run)
        return
    ends = keep // 2
    marked = [i for i, line in enumerate(run) if line.kind in _MARKED][:keep]
    kept = sorted({*range(ends), *marked, *range(len(run) - ends, len(run))})
    for before, index in itertools.pairwise([-1, *kept]):
        if index - before > _SHORTEST_FOLD:
            yield None, index - before - 1
        else:
            yield from ((line, 0) for line in run[before + 1 : index])
        yield run[index], 0


def trace_text(trace: "Trace") -> str:
    """Return the facts, and below each line of Python what it moved and computed on the tensor cores."""
    names = max(len(name) for name, _ in trace.facts())
    lines = [trace.title, "", *(f"  {name:{names}}  {value}" for name, value in trace.facts()), ""]
    ends = {statement.numbers[-1]: statement.numbers.start for statement in trace.statements()}
    for function in trace.functions:
        for number, text in enumerate(function.lines, function.first):
            lines.append(f"{number:4} │ {text}")
            lines += [f"     │       {made}" for made in _made(trace, ends.get(number, 0))]
    return "\n".join([*lines, "", *(f"  {note}" for note in _notes(trace))])


def _made(trace: "Trace", statement: int) -> Iterator[str]:
    """Return what a statement moved and computed on the tensor cores, the first few instructions of it."""
    own = [line for line in trace.assembly.lines if line.origins[:1] == (statement,) and _mark(line)]
    for line in own[:3]:
        text = " ".join(line.text.split())
        yield f"{_mark(line):18} {text if len(text) <= 80 else text[:79] + '…'}"
    if len(own) > 3:
        yield f"{'':18} ⋯ and {len(own) - 3} more"


# --- an excerpt ------------------------------------------------------------------------------------------------------


def excerpt_html(excerpt: "Excerpt") -> str:
    """Return the lines of Python above the lines of the stage."""
    return wrap(_excerpt_body(excerpt), kind="lab-excerpt", assets=_ASSETS[:3])


def _excerpt_body(excerpt: "Excerpt") -> str:
    python = _coloured([statement.text for statement in excerpt.python], "python")
    above = "".join(
        f'<span class="tl" data-n="{statement.numbers.start}">{html}</span>'
        for statement, html in zip(excerpt.python, python, strict=True)
    )
    lines, left_out = _first(excerpt.lines)
    coloured = iter(_coloured([_cut(text) for text in _dedented(lines)], excerpt.stage.name))
    below = ""
    before = 0
    for line in lines:
        if line is None:
            below += '<span class="tl tl-fold">⋯</span>'
        else:
            below += _line_html(line, next(coloured), before)
            before = line.origins[0] if line.origins else 0
    if left_out:
        below += f'<span class="tl tl-fold">⋯ {left_out} more lines</span>'
    below = below or '<span class="tl tl-fold">no such line</span>'
    return (
        f"{_pane('Python', above) if above else ''}"
        f'<p class="lab-trace-head">{escape(_whence(excerpt))}</p>{_pane(excerpt.stage.title, below)}'
    )


def _whence(excerpt: "Excerpt") -> str:
    return f"in the {excerpt.stage.title} for {excerpt.trace.target}, compiled by {excerpt.trace.compiler}:"


def _first(lines: Sequence["Line | None"]) -> tuple[list["Line | None"], int]:
    shown = list(lines[:_EXCERPT_LINES])
    return shown, sum(line is not None for line in lines[_EXCERPT_LINES:])


def _dedented(lines: Iterable["Line | None"]) -> list[str]:
    texts = [line.text for line in lines if line]
    margin = min((len(text) - len(text.lstrip()) for text in texts), default=0)
    return [text[margin:] for text in texts]


def excerpt_text(excerpt: "Excerpt") -> str:
    """Return the lines of Python above the lines of the stage, as text."""
    above = [statement.text for statement in excerpt.python]
    lines, left_out = _first(excerpt.lines)
    texts = iter(_dedented(lines))
    below = [f"    {_cut(next(texts))}" if line else "    ⋯" for line in lines]
    if left_out:
        below.append(f"    ⋯ {left_out} more lines")
    return "\n".join([*above, f"  {_whence(excerpt)}", *(below or ["    no such line"])])


# --- two traces ------------------------------------------------------------------------------------------------------


def comparison_html(comparison: "TraceComparison") -> str:
    """Return the table of facts above the two excerpts."""
    sides = "".join(
        f'<div class="lab lab-excerpt"><p class="lab-trace-title">{escape(name)}</p>{_excerpt_body(excerpt)}</div>'
        for name, excerpt in zip(comparison.names(), comparison.excerpts, strict=True)
    )
    pair = wrap(f'<div class="lab-trace-pair">{sides}</div>', kind="lab-trace-comparison", assets=_ASSETS[:3])
    return comparison.table()._repr_html_() + pair


def comparison_text(comparison: "TraceComparison") -> str:
    """Return the table of facts above the two excerpts, as text."""
    parts = [
        f"{name}:\n{excerpt_text(excerpt)}"
        for name, excerpt in zip(comparison.names(), comparison.excerpts, strict=True)
    ]
    return "\n\n".join([str(comparison.table()), *parts])
