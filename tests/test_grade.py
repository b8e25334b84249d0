"""The grader beyond its zoo: stubs, reports, the fence, the time limit, the rehearsal."""

from kernels import lab  # isort: skip -- first: it decides how Triton runs

import importlib
import importlib.util
import pkgutil
import signal
import time

import pytest
import torch

import kernels.exercises
from kernels.exercises import time_ms as timing
from kernels.exercises import vector_add as adding
from kernels.lab import _diagnose, _exercise, _fence, _grade_kernel, _mode, _rehearse, _watch, grade

EXERCISES = sorted(module.name for module in pkgutil.iter_modules(kernels.exercises.__path__))


def declared(name):
    return importlib.import_module(f"kernels.exercises.{name}").EXERCISE


def from_file(path, source, name):
    imports = (
        "from __future__ import annotations\n\nimport torch\nimport triton\nimport triton.language as tl\n"
    )
    path.write_text(f"{imports}\n\n{source}\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


# --- declarations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_a_stub_runs_and_is_kindly_called_unsolved(name, tmp_path):
    stub = from_file(tmp_path / "stub.py", declared(name).stub, name)
    report = grade.check(name, stub)
    assert (report.status, report.passed, report.mistakes) == ("unsolved", False, ())
    assert "still to be solved" in str(report)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_stub_is_its_solution_without_the_marked_lines(name):
    exercise = declared(name)
    stub, solution = exercise.stub.splitlines(), exercise.solution_text.splitlines()
    kept = [line for line in stub if line.strip() != "pass" and "# Your turn:" not in line]
    assert set(kept) <= set(solution)
    assert len(kept) < len(solution)
    assert "your turn>" not in exercise.stub + exercise.solution_text


@pytest.mark.parametrize("name", EXERCISES)
def test_mistakes_have_names_of_their_own_and_say_what_helps(name):
    mistakes = declared(name).mistakes
    assert len({mistake.id for mistake in mistakes}) == len(mistakes)
    assert all(mistake.cause and mistake.hint and (mistake.shows or mistake.as_if) for mistake in mistakes)


def test_an_unknown_exercise_or_hint_is_named():
    with pytest.raises(_exercise.ExerciseError, match="no exercise 'vector_ad'"):
        grade.check("vector_ad", print)
    with pytest.raises(_exercise.ExerciseError, match="hints 1 to 3, not 4"):
        grade.hint("vector_add", 4)


# --- how a solution can end ---------------------------------------------------------------------------------


def not_implemented(x, y):
    raise NotImplementedError


@pytest.mark.parametrize(
    "stub", [not_implemented, lambda x, y: None, lambda x, y: ..., lambda x, y: torch.empty_like(x)]
)
def test_what_does_nothing_yet_is_unsolved(stub):
    assert grade.check("vector_add", stub).status == "unsolved"


@pytest.mark.parametrize(
    ("launcher", "mistake"),
    [
        (lambda x: x, "wrong-arguments"),
        (lambda x, y: [1.0], "returns-no-tensor"),
        (lambda x, y: torch.empty(x.numel() + 1, device=x.device), "wrong-shape"),
        (lambda x, y: x, "aliases-input"),
        (lambda x, y: x.add(y), "delegated"),
        (lambda x, y: torch.zeros_like(x), "no-launch"),
    ],
)
def test_a_launcher_that_computes_nothing_itself_is_told_so(launcher, mistake):
    report = grade.check("vector_add", launcher)
    assert [m.id for m in report.mistakes] == [mistake], str(report)


def test_work_done_by_torch_is_refused_without_an_accusation():
    report = grade.check("vector_add", torch.add)
    assert report.status == "refused"
    assert "`add` computed" in report.mistakes[0].seen
    assert "cheat" not in str(report)


class Lazy(torch.Tensor):
    """Computes when somebody looks."""


def test_a_tensor_subclass_is_no_result():
    report = grade.check("vector_add", lambda x, y: torch.zeros_like(x).as_subclass(Lazy))
    assert report.mistakes[0].id == "returns-no-tensor"


def test_a_gpu_that_an_earlier_kernel_broke_is_said_to_need_a_restart(monkeypatch):
    monkeypatch.setattr(_grade_kernel, "_broken", "an illegal memory access was encountered")
    monkeypatch.setattr(_mode, "interpreting", lambda: False)
    report = grade.check("vector_add", adding.vector_add)
    assert (report.status, report.passed) == ("restart", False)
    assert "Restart Python" in str(report)
    assert "illegal memory access" in str(report)


def one_program_even_for_nothing(x, y):
    if len(x):
        return adding.vector_add(x, y)
    out = torch.empty_like(x)
    adding.vector_add_kernel[(1,)](x, y, out, 1, 1, 1, BLOCK_SIZE=16)
    return out


def test_what_strays_only_when_there_is_nothing_to_do_is_dangerous_too():
    report = grade.check("vector_add", one_program_even_for_nothing)
    assert {"write-past-end", "read-past-end"} <= set(report.tags)
    assert _rehearse.Rehearsal(report).is_final


# --- the report ---------------------------------------------------------------------------------------------


def off_by_one(x, y):
    out = adding.vector_add(x, y)
    if len(out) > 2:
        adding.vector_add_kernel[(1,)](x[:1], x[:1], out[1:2], 1, 1, 1, BLOCK_SIZE=16)
    return out


def test_an_unknown_mistake_still_gets_the_smallest_failing_input_and_the_first_wrong_place():
    report = grade.check("vector_add", off_by_one)
    assert report.mistakes[0].id == "unrecognised"
    assert report.smallest.case == "3 elements"
    assert report.smallest.place == "result[1]"
    assert float(report.smallest.expected) != float(report.smallest.got)


@pytest.mark.parametrize("launcher", [off_by_one, adding.vector_add, torch.add, not_implemented])
def test_a_report_shows_itself_as_text_and_as_html(launcher):
    report = grade.check("vector_add", launcher)
    html = report._repr_html_()
    assert report.head in str(report)
    assert report.head in html
    assert html.count("<dl") == html.count("</dl>")
    assert html.count("<details") == html.count("</details>")


def test_a_passing_report_folds_the_intended_solution():
    report = grade.check("vector_add", adding.vector_add)
    assert "<details><summary>The intended solution" in report._repr_html_()
    assert "tl.load" not in str(report)


def test_what_a_learner_raises_is_escaped():
    def raises(x, y):
        raise ValueError("<script>alert(1)</script>")

    assert "<script>alert" not in grade.check("vector_add", raises)._repr_html_()


def test_hints_and_solutions_are_shown_on_request_only():
    hint, solution = grade.hint("vector_add", 1), grade.solution("vector_add")
    assert str(hint) == 'Hint 1 of 3: print(lab.hint("vector_add", 1).text)'
    assert "tl.store" not in str(solution)
    assert "tl.store" in solution.text
    assert "<details><summary>Solution</summary>" in solution._repr_html_()


# --- the fence ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "stride"),
    [
        ("contiguous", (5, 1)),
        ("offset", (5, 1)),
        ("strided", (10, 2)),
        ("padded", (8, 1)),
        ("transposed", (1, 4)),
        ("far", (_fence.FAR, 1)),
    ],
)
def test_a_layout_holds_the_values_with_its_strides(layout, stride):
    values = torch.randn(4, 5).half()[:3] if layout == "far" else torch.randn(4, 5)
    placed = _fence.Fence(lab.device()).place("x", values, layout).tensor
    assert placed.stride() == stride
    assert torch.equal(placed.cpu(), values)
    assert (placed.data_ptr() % 16 != 0) == (layout == "offset")


@pytest.mark.parametrize(("position", "layout"), [(-1, "contiguous"), (8, "contiguous"), (1, "strided")])
def test_a_write_outside_the_elements_is_found_without_watching(position, layout):
    buffer = _fence.Fence(lab.device()).place("x", torch.randn(8), layout)
    assert buffer.damage() == []
    buffer.tensor.as_strided((1,), (1,), buffer.tensor.storage_offset() + position).fill_(1.0)
    assert buffer.damage() == [position]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_memory_that_a_launcher_allocates_is_poisoned_and_fenced(dtype):
    fence = _fence.Fence(lab.device())
    with fence.watching():
        empty = torch.empty(7, dtype=dtype, device=lab.device())
        zeros = torch.zeros(7, dtype=dtype, device=lab.device())
    assert empty.isnan().all()
    assert _fence.poisoned(empty).all()
    assert (zeros == 0).all()
    assert fence.holder(empty).raw.numel() > 2 * _fence.GUARD_BYTES
    assert fence.computed == []


def test_preparing_inputs_by_copies_and_views_is_no_computing():
    fence = _fence.Fence(lab.device())
    x = torch.randn(6, 4, device=lab.device())
    with fence.watching():
        x.t().contiguous().view(-1)[2:].to(torch.float16).reshape(2, -1).unsqueeze(0)
    assert fence.computed == []


# --- tolerances ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rounding_the_right_result_is_tolerated_and_a_narrower_detour_is_not(dtype):
    exact = torch.rand(1000, dtype=torch.float64) + 0.1
    allowed = _diagnose.tolerance(adding.EXERCISE, (exact,), exact, dtype)
    narrower = {
        torch.float16: torch.bfloat16,
        torch.bfloat16: torch.float8_e5m2,
        torch.float32: torch.float16,
    }[dtype]
    assert _diagnose.agrees(exact.to(dtype).double(), exact, allowed).all()
    assert not _diagnose.agrees(exact.to(narrower).double(), exact, allowed).all()


def test_nan_agrees_with_nan_only_and_infinity_with_itself():
    nan, inf = torch.nan, torch.inf
    got, want = torch.tensor([nan, nan, 1.0, inf, inf, -inf]), torch.tensor([nan, 1.0, nan, inf, 1.0, inf])
    assert _diagnose.agrees(got, want, torch.full((6,), 1e9)).tolist() == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]


# --- the time limit -----------------------------------------------------------------------------------------


def goes_on_whatever_happens():
    caught = 0
    while caught < 2:
        try:
            time.sleep(0.01)
        except BaseException:
            caught += 1
            if caught == 2:
                raise


def test_a_bare_except_does_not_escape_the_time_limit():
    with pytest.raises(_watch.TimeLimit), _watch.limit(0.1):
        goes_on_whatever_happens()


def test_the_limit_leaves_handler_and_timer_as_they_were():
    before = signal.getsignal(signal.SIGALRM)
    with _watch.limit(5.0):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    assert left == 0.0 or left > 5.0  # none, or that of the test runner


# --- the rehearsal ------------------------------------------------------------------------------------------


def solved(x, y):
    return adding.vector_add(x, y)


def reads_too_far(x, y):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    adding.vector_add_kernel[(1,)](x, y, out, x.stride(0), y.stride(0), x.numel() + 1, BLOCK_SIZE=8192)
    return out


def test_a_rehearsal_stops_what_leaves_its_memory():
    rehearsal = _rehearse.rehearse("vector_add", reads_too_far)
    assert rehearsal.is_final
    assert rehearsal.report.mistakes[0].id == "mask-too-wide"


def test_a_rehearsal_lets_the_right_solution_pass():
    rehearsal = _rehearse.rehearse("vector_add", solved)
    assert rehearsal.report.passed
    assert not rehearsal.is_final


def test_what_cannot_be_rehearsed_says_why():
    rehearsal = _rehearse.rehearse("vector_add", lambda x, y: x)
    assert rehearsal.report is None
    assert "lambda" in rehearsal.why_not


# --- function exercises -------------------------------------------------------------------------------------


def doubled(n):
    return 2 * n


QUESTIONS = {"small": ((3,), 6), "large": ((1000,), 2000)}
DOUBLING = _exercise.FunctionExercise(
    name="doubling", chapter=0, signature="doubled(n: int) -> int", task="Return 2 n.", hints=("", "", ""),
    solution=(doubled,), trials=lambda function: _exercise.answer(function, QUESTIONS),
    mistakes=(_exercise.Mistake("squares", as_if=lambda n: n * n, cause="It squares.", hint="Two, not twice n."),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("function", "status", "mistake"),
    [
        (doubled, "solved", []),
        (lambda n: n * n, "wrong", ["squares"]),
        (lambda n: n + 1, "wrong", ["unrecognised"]),
        (lambda n: "6", "wrong", ["returns-no-number"]),
        (lambda n: 1 / 0, "wrong", ["raises"]),
        (lambda n: None, "unsolved", []),
    ],
)
def test_a_function_of_numbers_is_graded_by_its_answers(function, status, mistake, monkeypatch):
    monkeypatch.setattr(_exercise, "load", lambda name: DOUBLING)
    report = grade.check("doubling", function)
    assert (report.status, [m.id for m in report.mistakes]) == (status, mistake)


def test_a_simulated_call_returns_before_its_work_is_done():
    device = timing.SimulatedDevice(seed=1)
    device.launch()
    after_launch = device.now()
    device.synchronize()
    assert device.now() > after_launch
    assert 1.2 * device.true_ms < device.now() - after_launch < 1.6 * device.true_ms


def test_the_learners_function_times_the_real_device_too():
    assert 0 < timing.time_ms(lambda: torch.zeros(1000, device=lab.device()), timing.RealDevice()) < 1000


def test_a_case_without_room_is_left_out_and_named(monkeypatch):
    def no_room(self, name, values, layout):
        if layout == "far":
            raise torch.OutOfMemoryError("out of memory")
        return place(self, name, values, layout)

    place = _fence.Fence.place
    monkeypatch.setattr(_fence.Fence, "place", no_room)
    report = grade.check("vector_add", adding.vector_add)
    assert report.passed
    assert "Left out" in str(report)
