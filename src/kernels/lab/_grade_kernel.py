"""Run a learner's launcher on every case of a kernel exercise and note what was amiss."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernels.lab import _mode, _watch
from kernels.lab._diagnose import Outcome, agrees, first_line, raised_signs, tolerance, value_signs
from kernels.lab._exercise import Case, KernelExercise, Sign
from kernels.lab._fence import Buffer, Fence, Stray, poisoned

Launcher = Callable[..., Any]

_broken = ""
"""Why the GPU cannot be used by this process any more."""


class NotSolvedYet(Exception):  # noqa: N818 -- it is no error
    """The launcher is still the stub."""


class NoRoomError(MemoryError):
    """A case does not fit into the memory that is free."""


class RestartError(RuntimeError):
    """The GPU cannot be used by this process any more."""


def require_sound_gpu() -> None:
    """Refuse to grade when an earlier kernel broke this process's GPU context.

    Raises
    ------
    RestartError
        With the reason.
    """
    if _broken:
        raise RestartError(_broken)
    if not _mode.interpreting():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise RestartError(first_line(error)) from error


def _break(reason: str) -> None:
    global _broken
    _broken = reason


@dataclass
class Call:
    """One call of the launcher: what it returned, in which memory it ran, or why it did not return."""

    fence: Fence
    inputs: list[Buffer]
    values: tuple[torch.Tensor, ...]
    result: Any = None
    ended: list[Sign] = field(default_factory=list)
    stop: bool = False


def try_case(exercise: KernelExercise, launcher: Launcher, case: Case) -> Outcome:
    """Call the launcher once with fresh inputs and check everything about the call.

    Raises
    ------
    NotSolvedYet
        It returned nothing, or raised `NotImplementedError`.
    NoRoomError
        The inputs do not fit into memory.
    """
    inputs = exercise.inputs(case, _fresh())
    call = _call(exercise, launcher, case, inputs)
    return _judge(exercise, case, inputs, call)


def _fresh() -> torch.Generator:
    return torch.Generator().manual_seed(random.SystemRandom().getrandbits(60))


def _call(exercise: KernelExercise, launcher: Launcher, case: Case, inputs: tuple[torch.Tensor, ...]) -> Call:
    fence = Fence(_mode.device())
    layouts = case.layouts(len(inputs))
    try:
        placed = [
            fence.place(n, t, how) for n, t, how in zip(exercise.arguments, inputs, layouts, strict=True)
        ]
    except RuntimeError as error:  # both torch's OutOfMemoryError and what its CPU allocator raises
        raise NoRoomError(first_line(error)) from error
    call = Call(fence, placed, inputs)
    run(exercise, launcher, call)
    return call


def run(exercise: KernelExercise, launcher: Launcher, call: Call) -> None:
    """Call the launcher with the placed inputs, within the time limit, and note how it ended in `call`."""
    try:
        with _watch.limit(exercise.time_limit), call.fence.watching():
            call.result = launcher(*(b.tensor for b in call.inputs))
        if not _mode.interpreting():
            _watch.finish(exercise.time_limit)
    except NotImplementedError as error:
        raise NotSolvedYet from error
    except _watch.GpuBusy as error:
        _break(f"a kernel is still running on the GPU ({error})")
        call.ended = [Sign("gpu-busy", f"after {exercise.time_limit:g} s the kernel was still running")]
        call.stop = True
    except _watch.TimeLimit:
        call.ended, call.stop = (
            [Sign("time-limit", f"it ran {exercise.time_limit:g} s and had not ended")],
            True,
        )
    except Exception as error:  # noqa: BLE001 -- whatever the learner's code raises belongs into the report
        call.ended = raised_signs(error)
        if not _mode.interpreting() and _gpu_is_gone():
            _break(first_line(error))
            call.ended, call.stop = [Sign("gpu-crashed", f"the GPU reported: {first_line(error)}")], True


def _gpu_is_gone() -> bool:
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _judge(exercise: KernelExercise, case: Case, inputs: tuple[torch.Tensor, ...], call: Call) -> Outcome:
    outcome = Outcome(case, inputs, stop=call.stop)
    if call.ended:
        outcome.signs = call.ended if call.stop else [*_memory_signs(call), *call.ended]
        return outcome
    if call.result is None or call.result is Ellipsis:
        raise NotSolvedYet
    expected = exercise.reference(*(t.double() for t in inputs))
    outcome.signs += _returned_signs(exercise, call, expected, inputs)
    if not any(s.tag in {"not-a-tensor", "wrong-shape", "wrong-device"} for s in outcome.signs):
        _compare(exercise, outcome, call, expected)
    outcome.signs += [*_work_signs(call, expected.numel()), *_memory_signs(call), *value_signs(outcome)]
    outcome.untouched = _nothing_written(outcome, call)
    if outcome.signs and call.fence.written_twice:
        outcome.signs.append(Sign("written-twice", "two programs wrote the same element of the output"))
    return outcome


def _nothing_written(outcome: Outcome, call: Call) -> bool:
    """Whether the launcher or its kernel is still a stub: a result is allocated, and nothing is loaded or
    stored."""
    untouched = (
        outcome.unwritten is not None and outcome.unwritten.numel() > 0 and bool(outcome.unwritten.all())
    )
    idle = call.fence.launches == 0 or (_mode.interpreting() and call.fence.accesses == 0)
    return untouched and idle and not call.fence.computed


def _returned_signs(
    exercise: KernelExercise, call: Call, expected: torch.Tensor, inputs: tuple[torch.Tensor, ...]
) -> list[Sign]:
    out = call.result
    if type(out) is not torch.Tensor:
        return [Sign("not-a-tensor", f"it returned a {type(out).__name__}, not a tensor")]
    signs = []
    if out.device.type != call.fence.device.type:
        signs.append(
            Sign("wrong-device", f"the result is on {out.device}, the inputs are on {call.fence.device}")
        )
    if out.shape != expected.shape:
        signs.append(
            Sign(
                "wrong-shape",
                f"the result has shape {tuple(out.shape)}, the task asks for {tuple(expected.shape)}",
            )
        )
    if out.dtype != inputs[0].dtype:
        signs.append(
            Sign("wrong-dtype", f"the result is {_name(out.dtype)}, the inputs are {_name(inputs[0].dtype)}")
        )
    holder = call.fence.holder(out)
    if holder in call.inputs and out.numel():
        signs.append(Sign("aliases-input", f"the result lies in the memory of {holder.name}"))
    return signs


def _compare(exercise: KernelExercise, outcome: Outcome, call: Call, expected: torch.Tensor) -> None:
    out = call.result.detach()
    if not out.is_floating_point():
        return
    outcome.output = out.cpu().clone()
    # What is too large for the result's dtype is rightly infinite in it.
    outcome.expected = torch.where(expected.to(out.dtype).isinf(), expected.to(out.dtype).double(), expected)
    tolerated = tolerance(exercise, outcome.inputs, outcome.expected, out.dtype)
    outcome.wrong = ~agrees(outcome.output.double(), outcome.expected, tolerated)
    holder = call.fence.holder(out)
    fenced = holder is not None and holder not in call.inputs
    outcome.unwritten = poisoned(out) if fenced else torch.zeros(out.shape, dtype=torch.bool)


def _work_signs(call: Call, size: int) -> list[Sign]:
    if call.fence.computed:
        named = ", ".join(f"torch's `{n}`" for n in dict.fromkeys(call.fence.computed))
        return [Sign("delegated", f"while the launcher ran, {named} computed")]
    if size and call.fence.launches == 0:
        return [Sign("no-launch", "no Triton kernel was launched")]
    return []


def _memory_signs(call: Call) -> list[Sign]:
    for buffer in call.fence.buffers:
        for position in buffer.damage():
            call.fence.note(Stray(True, buffer, position))
    signs = [sign for stray in call.fence.strays.values() for sign in _told(stray)]
    for buffer, values in zip(call.inputs, call.values, strict=True):
        if not _same_bits(buffer.tensor.cpu(), values):
            signs.append(Sign("changes-input", f"{buffer.name} holds other values after the call"))
    if call.fence.read_unwritten:
        signs.append(
            Sign("reads-unwritten", "the kernel loads elements of the output that nobody has written yet")
        )
    return list({s.tag: s for s in reversed(signs)}.values())


def _told(stray: Stray) -> list[Sign]:
    act, where = "write" if stray.write else "read", stray.where
    program = stray.program if stray.program is None or any(stray.program[1:]) else stray.program[0]
    who = "" if program is None else f", first by program {program}"
    verb = "written" if stray.write else "read"
    name, spans = stray.buffer.name, f"{stray.buffer.span:,} element{'s' if stray.buffer.span != 1 else ''}"
    if stray.wrapped:
        return [
            Sign(
                "int32-overflow",
                f"an address 2^32 elements away from the right one in {name} was {verb}{who}",
            )
        ]
    if where == "between":
        return [
            Sign(
                f"{act}-between",
                f"what lies between the elements of {name} was {verb} (position {stray.first:,}{who})",
            )
        ]
    place = f"{-stray.first:,} before its start" if stray.first < 0 else f"position {stray.first:,}"
    seen = f"memory outside {name}, which spans {spans}, was {verb} ({place}{who})"
    signs = [Sign(f"{act}-{where}", seen)]
    if stray.only_one and stray.first == stray.buffer.span:
        signs.append(
            Sign(f"{act}-one-past-end", f"exactly one element past the end of {name} was {verb}{who}")
        )
    return signs


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def try_repeatedly(exercise: KernelExercise, launcher: Launcher, case: Case) -> list[Sign]:
    """Call the launcher several times with the same and with new values in the same memory.

    Only calls that end normally say something here: `try_case` has reported the others.
    """
    inputs = exercise.inputs(case, _fresh())
    first = _call(exercise, launcher, case, inputs)
    expected = exercise.reference(*(t.double() for t in inputs))
    if not _usable(first) or first.result.shape != expected.shape:
        return []
    signs = _follows_inputs(exercise, launcher, case, inputs, first)
    kept = first.result.detach().cpu().double()
    tolerated = 2 * tolerance(exercise, inputs, expected, first.result.dtype)
    for _ in range(2):
        again = replace(first, result=None)
        run(exercise, launcher, again)
        if not _usable(again):
            return signs
        if again.result.numel() and again.result.data_ptr() == first.result.data_ptr():
            signs.append(Sign("reuses-output", "two calls returned the same memory"))
            break
        if again.result.shape != kept.shape or not agrees(again.result.cpu().double(), kept, tolerated).all():
            signs.append(Sign("nondeterministic", "the same input gave another result the second time"))
            break
    if len({sign.tag for sign in signs if sign.tag.startswith("ignores-input:")}) == len(exercise.arguments):
        return signs  # what depends on nothing is not kept from an earlier call
    return [*signs, *_follows_memory(exercise, launcher, case, first)]


def _usable(call: Call) -> bool:
    return not call.ended and type(call.result) is torch.Tensor and call.result.is_floating_point()


def _follows_inputs(
    exercise: KernelExercise, launcher: Launcher, case: Case, inputs: tuple[torch.Tensor, ...], first: Call
) -> list[Sign]:
    signs = []
    for i, name in enumerate(exercise.arguments):
        others = exercise.inputs(case, _fresh())
        changed = _call(exercise, launcher, case, (*inputs[:i], others[i], *inputs[i + 1 :]))
        if _usable(changed) and not first.result.isnan().all() and _same_bits(changed.result, first.result):
            signs += [
                Sign(tag, f"the result stays the same whatever {name} holds")
                for tag in ("ignores-input", f"ignores-input:{name}")
            ]
    return signs


def _follows_memory(exercise: KernelExercise, launcher: Launcher, case: Case, call: Call) -> list[Sign]:
    """Put new values into the same memory: a result kept by address does not follow."""
    before = call.result.clone()
    for buffer, values in zip(call.inputs, exercise.inputs(case, _fresh()), strict=True):
        buffer.tensor.copy_(values)
    again = replace(call, result=None)
    run(exercise, launcher, again)
    if _usable(again) and not before.isnan().all() and _same_bits(again.result, before):
        return [Sign("cached-result", "new values in the same tensors gave the old result")]
    return []


def _same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.shape == two.shape and torch.equal(one.nan_to_num(1.5), two.nan_to_num(1.5))
