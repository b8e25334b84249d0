"""Before a kernel touches the GPU: run it in Triton's interpreter, in a child process, where each access is
checked.

A read past the end whose value is never used leaves no trace on a GPU, an address far off ends all work that
this process has there, and an endless loop cannot be stopped. The rehearsal finds all three without risk.
What it says of the values is not the verdict: programs run one after another there, so a race stays hidden,
and some types and operations differ.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.lab import _source, _standalone
from kernels.lab._diagnose import Finding
from kernels.lab.grade import CaseResult, Counterexample, Report

_LONGEST = 300.0  # [s], all cases together


@dataclass(frozen=True)
class Rehearsal:
    """What the interpreter said: the report, if there is one, or why there is none."""

    report: Report | None
    why_not: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the kernel should not be let near the GPU, or is not written yet."""
        return self.report is not None and (self.report.dangerous or self.report.status == "unsolved")


def rehearse(name: str, launcher: Callable[..., Any]) -> Rehearsal:
    """Grade a launcher in a child process that interprets kernels."""
    if not isinstance(launcher, types.FunctionType):
        return Rehearsal(None, f"a {type(launcher).__name__} is no Python function")
    try:
        module = _standalone.standalone(launcher)
    except _source.SourceError as error:
        return Rehearsal(None, str(error))
    with tempfile.TemporaryDirectory(prefix="kernels-") as folder:
        path, answer = Path(folder) / "solution.py", Path(folder) / "report.json"
        path.write_text(module, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "kernels.lab._rehearse",
            name,
            str(path),
            launcher.__name__,
            str(answer),
        ]
        try:
            done = subprocess.run(
                command, env=_environment(), check=False, capture_output=True, text=True, timeout=_LONGEST
            )
        except subprocess.TimeoutExpired:
            return Rehearsal(None, f"it had not ended after {_LONGEST:g} s")
        if not answer.exists():
            return Rehearsal(
                None, (done.stderr.strip().splitlines() or ["the child process ended early"])[-1]
            )
        return Rehearsal(_read(json.loads(answer.read_text(encoding="utf-8"))))


def _environment() -> dict[str, str]:
    own = {
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    return {**os.environ, **own}


def _read(told: dict[str, Any]) -> Report:
    smallest = Counterexample(**told.pop("smallest")) if told.get("smallest") else told.pop("smallest")
    cases = tuple(CaseResult(**case) for case in told.pop("cases"))
    mistakes = tuple(Finding(**mistake) for mistake in told.pop("mistakes"))
    notes, tags = tuple(told.pop("notes")), tuple(told.pop("tags"))
    return Report(**told, smallest=smallest, cases=cases, mistakes=mistakes, notes=notes, tags=tags)


def _main(name: str, path: str, function: str, answer: str) -> None:
    import importlib.util

    from kernels.lab import grade

    spec = importlib.util.spec_from_file_location("solution", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = module
    spec.loader.exec_module(module)
    report = grade.check(name, getattr(module, function))
    Path(answer).write_text(json.dumps(dataclasses.asdict(report)), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
