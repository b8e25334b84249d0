"""The roofline: its arithmetic, its ceilings, where a point stands, and a plot that can be read."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from test_plot import overlapping, svgs, text_boxes

from kernels import lab
from kernels.lab import _ceiling_kernels as kernels_of_ceilings
from kernels.lab import record
from kernels.lab.ceilings import Attempt, Ceiling, Ceilings, ceilings, make_fma, make_matmul, make_memory
from kernels.lab.datasheets import _KNOWN, datasheet
from kernels.lab.measure import Measurement, Row
from kernels.lab.roofline import Point, attainable, bound, earlier, intensity, roofline, standing

SOURCE = record.Source(
    "NVIDIA H200", False, False, True, "2026-01-02", "abc", "1", "13", "2", "3", "3.12", "m"
)


def ceiling(name: str, unit: str, value: float) -> Ceiling:
    return Ceiling(name, unit, (Attempt("the best", value), Attempt("another", value / 2)), value * 1.1)


ROOFS = Ceilings(
    {
        "memory": ceiling("HBM3e", "B/s", 4e12),
        "L2": ceiling("L2 cache", "B/s", 9e12),
        "FP32": ceiling("FP32", "FLOP/s", 60e12),
        "TF32": ceiling("TF32 tensor cores", "FLOP/s", 400e12),
        "FP16": ceiling("FP16 tensor cores", "FLOP/s", 690e12),
        "BF16": ceiling("BF16 tensor cores", "FLOP/s", 700e12),
    },
    SOURCE,
    datasheet("NVIDIA H200"),
)


def point(label: str, intensity: float, share: float, roof: str = "FP32", **more: object) -> Point:
    """A point that reaches so much of what is attainable at its intensity under ROOFS."""
    rate = share * min(intensity * 4e12, ROOFS.peak(roof))
    return Point(label, intensity * 1e9, 1e9, intensity * 1e9 / rate, roof, **more)


# --- arithmetic ----------------------------------------------------------------------------------------------------------


def test_intensity_of_a_vector_add():
    assert intensity(flops=1, bytes=12) == 1 / 12


def test_attainable_is_the_lower_roof():
    assert attainable(0.5, 4e12, 60e12) == 2e12
    assert attainable(100, 4e12, 60e12) == 60e12


@pytest.mark.parametrize(
    ("at", "roof"), [(0, "memory"), (14.9, "memory"), (15, "arithmetic"), (100, "arithmetic")]
)
def test_bound_turns_at_the_ridge(at, roof):
    assert bound(at, 4e12, 60e12) == roof


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: intensity(1, 0), "bytes must be positive, not 0"),
        (lambda: intensity(-1, 1), "flops must be zero or more, not -1"),
        (lambda: attainable(-1, 1, 1), "intensity must be zero or more, not -1"),
        (lambda: attainable(1, 0, 1), "bandwidth must be positive, not 0"),
        (lambda: bound(1, 1, math.nan), "peak must be positive, not nan"),
    ],
)
def test_arithmetic_refuses_what_cannot_be(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- points ----------------------------------------------------------------------------------------------------------------


def test_a_point_of_a_row_has_its_intensity_and_rate():
    made = Point.of("add", Row({"n": 8}, 2.0, 2.0, 2.0, bytes=96.0, flops=8.0))
    assert (made.intensity, made.rate) == (1 / 12, 4.0)


def test_a_point_needs_bytes_and_flops():
    with pytest.raises(ValueError, match="bytes= and flops="):
        Point.of("add", Row({"n": 8}, 2.0, 2.0, 2.0, bytes=96.0))


def test_a_point_without_operations_has_no_place():
    with pytest.raises(ValueError, match="'copy' has no place on a logarithmic plot: flops"):
        Point("copy", 0, 8, 1.0)


def test_a_swept_point_ends_its_path():
    rows = tuple(Row({"n": n}, 1.0, 1.0, 1.0, bytes=4.0, flops=float(n)) for n in (1, 2, 4))
    made = Point.swept("tiles", Measurement("matmul", "tiles", rows, SOURCE), roof="BF16")
    assert made.path == ((0.25, 1), (0.5, 2), (1.0, 4))
    assert (made.intensity, made.rate, made.roof) == (1.0, 4.0, "BF16")


@pytest.mark.parametrize(
    ("at", "roof", "share", "words"),
    [
        (1 / 12, "FP32", 0.93, "bound by HBM3e"),
        (100, "FP32", 0.9, "bound by FP32"),
        (100, "BF16", 0.9, "bound by HBM3e"),
        (1000, "BF16", 0.9, "bound by BF16 tensor cores"),
        (1 / 12, "FP32", 0.19, "bound by neither roof"),
        (1 / 12, "FP32", 1.3, "above its roof: served from a cache"),
    ],
)
def test_standing_says_which_roof_bounds_a_point(at, roof, share, words):
    stands = standing(point("k", at, share, roof), ROOFS)
    assert stands.share == pytest.approx(share)
    assert stands.words(ROOFS, roof).startswith(words)


def test_a_roof_that_this_gpu_lacks_is_named():
    with pytest.raises(KeyError, match="no ceiling 'FP8'; it has memory, L2"):
        standing(Point("k", 1, 1, 1, "FP8"), ROOFS)


# --- the plot ----------------------------------------------------------------------------------------------------------------

BASELINE = point("one element per program", 1 / 12, 0.004, path=[(1 / 12, 1e8), (1 / 12, 5e8)])
TWELVE = [
    BASELINE,
    point("vector add", 1 / 12, 0.95),
    point("SAXPY", 2 / 12, 0.94),
    point("row softmax", 1.25, 0.85),
    point("RMSNorm", 1.0, 0.87),
    point("add + RMSNorm", 0.75, 0.88),
    point("matmul 4096³, cuBLAS", 1365, 0.99, "BF16"),
    point("matmul 4096³, Triton", 1365, 0.95, "BF16"),
    point("matmul 256³", 85, 0.08, "BF16"),
    point("matmul, no reuse", 0.25, 0.8),
    point("64 multiply-adds", 16, 0.9),
    point("matmul, tiles", 16, 0.15, path=[(0.25, 8e11), (4, 4e12), (16, 9e12)]),
]
CLUSTER = [
    point(f"variant {letter} of add + RMSNorm", 0.75, 0.8 + 0.02 * i)
    for i, letter in enumerate("ABCDEFGHIJKL")
]
SETS = {
    "one": [BASELINE],
    "twelve": TWELVE,
    "cluster": CLUSTER,
    "faint": [*(replace(p, faint=True) for p in TWELVE[:8]), *CLUSTER[:3]],
}


@cache
def drawn(name: str) -> dict[str, str]:
    return svgs(roofline(SETS[name], ceilings=ROOFS))


@pytest.mark.parametrize("kind", ["wide", "narrow"])
@pytest.mark.parametrize("name", SETS)
def test_no_label_hides_another(name, kind):
    assert overlapping(drawn(name)[kind]) == []


@pytest.mark.parametrize("name", SETS)
def test_every_point_is_named_wide(name):
    shown = " ".join(text for text, _ in text_boxes(drawn(name)["wide"]))
    assert all(word in shown for p in SETS[name] for word in p.label.split())


def test_points_in_one_place_get_numbers_and_a_key_where_their_names_cannot_all_be_read():
    texts = [text for text, _ in text_boxes(drawn("cluster")["wide"])]
    assert "12  variant L of add + RMSNorm" in texts
    assert not any(text.startswith("1  ") for text, _ in text_boxes(drawn("twelve")["wide"]))


def test_a_phone_gets_numbers_and_a_key_where_names_have_no_room():
    svg = drawn("twelve")["narrow"]
    texts = [text for text, _ in text_boxes(svg)]
    assert {str(n) for n in range(1, 13)} <= set(texts)
    assert "1  one element per program" in texts
    assert sum(text.endswith("matmul 4096³, Triton") for text in texts) == 1


def test_a_phone_gets_names_where_points_are_few():
    texts = [text for text, _ in text_boxes(drawn("one")["narrow"])]
    assert not any(text.startswith("1  ") for text in texts)
    assert any("one element" in text for text in texts)


def test_roofs_and_ridges_are_named():
    svg = drawn("one")["wide"]
    for text in (
        "HBM3e 4.00 TB/s",
        "L2 cache 9.00 TB/s",
        "FP32 60.0 TFLOP/s",
        "BF16 700 TFLOP/s",
        "ridge 15",
        "ridge 175",
    ):
        assert f">{text}</text>" in svg


def test_fp16_s_roof_is_drawn_only_for_a_point_that_needs_it():
    assert "FP16" not in drawn("one")["wide"]
    assert "FP16 690 TFLOP/s" in svgs(roofline([point("k", 900, 0.9, "FP16")], ceilings=ROOFS))["wide"]


def test_axes_say_unit_and_scale():
    svg = drawn("one")["wide"]
    assert "arithmetic intensity [FLOP/B], log scale" in svg
    assert "rate [FLOP/s], log scale" in svg


def test_words_state_every_roof_and_every_point():
    words = roofline(TWELVE, ceilings=ROOFS).alt
    assert "The slanted roof is HBM3e, 4.00 TB/s (the best)." in words
    assert "The flat roof of FP32 is at 60.0 TFLOP/s, its ridge at 15.0 FLOP/B." in words
    assert (
        "vector add: 0.0833 FLOP/B, 317 GFLOP/s, 95 % of the attainable 333 GFLOP/s, bound by HBM3e." in words
    )
    assert "0.40 % of the attainable 333 GFLOP/s, bound by neither roof." in words
    assert all(f"{p.label}: " in words for p in TWELVE)


def test_the_table_has_a_row_for_each_point():
    assert [row[0] for row in roofline(TWELVE, ceilings=ROOFS).data.rows] == [p.label for p in TWELVE]


def test_the_legend_explains_only_the_marks_that_are_there():
    assert roofline([BASELINE], ceilings=ROOFS).notes[0] == "◇ bound by neither roof. Ridges in FLOP/B."


# --- ceilings: the kernels -------------------------------------------------------------------------------------------------------


@pytest.fixture
def x(device) -> torch.Tensor:
    return torch.randn(1000, device=device)


def test_copy_and_triad_cover_a_ragged_end(x):
    y, out = torch.randn_like(x), torch.full_like(x, math.nan)
    kernels_of_ceilings.copy_kernel[(8,)](x, out, 1000, BLOCK_SIZE=128)
    assert torch.equal(out, x)
    kernels_of_ceilings.triad_kernel[(8,)](x, y, out, 0.5, 1000, BLOCK_SIZE=128)
    assert torch.allclose(out, x + 0.5 * y)


def test_write_fills_and_read_sums_all_elements(x):
    out = torch.full_like(x, math.nan)
    kernels_of_ceilings.write_kernel[(8,)](out, 0.25, 1000, BLOCK_SIZE=128)
    assert (out == 0.25).all()
    sums = torch.empty(8, device=x.device)
    kernels_of_ceilings.read_kernel[(8,)](x, sums, 1000, BLOCK_SIZE=128)
    assert torch.allclose(sums.sum(), x.sum(), atol=1e-3)


def test_reread_goes_round_the_buffer(x):
    out = torch.empty(3, device=x.device)
    kernels_of_ceilings.reread_kernel[(3,)](x, out, 4, 6, BLOCK_SIZE=128)
    blocks = x[:512].view(4, 128).sum(dim=1)
    wanted = torch.stack([sum(blocks[(pid + step) % 4] for step in range(6)) for pid in range(3)])
    assert torch.allclose(out, wanted, atol=1e-3)


def test_fma_does_every_step(x):
    x, out = x[:256], torch.empty(256, device=x.device)
    kernels_of_ceilings.fma_kernel[(2,)](x, out, -0.9999, 0.3, 3, UNROLL=4, BLOCK_SIZE=128)
    wanted = x.double()
    for _ in range(12):
        wanted = wanted * -0.9999 + 0.3
    assert torch.allclose(out.double(), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["copy", "triad", "read", "write"])
def test_a_stream_can_be_made_and_called(kind):
    make_memory(kind, 4096)()


def test_arithmetic_can_be_made_and_called():
    make_fma(1024, 32)()
    assert make_matmul("BF16", 16)().dtype == torch.bfloat16


def test_tf32_is_asked_for_only_inside_the_call():
    before = torch.get_float32_matmul_precision()
    make_matmul("TF32", 16)()
    assert torch.get_float32_matmul_precision() == before


# --- ceilings: what comes out ------------------------------------------------------------------------------------------------------

RUN = {
    "gpu": "NVIDIA H200", "sms": 132, "memory_bytes": 1, "l2_bytes": 1, "compute_capability": "9.0", "driver": "1",
    "cuda": "13", "torch": "2", "triton": "3", "python": "3.12", "system": "Linux", "power_limit_w": None,
    "max_sm_clock_hz": None, "max_memory_clock_hz": None, "date": "2026-01-02", "commit": "abc",
}  # fmt: skip


def entry(kind: str, values: dict) -> dict:
    return {"kind": kind, "fingerprint": "0" * 16, "method": "m", "run": "r", "values": values}


def sweep(rows: list[tuple[dict, float]]) -> dict:
    full = [
        {
            "params": p, "seconds": s, "low": s, "high": s, "calls": 1, "cold": True, "sm_clock_hz": None, "power_w": None
        }
        for p, s in rows
    ]  # fmt: skip
    return entry("sweep", {"rows": full, "dropped": [], "throttle": []})


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write a record of made-up ceilings, and of points, which this process then replays."""
    monkeypatch.setenv("KERNELS_RECORDS", str(tmp_path))
    monkeypatch.setenv("KERNELS_REPLAY", "1")
    monkeypatch.setenv("KERNELS_STRICT", "0")

    def write(capability: str = "9.0", points: dict[int, list[dict]] | None = None) -> None:
        dtypes = ["FP32", "TF32", "FP16", "BF16"] if capability >= "8.0" else ["FP32", "FP16"]
        speeds = {"copy": 4.2e12, "triad": 4.3e12, "read": 4.1e12, "write": 4.6e12}
        moved = {"copy": 8, "triad": 12, "read": 4, "write": 4}
        # The smaller size comes from a cache, faster than memory can be.
        memory = [
            ({"kind": k, "n": n}, moved[k] * n / (speeds[k] * faster))
            for k in speeds
            for n, faster in ((2**26, 3), (2**28, 1))
        ]
        rates = {"FP32": 50e12, "TF32": 400e12, "FP16": 690e12, "BF16": 700e12}
        matmul = [
            ({"dtype": d, "n": n}, 2 * n**3 / (rates[d] * (n / 8192))) for d in dtypes for n in (4096, 8192)
        ]
        entries = {
            "ceilings/memory/Triton": sweep(memory),
            "ceilings/l2/Triton": sweep(
                [({"buffer_bytes": b}, 2**31 / (9e12 - b)) for b in (2**21, 2**23, 2**25)]
            ),
            "ceilings/fma/Triton": sweep([({"n": 2**22, "steps": 4096}, 2 * 2**34 / 60e12)]),
            "ceilings/matmul/cuBLAS": sweep(matmul),
        }
        for chapter, plain in (points or {}).items():
            entries[f"roofline/{chapter}"] = entry("observation", {"points": plain})
        whole = {
            "schema": 1,
            "gpu": "NVIDIA H200",
            "runs": {"r": {**RUN, "compute_capability": capability}},
            "entries": entries,
        }
        (tmp_path / "nvidia-h200.json").write_text(json.dumps(whole))

    return write


def test_ceilings_name_the_best_of_each_and_set_it_beside_the_datasheet(recorded):
    recorded()
    found = ceilings()
    assert list(found) == ["memory", "L2", "FP32", "TF32", "FP16", "BF16"]
    assert found["memory"].how == "write, 2^28 float32"
    assert found["FP32"].how == "multiply-adds in registers"
    assert found["BF16"].how == "cuBLAS, 8,192 × 8,192"
    assert found["L2"].how == "read 2 MiB again and again"
    assert found.bandwidth == pytest.approx(4.6e12)
    assert found.peak("FP32") == pytest.approx(60e12)
    assert found["BF16"].promised == 989.4e12


def test_a_size_that_a_cache_may_hold_is_no_ceiling(recorded):
    recorded()
    assert [attempt.how for attempt in ceilings()["memory"].attempts] == [
        f"{kind}, 2^28 float32" for kind in ("write", "triad", "copy", "read")
    ]


def test_a_gpu_before_ampere_has_no_bf16_nor_tf32(recorded):
    recorded(capability="7.5")
    assert list(ceilings()) == ["memory", "L2", "FP32", "FP16"]
    assert "FP16" in svgs(roofline([BASELINE]))["wide"]


def test_ceilings_whose_code_has_changed_say_so(recorded):
    recorded()
    assert "STALE" in str(ceilings())


def test_ceilings_show_every_attempt_with_its_share(recorded):
    recorded()
    text = str(ceilings())
    assert re.search(r"HBM3e +write, 2\^28 float32 +4.60 TB/s +✓ +4.80 TB/s +96 %", text)
    assert re.search(r"copy, 2\^28 float32 +4.20 TB/s +88 %", text)
    assert "H200 Tensor Core GPU datasheet" in text


def test_a_ceiling_above_its_datasheet_is_explained():
    fast = replace(ROOFS, measured={"FP32": Ceiling("FP32", "FLOP/s", (Attempt("a", 70e12),), 67e12)})
    assert "faster than the clock" in str(fast)


def test_a_ceiling_that_nothing_measured_says_why():
    with pytest.raises(ValueError, match="none of its sizes fitted"):
        Ceiling("L2 cache", "B/s", ())


# --- datasheets --------------------------------------------------------------------------------------------------------------------


def test_datasheets_are_dense():
    sheet = datasheet("NVIDIA H200")
    assert sheet is not None
    assert (sheet.bandwidth, sheet.peak("TF32"), sheet.peak("BF16")) == (4.8e12, 494.7e12, 989.4e12)


def test_an_unknown_gpu_has_no_datasheet():
    assert datasheet("NVIDIA H200 NVL") is None


@pytest.mark.parametrize("gpu", _KNOWN)
def test_datasheets_are_in_base_units_and_name_their_source(gpu):
    sheet = _KNOWN[gpu]
    assert 1e11 < sheet.bandwidth < 1e13
    assert 5e12 < sheet.fp32 < 2e14
    assert sheet.bf16 in (None, sheet.fp16)
    assert (sheet.bf16 is None) == (sheet.tf32 is None)
    assert sheet.source.startswith("NVIDIA ")


# --- the thread through the chapters -------------------------------------------------------------------------------------------------

KEPT = {"label": "baseline", "flops": 1e6, "bytes": 12e6, "seconds": 1e-3, "roof": "FP32"}


def test_earlier_chapters_points_come_faint_from_the_record(recorded):
    recorded(points={1: [KEPT], 2: [{**KEPT, "label": "own"}], 3: [{**KEPT, "label": "later"}]})
    assert earlier(2) == (Point(**KEPT, faint=True),)


def test_a_chapter_shows_what_came_before_it(recorded):
    recorded(points={1: [KEPT], 2: [{**KEPT, "label": "own"}]})
    shown = roofline([point("own", 1.0, 0.9)], chapter=2)
    assert "baseline, from an earlier chapter: 0.0833 FLOP/B" in shown.alt
    assert "Faint: earlier chapters." in shown.notes


def test_a_point_that_is_shown_again_is_not_shown_faint_too(recorded):
    recorded(points={1: [KEPT], 2: [{**KEPT, "seconds": 2e-3}], 3: [KEPT]})
    assert [p.seconds for p in earlier(3)] == [2e-3]
    assert "earlier" not in roofline([Point(**KEPT)], chapter=3).alt


def test_where_earlier_chapters_have_not_run_the_plot_says_so(recorded):
    recorded(points={2: [{**KEPT, "label": "own"}]})
    assert any("once those have run" in note for note in roofline([point("own", 1.0, 0.9)], chapter=2).notes)


def test_a_chapter_whose_points_were_never_recorded_is_told_what_to_do(recorded):
    recorded()
    with pytest.raises(record.RecordError, match=r"'roofline/4'.*nox -s record"):
        roofline([BASELINE], chapter=4)


@pytest.mark.gpu
def test_ceilings_of_this_gpu_are_below_its_datasheet_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELS_RECORDS", str(tmp_path))
    assert lab.live()
    found = ceilings()
    assert found["L2"].value > found.bandwidth
    assert found.peak("FP16") > found.peak("FP32")
    if found.sheet:
        assert 0.6 < found.bandwidth / found.sheet.bandwidth < 1.02
        assert 0.6 < found.peak("FP32") / found.sheet.fp32 < 1.15
