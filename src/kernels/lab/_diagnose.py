"""From what was seen to which mistake it is.

A sign is a tag with a sentence. The tags that `Mistake.shows` can name:

====================  ==================================================================================
how the call ended    `raised` `raised:...` (see `_ERRORS`) `time-limit` `gpu-busy` `gpu-crashed`
what was returned     `not-a-tensor` `not-a-number` `wrong-device` `wrong-shape` `wrong-dtype` `aliases-input`
who computed          `delegated` (torch did) `no-launch` (no Triton kernel) `launch-skipped` (in some calls)
memory                `changes-input` `reads-unwritten` `int32-overflow`; for `read`, and so for `write`:
                      `read-past-end` `read-one-past-end` `read-before-start` `read-between` (the elements
                      of a strided tensor); `written-twice` (by two programs; no fault in itself)
wrong values: what    `unwritten` `nan` `nan-rows` `infinite` `zeros` `low-precision` `shifted` `scaled`
                      `rows-scaled`
wrong values: where   `elements:P` of a one-dimensional result, `rows:P` and `columns:P` of a matrix; P is
                      `everywhere` `first` `last` `tail` `after-first-block` `all-but-first`
                      `every-second` `somewhere`
only some cases fail  `only-layout:WORD` `only-layout` (whatever is not contiguous) `only-values:WORD`
                      `only-dtype:float16` `only-empty`
over several calls    `cached-result` `reuses-output` `nondeterministic` `ignores-input`
                      `ignores-input:NAME`
====================  ==================================================================================
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernels.lab._exercise import Case, KernelExercise, Mistake, Sign, Trial
from kernels.lab._mistakes import GENERIC


@dataclass
class Outcome:
    """What one call with one case brought. Tensors are on the CPU.

    `untouched`: nothing was stored at all. `stop`: no further case can be tried.

    `inputs` are in the case's dtype, `expected` in float64; `wrong` and `unwritten` mark elements of the
    result.
    """

    case: Case
    inputs: tuple[torch.Tensor, ...]
    signs: list[Sign] = field(default_factory=list)
    output: torch.Tensor | None = None
    expected: torch.Tensor | None = None
    wrong: torch.Tensor | None = None
    unwritten: torch.Tensor | None = None
    untouched: bool = False
    stop: bool = False

    @property
    def passed(self) -> bool:
        """Whether nothing at all was amiss."""
        return not self.signs

    @property
    def is_empty(self) -> bool:
        """Whether the inputs have no elements."""
        return any(t.numel() == 0 for t in self.inputs)

    @property
    def values_wrong(self) -> bool:
        """Whether a result of the right shape came with wrong elements."""
        return self.wrong is not None and bool(self.wrong.any())


@dataclass(frozen=True)
class Finding:
    """A mistake that was recognised: what was seen, what it likely comes from, where to look."""

    id: str
    seen: str
    cause: str
    hint: str


def tolerance(
    exercise: KernelExercise, inputs: Sequence[torch.Tensor], expected: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Return the tolerated error of each element, in float64.

    The result may be rounded to its dtype, and the computation, in float32 at least, may err by
    `exercise.slack` roundings. A shortcut through a narrower type is outside.
    """
    size = expected.abs() if exercise.magnitude is None else exercise.magnitude(*(t.double() for t in inputs))
    size = torch.where(size.isfinite(), size, 0.0)
    computing = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    typical = 1e-3 * size.max() if size.numel() else 0.0
    rounding = 0.51 * torch.finfo(dtype).eps * torch.where(expected.isfinite(), expected.abs(), 0.0)
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    return rounding + exercise.slack * computing * (size + typical) + smallest


def agrees(got: torch.Tensor, expected: torch.Tensor, tolerated: torch.Tensor) -> torch.Tensor:
    """Mark the elements that agree: NaN only with NaN, an infinity only with itself."""
    both = got.isfinite() & expected.isfinite()
    # What overflows the result's own dtype is rightly infinite.
    return torch.where(
        both, (got - expected).abs() <= tolerated, (got == expected) | (got.isnan() & expected.isnan())
    )


_ERRORS = (
    (r"power of (2|two)", "raised:power-of-two"),
    (r"out of resource", "raised:resources"),
    (r"Cannot access global variable", "raised:global"),
    (r"unexpected keyword|missing \d+ required|takes \d+ positional|multiple values for", "raised:arguments"),
    (r"cpu tensor\?", "raised:cpu-tensor"),
    (r"should be defined in a Python file|could not get source", "raised:no-source"),
)


def raised_signs(error: BaseException) -> list[Sign]:
    """Describe an error that ended a call; one that is known by its message has a tag of its own."""
    seen = f"{type(error).__name__}: {first_line(error)}"
    return [Sign(tag, seen) for pattern, tag in _ERRORS if re.search(pattern, str(error))] + [
        Sign("raised", seen)
    ]


def first_line(error: BaseException) -> str:
    """Return the line of an error's message that says what is wrong: the last, below the code that Triton
    quotes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    return lines[-1][:300] if lines else "no message"


def value_signs(outcome: Outcome) -> list[Sign]:
    """Describe the wrong elements of an outcome: of which kind they are and where."""
    if (
        outcome.output is None
        or outcome.expected is None
        or outcome.wrong is None
        or outcome.unwritten is None
    ):
        return []
    if not outcome.wrong.any():
        return []
    return [
        *_kinds(outcome.output.double(), outcome.expected, outcome.wrong, outcome.unwritten),
        *_places(outcome.wrong),
    ]


def _kinds(got: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor, unwritten: torch.Tensor) -> list[Sign]:
    signs = []
    count = f"{int(wrong.sum()):,} of {wrong.numel():,} elements"
    if (missing := wrong & unwritten).any():
        signs.append(
            Sign("unwritten", f"{int(missing.sum()):,} of {wrong.numel():,} elements were never written")
        )
        if (wrong & ~unwritten).sum() == 0:
            return signs
    bad, good = got[wrong & ~unwritten], want[wrong & ~unwritten]
    if bad.isnan().any():
        signs.append(Sign("nan", f"{int(bad.isnan().sum()):,} of {wrong.numel():,} elements are NaN"))
        if got.dim() == 2 and bool((got.isnan().all(1) == got.isnan().any(1)).all()):
            rows = int(got.isnan().all(1).sum())
            signs.append(Sign("nan-rows", f"{rows:,} of {got.shape[0]:,} rows are NaN from end to end"))
        return signs
    if bad.isinf().any():
        signs.append(
            Sign("infinite", f"{int(bad.isinf().sum()):,} of {wrong.numel():,} elements are infinite")
        )
        return signs
    if bool((bad == 0).all()):
        signs.append(Sign("zeros", f"{count} are zero and should not be"))
        return signs
    error = (bad - good).abs() / good.abs().clamp_min(1e-300)
    if bool((error.quantile(0.9) if len(error) < 1 << 20 else error.max()) < 2**-6):
        signs.append(
            Sign(
                "low-precision", f"{count} are nearly right: the largest relative error is {error.max():.1e}"
            )
        )
        return signs
    signs += _ratios(got, want)
    flat, aim = got.flatten(), want.flatten()
    if len(flat) > 3 and (
        torch.allclose(flat[1:], aim[:-1], 1e-3) or torch.allclose(flat[:-1], aim[1:], 1e-3)
    ):
        signs.append(
            Sign("shifted", "the results are right, but each stands one place from where it belongs")
        )
    return signs


def _ratios(got: torch.Tensor, want: torch.Tensor) -> list[Sign]:
    usable = want.isfinite() & got.isfinite() & (want.abs() > 1e-30)
    if not usable.any():
        return []
    ratio = torch.where(usable, got / want, torch.nan)
    middle = ratio[usable].median()
    if bool(((ratio[usable] - middle).abs() < 1e-3 * middle.abs()).all()):
        return (
            [Sign("scaled", f"every element is {middle:.4g} times what it should be")]
            if usable.sum() > 3
            else []
        )
    if got.dim() == 2 and got.shape[1] > 2:
        rows = ratio.nanmedian(1).values
        near = (ratio - rows[:, None]).abs() < 2e-3 * rows[:, None].abs()
        if bool(near[usable].all()):
            return [
                Sign(
                    "rows-scaled",
                    f"each row is right but for a factor of its own (the first row's is {rows[0]:.4g})",
                )
            ]
    return []


def _places(wrong: torch.Tensor) -> list[Sign]:
    if wrong.dim() == 1:
        lines = {"elements": wrong}
    elif wrong.dim() == 2:
        lines = {"rows": wrong.any(1), "columns": wrong.any(0)}
    else:
        return []
    return [
        Sign(f"{what}:{place}", f"{what}: {seen}")
        for what, line in lines.items()
        for place, seen in _pattern(line)
    ]


def _pattern(line: torch.Tensor) -> list[tuple[str, str]]:
    """Name the pattern of the wrong places in one line of them, with a sentence on it."""
    n, hits = len(line), line.nonzero().flatten()
    first, last, count = int(hits[0]), int(hits[-1]), len(hits)
    if count == n:
        return [("everywhere", "every one is wrong")]
    if n >= 4 and bool((hits % 2 == first % 2).all()) and count >= 0.8 * (n // 2):
        return [("every-second", f"every second one is wrong, from {first} on")]
    if count == 1 and last in (0, n - 1):
        return [("first", "only the first is wrong")] if last == 0 else [("last", "only the last is wrong")]
    # Values that agree by chance leave holes: a stretch is one when it is nearly full.
    if last == n - 1 and count >= 0.9 * (n - first):
        block, length = first & -first, n - first
        seen = f"wrong from {first:,} to the end ({length:,} of {n:,})"
        if first == 1:
            return [("all-but-first", seen)]
        if first and first == block and length >= block:
            return [
                ("after-first-block", f"right up to {first:,}, a power of two, wrong from there to the end")
            ]
        return [("tail", seen)] if length < block else [("somewhere", seen)]
    return [("somewhere", f"the first wrong one is {first:,}, the last {last:,}, {count:,} of {n:,} in all")]


def contrast(outcomes: Sequence[Outcome]) -> list[Sign]:
    """Say what the failing cases have in common that the passing ones have not."""
    failed = [o.case for o in outcomes if not o.passed and not o.is_empty]
    passed = [o.case for o in outcomes if o.passed and not o.is_empty]
    if passed and not failed:
        return [Sign("only-empty", "only an empty input fails")] if len(passed) < len(outcomes) else []
    if not passed:
        return []
    tags = {sign.tag for o in outcomes for sign in o.signs}
    if "no-launch" in tags:
        return [Sign("launch-skipped", "some calls launched the kernel, others returned without")]
    if tags & {"delegated", "raised", "int32-overflow"}:  # these say more than which cases they came up in
        return []
    signs = []
    if all(case.layout != "contiguous" for case in failed) and any(c.layout == "contiguous" for c in passed):
        signs.append(Sign("only-layout", "contiguous inputs are right; views of other tensors are not"))
    views: list[tuple[str, str, Callable[[Case], str]]] = [
        ("layout", "contiguous", lambda c: "+".join(c.layout) if isinstance(c.layout, tuple) else c.layout),
        ("values", "normal", lambda c: c.values),
        ("dtype", "float32", lambda c: str(c.dtype).removeprefix("torch.")),
    ]
    for what, usual, read in views:
        words = {read(case) for case in failed}
        if len(words) == 1 and words != {usual} and any(read(case) == usual for case in passed):
            signs.append(
                Sign(f"only-{what}:{(word := words.pop())}", f"only the cases with {what} {word!r} fail")
            )
    return signs


def diagnose(
    mistakes: Iterable[Mistake], signs: Sequence[Sign], explains: Callable[[Mistake], str | None]
) -> Finding:
    """Return the first mistake, in order, that the signs or the results show.

    `explains(mistake)` says in a sentence how the results agree with `mistake.as_if`, or returns None.
    """
    seen = {sign.tag: sign.seen for sign in reversed(signs)}
    for mistake in (*mistakes, *GENERIC):
        if mistake.as_if is not None:
            if evidence := explains(mistake):
                return Finding(mistake.id, evidence, mistake.cause, mistake.hint)
            continue
        for alternative in (mistake.shows,) if isinstance(mistake.shows, str) else mistake.shows:
            tags = alternative.split()
            if tags and all(tag in seen for tag in tags):
                told = "; ".join(dict.fromkeys(seen[tag] for tag in tags))
                return Finding(mistake.id, told, mistake.cause, mistake.hint)
    return Finding(
        "unrecognised",
        "; ".join(dict.fromkeys(sign.seen for sign in signs)),
        "This pattern is none of those that the grader knows.",
        "Work the smallest failing input through by hand: which program computes the first wrong element, "
        "from which offsets, and what does it load there?",
    )


def explains_results(
    exercise: KernelExercise, outcomes: Sequence[Outcome]
) -> Callable[[Mistake], str | None]:
    """Return the test whether a kernel's wrong results are all those of a mistake."""
    tried = [o for o in outcomes if o.output is not None and o.wrong is not None and not o.is_empty]
    failed = [o for o in tried if o.values_wrong]

    def explains(mistake: Mistake) -> str | None:
        # The right results count too: a mistake that would have shown there was not made.
        if not failed or not all(_same(exercise, mistake, o) for o in (*failed, *tried)):
            return None
        return f"in each of the {len(tried)} cases the result is that of this mistake, element by element"

    return explains


def _same(exercise: KernelExercise, mistake: Mistake, outcome: Outcome) -> bool:
    assert mistake.as_if is not None
    assert outcome.output is not None
    assert outcome.expected is not None
    guesses = mistake.as_if(*(t.double() for t in outcome.inputs))
    for guess in guesses if isinstance(guesses, list) else [guesses]:
        if guess.shape != outcome.output.shape:
            continue
        allowed = 8 * tolerance(exercise, outcome.inputs, guess.double(), outcome.output.dtype)
        rounded = guess.to(outcome.output.dtype).double()
        if outcome.values_wrong and bool(agrees(rounded, outcome.expected, allowed.nan_to_num(0.0)).all()):
            continue  # the mistake would not show here, but something did
        if bool(agrees(outcome.output.double(), rounded, allowed.nan_to_num(0.0)).all()):
            return True
    return False


def explains_answers(trials: Sequence[Trial]) -> Callable[[Mistake], str | None]:
    """Return the test whether a function's wrong answers are all those of a mistake."""
    failed = [t for t in trials if not t.passed and t.arguments]

    def same(mistake: Mistake, trial: Trial) -> bool:
        assert mistake.as_if is not None
        guess: Any = mistake.as_if(*trial.arguments)
        guesses = guess if isinstance(guess, list) else [guess]
        number = isinstance(trial.result, int | float)
        return number and any(abs(trial.result - g) <= 1e-6 * abs(g) for g in guesses)

    def explains(mistake: Mistake) -> str | None:
        if not failed or not all(same(mistake, trial) for trial in failed):
            return None
        return f"all {len(failed)} wrong answers are those of this mistake"

    return explains
