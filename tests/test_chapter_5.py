"""Chapter 5: its mystery kernel is right, however slow, and the stub on its page is the exercise's."""

from kernels import lab  # isort: skip -- first: it decides how Triton runs

import ast
from pathlib import Path

import pytest
import torch

from kernels.exercises.read_columns import EXERCISE
from kernels.mystery import mystery

CHAPTER = Path(__file__).parent.parent / "tutorials" / "05_hit_the_memory_wall.py"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 0), (7, 5), (1024, 3), (1500, 2)])
def test_mystery_sums_each_column(shape, dtype):
    x = torch.randn(shape, device=lab.device()).to(dtype)
    out = mystery(x)
    assert out.dtype == dtype
    torch.testing.assert_close(out, x.float().sum(0).to(dtype), rtol=2e-3, atol=2e-3)


def test_mystery_reads_a_slice_of_a_wider_matrix():
    x = torch.randn(20, 9, device=lab.device())[:, 2:6]
    torch.testing.assert_close(mystery(x), x.sum(0))


def test_mystery_refuses_rows_that_are_not_contiguous():
    with pytest.raises(ValueError, match=r"contiguous rows, not of shape \(4, 3\) and strides \(1, 4\)"):
        mystery(torch.randn(3, 4, device=lab.device()).t())


def functions(source):
    """Return the syntax of each function in a source, without `pass`."""
    found = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    for node in found.values():
        node.body = [statement for statement in node.body if not isinstance(statement, ast.Pass)]
    return {name: ast.dump(node) for name, node in found.items()}


def test_the_page_shows_the_stub_of_the_exercise():
    shown, declared = functions(CHAPTER.read_text(encoding="utf-8")), functions(EXERCISE.stub)
    assert {name: shown.get(name) for name in declared} == declared
