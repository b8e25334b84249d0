"""What an exercise declares, so that the grader can check it and teach from it.

The two sorts, `KernelExercise` and `FunctionExercise`, are explained where exercises live:
`kernels.exercises`.
"""

import importlib
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from kernels.lab import _source

Layout = Literal["contiguous", "offset", "strided", "padded", "transposed", "far"]
"""How an input lies in memory: see `kernels.lab._fence.place`."""

_TURN = re.compile(r"^(?P<indent>\s*)# <your turn> (?P<what>.*)$")
_DONE = re.compile(r"^\s*# </your turn>\s*$")


class ExerciseError(LookupError):
    """There is no such exercise, or no such hint."""


@dataclass(frozen=True)
class Mistake:
    """A mistake that learners make, how it shows, and what helps.

    Parameters
    ----------
    id
        A short name, unique in the exercise.
    shows
        Tags of signs that must all have been seen, separated by spaces; a tuple of such strings lists
        alternatives. `kernels.lab._diagnose` documents the tags.
    cause
        The likely cause, one sentence.
    hint
        What to look at next, one or two sentences. It does not give the solution away.
    as_if
        What a solution with this mistake returns: given the inputs in float64 (or a function's arguments),
        the wrong result or a list of possible ones. A mistake that is declared so is recognised by its
        results.
    """

    id: str
    shows: str | tuple[str, ...] = ()
    cause: str = ""
    hint: str = ""
    as_if: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Case:
    """One input on which a kernel is tried.

    Parameters
    ----------
    name
        What is special about it, for the report: `"1,000 elements, every second one of a larger tensor"`.
    size
        The parameters that `KernelExercise.inputs` reads.
    layout
        How the inputs lie in memory; a tuple gives one layout an input.
    values
        What `KernelExercise.inputs` shall draw: `"normal"` or a word that the exercise knows.
    dtype
        Of the floating-point inputs.
    """

    name: str
    size: Mapping[str, int]
    layout: Layout | tuple[Layout, ...] = "contiguous"
    values: str = "normal"
    dtype: torch.dtype = torch.float32

    def layouts(self, count: int) -> tuple[Layout, ...]:
        """Return one layout for each of `count` inputs."""
        return self.layout if isinstance(self.layout, tuple) else (self.layout,) * count


@dataclass(frozen=True)
class Speed:
    """The input on which a kernel is timed, and the bytes [B] that any solution must move for it."""

    case: Case
    bytes: int


@dataclass(frozen=True)
class Sign:
    """Something that was seen: a tag for the diagnosis and a sentence for the learner."""

    tag: str
    seen: str


@dataclass(frozen=True)
class Trial:
    """One case of a function exercise: what was expected and what came.

    `arguments` are those of the call, for mistakes that are declared by their results.
    """

    name: str
    passed: bool
    expected: str
    got: str
    signs: Sequence[Sign] = ()
    arguments: tuple[Any, ...] = ()
    result: Any = None


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What both sorts of exercise declare.

    Parameters
    ----------
    name
        The module's name in `kernels.exercises`.
    chapter
        The number of the chapter that sets it.
    signature
        The typed one-line specification: `"vector_add(x: float[n], y: float[n]) -> float[n]"`.
    task
        One sentence that says what to write.
    hints
        Three, each more explicit than the one before.
    mistakes
        The known ones, the most specific first.
    solution
        The functions that make up the solution, in reading order, the one that is graded last. Between the
        comment lines `# <your turn> what to do` and `# </your turn>` stands what the learner is to write.
    """

    name: str
    chapter: int
    signature: str
    task: str
    hints: tuple[str, str, str]
    mistakes: tuple[Mistake, ...]
    solution: tuple[Any, ...]

    @property
    def solution_text(self) -> str:
        """The source of the solution."""
        lines = self._marked().splitlines()
        return "\n".join(line for line in lines if not (_TURN.match(line) or _DONE.match(line)))

    @property
    def stub(self) -> str:
        """What the learner starts from: the solution without the marked lines."""
        kept: list[str] = []
        skipping = False
        for line in self._marked().splitlines():
            if turn := _TURN.match(line):
                kept += [f"{turn['indent']}# Your turn: {turn['what']}", f"{turn['indent']}pass"]
                skipping = True
            elif _DONE.match(line):
                skipping = False
            elif not skipping:
                kept.append(line)
        return "\n".join(kept)

    def _marked(self) -> str:
        functions: list[types.FunctionType] = [_source.unwrap(part) for part in self.solution]
        return "\n\n\n".join(_source.source(function).rstrip() for function in functions)


@dataclass(frozen=True, kw_only=True)
class KernelExercise(Exercise):
    """A launcher that takes tensors and returns a new one, computed by the learner's own Triton kernel.

    Parameters
    ----------
    inputs
        `inputs(case, random)` draws the inputs on the CPU, contiguous, from the `torch.Generator`.
    reference
        The answer in float64, from the inputs in float64.
    arguments
        The inputs' names, for the report.
    cases
        Small ones first.
    speed
        What is timed on a GPU, if speed is graded.
    slack
        The tolerated error of the computation, in units of float32's rounding error, beyond the rounding of
        the result to its own dtype.
    magnitude
        What the tolerated error is relative to, from the inputs in float64; by default the absolute value of
        the reference. A sum whose terms cancel wants the sum of the absolute terms.
    time_limit
        Of one call [s].
    """

    inputs: Callable[[Case, torch.Generator], tuple[torch.Tensor, ...]]
    reference: Callable[..., torch.Tensor]
    arguments: tuple[str, ...]
    cases: tuple[Case, ...]
    speed: Speed | None = None
    slack: float = 16.0
    magnitude: Callable[..., torch.Tensor] | None = None
    time_limit: float = 20.0


@dataclass(frozen=True, kw_only=True)
class FunctionExercise(Exercise):
    """A plain Python function, tried on cases that the exercise makes itself.

    Parameters
    ----------
    trials
        `trials(function)` calls the function and yields one `Trial` a case. What the function raises is the
        grader's business.
    time_limit
        Of all trials together [s].
    """

    trials: Callable[[Callable[..., Any]], Iterable[Trial]] = field(repr=False)
    time_limit: float = 20.0


def load(name: str) -> KernelExercise | FunctionExercise:
    """Find an exercise by its name.

    Raises
    ------
    ExerciseError
        There is no module `kernels.exercises.<name>`.
    """
    module = f"kernels.exercises.{name}"
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise ExerciseError(f"there is no exercise {name!r}: the chapter says how it is called") from error
    exercise: KernelExercise | FunctionExercise = found.EXERCISE
    return exercise


def answer(
    function: Callable[..., Any],
    questions: Mapping[str, tuple[tuple[Any, ...], float]],
    *,
    tolerance: float = 1e-6,
) -> Iterable[Trial]:
    """Try a function of plain numbers: `questions` maps a case's name to the arguments and the right answer.

    `tolerance` is relative. Yields one `Trial` a question, for `FunctionExercise.trials`.
    """
    for name, (arguments, expected) in questions.items():
        result = function(*arguments)
        number = isinstance(result, int | float) and not isinstance(result, bool)
        passed = number and abs(result - expected) <= tolerance * abs(expected)
        signs = () if number else (Sign("not-a-number", f"it returned a {type(result).__name__}"),)
        shown = ", ".join(repr(a) for a in arguments)
        yield Trial(f"{name}: ({shown})", passed, f"{expected:.6g}", _shown(result), signs, arguments, result)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
