"""What a function's behaviour depends on in this project or script: its source and, in turn, all that it names.

Two users need this walk: the fingerprint that tells whether a recorded number is still that of the code on the
page, and the child processes that compile or profile a kernel defined in a script or a notebook cell.
"""

import ast
import dis
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Any

_LAB = "kernels.lab"


class SourceError(ValueError):
    """The source of a function cannot be read, so nothing can be said about what it depends on."""


def unwrap(thing: Any) -> Any:
    """Return the Python function inside a Triton kernel (compiled, interpreted or autotuned), else `thing` itself."""
    inner = thing
    while not inspect.isfunction(inner) and hasattr(inner, "fn"):
        inner = inner.fn
    return inner if inspect.isfunction(inner) else thing


def source(function: types.FunctionType) -> str:
    """Return the dedented source text of a function.

    Raises
    ------
    SourceError
        The source is not available (a function made by `exec`, `python -c` or a plain REPL), or it is a lambda, whose
        source Python cannot tell from the line it stands in.
    """
    if function.__name__ == "<lambda>":
        raise SourceError("a lambda has no source of its own: write it as a function with `def`")
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise SourceError(
            f"the source of {function.__name__!r} cannot be read: define it in a file or a notebook cell, "
            "not through exec, python -c or a plain REPL"
        ) from error


def tree(function: types.FunctionType) -> ast.AST:
    """Return the syntax tree of a function's definition, decorators included."""
    return ast.parse(source(function)).body[0]


def dependencies(function: types.FunctionType) -> dict[str, Any]:
    """Return the dotted names in a function that lead outside it, with the objects they stand for.

    Only names that resolve now are returned; built-ins and local variables are not.
    """
    outer = dict(_outer_names(function))
    found: dict[str, Any] = {}
    for node in ast.walk(tree(function)):
        chain = _chain(node)
        if chain and chain[0] in outer:
            name, value = _follow(chain, outer[chain[0]])
            found[name] = value
    return found


def closure(*roots: types.FunctionType) -> dict[str, Any]:
    """Return every function of this project or script that the roots reach, and every constant they read.

    Keys are `module.qualified_name` for functions and `module.name` for constants. The lab itself is left out, its kernels
    excepted: an instrument that measures is not part of what is measured.
    """
    reached: dict[str, Any] = {}
    waiting = [(root, root) for root in roots]
    while waiting:
        function, root = waiting.pop()
        key = f"{function.__module__}.{function.__qualname__}"
        if key in reached:
            continue
        reached[key] = function
        for name, value in dependencies(function).items():
            inner = unwrap(value)
            if inspect.isfunction(inner):
                if _in_scope(inner, root):
                    waiting.append((inner, root))
            elif is_constant(value):
                reached[f"{function.__module__}.{name}"] = value
    return reached


def is_constant(value: Any) -> bool:
    """Whether a value is plain data that can be written down: numbers, text, data types, and containers of these."""
    if isinstance(value, tuple | list | set | frozenset):
        return all(is_constant(item) for item in value)
    if isinstance(value, dict):
        return all(is_constant(item) for pair in value.items() for item in pair)
    return (
        value is None or isinstance(value, bool | int | float | str) or type(value).__name__ in _NAMED_TYPES
    )


_NAMED_TYPES = ("dtype", "constexpr", "Config")  # torch's and Triton's; each says all it is as text


def plain(value: Any) -> str:
    """Return a constant as text that is the same in every process."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(plain, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{plain(k)}: {plain(v)}' for k, v in value.items())}}}"
    return str(value) if type(value).__name__ in _NAMED_TYPES else repr(value)


def _outer_names(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name in _globals_in(function.__code__) | _names_in_decorators(function):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is not filled yet: a name that is defined later
            continue


def _globals_in(code: types.CodeType) -> set[str]:
    """The names that a function and those inside it read from their module; attributes and locals are none."""
    names = {
        step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return names.union(*(_globals_in(const) for const in code.co_consts if isinstance(const, types.CodeType)))


def _names_in_decorators(function: types.FunctionType) -> set[str]:
    """Decorators are read where the function is defined, so its own code does not name them."""
    decorators = getattr(tree(function), "decorator_list", [])
    return {node.id for top in decorators for node in ast.walk(top) if isinstance(node, ast.Name)}


def _chain(node: ast.AST) -> list[str] | None:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [*reversed([*names, node.id])] if names else [node.id]


def _follow(chain: list[str], value: Any) -> tuple[str, Any]:
    """Follow attributes through modules only: `kernels.add.add` leads to a function, `x.shape` stays `x`."""
    name = chain[0]
    for attribute in chain[1:]:
        if not isinstance(value, types.ModuleType) or not hasattr(value, attribute):
            break
        value, name = getattr(value, attribute), f"{name}.{attribute}"
    return name, value


def _in_scope(function: types.FunctionType, root: types.FunctionType) -> bool:
    module = function.__module__ or ""
    if function.__globals__ is root.__globals__:
        return True
    if module.startswith(_LAB):
        return module.endswith("_kernels")
    return module.startswith("kernels.")
