"""What a trace is: the stages of a compiled kernel linked to its Python, the facts in them, and excerpts."""

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.lab import _stages, _trace_view
from kernels.lab._stages import KINDS
from kernels.lab.show import Table
from kernels.lab.units import count

TITLES = {
    "ttir": "Triton IR",
    "ttgir": "GPU IR",
    "llir": "LLVM IR",
    "ptx": "PTX",
    "sass": "SASS",
    "amdgcn": "GCN assembly",
}
"""The stages in the order in which the compiler makes them, and what they are called."""


class TraceError(ValueError):
    """A kernel cannot be traced, or a trace was asked for something that is not in it."""


@dataclass(frozen=True)
class Line:
    """One line of a stage.

    Attributes
    ----------
    text
        What the compiler wrote, less the location.
    origins
        The Python statements that it came from, by the number that the trace gives their first line: the innermost
        first, then the call of the helper function around it. Empty where the compiler names none.
    kind
        What it does: one of the kinds that `Trace.excerpt` takes, else `""`.
    bits
        How much a global access or an asynchronous copy moves for one thread [bit]; None where it does not say.
    """

    text: str
    origins: tuple[int, ...]
    kind: str
    bits: int | None


@dataclass(frozen=True)
class Stage:
    """One form of the kernel on its way to machine code: the compiler's own text, and its lines with their origins."""

    name: str
    text: str
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """What the stage is called."""
        return TITLES[self.name]


@dataclass(frozen=True)
class Statement:
    """A statement of Python on one line; of a loop or a branch, its head.

    Attributes
    ----------
    text
        The statement.
    numbers
        Its lines, as the trace numbers them.
    """

    text: str
    numbers: range


@dataclass(frozen=True)
class Function:
    """A function of the kernel as the trace shows it: the kernel itself, or a helper that it calls."""

    name: str
    first: int
    lines: tuple[str, ...]

    def statements(self) -> list[Statement]:
        """Return the function's statements in order, from its `def` on, docstrings left out."""
        found = []
        for node in ast.walk(ast.parse("\n".join(self.lines)).body[0]):
            if not isinstance(node, ast.stmt) or _is_docstring(node):
                continue
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno
            lines = range(node.lineno, max(last or 0, node.lineno) + 1)
            text = " ".join(self.lines[number - 1].strip() for number in lines)
            text = re.sub(r",? ([)\]}])", r"\1", re.sub(r"([(\[{]) ", r"\1", text))
            found.append(Statement(text, range(self.first + lines.start - 1, self.first + lines.stop - 1)))
        return sorted(found, key=lambda statement: statement.numbers.start)


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@dataclass(frozen=True)
class Access:
    """Instructions of one kind and width that one line of Python became.

    Attributes
    ----------
    kind
        `"load"`, `"store"` or `"copy"` (from global to shared memory, asynchronously).
    bits
        How much one instruction moves for one thread [bit]; None for a whole tile moved by the copy engine.
    instruction
        The operation as the assembly writes it.
    count
        How often it stands in the assembly. What stands in a loop counts once.
    python
        The Python statement; `""` where the compiler names none.
    """

    kind: str
    bits: int | None
    instruction: str
    count: int
    python: str


@dataclass(frozen=True)
class Trace:
    """A kernel in every stage of its compilation. It shows itself in a page, a notebook and a terminal.

    Attributes
    ----------
    kernel
        The kernel's name.
    target
        The architecture it was compiled for, such as `sm_90` or `gfx942`.
    triton
        The version of Triton that compiled it.
    measured_with
        The version of Triton that took the measurements which this process shows; the same one where there are none.
    settings
        Its compile-time constants and options, as they were given or by default.
    functions
        The Python it came from: the kernel, then the helper functions that it calls.
    stages
        The stages by name: `ttir`, `ttgir`, `llir`, then `ptx` and `sass`, or `amdgcn`.
    registers
        Registers a thread.
    spills
        Local memory a thread needs for what does not fit in registers [B].
    shared
        Shared memory a program needs [B].
    threads
        Threads in a program.
    notes
        What else the reader must know, such as why a stage is missing.
    """

    kernel: str
    target: str
    triton: str
    measured_with: str
    settings: Mapping[str, Any]
    functions: tuple[Function, ...]
    stages: Mapping[str, Stage]
    registers: int
    spills: int
    shared: int
    threads: int
    notes: tuple[str, ...]

    @property
    def compiler(self) -> str:
        """What compiled it, and what took the measurements shown if that is another version."""
        other = self.measured_with != self.triton
        return f"Triton {self.triton}" + (f" (measurements: Triton {self.measured_with})" if other else "")

    @property
    def assembly(self) -> Stage:
        """The stage in which instructions are counted: PTX for NVIDIA, GCN assembly for AMD."""
        return self.stages["ptx" if "ptx" in self.stages else "amdgcn"]

    @property
    def title(self) -> str:
        """The kernel, its settings and what it was compiled for, in one line."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.kernel} for {self.target} ({settings})"

    def stage(self, name: str) -> Stage:
        """Return a stage by name.

        Raises
        ------
        TraceError
            There is no such stage.
        """
        if name not in self.stages:
            why = f" {' '.join(self.notes)}" if name in TITLES else ""
            raise TraceError(f"this trace has no stage {name!r}; it has {', '.join(self.stages)}.{why}")
        return self.stages[name]

    def accesses(self, kind: str = "") -> list[Access]:
        """Return the global loads, stores and asynchronous copies in the assembly, or those of one kind."""
        wanted = (_known(kind),) if kind else ("load", "store", "copy")
        python = {statement.numbers.start: statement.text for statement in self.statements()}
        found = Counter(
            (line.kind, line.bits, _stages.instruction(line.text), line.origins[:1])
            for line in self.assembly.lines
            if line.kind in wanted
        )
        return [
            Access(what, bits, operation, n, "".join(python[number] for number in origin))
            for (what, bits, operation, origin), n in found.items()
        ]

    def widths(self, kind: str) -> tuple[int, ...]:
        """Return the widths of the accesses of one kind, narrowest first [bit]."""
        return tuple(sorted({access.bits for access in self.accesses(kind) if access.bits is not None}))

    def instructions(self, kind: str = "", stage: str = "") -> Counter[str]:
        """Count the operations of the assembly, or of another stage of machine instructions, by name.

        They are counted where they stand: what stands in a loop counts once.

        Parameters
        ----------
        kind
            Only those of one kind, such as `"tensor"`.
        stage
            `"ptx"`, `"sass"` or `"amdgcn"`; by default the assembly.
        """
        lines = self.stage(stage).lines if stage else self.assembly.lines
        names = (_stages.instruction(line.text) for line in lines if not kind or line.kind == _known(kind))
        return Counter(name for name in names if name)

    def excerpt(self, stage: str = "ptx", *, of: str = "", kind: str = "") -> "Excerpt":
        """Cut out what a statement became, or the lines that do a certain thing.

        Parameters
        ----------
        stage
            Which stage.
        of
            A piece of the Python statement, such as `"tl.load(x_ptr"`; spaces and line breaks do not matter. Every
            statement that contains it counts.
        kind
            Only lines that do this: `load`, `store`, `copy` (asynchronous), `tensor`, `shared`, `atomic`, `math` or
            `barrier`.

        Raises
        ------
        TraceError
            No statement contains the text, or it left no such line in the stage. The message says what there is.
        """
        chosen = self.stage(stage)
        python, lines = self._select(chosen, of, kind)
        if not any(lines):
            raise TraceError(self._nothing(chosen, python, kind))
        return Excerpt(self, chosen, python, lines)

    def compare(
        self, other: "Trace", *, stage: str = "", of: str = "", kind: str = "load"
    ) -> "TraceComparison":
        """Set two traces side by side: their facts, and the lines of each that do the same thing.

        Parameters
        ----------
        other
            The other trace.
        stage, of, kind
            Which lines, as in `excerpt`; by default the global loads in the assembly.
        """
        excerpts = []
        for each in (self, other):
            chosen = each.stage(stage) if stage else each.assembly
            excerpts.append(Excerpt(each, chosen, *each._select(chosen, of, kind)))
        return TraceComparison(self, other, (excerpts[0], excerpts[1]))

    def statements(self) -> list[Statement]:
        """Return the statements of the kernel and of its helper functions."""
        return [statement for function in self.functions for statement in function.statements()]

    def _select(
        self, stage: Stage, of: str, kind: str
    ) -> tuple[tuple[Statement, ...], tuple[Line | None, ...]]:
        """Return the statements that a text names, and the stage's lines that came from them."""
        wanted = {statement.numbers.start for statement in self._named(of)} if of else None
        lines: list[Line | None] = []
        for line in stage.lines:
            if (wanted is None or wanted & set(line.origins)) and (not kind or line.kind == _known(kind)):
                lines.append(line)
            elif lines and lines[-1] is not None and not kind:
                lines.append(None)
        while lines and lines[-1] is None:
            lines.pop()
        shown = wanted or {line.origins[0] for line in lines if line and line.origins}
        return tuple(s for s in self.statements() if s.numbers.start in shown), tuple(lines)

    def _named(self, of: str) -> list[Statement]:
        """Return the statements that contain a text, however it is spaced."""
        needle = re.sub(r"\s", "", of)
        statements = self.statements()
        named = [statement for statement in statements if needle in re.sub(r"\s", "", statement.text)]
        if not named:
            listed = "\n  ".join(statement.text for statement in statements)
            raise TraceError(
                f"no statement of {self.kernel} contains {of!r}. Its statements are:\n  {listed}"
            )
        return named

    def _nothing(self, stage: Stage, python: Sequence[Statement], kind: str) -> str:
        what = KINDS[kind].plural if kind else "lines"
        whence = "; ".join(statement.text for statement in python) or self.kernel
        kinds = Counter(KINDS[line.kind].plural for line in stage.lines if line.kind)
        there = ", ".join(f"{n} {name}" for name, n in kinds.items()) or "none of any kind"
        linked = {line.origins[0] for line in stage.lines if line.origins}
        left = "\n  ".join(s.text for s in self.statements() if s.numbers.start in linked)
        return (
            f"the {stage.title} has no {what} from: {whence}\nIt has {there}. "
            f"The statements that left lines in it are:\n  {left}"
        )

    def facts(self) -> list[tuple[str, str]]:
        """Return what decides the kernel's speed, as pairs of a name and a value with its unit."""
        facts = [
            ("threads a program", count(self.threads)),
            ("registers a thread", count(self.registers)),
            ("spilled a thread", f"{self.spills:,} B"),
            ("shared memory a program", f"{self.shared:,} B"),
            ("global loads", _counted(self.accesses("load"))),
            ("global stores", _counted(self.accesses("store"))),
            ("asynchronous copies", _counted(self.accesses("copy"))),
            ("tensor-core instructions", _named(self.instructions("tensor"))),
            (f"instructions, {self.assembly.title}", count(self.instructions().total())),
        ]
        if "sass" in self.stages:
            facts.append(("instructions, SASS", count(self.instructions(stage="sass").total())))
        return facts

    def __str__(self) -> str:
        return _trace_view.trace_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _trace_view.trace_html(self)


@dataclass(frozen=True)
class Excerpt:
    """A few lines of a stage, below the Python that they came from. It shows itself.

    Attributes
    ----------
    trace, stage
        What it was cut from.
    python
        The statements.
    lines
        The lines of the stage; None where lines of other statements stood between two of them.
    """

    trace: Trace
    stage: Stage
    python: tuple[Statement, ...]
    lines: tuple[Line | None, ...]

    @property
    def text(self) -> str:
        """The lines of the stage as plain text."""
        return "\n".join(line.text for line in self.lines if line)

    def __str__(self) -> str:
        return _trace_view.excerpt_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _trace_view.excerpt_html(self)


@dataclass(frozen=True)
class TraceComparison:
    """Two traces side by side. It shows itself."""

    left: Trace
    right: Trace
    excerpts: tuple[Excerpt, Excerpt]

    def table(self) -> Table:
        """Return the facts of both, those left out that neither has."""
        left, right = dict(self.left.facts()), dict(self.right.facts())
        names = [name for name in {**left, **right} if {left.get(name), right.get(name)} != {"none"}]
        rows = [(name, left.get(name, "–"), right.get(name, "–")) for name in names]
        return Table(("", *self.names()), rows)

    def names(self) -> tuple[str, str]:
        """Return what tells the two apart: the kernel, and what only one of them was compiled for or with."""
        sides = []
        for this, that in ((self.left, self.right), (self.right, self.left)):
            ours, theirs = (
                {"target": t.target, "compiler": f"Triton {t.triton}", **t.settings} for t in (this, that)
            )
            # Of two kernels each may have constants that the other does not know; of one kernel a missing option differs.
            same = this.kernel == that.kernel
            differs = [
                f"{name}={value}" if name in this.settings else str(value)
                for name, value in ours.items()
                if (theirs[name] != value if name in theirs else same)
            ]
            sides.append(", ".join([this.kernel, *differs]))
        return sides[0], sides[1]

    def __str__(self) -> str:
        return _trace_view.comparison_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _trace_view.comparison_html(self)


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise TraceError(f"there is no kind {kind!r} of line; there are {', '.join(KINDS)}")
    return kind


def _counted(accesses: Sequence[Access]) -> str:
    """Return how many accesses of each width there are: `4 × 128 bit`."""
    widths: Counter[str] = Counter()
    for access in accesses:
        widths[f"{access.bits} bit" if access.bits else "a tile"] += access.count
    return ", ".join(f"{n} × {width}" for width, n in widths.items()) or "none"


def _named(instructions: Counter[str]) -> str:
    return ", ".join(f"{n} × {name}" for name, n in instructions.items()) or "none"
