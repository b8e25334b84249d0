"""Triton's internals, all in this one file: compile a kernel for any GPU and read back what the compiler made.

It runs as a program of its own, `python _triton.py FOLDER`, and imports neither the lab nor torch. A process that
interprets kernels cannot compile them (Triton's own functions were decorated for the interpreter when it was
imported), and Triton's cache on disk does not know which file a kernel came from, so an entry of it may carry another
file's line numbers. A process with a cache of its own has neither problem, whatever its parent does.
"""

import ast
import importlib
import linecache
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def main(folder: Path) -> None:
    """Compile the job in `folder`, and leave the result there."""
    job = pickle.loads((folder / "job.pickle").read_bytes())
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    try:
        result = compile_job(job)
    except Exception as error:  # noqa: BLE001  # whatever Triton raises is the answer that was asked for
        result = {"error": _readable(error)}
    (folder / "result.pickle").write_bytes(pickle.dumps(result))


def compile_job(job: Job) -> dict[str, Any]:
    """Compile a kernel for a target.

    Parameters
    ----------
    job
        `target`, a (backend, architecture, warp size); `kernel` and `functions`, the kernel and what it names;
        `types`, Triton's name of the type of each run-time argument; `constants`, the values of the others; `aligned`,
        the names of the arguments that are divisible by 16; `options`, such as `num_warps`.

    Returns
    -------
    dict
        `triton`, the compiler's version; `asm`, the text of each stage; `missing`, why a stage is not there;
        `resources`, what a program needs (`registers` a thread, `spills` [B a thread], `shared` [B]); `options` as
        they were used.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend

    kernel, resolve = _rebuild(job["functions"], job["kernel"])
    target = GPUTarget(*job["target"])
    backend = make_backend(target)
    signature = {name: job["types"].get(name, "constexpr") for name in kernel.arg_names}
    attributes = {
        (kernel.arg_names.index(name),): backend.parse_attr(_launch_like(target.backend, signature[name]))
        for name in job["aligned"]
    }
    constants = {name: resolve(reference) for name, reference in job["constants"].items()}
    known = backend.parse_options({}).__dict__
    for name in job["options"]:
        if name not in known:
            raise TypeError(
                f"{name!r} is neither an argument of the kernel ({', '.join(kernel.arg_names)}) "
                f"nor a compile option of Triton {triton.__version__} such as num_warps or num_stages"
            )
    compiled = triton.compile(
        ASTSource(kernel, signature, constants, attributes), target=target, options=job["options"]
    )
    asm = {name: text for name, text in compiled.asm.items() if isinstance(text, str) and name != "source"}
    missing: dict[str, str] = {}
    if target.backend == "cuda":
        resources = _cuda_resources(compiled.asm["cubin"])
        try:
            asm["sass"] = disassemble(compiled.asm["cubin"])
        except subprocess.CalledProcessError as error:
            missing["sass"] = f"the disassembler of Triton {triton.__version__} says: {error.stderr.strip()}"
    else:
        resources = _amd_resources(asm["amdgcn"])
    resources["shared"] = compiled.metadata.shared
    options = {name: getattr(compiled.metadata, name) for name in ("num_warps", "warp_size")}
    return {
        "triton": triton.__version__,
        "asm": asm,
        "missing": missing,
        "resources": resources,
        "options": options,
    }


def _launch_like(backend: str, type_: str) -> str:
    """Return Triton's short form of what a launch finds out about an argument: D, divisible by 16; S, under 2 GiB."""
    return "DS" if backend == "hip" and type_.startswith("*") else "D"


# --- the kernel, again -----------------------------------------------------------------------------------------------


def _rebuild(functions: dict[str, Any], kernel: str) -> tuple[Any, Callable[[tuple[Any, ...]], Any]]:
    """Make the kernel and the functions that it names anew, each with the globals that it had."""
    from triton.runtime.jit import constexpr_function, jit

    made: dict[str, Any] = {}

    def resolve(reference: tuple[Any, ...]) -> Any:
        kind, *rest = reference
        if kind == "function":
            return make(rest[0])
        if kind == "module":
            return importlib.import_module(rest[0])
        if kind == "member":
            value: Any = importlib.import_module(rest[0])
            for attribute in rest[1].split("."):
                value = getattr(value, attribute)
            return value
        return rest[0]  # a constant, or the placeholder of a value that cannot travel

    def make(key: str) -> Any:
        if key in made:
            return made[key]
        given = functions[key]
        name, file = given["name"], given["file"]
        linecache.cache[file] = (
            0,
            None,
            given["lines"],
            file,
        )  # where Triton, through inspect, reads the source
        namespace: dict[str, Any] = {"__name__": given["module"]}
        # What a definition evaluates at once, its annotations and defaults, is there before it; functions come after,
        # because two of them may call each other.
        early = {n: r for n, r in given["names"].items() if r[0] != "function"}
        namespace |= {n: resolve(r) for n, r in early.items()}
        exec(_definition(given), namespace)  # noqa: S102  # the caller's own kernel
        function = namespace[name]
        if given["wrap"] == "jit":
            made[key] = jit(function, **given["options"])
        elif given["wrap"] == "constexpr":
            made[key] = constexpr_function(function)
        else:
            made[key] = function
        namespace |= {n: resolve(r) for n, r in given["names"].items() if n not in early}
        return made[key]

    return make(kernel), resolve


def _definition(given: dict[str, Any]) -> Any:
    """Compile one function definition without its decorators, at the lines where it stands."""
    tree = ast.parse(given["source"])
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    ast.increment_lineno(tree, given["first"] - 1)
    return compile(tree, given["file"], "exec")


# --- machine code ----------------------------------------------------------------------------------------------------


def disassemble(cubin: bytes) -> str:
    """Return the machine code of a CUDA binary, each run of instructions below the line of PTX that it came from."""
    from triton import knobs

    return _run_on(cubin, knobs.nvidia.nvdisasm.path, "--print-code", "--print-line-info-ptx")


def _cuda_resources(cubin: bytes) -> dict[str, int]:
    from triton import knobs

    usage = _run_on(cubin, knobs.nvidia.cuobjdump.path, "--dump-resource-usage")
    found = {name: int(number) for name, number in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    return {"registers": found["REG"], "spills": found["STACK"] + found["LOCAL"]}


def _amd_resources(amdgcn: str) -> dict[str, int]:
    found = {name: int(number) for name, number in re.findall(r"\.(\w+_count):\s+(\d+)", amdgcn)}
    registers = found["vgpr_count"] + found.get("agpr_count", 0)
    return {"registers": registers, "spills": 4 * found["vgpr_spill_count"]}


def _run_on(binary: bytes, tool: str, *options: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(binary)
        done = subprocess.run([tool, *options, str(path)], check=True, capture_output=True, text=True)
    return done.stdout


# --- errors ----------------------------------------------------------------------------------------------------------


def _readable(error: BaseException) -> dict[str, Any]:
    """Return what went wrong as plain data: the messages from the outermost call to its cause, and the place in Python."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    deepest = next((e for e in reversed(chain) if hasattr(e, "node")), None)
    message = str(getattr(deepest, "error_message", None) or chain[-1] or type(chain[-1]).__name__)
    place = None
    if deepest is not None and hasattr(deepest.node, "lineno") and getattr(deepest, "src", None):
        lines = deepest.src.split("\n")  # type: ignore[attr-defined]
        place = (lines[0].strip(), lines[deepest.node.lineno - 1].rstrip(), deepest.node.col_offset)
    return {"message": _without_reproducer(message), "place": place}


def _without_reproducer(message: str) -> str:
    """Keep what the assembler says; leave out the command and the PTX that Triton adds for its own bug reports."""
    found = re.search(r"`ptxas` stderr:\n(.*?)\n+Repro command", message, re.DOTALL)
    return found[1].strip() if found else message.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
