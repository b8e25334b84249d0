"""The grader: is the learner's solution right, which mistake does it make, and how fast is it?

`check("vector_add", my_vector_add)` tries a solution on the exercise's cases and returns a `Report` that
shows itself. `hint` and `solution` are folded until asked for.

A kernel runs in fenced memory (`kernels.lab._fence`) and within a time limit (`kernels.lab._watch`), in this
very process, so a function of a notebook cell is graded as it stands. Python cannot stop a determined
adversary in its own process, and this grader does not try: it protects learners from fooling themselves.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from kernels.lab import _exercise, _mode, _watch
from kernels.lab._diagnose import Finding, Outcome, contrast, diagnose, explains_answers, explains_results
from kernels.lab._exercise import Exercise, ExerciseError, FunctionExercise, KernelExercise, Sign, Trial
from kernels.lab.show import escape, fold_html, wrap
from kernels.lab.units import percent, si

Status = Literal["solved", "wrong", "refused", "unsolved", "restart"]

_HEADS = {
    "solved": "✓ solved: all {n} cases are right",
    "wrong": "✗ not yet: {right} of {n} cases are right",
    "refused": "✗ measurement refused",
    "unsolved": "○ still to be solved",
    "restart": "✗ Python must be restarted",
}


@dataclass(frozen=True)
class CaseResult:
    """How one case went; `note` says what was seen when it did not pass."""

    name: str
    passed: bool
    note: str = ""


@dataclass(frozen=True)
class Counterexample:
    """The smallest failing input: the first wrong place, what belongs there and what came.

    Where the values are right and something else is not, `place` and `expected` are empty and `got` says it.
    """

    case: str
    place: str
    expected: str
    got: str
    kind: str = "Smallest failing input"

    def __str__(self) -> str:
        told = f"{self.place}: expected {self.expected}, got {self.got}" if self.place else self.got
        return f"{self.case}\n  {told}"


@dataclass(frozen=True)
class SpeedResult:
    """The time of one call [s] on the GPU, the bandwidth [B/s] that it means, and the share of the machine's
    copy."""

    seconds: float
    bandwidth: float
    share: float
    what: str

    def __str__(self) -> str:
        share = f"{percent(self.share)} of what a copy of as many bytes reaches here"
        return f"{si(self.seconds, 's')} for {self.what}: {si(self.bandwidth, 'B/s')}, {share}"


@dataclass(frozen=True)
class Report:
    """What the grader found. `passed` is the verdict; everything else explains it.

    `tags` are those of all signs that were seen: see `kernels.lab._diagnose`.
    """

    exercise: str
    signature: str
    status: Status
    where: str
    cases: tuple[CaseResult, ...] = ()
    mistakes: tuple[Finding, ...] = ()
    smallest: Counterexample | None = None
    speed: SpeedResult | None = None
    notes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    solution: str = ""

    @property
    def passed(self) -> bool:
        """Whether the exercise is solved."""
        return self.status == "solved"

    @property
    def dangerous(self) -> bool:
        """Whether the kernel left its memory or never ended, which on a GPU can cost the whole process."""
        return any(tag.startswith(("read-", "write-", "int32", "time-limit")) for tag in self.tags)

    @property
    def head(self) -> str:
        """The verdict in one line."""
        right = sum(case.passed for case in self.cases)
        return _HEADS[self.status].format(n=len(self.cases), right=right)

    @property
    def _small_print(self) -> tuple[str, ...]:
        return (*self.notes, f"Graded {self.where}.") if self.where else self.notes

    def __str__(self) -> str:
        lines = [f"{self.exercise} {self.head}", f"  {self.signature}"]
        for mistake in self.mistakes:
            lines += ["", f"  Likely mistake: {mistake.id}", f"    seen   {mistake.seen}"]
            lines += [f"    cause  {mistake.cause}", f"    hint   {mistake.hint}"]
        if self.smallest:
            lines += [
                "",
                f"  {self.smallest.kind}",
                *(f"    {line}" for line in str(self.smallest).splitlines()),
            ]
        if not self.passed and self.cases:
            lines += [
                "",
                "  Cases",
                *(f"    {'✓' if c.passed else '✗'} {c.name}{_dash(c.note)}" for c in self.cases),
            ]
        if self.speed:
            lines += ["", f"  Speed: {self.speed}"]
        lines += ["", *(f"  {note}" for note in self._small_print)]
        if self.status in ("wrong", "unsolved"):
            lines.append(f'  Hints, one at a time: print(lab.hint("{self.exercise}", 1).text)')
        if self.passed:
            lines.append(f'  The intended solution, to compare: print(lab.solution("{self.exercise}").text)')
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        mark = "lab-good" if self.passed else "" if self.status == "unsolved" else "lab-wrong"
        parts = [
            f'<p><code>{escape(self.exercise)}</code> <span class="{mark}">{escape(self.head)}</span></p>',
            *(_mistake_html(mistake) for mistake in self.mistakes),
        ]
        if self.smallest:
            parts.append(_smallest_html(self.smallest))
        if self.speed:
            parts.append(f"<p>Speed: {escape(self.speed)}</p>")
        if self.cases:
            parts.append(fold_html(f"The {len(self.cases)} cases", _cases_html(self.cases)))
        if self.solution:
            parts.append(fold_html("The intended solution, to compare with yours", _code_html(self.solution)))
        parts += [f'<p class="lab-note">{_inline(note)}</p>' for note in self._small_print]
        return wrap("".join(parts), kind=f"lab-report lab-{self.status}", assets=("lab.css", "grade.css"))


def _dash(note: str) -> str:
    return f": {note}" if note else ""


def _inline(text: str) -> str:
    """Escape text and set what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _mistake_html(mistake: Finding) -> str:
    rows = [("Seen", mistake.seen), ("Likely cause", mistake.cause), ("Where to look", mistake.hint)]
    listed = "".join(f"<dt>{name}</dt><dd>{_inline(text)}</dd>" for name, text in rows if text)
    return f'<dl class="lab-mistake" data-mistake="{escape(mistake.id)}">{listed}</dl>'


def _smallest_html(smallest: Counterexample) -> str:
    rows = [("First wrong place", smallest.place), ("Expected", smallest.expected), ("Got", smallest.got)]
    told = "".join(f"<dt>{name}</dt><dd><code>{escape(text)}</code></dd>" for name, text in rows if text)
    if not smallest.place:
        told = f"<dt>Seen there</dt><dd>{_inline(smallest.got)}</dd>"
    return f'<dl class="lab-smallest"><dt>{smallest.kind}</dt><dd>{escape(smallest.case)}</dd>{told}</dl>'


def _cases_html(cases: Sequence[CaseResult]) -> str:
    def item(case: CaseResult) -> str:
        mark = '<span class="lab-good">✓</span>' if case.passed else '<span class="lab-wrong">✗</span>'
        return f"<li>{mark} {escape(case.name)}{_inline(_dash(case.note))}</li>"

    return f'<ul class="lab-cases">{"".join(item(case) for case in cases)}</ul>'


def _code_html(code: str) -> str:
    # A region that scrolls must be within the keyboard's reach.
    return f'<pre class="lab-code" tabindex="0"><code>{escape(code)}</code></pre>'


@dataclass(frozen=True)
class Folded:
    """A hint or a solution: folded in a page and a notebook, and in a terminal shown on request only.

    `text` is what it says.
    """

    title: str
    text: str
    ask: str
    is_code: bool

    def __str__(self) -> str:
        return f"{self.title}: print({self.ask}.text)"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        body = _code_html(self.text) if self.is_code else f"<p>{_inline(self.text)}</p>"
        return wrap(fold_html(self.title, body), kind="lab-folded", assets=("lab.css", "grade.css"))


def hint(name: str, number: int) -> Folded:
    """Return a hint to an exercise, folded: number 1 says least, number 3 most.

    Raises
    ------
    ExerciseError
        There is no such exercise or hint.
    """
    exercise = _exercise.load(name)
    if not 1 <= number <= len(exercise.hints):
        raise ExerciseError(f"{name} has the hints 1 to {len(exercise.hints)}, not {number}")
    title = f"Hint {number} of {len(exercise.hints)}"
    return Folded(title, exercise.hints[number - 1], f'lab.hint("{name}", {number})', is_code=False)


def solution(name: str) -> Folded:
    """Return the solution of an exercise, folded.

    Raises
    ------
    ExerciseError
        There is no such exercise.
    """
    exercise = _exercise.load(name)
    return Folded("Solution", exercise.solution_text, f'lab.solution("{name}")', is_code=True)


def check(name: str, function: Callable[..., Any]) -> Report:
    """Grade a learner's solution.

    Parameters
    ----------
    name
        The exercise, as the chapter calls it.
    function
        The solution: a launcher, or a plain function where the exercise asks for one.

    Returns
    -------
    Report
        Never raises for what the solution does: that is what the report is about.

    Raises
    ------
    ExerciseError
        There is no such exercise.
    """
    exercise = _exercise.load(name)
    if isinstance(exercise, FunctionExercise):
        return _check_function(exercise, function)
    return _check_kernel(exercise, function)


def _check_kernel(exercise: KernelExercise, launcher: Callable[..., Any]) -> Report:
    if _mode.interpreting():
        return _run_cases(exercise, launcher, "in Triton's interpreter, on the CPU; speed is graded on a GPU")
    from kernels.lab import _grade_kernel, _rehearse

    try:
        _grade_kernel.require_sound_gpu()
    except _grade_kernel.RestartError as reason:
        return _restart(exercise, str(reason))
    rehearsal = _rehearse.rehearse(exercise.name, launcher)
    if rehearsal.report is not None and rehearsal.is_final:
        where = "in Triton's interpreter, before the kernel was let near the GPU"
        return replace(rehearsal.report, where=where)
    report = _run_cases(exercise, launcher, f"on {torch.cuda.get_device_name()}")
    if rehearsal.report is None:
        note = f"There was no rehearsal, so an unused stray read may go unseen: {rehearsal.why_not}"
        report = replace(report, notes=(*report.notes, note))
    elif report.passed and not rehearsal.report.passed:
        note = "Triton's interpreter gives other results; the GPU's count."
        report = replace(report, notes=(*report.notes, note))
    return _with_speed(exercise, launcher, report) if report.passed else report


def _run_cases(exercise: KernelExercise, launcher: Callable[..., Any], where: str) -> Report:
    from kernels.lab import _grade_kernel

    outcomes: list[Outcome] = []
    left_out: list[str] = []
    try:
        for case in exercise.cases:
            try:
                outcomes.append(_grade_kernel.try_case(exercise, launcher, case))
            except _grade_kernel.NoRoomError:
                left_out.append(case.name)
                continue
            if outcomes[-1].stop:
                break
        if all(o.untouched for o in outcomes if not o.is_empty):
            return _unsolved(exercise)
        repeated = (
            [] if outcomes[-1].stop else _grade_kernel.try_repeatedly(exercise, launcher, _usual(exercise))
        )
    except _grade_kernel.NotSolvedYet:
        return _unsolved(exercise)
    report = _kernel_report(exercise, outcomes, repeated, where)
    notes = tuple(
        f"Left out, since it does not fit into the memory that is free: {name}." for name in left_out
    )
    return replace(report, notes=notes)


def _usual(exercise: KernelExercise) -> _exercise.Case:
    """Return a plain case of middling size: what is asked of a solution over several calls is asked there."""
    plain = [c for c in exercise.cases if c.layout == "contiguous" and c.values == "normal"]
    return plain[len(plain) // 2]


def _kernel_report(
    exercise: KernelExercise, outcomes: list[Outcome], repeated: list[Sign], where: str
) -> Report:
    cases = [
        CaseResult(o.case.name, o.passed, "; ".join(dict.fromkeys(s.seen for s in o.signs))) for o in outcomes
    ]
    if repeated or all(case.passed for case in cases):
        seen = "; ".join(dict.fromkeys(s.seen for s in repeated))
        cases.append(CaseResult("several calls, with the same and with new values", not repeated, seen))
    telling = [o for o in outcomes if o.signs and not o.is_empty] or outcomes
    signs = [sign for o in telling for sign in o.signs] + repeated + contrast(outcomes)
    # A wrong element comes near the right one now and then by accident: believe it if most cases say so.
    nearly = [any(sign.tag == "low-precision" for sign in o.signs) for o in telling if o.values_wrong]
    if 2 * sum(nearly) < len(nearly):
        signs = [sign for sign in signs if sign.tag != "low-precision"]
    if all(case.passed for case in cases):
        return Report(
            exercise.name, exercise.signature, "solved", where, tuple(cases), solution=exercise.solution_text
        )
    finding = diagnose(exercise.mistakes, signs, explains_results(exercise, outcomes))
    tags = {sign.tag for sign in signs}
    status: Status = "refused" if tags <= {"delegated", "no-launch"} else "wrong"
    # A case without elements tells little about the mistake, and can ruin a GPU's context like any other.
    tags |= {sign.tag for o in outcomes for sign in o.signs}
    if tags & {"gpu-crashed", "gpu-busy"}:
        status = "restart"
    return Report(
        exercise.name,
        exercise.signature,
        status,
        where,
        tuple(cases),
        (finding,),
        _smallest(outcomes),
        tags=tuple(tags),
    )


def _smallest(outcomes: Sequence[Outcome]) -> Counterexample | None:
    failed = [o for o in outcomes if o.signs and not o.is_empty] or [o for o in outcomes if o.signs]
    if not failed:
        return None
    worst = min(
        [o for o in failed if o.values_wrong] or failed, key=lambda o: sum(t.numel() for t in o.inputs)
    )
    if not worst.values_wrong or worst.wrong is None or worst.output is None or worst.expected is None:
        return Counterexample(worst.case.name, "", "", worst.signs[0].seen)
    index = tuple(int(i) for i in worst.wrong.nonzero()[0])
    got = f"{float(worst.output[index]):.8g}"
    if worst.unwritten is not None and worst.unwritten[index]:
        got = "nothing: the element was never written"
    return Counterexample(
        worst.case.name, f"result[{', '.join(map(str, index))}]", f"{float(worst.expected[index]):.8g}", got
    )


def _with_speed(exercise: KernelExercise, launcher: Callable[..., Any], report: Report) -> Report:
    if (speed := exercise.speed) is None or not _mode.live():
        return report
    from kernels.lab import _grade_speed

    try:
        seconds, copying = _grade_speed.time_launcher(exercise, speed, launcher)
        fault = _grade_speed.still_right(exercise, speed, launcher)
    except torch.OutOfMemoryError:
        note = (
            f"Speed was not graded: {speed.case.name} does not fit into the memory that is free on this GPU."
        )
        return replace(report, notes=(*report.notes, note))
    if fault is not None:
        cases = (*report.cases, CaseResult(f"{speed.case.name}, after timing", False, fault.seen))
        return replace(report, status="wrong", cases=cases, mistakes=(fault,), solution="")
    return replace(
        report, speed=SpeedResult(seconds, speed.bytes / seconds, copying / seconds, speed.case.name)
    )


def _check_function(exercise: FunctionExercise, function: Callable[..., Any]) -> Report:
    where = "on cases that the exercise makes, without a GPU"
    trials: list[Trial] = []
    try:
        with _watch.limit(exercise.time_limit):
            for trial in exercise.trials(function):
                if trial.result is None and trial.got == "None":
                    return _unsolved(exercise)
                trials.append(trial)
    except NotImplementedError:
        return _unsolved(exercise)
    except _watch.TimeLimit:
        seen = f"it ran {exercise.time_limit:g} s and had not ended"
        trials.append(_ended(exercise, trials, "time-limit", seen))
    except Exception as error:  # noqa: BLE001 -- whatever the learner's code raises belongs into the report
        trials.append(_ended(exercise, trials, "raised", f"{type(error).__name__}: {error}"))
    return _function_report(exercise, trials, where)


def _ended(exercise: FunctionExercise, trials: Sequence[Trial], tag: str, seen: str) -> Trial:
    return Trial(f"case {len(trials) + 1}", False, "a result", seen, (Sign(tag, seen),))


def _function_report(exercise: FunctionExercise, trials: Sequence[Trial], where: str) -> Report:
    cases = tuple(
        CaseResult(t.name, t.passed, "" if t.passed else f"expected {t.expected}, got {t.got}")
        for t in trials
    )
    failed = [t for t in trials if not t.passed]
    if not failed:
        return Report(
            exercise.name, exercise.signature, "solved", where, cases, solution=exercise.solution_text
        )
    signs = [sign for trial in failed for sign in trial.signs]
    finding = diagnose(exercise.mistakes, signs, explains_answers(trials))
    smallest = Counterexample(
        failed[0].name, "result", failed[0].expected, failed[0].got, "First failing case"
    )
    return Report(exercise.name, exercise.signature, "wrong", where, cases, (finding,), smallest)


def _unsolved(exercise: Exercise) -> Report:
    notes = (exercise.task, "Nothing is written yet, so there is nothing to grade. Take the time you need.")
    return Report(exercise.name, exercise.signature, "unsolved", "", notes=notes)


def _restart(exercise: Exercise, reason: str) -> Report:
    notes = (
        f"The GPU refuses this process any further work: {reason}",
        "An earlier kernel did this, not necessarily the one that you are checking now.",
        "Restart Python (in a notebook: restart the kernel) and run the cells again.",
        "Before that every result would be meaningless, so nothing was graded.",
    )
    return Report(exercise.name, exercise.signature, "restart", "", notes=notes)
