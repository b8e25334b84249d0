"""A function of a script, written out as a module that another process can import."""

import importlib.util
import linecache
import math
import textwrap

import pytest

from kernels import lab
from kernels.lab._source import SourceError
from kernels.lab._standalone import standalone


def script(text, name="__main__"):
    """Run a script the way sphinx-gallery and a notebook do: compiled from a text that no module stands for."""
    text = textwrap.dedent(text)
    file = f"<script {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"__name__": name}
    exec(compile(text, file, "exec"), names)  # noqa: S102
    return names


def imported(source, folder):
    path = folder / "job.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("job", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_functions_constants_and_imports_come_along(tmp_path):
    names = script(
        """
        import math
        import math as m
        from math import ceil

        SCALE = (2, 3.5, float("inf"))
        UNUSED = object()

        def double(x):
            return 2 * x

        def make(n):
            return lambda: (double(ceil(n)), SCALE, m.pi, math.e)
        """
    )
    module = imported(standalone(names["make"]), tmp_path)
    assert module.make(1.5)() == (4, (2, 3.5, math.inf), math.pi, math.e)
    assert not hasattr(module, "UNUSED")


def test_kernels_keep_their_decorators(tmp_path):
    import torch

    names = script(
        """
        import torch
        import triton
        import triton.language as tl

        ROUNDS = tl.constexpr(3)
        DEVICE = torch.device("cpu")
        KINDS = {"half": torch.float16, "triton": tl.float16}

        @triton.jit
        def plus(a, b):
            return a + b

        @triton.jit
        def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            x = tl.load(x_ptr + i)
            for _ in range(ROUNDS):
                x = plus(x, 1.0)
            tl.store(out_ptr + i, x)

        @triton.autotune(configs=[triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], key=["n"])
        @triton.jit
        def tuned(x_ptr, n, BLOCK: tl.constexpr):
            tl.store(x_ptr, plus(n, BLOCK))

        def make(n):
            x = torch.zeros(n, device=DEVICE)
            def call():
                out = torch.empty_like(x)
                kernel[(1,)](x, out, BLOCK=n)
                return out, KINDS, tuned
            return call
        """
    )
    module = imported(standalone(names["make"]), tmp_path)
    assert type(module.tuned) is type(names["tuned"])
    assert type(module.kernel) is type(names["kernel"])
    if lab.interpreting():
        out, kinds, _ = module.make(16)()
        assert out.tolist() == [3.0] * 16
        assert kinds == names["KINDS"]
        assert kinds["half"] is torch.float16


def test_what_can_be_imported_is_imported():
    names = script(
        """
        from kernels import lab
        from kernels.lab.units import digits
        import kernels.lab.units

        def make():
            return lab.device(), digits(1), kernels.lab.units.count(2)
        """
    )
    source = standalone(names["make"])
    for line in (
        "import kernels.lab as lab",
        "from kernels.lab.units import digits as digits",
        "import kernels.lab.units",
    ):
        assert line in source.splitlines()
    assert "def digits" not in source


def test_a_local_name_does_not_bring_its_global_namesake(tmp_path):
    names = script(
        """
        a = object()

        def make(n):
            a, b = n, n + 1
            return lambda: a + b
        """
    )
    assert imported(standalone(names["make"]), tmp_path).make(1)() == 3


def test_variables_of_an_outer_function_become_constants(tmp_path):
    names = script(
        """
        def outer(width):
            def make(n):
                return lambda: n * width
            return make

        make = outer(7)
        """
    )
    assert imported(standalone(names["make"]), tmp_path).make(3)() == 21


def test_functions_that_call_each_other(tmp_path):
    names = script(
        """
        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n != 0 and even(n - 1)
        """
    )
    assert imported(standalone(names["even"]), tmp_path).even(10)


def test_annotations_that_only_a_future_import_allows(tmp_path):
    names = script(
        """
        from __future__ import annotations

        def make(n: Nowhere) -> Nothing:
            return n
        """
    )
    assert imported(standalone(names["make"]), tmp_path).make(5) == 5


def test_arguments_are_written_down(tmp_path):
    import torch

    names = script("def make(**params):\n    return params\n")
    arguments = {"n": 4, "dtype": torch.bfloat16, "name": "it's", "sizes": [1, (2,)], "none": None}
    module = imported(standalone(names["make"], __arguments__=arguments), tmp_path)
    assert module.__arguments__ == arguments


def test_a_tensor_of_the_script_is_refused_by_name():
    names = script(
        """
        import torch

        data = torch.zeros(3)

        def make():
            return lambda: data + 1
        """
    )
    with pytest.raises(SourceError, match=r"make uses 'data', a Tensor.*make it inside make"):
        standalone(names["make"])


def test_a_function_wrapped_without_a_decorator_is_refused():
    names = script(
        """
        import triton

        def plain(x_ptr):
            pass

        fast = triton.jit(plain)

        def make():
            return lambda: fast[(1,)]()
        """
    )
    with pytest.raises(SourceError, match="'fast' is 'plain' wrapped by a call"):
        standalone(names["make"])


def test_two_things_of_one_name_are_refused():
    names = script(
        """
        def one():
            scale = 1
            def inner():
                return scale
            return inner

        def two(inner):
            scale = 2
            def make():
                return inner() + scale
            return make

        make = two(one())
        """
    )
    with pytest.raises(SourceError, match="two different things named 'scale'"):
        standalone(names["make"])


def test_a_function_without_source_is_refused():
    names = {}
    exec("def make():\n    return 1\n", names)  # noqa: S102
    with pytest.raises(SourceError, match="define it in a file or a notebook cell"):
        standalone(names["make"])
