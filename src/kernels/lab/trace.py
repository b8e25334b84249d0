"""Follow a kernel from Python to machine code: every stage of the compiler, linked line to line.

`trace(kernel, ...)` compiles a kernel for any GPU, present or not, and returns a `Trace` that shows itself: Python on one
side, a stage on the other, and the lines of each that belong together. It names what decides speed: the width of each
access to global memory, asynchronous copies, tensor-core instructions, registers, spills and shared memory.
"""

import ast
import inspect
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernels.lab import _mode, _pack, _source, _stages, _trace_view, _triton, record
from kernels.lab._stages import KINDS, Located, Place
from kernels.lab.show import Table
from kernels.lab.units import count

_REFERENCE_TARGET = "sm_90"  # the reference GPU's, an H200: what a machine without a GPU compiles for
_OLDEST_SM = 75

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
        return TraceComparison(self, other, (excerpts[0], excerpts[1]), kind)

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
    kind: str

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
            theirs = {"target": that.target, "Triton": that.triton, **that.settings}
            ours = {"target": this.target, "Triton": this.triton, **this.settings}
            same = this.kernel == that.kernel
            differs = [
                f"{k}={v}" if k in this.settings else str(v)
                for k, v in ours.items()
                if theirs.get(k, v if not same else None) != v
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


# --- tracing ---------------------------------------------------------------------------------------------------------


def trace(
    kernel: Any,
    /,
    *arguments: Any,
    target: str | None = None,
    unaligned: Sequence[str] = (),
    **named: Any,
) -> Trace:
    """Compile a kernel, for a GPU that need not be there, and return every stage of its compilation.

    The arguments are those of a launch, without the grid: first the kernel's own, by position or by name, then options
    such as `num_warps=8`. An argument that is not a compile-time constant is given

    - as the name of its type: `"*fp32"` is a pointer to float32, `"i32"` an integer, `"fp32"` a number;
    - or as an example: a tensor, or a number, of which a launch would see the type, whether it is divisible by 16, and
      whether it is 1.

    Types named without an example are taken as a launch mostly finds them, pointers and integers divisible by 16, unless
    they are named in `unaligned`.

    Parameters
    ----------
    kernel
        A Triton kernel: from a module, a script or a notebook cell; wrapped in `autotune` or `heuristics` or not, whose
        choices are then given here.
    target
        `"sm_75"` to `"sm_121"`, or AMD's `"gfx942"` and others. By default the GPU of this machine, and without one
        `"sm_90"`, the architecture of the reference GPU.
    unaligned
        The names of arguments that are not divisible by 16.

    Raises
    ------
    TraceError
        The kernel is none, an argument or the target is unknown or missing, or the compiler refuses the kernel.

    Examples
    --------
    >>> lab.trace(add_kernel, x_ptr="*fp32", y_ptr="*fp32", out_ptr="*fp32", n="i32", BLOCK_SIZE=1024)  # doctest: +SKIP
    """
    _require_kernel(kernel)
    name = _pack.unwrap(kernel).__name__
    chosen = target or _default_target()
    try:
        package = _pack.Package(kernel)
    except _source.SourceError as error:
        raise TraceError(str(error)) from error
    job = {
        "kernel": package.kernel,
        "functions": package.functions,
        "target": _parse_target(chosen),
        **_arguments(package, kernel, arguments, named, unaligned),
    }
    result = _compile(job)
    if "error" in result:
        raise TraceError(_explain(result["error"], f"{name} does not compile for {chosen}"))
    return _assemble(package, job, result, chosen)


def _require_kernel(kernel: Any) -> None:
    from triton.runtime.jit import KernelInterface

    if not isinstance(kernel, KernelInterface):
        called = getattr(kernel, "__name__", repr(kernel))
        what = "a Python function" if inspect.isfunction(kernel) else f"a {type(kernel).__name__}"
        raise TraceError(
            f"{called} is {what}, not a Triton kernel: trace the function that is decorated with @triton.jit, "
            "not its launcher"
        )


def _default_target() -> str:
    if not _mode.HAS_GPU:
        return _REFERENCE_TARGET
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _parse_target(target: str) -> tuple[str, int | str, int]:
    """Return a target as Triton writes it: backend, architecture, threads in a warp."""
    if (found := re.fullmatch(r"sm_(\d+)a?", target)) and int(found[1]) >= _OLDEST_SM:
        return ("cuda", int(found[1]), 32)
    if re.fullmatch(r"gfx[0-9a-f]{3,4}", target):
        return ("hip", target, 64 if target.startswith("gfx9") else 32)
    raise TraceError(
        f"the target {target!r} is unknown: give an NVIDIA architecture from 'sm_75' on, such as 'sm_90', "
        "or an AMD one such as 'gfx942'"
    )


# --- arguments -------------------------------------------------------------------------------------------------------

_TORCH_TYPES = {
    "bool": "i1", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
_TYPE = re.compile(
    r"\*?k?(?:i1|[iu](?:8|16|32|64)|fp16|bf16|fp32|fp64|fp8e4nv|fp8e5|fp8e4b8|fp8e5b16|fp8e4b15)|tensordesc<.+>|nvTmaDesc"
)


def _arguments(
    package: _pack.Package,
    kernel: Any,
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    unaligned: Sequence[str],
) -> dict[str, Any]:
    """Sort what was given into types, constants, aligned arguments and compile options."""
    signature = inspect.signature(_pack.unwrap(kernel))
    bound, options = _bind(package.kernel, signature, given, named)
    for name in unaligned:
        if name not in signature.parameters:
            raise TraceError(
                f"unaligned names {name!r}, which is no argument; there are {_listed(signature)}"
            )
    types: dict[str, str] = {}
    constants: dict[str, _pack.Reference] = {}
    aligned: list[str] = []
    for name, value in bound.items():
        if "constexpr" in str(signature.parameters[name].annotation):
            constants[name] = package.refer(value)
            continue
        type_, divisible = _type_of(name, value)
        if type_ == "constexpr":
            constants[name] = package.refer(value)
        else:
            types[name] = type_
            if divisible and name not in unaligned:
                aligned.append(name)
    return {"types": types, "constants": constants, "aligned": aligned, "options": options}


def _bind(
    key: str, signature: inspect.Signature, given: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    kernel = key.rpartition(":")[0].rpartition(".")[2]
    own = {name: value for name, value in named.items() if name in signature.parameters}
    options = {name: value for name, value in named.items() if name not in own}
    try:
        bound = signature.bind_partial(*given, **own)
    except TypeError as error:
        raise TraceError(f"{kernel}: {error}; its arguments are {_listed(signature)}") from error
    bound.apply_defaults()
    missing = [name for name in signature.parameters if name not in bound.arguments]
    if missing:
        raise TraceError(
            f"{kernel} needs {', '.join(missing)}: give a compile-time constant its value, such as BLOCK_SIZE=1024, "
            f'and any other argument its type, such as x_ptr="*fp32". Its arguments are {_listed(signature)}'
        )
    return dict(bound.arguments), options


def _listed(signature: inspect.Signature) -> str:
    return ", ".join(signature.parameters)


def _type_of(name: str, value: Any) -> tuple[str, bool]:
    """Return Triton's name of an argument's type, and whether it is divisible by 16; `constexpr` if a launch fixes it."""
    if isinstance(value, str):
        if not _TYPE.fullmatch(value):
            raise TraceError(
                f'{name}={value!r} is no type that Triton knows: write "*fp32" for a pointer to float32, '
                '"i32" for an integer, "fp32" for a number'
            )
        return value, value.startswith("*") or value[1:] in ("32", "64")
    if isinstance(value, torch.Tensor):
        return "*" + _TORCH_TYPES[str(value.dtype).removeprefix("torch.")], value.data_ptr() % 16 == 0
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value == 1):
        return "constexpr", False
    if isinstance(value, bool):
        return "u1", False
    if isinstance(value, int):
        return ("i32" if -(2**31) <= value < 2**31 else "i64"), value % 16 == 0
    if isinstance(value, float):
        return "fp32", False
    raise TraceError(
        f'{name} is a {type(value).__name__}: give the name of its type, such as "*fp32", a tensor or a number'
    )


# --- compiling -------------------------------------------------------------------------------------------------------

_compiled: dict[str, dict[str, Any]] = {}


def _compile(job: dict[str, Any]) -> dict[str, Any]:
    """Compile in a process of its own, once for the same content."""
    key = repr(job)
    if key not in _compiled:
        with tempfile.TemporaryDirectory(prefix="trace-") as folder:
            Path(folder, "job.pickle").write_bytes(pickle.dumps(job))
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(place or os.getcwd() for place in sys.path),
                "TRITON_INTERPRET": "0",
                "TRITON_DISABLE_LINE_INFO": "0",
            }
            # -P: the program's own folder, the lab's, stays out of the path, where its `trace` would hide Python's.
            command = [sys.executable, "-P", str(_triton.__file__), folder]
            done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
            answer = Path(folder, "result.pickle")
            if not answer.exists():
                raise TraceError(
                    f"the compiler ended with status {done.returncode} and no result:\n{done.stderr[-2000:]}"
                )
            _compiled[key] = pickle.loads(answer.read_bytes())
            if "error" in _compiled[key]:
                _compiled[key]["error"]["printed"] = done.stderr
    return _compiled[key]


def _explain(error: Mapping[str, Any], what: str) -> str:
    lines = [f"{what}: {error['message']}"]
    if error["place"]:
        function, text, column = error["place"]
        lines += [f"  in `{function}`", f"    {text}", f"    {' ' * column}^"]
    # Passes over the IR raise no more than "failed", and print why.
    lines += [f"  {line}" for line in error["printed"].splitlines() if re.search(r"\berror:", line)]
    return "\n".join(lines)


def _assemble(
    package: _pack.Package, job: Mapping[str, Any], result: Mapping[str, Any], target: str
) -> Trace:
    functions: list[Function] = []
    numbers: dict[Place, int] = {}
    for source in package.sources:
        first = functions[-1].first + len(functions[-1].lines) if functions else 1
        functions.append(Function(source.name, first, source.lines))
        for statement in functions[-1].statements():
            # The compiler names the line in a statement where an argument stands: a link is to the whole statement.
            lines = (source.first + number - first for number in statement.numbers)
            numbers |= {(source.file, line): statement.numbers.start for line in lines}
    asm = result["asm"]
    stages = {
        name: Stage(name, asm[name], tuple(_line(*located, numbers) for located in _read(name, asm)))
        for name in TITLES
        if name in asm
    }
    constants = {name: reference[-1] for name, reference in job["constants"].items()}
    options = result["options"]
    resources = result["resources"]
    return Trace(
        kernel=functions[0].name,
        target=target,
        triton=result["triton"],
        measured_with=_measured_with() or result["triton"],
        settings={**constants, "num_warps": options["num_warps"], **job["options"]},
        functions=tuple(functions),
        stages=stages,
        registers=resources["registers"],
        spills=resources["spills"],
        shared=resources["shared"],
        threads=options["num_warps"] * options["warp_size"],
        notes=tuple(f"There is no {TITLES[stage]}: {why}." for stage, why in result["missing"].items()),
    )


def _read(stage: str, asm: Mapping[str, str]) -> list[Located]:
    text = asm[stage]
    if stage in ("ttir", "ttgir"):
        return _stages.read_mlir(text)
    if stage == "llir":
        return _stages.read_llvm(text)
    if stage == "sass":
        return _stages.read_sass(text, asm["ptx"])
    return _stages.read_ptx(text) if stage == "ptx" else _stages.read_gcn(text)


def _line(text: str, chain: tuple[Place, ...], numbers: Mapping[Place, int]) -> Line:
    origins = tuple(dict.fromkeys(numbers[place] for place in chain if place in numbers))
    kind = _stages.kind_of(text)
    return Line(text, origins, kind, _stages.width(text) if kind in ("load", "store", "copy") else None)


def _measured_with() -> str:
    """Return the version of Triton behind the measurements, `""` where nothing has been measured yet."""
    try:
        return record.current().triton
    except record.RecordError:
        return ""
