"""A Triton kernel and everything that it names, as plain data from which another process makes it again.

Works for a kernel in a module, in a script that sphinx-gallery runs, and in a notebook cell, and whether this process
interprets or compiles: only the Python functions inside the kernels, their source and their globals are looked at.
"""

import ast
import contextlib
import inspect
import types
from dataclasses import dataclass
from typing import Any

from kernels.lab import _source

Reference = tuple[Any, ...]
"""What a name stands for: `("function", key)`, `("module", name)`, `("member", module, name)` or `("constant", value)`."""


@dataclass(frozen=True)
class Source:
    """One function of the kernel, where it stands.

    Attributes
    ----------
    name
        Its name.
    file
        The name that the compiler sees in place of the file's own: free of odd characters, and of the path to
        somebody's home.
    first
        The line of its first line in the file, from 1.
    lines
        Its text, decorators included, dedented.
    """

    name: str
    file: str
    first: int
    lines: tuple[str, ...]


class Package:
    """A kernel's functions, its own first, gathered from what it names."""

    def __init__(self, kernel: Any):
        self.functions: dict[str, dict[str, Any]] = {}
        self.sources: list[Source] = []
        self._files: dict[str, str] = {}
        self.kernel = self._add(kernel)

    def refer(self, value: Any) -> Reference:
        """Return what stands for `value` in the other process."""
        if inspect.ismodule(value):
            return ("module", value.__name__)
        function = _source.unwrap(value)
        if inspect.isfunction(function) or inspect.isclass(value):
            owner = function if inspect.isfunction(function) else value
            if owner.__module__.split(".")[0] == "triton" or inspect.isclass(value):
                return ("member", owner.__module__, owner.__qualname__)
            return ("function", self._add(value))
        if _source.is_constant(value):
            return ("constant", value)
        # A value that cannot travel may be named where it is never used; if it is used, Triton refuses the text, too.
        return ("constant", f"<{type(value).__name__}>")

    def _add(self, thing: Any) -> str:
        function = _source.unwrap(thing)
        key = f"{function.__module__}.{function.__qualname__}:{function.__code__.co_firstlineno}"
        if key in self.functions:
            return key
        text = _source.source(function)
        lines, _ = inspect.findsource(function)
        first = inspect.getsourcelines(function)[1]
        file = self._files.setdefault(function.__code__.co_filename, f"source{len(self._files)}.py")
        self.functions[key] = given = {
            "name": function.__name__,
            "module": function.__module__,
            "file": file,
            "first": first,
            "source": text,
            "lines": lines,
            "wrap": _wrap(thing),
            "options": _jit_options(thing),
        }
        self.sources.append(Source(function.__name__, file, first, tuple(text.rstrip().split("\n"))))
        given["names"] = {name: self.refer(value) for name, value in _globals(function).items()}
        return key


def _innermost(thing: Any) -> Any:
    """Return the jitted function inside `autotune` and `heuristics`."""
    while not inspect.isfunction(thing) and not inspect.isfunction(thing.fn):
        thing = thing.fn
    return thing


def _wrap(thing: Any) -> str:
    if inspect.isfunction(thing):
        return "plain"
    return "constexpr" if type(_innermost(thing)).__name__ == "ConstexprFunction" else "jit"


def _jit_options(thing: Any) -> dict[str, Any]:
    """Return what was given to `triton.jit` and bears on the code, from a compiled or an interpreted function."""
    jitted = _innermost(thing)
    given = getattr(jitted, "kwargs", None) or vars(jitted)
    return {name: given[name] for name in ("debug", "noinline") if given.get(name) is not None}


def _globals(function: types.FunctionType) -> dict[str, Any]:
    """Return the names outside a function that its body, annotations and defaults use, with their present values."""
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a cell not filled yet: a name that is defined later
            scope[name] = cell.cell_contents
    used = set(function.__code__.co_freevars)
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        used.update(code.co_names)
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    definition = ast.parse(_source.source(function)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    heads = [definition.args, definition.returns]
    used.update(n.id for head in heads if head for n in ast.walk(head) if isinstance(n, ast.Name))
    return {name: scope[name] for name in sorted(used) if name in scope}
