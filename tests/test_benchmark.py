"""The final benchmark: consistent declarations, targets judged from rows, and rivals that are not there."""

import inspect
import re
from collections.abc import Mapping

import pytest

from kernels import benchmark, lab
from kernels.lab import record
from kernels.lab.claims import ClaimError
from kernels.lab.measure import Comparison, Measurement, Row

SOURCE = record.Source(
    "NVIDIA H200", False, False, True, "2026-01-02", "abc", "1", "13", "2", "3", "3.12", "m"
)
COPY = 4e12

makes = pytest.mark.parametrize(
    "make",
    [
        function
        for name, function in inspect.getmembers(benchmark, inspect.isfunction)
        if name.startswith("make_")
    ],
    ids=lambda make: make.__name__,
)


def row(seconds: float, bytes: float = 4e9, **params: int) -> Row:
    return Row(params, seconds, seconds * 0.999, seconds * 1.001, bytes=bytes, flops=1e9)


def comparison(name: str, times: Mapping[str, Mapping[int, float]], param: str = "width") -> Comparison:
    """Made-up times: by label, then by size."""
    return Comparison(
        name,
        {
            label: Measurement(
                name, label, tuple(row(seconds, **{param: size}) for size, seconds in by_size.items()), SOURCE
            )
            for label, by_size in times.items()
        },
    )


@makes
def test_every_rival_can_be_fingerprinted(make):
    assert re.fullmatch("[0-9a-f]{16}", record.fingerprint(make, [{"n": 1}]))


def test_rivals_of_one_comparison_have_fingerprints_of_their_own():
    of = {
        make.__name__: record.fingerprint(make)
        for name, make in inspect.getmembers(benchmark, inspect.isfunction)
        if name.startswith("make_")
    }
    assert len(set(of.values())) == len(of)


def reached(make) -> str:
    from kernels.lab import _source

    return " ".join(_source.closure(make))


@pytest.mark.parametrize(
    ("make", "own", "others"),
    [
        (benchmark.make_softmax_ours, "kernels.softmax.", ["kernels.cuda", "rms_norm", "matmul"]),
        (
            benchmark.make_softmax_cuda,
            "kernels.cuda.softmax.",
            ["kernels.softmax.", "rms_norm", "kernels.cuda.add"],
        ),
        (benchmark.make_add_rms_norm_cuda, "kernels.cuda.rms_norm.", ["softmax", "kernels.cuda.add"]),
        (benchmark.make_add_float4, "kernels.cuda.add.", ["softmax", "rms_norm"]),
        (benchmark.make_softmax_torch, "rows", ["kernels.softmax.", "kernels.cuda"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_rival_depends_on_no_other_rival_so_that_an_edit_makes_only_its_own_numbers_stale(
    make, own, others
):
    names = reached(make)
    assert own in names
    assert not [other for other in others if other in names]


def test_the_text_of_a_cuda_kernel_is_part_of_its_fingerprint(monkeypatch):
    import kernels.cuda.softmax as module

    before = record.fingerprint(benchmark.make_softmax_cuda)
    monkeypatch.setattr(module, "SOFTMAX", module.SOFTMAX + "// changed")
    assert record.fingerprint(benchmark.make_softmax_cuda) != before


def test_how_torch_compile_is_asked_is_part_of_its_fingerprint(monkeypatch):
    before = record.fingerprint(benchmark.make_softmax_compiled)
    monkeypatch.setattr(benchmark, "COMPILE", {"mode": "default", "dynamic": True})
    assert record.fingerprint(benchmark.make_softmax_compiled) != before


@pytest.mark.parametrize("width", benchmark.WIDTHS)
def test_every_width_has_the_same_bytes(width):
    assert benchmark.softmax_bytes_at(width) == 2 * 2 * 2**28
    assert benchmark.add_rms_norm_bytes_at(width) == 4 * 2 * 2**28


def test_joined_sweeps_keep_all_rows_and_leave_gaps():
    narrow = comparison("n", {"ours": {256: 1.0}, "Liger": {256: 2.0}})
    wide = comparison("w", {"ours": {1024: 3.0}})
    whole = benchmark.joined("softmax", narrow, wide)
    assert [r.params["width"] for r in whole["ours"].rows] == [256, 1024]
    assert "–" in str(benchmark.summary(whole, COPY)).splitlines()[-3]


def test_summary_names_the_best_rival_and_both_shares():
    made = comparison(
        "softmax",
        {"ours": {256: 0.00125}, "torch": {256: 0.0025}, "CUDA C++": {256: 0.001}, "Liger": {256: 1.0}},
    )
    line = str(benchmark.summary(made, COPY)).splitlines()[3]
    assert re.search(r"CUDA C\+\+\s+80 %\s+80 %$", line)


def test_summary_of_arithmetic_has_no_share_of_a_copy():
    made = comparison("matmul", {"ours": {4096: 0.001}, "cuBLAS": {4096: 0.001}}, "n")
    text = str(benchmark.summary(made))
    assert "FLOP/s" in text
    assert "copy" not in text


def test_summary_says_which_rival_is_missing_and_what_brings_it():
    made = comparison("softmax", {"ours": {256: 1.0}, "torch": {256: 2.0}})
    text = str(benchmark.summary(made, COPY))
    assert "Not measured: Liger (pip install 'liger-kernel')." in text
    assert "first-fast-kernel[cuda]" in text


def all_widths(seconds: float) -> dict[int, float]:
    return dict.fromkeys(benchmark.WIDTHS, seconds)


def softmax(**changes: dict[int, float]) -> Comparison:
    times = {"ours": all_widths(0.001), "torch": all_widths(0.002), "CUDA C++": all_widths(0.001)}
    times["Liger"] = {width: 0.0011 for width in benchmark.WIDTHS if width <= benchmark.LIGER_WIDEST}
    return comparison("softmax", times | changes)


def test_targets_hold_for_rows_that_reach_them():
    claims = benchmark.targets({"softmax": softmax()}, COPY)
    assert len(claims) == 3
    assert all(claim.holds for claim in claims)


def test_one_slow_width_misses_the_target(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    slow = all_widths(0.001) | {131_072: 0.0015}
    claims = benchmark.targets({"softmax": softmax(ours=slow)}, COPY)
    assert [claim.text for claim in claims if not claim.holds] == [
        "At every width, the softmax is as fast as the best rival."
    ]


@pytest.mark.skipif(lab.live(), reason="strict only where the record of the reference GPU is replayed")
def test_a_missed_target_stops_a_strict_build(monkeypatch):
    monkeypatch.setenv("KERNELS_STRICT", "1")
    with pytest.raises(ClaimError, match="as fast as the best rival"):
        benchmark.targets({"softmax": softmax(ours=all_widths(0.0011))}, COPY)


def test_target_without_its_rival_is_not_judged():
    made = comparison(
        "add", {"ours": {2**24: 0.001}, "torch.add": {2**24: 0.001}, "baseline": {2**24: 0.2}}, "n"
    )
    texts = [claim.text for claim in benchmark.targets({"add": made}, COPY)]
    assert len(texts) == 3
    assert not any("CUDA" in text for text in texts)


def test_target_without_its_sizes_is_not_judged():
    made = comparison("add", {"ours": {4096: 0.001}, "torch.add": {4096: 0.001}}, "n")
    assert benchmark.targets({"add": made}, COPY) == []


def test_every_target_is_about_a_part_of_the_benchmark():
    assert {target.part for target in benchmark.TARGETS} == set(benchmark.COMPARISONS)


@pytest.mark.skipif(lab.live(), reason="replays a record")
def test_replaying_leaves_out_the_optional_rivals_that_the_record_lacks(monkeypatch):
    monkeypatch.setattr(record, "replayed", lambda: {"entries": {"benchmark/softmax/CUDA C++": {}}})
    assert benchmark.available("benchmark/softmax", "CUDA C++")
    assert not benchmark.available("benchmark/softmax", "Liger")
    assert benchmark.available("benchmark/softmax", "torch")


def test_measuring_leaves_out_the_rivals_whose_package_is_missing(monkeypatch):
    monkeypatch.setattr(lab, "live", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "liger_kernel", None)
    assert not benchmark.available("benchmark/softmax", "Liger")


def test_an_unknown_part_is_refused(capsys):
    from kernels.__main__ import benchmark as command

    assert command(["sofmax"]) == 2
    assert "add, softmax, add_rms_norm, matmul" in capsys.readouterr().err


@pytest.mark.gpu
def test_torch_compile_is_ready_before_it_is_timed():
    import torch

    call = benchmark.make_add_compiled(4096)
    with torch.compiler.set_stance("fail_on_recompile"):
        call()


@pytest.mark.gpu
def test_host_cost_of_a_launch_is_microseconds():
    cost = benchmark.host_seconds()["seconds"]
    assert all(1e-8 < seconds < 1e-3 for seconds in cost.values())
