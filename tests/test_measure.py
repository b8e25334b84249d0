"""Measurements: declared once, replayed without inputs, refused where their number would mislead."""

import math
from collections.abc import Callable

import pytest
import torch

from kernels import lab
from kernels.lab import record
from kernels.lab.measure import Comparison, MeasureError, Measurement, Row, _sweep, differ

SOURCE = record.Source(
    "NVIDIA H200", False, False, True, "2026-01-02", "abc", "1", "13", "2", "3", "3.12", "m"
)


def row(seconds: float, spread: float = 0.01, n: int = 4096) -> Row:
    return Row(
        {"n": n}, seconds, seconds * (1 - spread), seconds * (1 + spread), bytes=12.0 * n, flops=1.0 * n
    )


def test_row_derives_its_rates():
    assert row(2.0).bandwidth == 6 * 4096
    assert row(2.0).rate == 2048
    assert math.isclose(row(2.0).intensity, 1 / 12)


def test_row_without_bytes_says_what_was_not_declared():
    with pytest.raises(ValueError, match="bytes="):
        _ = Row({"n": 1}, 1.0, 1.0, 1.0).bandwidth


def test_a_difference_inside_the_spread_is_none():
    assert not differ(row(1.0), row(1.015))
    assert differ(row(1.0), row(1.05))


@pytest.fixture
def comparison() -> Comparison:
    fast = Measurement("add", "fast", (row(1.0), row(2.0, n=8192)), SOURCE)
    slow = Measurement("add", "slow", (row(10.0),), SOURCE, dropped=({"n": 8192},))
    return Comparison("add", {"fast": fast, "slow": slow})


def test_ratio_says_how_many_times_faster(comparison):
    assert comparison.ratio("fast", "slow", n=4096) == 10


def test_table_shows_a_dropped_size_and_says_why(comparison):
    text = str(comparison.table("seconds"))
    assert "–" in text
    assert "Left out, too large for this GPU's memory: n = 2^13." in text


def test_asking_for_a_dropped_size_says_why(comparison):
    with pytest.raises(KeyError, match="did not fit"):
        comparison["slow"].at(n=8192)


def make_zeros(n: int) -> Callable[[], torch.Tensor]:
    x = torch.rand(n, device=lab.device())
    return lambda: x + 1


def make_waiting(n: int) -> Callable[[], float]:
    x = torch.rand(n, device=lab.device())
    return lambda: x.sum().item()


def make_huge(n: int) -> Callable[[], torch.Tensor]:
    x = torch.empty(2**46, device=lab.device())
    return lambda: x


@pytest.mark.skipif(lab.live(), reason="needs a process without a GPU")
def test_the_interpreter_is_never_timed():
    with pytest.raises(MeasureError, match="interpreter"):
        _sweep("t", {"x": make_zeros}, [{"n": 16}])


@pytest.fixture
def recording(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELS_RECORDS_OUT", str(tmp_path))
    return tmp_path


@pytest.mark.gpu
def test_live_sweep_is_recorded_with_its_conditions(recording):
    made = lab.measure("t", {"plus": make_zeros}, {"n": [2**12, 2**24]}, bytes=lambda n: 8 * n)
    small, large = made["plus"].rows
    assert small.low <= small.seconds <= small.high
    assert small.seconds < large.seconds
    saved = record.load(next(recording.glob("*.json")))["entries"]["t/plus"]["values"]["rows"]
    assert [r["seconds"] for r in saved] == [small.seconds, large.seconds]
    assert saved[0]["sm_clock_hz"] > 0


@pytest.mark.gpu
def test_a_small_kernel_is_timed_without_its_launch(recording):
    """A launch from Python takes several microseconds; a kernel of 4,096 elements takes less than three."""
    assert lab.measure("t", {"plus": make_zeros}, {"n": [4096]})["plus"].rows[0].seconds < 3e-6


@pytest.mark.gpu
def test_no_bandwidth_above_the_datasheet(recording):
    made = lab.measure("t", {"plus": make_zeros}, {"n": [2**20, 2**26]}, bytes=lambda n: 8 * n)
    if "H200" in torch.cuda.get_device_name():
        assert all(r.bandwidth < 4.8e12 for r in made["plus"].rows)


@pytest.mark.gpu
def test_callable_that_waits_is_refused_with_the_reason(recording):
    with pytest.raises(MeasureError, match="synchronize"):
        lab.measure("t", {"waits": make_waiting}, {"n": [16]})


@pytest.mark.gpu
def test_size_that_does_not_fit_is_dropped_and_the_rest_measured(recording):
    made = lab.measure("t", {"huge": make_huge, "plus": make_zeros}, {"n": [4096]})
    assert made["huge"].rows == ()
    assert made["huge"].dropped == ({"n": 4096},)
    assert len(made["plus"].rows) == 1
