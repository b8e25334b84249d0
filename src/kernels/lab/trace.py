"""Follow a kernel from Python to machine code: every stage of the compiler, linked line to line.

`trace(kernel, ...)` compiles a kernel for any GPU, present or not, and returns a `Trace` that shows itself: Python on one
side, a stage on the other, and the lines of each that belong together. It names what decides speed: the width of each
access to global memory, asynchronous copies, tensor-core instructions, registers, spills and shared memory.
"""

import inspect
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kernels.lab import _mode, _pack, _source, _stages, _triton, record
from kernels.lab._stages import Located, Place
from kernels.lab.traced import TITLES, Excerpt, Function, Line, Stage, Trace, TraceComparison, TraceError

__all__ = ["Excerpt", "Trace", "TraceComparison", "TraceError", "trace"]

_REFERENCE_TARGET = "sm_90"  # the reference GPU's, an H200: what a machine without a GPU compiles for
_OLDEST_SM = 75


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
    name = _source.unwrap(kernel).__name__
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
    signature = inspect.signature(_source.unwrap(kernel))
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
    constants = {
        name: package.functions[value]["name"] if kind == "function" else value
        for name, (kind, *_, value) in job["constants"].items()
    }
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
