"""Turn a function of a script or a notebook cell into a module that another process can import.

A child process that profiles or compiles a kernel cannot import the chapter: it may be a notebook, or a script that
would run from its top. So the function is written out with what it reaches: the script's own functions and kernels as
source, its constants as literals, and everything that can be imported as imports.
"""

import __future__

import ast
import dis
import importlib.util
import inspect
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

from kernels.lab import _source
from kernels.lab._source import SourceError


def standalone(function: types.FunctionType, **values: Any) -> str:
    """Return the source of a module that defines `function` and all it needs under their own names.

    Parameters
    ----------
    function
        Of a script, a notebook cell or an importable module.
    values
        Further names to define: plain data.

    Raises
    ------
    SourceError
        Something it needs cannot be written down: a tensor or another object made by the script, a lambda, or a function
        whose source is not available. The message names it.
    """
    module = _Module()
    module.add(function.__name__, function, of=function)
    for name, value in values.items():
        module.add(name, value, of=function)
    return "\n\n".join(["\n".join(module.header), *module.lines.values()]) + "\n"


class _Module:
    """The parts of the module under construction; a name may stand for one thing only."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self._imports: dict[str, None] = {"import torch": None}
        self._things: dict[str, Any] = {}
        self._lazy_annotations = False

    @property
    def header(self) -> list[str]:
        """The imports; they stand above everything else."""
        return ["from __future__ import annotations"] * self._lazy_annotations + list(self._imports)

    def add(self, name: str, thing: Any, *, of: types.FunctionType) -> None:
        """Define `name`, after all that its definition needs."""
        if name in self._things:
            if self._things[name] is not thing and self._things[name] != thing:
                raise SourceError(
                    f"{of.__name__} reaches two different things named {name!r}: rename one of them"
                )
            return
        self._things[name] = thing
        inner = _inside(thing)
        if isinstance(thing, types.ModuleType):
            self._import(f"import {thing.__name__}" + (f" as {name}" if name != thing.__name__ else ""))
        elif (home := _importable(thing, inner)) is not None:
            self._import(f"from {home[0]} import {home[1]} as {name}")
        elif inspect.isfunction(inner):
            self._define(name, thing, inner)
        else:
            self.lines[name] = f"{name} = {self._literal(name, thing, of)}"

    def _import(self, line: str) -> None:
        self._imports[line] = None

    def _define(self, name: str, thing: Any, function: types.FunctionType) -> None:
        text = _source.source(function)
        node = ast.parse(text).body[0]
        if thing is not function and not getattr(node, "decorator_list", None):
            raise SourceError(
                f"{name!r} is {function.__name__!r} wrapped by a call: decorate it with @ instead"
            )
        for needed, value in _needs(function):
            if value is not thing:
                self.add(needed, value, of=function)
        for path in _submodules(function):
            self._import(f"import {path}")
        if function.__code__.co_flags & __future__.annotations.compiler_flag:
            self._lazy_annotations = True
        alias = f"\n{name} = {function.__name__}" if name != function.__name__ else ""
        self.lines[name] = text.rstrip() + alias

    def _literal(self, name: str, value: Any, of: types.FunctionType) -> str:
        kind = f"{type(value).__module__}.{type(value).__name__}"
        if kind == "torch.dtype":
            return str(value)
        if kind == "torch.device":
            return f"torch.device({str(value)!r})"
        if kind.startswith("triton.language"):
            self._import("import triton.language")
        if kind == "triton.language.core.constexpr":
            return f"triton.language.constexpr({self._literal(name, value.value, of)})"
        if kind == "triton.language.core.dtype":
            return f"triton.language.dtype({value.name!r})"
        if isinstance(value, float) and not math.isfinite(value):
            return f"float({str(value)!r})"
        if value is None or type(value) in (bool, int, float, complex, str, bytes):
            return repr(value)
        if type(value) in (list, tuple, set, frozenset):
            items = "".join(f"{self._literal(name, item, of)}, " for item in value)
            return f"{type(value).__name__}([{items}])"
        if type(value) is dict:
            pairs = (
                f"{self._literal(name, k, of)}: {self._literal(name, v, of)}, " for k, v in value.items()
            )
            return f"{{{''.join(pairs)}}}"
        raise SourceError(
            f"{of.__name__} uses {name!r}, a {type(value).__qualname__}, which cannot be taken into another process: "
            f"make it inside {of.__name__}, or pass it as a parameter"
        )


def _inside(thing: Any) -> Any:
    """Return the function inside any number of Triton's wrappers: jit, autotune, heuristics."""
    while not inspect.isfunction(thing) and getattr(thing, "fn", None) is not None:
        thing = thing.fn
    return thing


def _importable(thing: Any, inner: Any) -> tuple[str, str] | None:
    """Return the module and the name under which another process finds `thing`, if there are such."""
    module = getattr(inner, "__module__", None)
    name = getattr(inner, "__qualname__", None)
    if not module or not name or module == "__main__" or "." in name:
        return None
    found = getattr(sys.modules.get(module), name, None)
    if found is not thing:
        return None
    try:
        return (module, name) if importlib.util.find_spec(module) else None
    except ValueError:  # a module made by hand, without a spec: a chapter that a test or sphinx-gallery runs
        return None


def _needs(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names that a function takes from outside, in its body or when it is defined, with their values."""
    used = _globals_of(function.__code__) | _evaluated_at_definition(_source.tree(function))
    for name in sorted(used):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet: the function's own name, inside itself
            continue


def _globals_of(code: types.CodeType) -> set[str]:
    """Return the global names that a function and those inside it read: by the bytecode, since a local may be called alike."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals_of(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _evaluated_at_definition(tree: ast.AST) -> set[str]:
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    arguments += [one for one in (tree.args.vararg, tree.args.kwarg) if one]
    parts = [*tree.decorator_list, *tree.args.defaults, *tree.args.kw_defaults, tree.returns]
    parts += [argument.annotation for argument in arguments]
    return {n.id for part in parts if part for n in ast.walk(part) if isinstance(n, ast.Name)}


def _submodules(function: types.FunctionType) -> set[str]:
    """Return the submodules that a function reaches by attribute: `kernels.add` in `kernels.add.add(x, y)`."""
    dotted = [node for node in ast.walk(_source.tree(function)) if isinstance(node, ast.Attribute)]
    modules = [(_value(node.value, function), _value(node, function)) for node in dotted]
    return {
        inner.__name__
        for outer, inner in modules
        if isinstance(inner, types.ModuleType) and inner.__name__.startswith(f"{outer.__name__}.")
    }


def _value(node: ast.expr, function: types.FunctionType) -> Any:
    """Return what a dotted name stands for, as far as it leads through modules; else None."""
    if isinstance(node, ast.Name):
        return function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(
        parent := _value(node.value, function), types.ModuleType
    ):
        return getattr(parent, node.attr, None)
    return None
