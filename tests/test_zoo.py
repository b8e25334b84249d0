"""Every wrong solution of the zoo fails, and for the right reason; every right one passes, again and again."""

from kernels import lab  # isort: skip -- first: it decides how Triton runs

import dataclasses
import importlib
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.lab import grade

ZOO = Path(__file__).parent / "zoo"
FILES = sorted(ZOO.glob("*/*.py"))
WRONG = [path for path in FILES if not path.stem.startswith("right_")]
RIGHT = [path for path in FILES if path.stem.startswith("right_")]
EXERCISES = sorted(path.name for path in ZOO.iterdir() if path.is_dir())


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def load(path: Path) -> Callable[..., Any]:
    """Import a solution of the zoo anew, so that nothing that it keeps outlives the test."""
    spec = importlib.util.spec_from_file_location(f"zoo_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, path.parent.name)


@pytest.fixture
def impatient(monkeypatch):
    """Let an endless solution end soon; a GPU's compiler needs longer."""
    for name in EXERCISES:
        module = importlib.import_module(f"kernels.exercises.{name}")
        limit = 3.0 if lab.interpreting() else 20.0
        monkeypatch.setattr(module, "EXERCISE", dataclasses.replace(module.EXERCISE, time_limit=limit))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("path", WRONG, ids=name_of)
def test_a_wrong_solution_fails_with_its_mistake_named(path):
    function = load(path)
    declared = re.search(r"^Mistake: (\S+)$", function.__globals__["__doc__"], re.MULTILINE)
    assert declared, "its docstring has no line `Mistake: ID`"
    report = grade.check(path.parent.name, function)
    assert not report.passed
    assert [mistake.id for mistake in report.mistakes] == [declared[1]], str(report)


@pytest.mark.parametrize("path", RIGHT, ids=name_of)
def test_a_right_solution_passes_ten_times_in_a_row(path):
    function = load(path)
    for _ in range(10):
        report = grade.check(path.parent.name, function)
        assert report.passed, str(report)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_intended_solution_passes_ten_times_in_a_row(name):
    exercise = importlib.import_module(f"kernels.exercises.{name}").EXERCISE
    for _ in range(10):
        report = grade.check(name, exercise.solution[-1])
        assert report.passed, str(report)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_zoo_holds_eight_wrong_solutions_that_differ(name):
    wrong = [path for path in WRONG if path.parent.name == name]
    bodies = {re.sub(r'^""".*?"""', "", path.read_text(), count=1, flags=re.DOTALL) for path in wrong}
    assert len(bodies) == len(wrong) >= 8
