"""Hardware counters: Nsight Compute's raw page read by name, recorded and replayed, and what happens where they cannot be read.

The pages in `data` are Nsight Compute 2025.3.1's, from an H200; a small program stands in for it where it has to run.
"""

import csv
import importlib
import io
import json
import math
import re
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernels import lab  # noqa: F401  the lab comes before Triton
from kernels.lab import _counters_child, _mode, _ncu, record
from kernels.lab._launched import Launched, read, short_name
from kernels.lab._quantities import METRICS, QUANTITIES, STALLS, quantities, stalls

instrument = importlib.import_module("kernels.lab.counters")  # `lab.counters` is the function
counters, side_by_side, summary = instrument.counters, instrument.side_by_side, instrument.summary
DATA = Path(__file__).parent / "data"
RUN = {
    "gpu": "NVIDIA H200", "sms": 132, "memory_bytes": 150_000_000_000, "l2_bytes": 62_914_560, "compute_capability": "9.0",
    "driver": "580.1", "cuda": "13.0", "torch": "2.11.0", "triton": "3.6.0", "python": "3.12.3", "system": "Linux x86_64",
    "power_limit_w": 700.0, "max_sm_clock_hz": 1.98e9, "max_memory_clock_hz": 3.2e9, "date": "2026-01-02", "commit": "abc",
}  # fmt: skip


def page(name):
    return (DATA / f"ncu_{name}.csv").read_text()


def table(said):
    """The messages and the rows of a page."""
    lines = said.splitlines(keepends=True)
    rows = list(csv.reader(line for line in lines if line.startswith('"')))
    return "".join(line for line in lines if not line.startswith('"')), rows


def written(messages, rows):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return messages + out.getvalue()


# --- reading the page --------------------------------------------------------------------------------------------------


def test_metrics_are_read_in_base_units():
    (launch,) = _ncu.parse(page("add_one"), METRICS)
    assert launch.kernel == "add_one"
    assert launch.values["dram__bytes_read.sum"] == 8_391_168
    assert launch.values["gpu__time_duration.sum"] == pytest.approx(632.8e-6)
    assert launch.values["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == pytest.approx(0.0028)
    assert launch.values["launch__registers_per_thread"] == 16


def test_thousands_separators_are_understood():
    first, second = _ncu.parse(page("thousands_separators"), METRICS)
    assert first.values["dram__bytes_read.sum"] == 8_392_192
    assert second.kernel.startswith("nvjet_sm90")
    assert second.values["launch__shared_mem_per_block_dynamic"] == 213_188


def test_columns_are_found_by_name():
    messages, rows = table(page("add_one"))
    turned = [[row[0], *reversed(row[1:])] for row in rows]
    assert _ncu.parse(written(messages, turned), METRICS) == _ncu.parse(page("add_one"), METRICS)


def test_scaled_units_give_the_same_values():
    messages, rows = table(page("add_one"))
    scaled = {"byte": ("Mbyte", 1e6), "ns": ("us", 1e3), "sector": ("Ksector", 1e3)}
    for column, unit in enumerate(rows[1]):
        if unit in scaled and rows[2][column]:
            rows[1][column], factor = scaled[unit]
            rows[2][column] = repr(float(rows[2][column]) / factor)
    (launch,), (base,) = _ncu.parse(written(messages, rows), METRICS), _ncu.parse(page("add_one"), METRICS)
    assert launch.values == pytest.approx(base.values)


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("byte", 1), ("Kbyte", 1e3), ("Gbyte", 1e9), ("byte/block", 1), ("Kbyte/block", 1e3), ("Tbyte/second", 1e12), ("nsecond", 1e-9),
     ("ns", 1e-9), ("usecond", 1e-6), ("ms", 1e-3), ("s", 1), ("second", 1), ("Ghz", 1e9), ("%", 0.01), ("", 1), ("inst", 1),
     ("register/thread", 1), ("Minst", 1e6), ("SM", 1), ("block", 1), ("warp", 1), ("cycle", 1), ("thread", 1)],
)  # fmt: skip
def test_units(unit, factor):
    assert _ncu.scale(unit) == factor


@pytest.mark.parametrize("cell", ["n/a", "", "nan", "CachePreferNone"])
def test_a_metric_without_a_number_is_left_out(cell):
    messages, rows = table(page("add_one"))
    rows[2][rows[0].index("dram__bytes_read.sum")] = cell
    (launch,) = _ncu.parse(written(messages, rows), METRICS)
    assert "dram__bytes_read.sum" not in launch.values
    assert "dram__bytes_write.sum" in launch.values


def test_other_output_around_the_table_is_ignored():
    said = 'warm "up"\n"not a row", 1\n' + page("add_one") + '==PROF== Disconnected\nbye, "friend"\n'
    assert _ncu.parse(said, METRICS) == _ncu.parse(page("add_one"), METRICS)


def test_a_page_without_a_table_has_no_launches():
    assert _ncu.parse("==WARNING== No kernels were profiled.\n", METRICS) == []


def test_a_damaged_table_is_refused():
    messages, rows = table(page("add_one"))
    with pytest.raises(_ncu.ProfileError, match="not the one expected"):
        _ncu.parse(written(messages, [rows[0], rows[2]]), METRICS)


# --- what the metrics mean -----------------------------------------------------------------------------------------------


def values(name):
    return [launch.values for launch in _ncu.parse(page(name), METRICS)]


def test_one_element_a_program_reads_one_sector_a_load():
    found = quantities(values("add_one"))
    assert found["sectors_per_load"] == found["sectors_per_store"] == 1
    assert found["programs"] == 2**20
    assert found["dram_read"] == pytest.approx(2 * 4 * 2**20, rel=0.001)
    assert found["l1_hit_rate"] == pytest.approx(0.75, abs=0.01)  # four warps ask for the same element
    assert found["active_lanes"] == pytest.approx(31.0, abs=0.01)


def test_warps_of_the_scalar_add_wait_for_memory():
    found = stalls(values("add_one"))
    assert next(iter(found)) == "long_scoreboard"
    assert found["long_scoreboard"] > 0.8
    assert sum(found.values()) == pytest.approx(1)


def test_several_kernels_add_up():
    eager = values("eager")
    together = quantities(eager)
    assert together["dram_read"] == sum(one["dram__bytes_read.sum"] for one in eager)
    assert together["seconds"] == pytest.approx(sum(one["gpu__time_duration.sum"] for one in eager))
    for name in ("dram_share", "occupancy", "active_warps"):
        each = [quantities([one])[name] for one in eager]
        assert min(each) < together[name] < max(each)
    assert together["threads"] == 128
    assert "registers" not in together  # not the same in all three: no one number


def test_a_matrix_product_keeps_the_tensor_cores_busy():
    assert quantities(values("matmul"))["tensor_share"] > 0.5
    assert quantities(values("eager"))["tensor_share"] == 0


def test_a_rate_of_nothing_is_unknown_and_not_missing():
    kept = summary(_ncu.parse(page("matmul"), METRICS), "tool")
    assert (
        "sectors_per_load" not in kept["kernels"][0]["quantities"]
    )  # its loads bypass L1: nothing to divide by
    assert kept["missing"] == []


def without(said, pattern):
    """A page as it is where the GPU does not have some metrics: their columns are not there."""
    messages, rows = table(said)
    keep = [column for column, name in enumerate(rows[0]) if not re.search(pattern, name)]
    return written(messages, [[row[column] for column in keep] for row in rows])


def test_metrics_that_a_gpu_does_not_have_are_named():
    launches = _ncu.parse(without(page("eager"), r"srcunit_tex|stalled_gmma"), METRICS)
    assert summary(launches, "tool")["missing"] == ["l2_read", "l2_hit_rate"]


def test_another_architecture_s_name_of_a_metric_counts():
    launch = dict(values("add_one")[0])
    launch["dram__bytes_op_read.sum"] = launch.pop("dram__bytes_read.sum")
    assert quantities([launch]) == quantities(values("add_one"))


def test_a_metric_missing_in_one_launch_makes_the_sum_unknown():
    first, second = values("add_one") * 2
    second = {name: value for name, value in second.items() if not name.startswith("dram__bytes_read")}
    found = quantities([first, second])
    assert "dram_read" not in found
    assert "dram_written" in found


def test_every_quantity_and_stall_says_what_it_means():
    for quantity in QUANTITIES:
        assert quantity.label
        assert 2 < len(quantity.meaning) < 80
        assert quantity.unit in {"B", "s", "share", "count", "ratio"}
    assert len({quantity.name for quantity in QUANTITIES}) == len(QUANTITIES)
    assert all(words and meaning for words, meaning in STALLS.values())


# --- running ncu -----------------------------------------------------------------------------------------------------


@pytest.fixture
def fake_ncu(tmp_path, monkeypatch):
    """Install a program as ncu: it gets `log`, `metrics`, `command` and `page(name)`."""
    monkeypatch.setattr(_mode, "HAS_GPU", True)
    monkeypatch.setattr(_ncu, "_refused", [])

    def install(body):
        path = tmp_path / "ncu"
        path.write_text(
            f"#!{sys.executable}\n"
            "import pathlib, subprocess, sys, time\n"
            "given = sys.argv[1:]\n"
            "if given == ['--version']:\n"
            "    print('Version 2025.3.1.0 (build 36398880)'); sys.exit()\n"
            "log = pathlib.Path(given[given.index('--log-file') + 1])\n"
            "metrics = given[given.index('--metrics') + 1].split(',')\n"
            "command = given[given.index('--log-file') + 2:]\n"
            f"page = lambda name: pathlib.Path({str(DATA)!r}, f'ncu_{{name}}.csv').read_text()\n"
            f"{body}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(_ncu, "find", lambda: path)

    return install


def profile(folder, command=("true",), error=None):
    return _ncu.profile(command, METRICS, folder, env={"PATH": "/usr/bin:/bin"}, failure=lambda: error)


def test_profile_returns_the_launches(fake_ncu, tmp_path):
    fake_ncu("log.write_text(page('add_one'))")
    assert profile(tmp_path) == _ncu.parse(page("add_one"), METRICS)


def test_only_the_marked_part_is_profiled_and_the_clocks_are_left_alone(fake_ncu, tmp_path):
    fake_ncu(
        "for name, value in {'--profile-from-start': 'off', '--clock-control': 'none', '--page': 'raw'}.items():\n"
        "    assert given[given.index(name) + 1] == value\n"
        "log.write_text(page('add_one'))"
    )
    assert profile(tmp_path)


@pytest.mark.parametrize(
    ("message", "what", "remedy"),
    [
        ("ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.",
         "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("Failed to initialize the profiler: LibraryNotLoaded", "cannot reach the driver's counters", "--cap-add=SYS_ADMIN"),
        ("Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) is collecting.",
         "Another program", "dcgmi profile --pause"),
        ("Cuda driver is not compatible with Nsight Compute", "does not support", "newer driver"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("code", [0, 1])
def test_known_refusals_are_named_with_their_remedy(fake_ncu, tmp_path, message, what, remedy, code):
    fake_ncu(
        f"print('==ERROR== ' + {message!r}); print('==WARNING== No kernels were profiled.'); sys.exit({code})"
    )
    with pytest.raises(_ncu.UnavailableError) as caught:
        profile(tmp_path)
    assert what in caught.value.problem.what
    assert remedy in caught.value.problem.remedy
    assert _ncu.missing() == caught.value.problem  # the next call does not try again


def test_what_the_program_prints_is_not_taken_for_a_refusal(fake_ncu, tmp_path):
    fake_ncu(
        "print('ERR_NVGPUCTRPERM is a word'); log.write_text('==WARNING== No kernels were profiled.\\n')"
    )
    with pytest.raises(_ncu.ProfileError, match="launched no kernel"):
        profile(tmp_path)


def test_unknown_failure_is_quoted(fake_ncu, tmp_path):
    fake_ncu("print('==ERROR== The moon is in the wrong phase'); sys.exit(9)")
    with pytest.raises(_ncu.ProfileError, match=r"(?s)ended with code 9.*moon"):
        profile(tmp_path)


def test_error_of_the_profiled_code_is_shown(fake_ncu, tmp_path):
    fake_ncu("log.write_text(page('add_one')); sys.exit(1)")
    with pytest.raises(_ncu.ProfileError, match="ZeroDivisionError"):
        profile(tmp_path, error="ZeroDivisionError: here")


def test_a_version_that_refuses_unknown_metrics_is_asked_again_without_them(fake_ncu, tmp_path):
    fake_ncu(
        "unknown = [name for name in metrics if 'gmma' in name]\n"
        "if unknown:\n"
        "    print(f'==ERROR== Failed to find metric {unknown[0]}'); sys.exit(1)\n"
        "log.write_text(page('add_one'))"
    )
    assert profile(tmp_path)


def test_a_program_that_does_not_end_is_stopped_with_its_children(fake_ncu, tmp_path, monkeypatch):
    mark = tmp_path / "alive"
    fake_ncu(f"subprocess.run(['sh', '-c', 'sleep 3; touch {mark}'])")
    monkeypatch.setattr(_ncu, "SECONDS", 0.5)
    with pytest.raises(_ncu.ProfileError, match="took longer"):
        profile(tmp_path)
    time.sleep(3)
    assert not mark.exists()


def test_ncu_is_found_beside_the_path(monkeypatch):
    monkeypatch.setattr(_ncu.shutil, "which", lambda name: None)
    there = [
        Path("/opt/nvidia/nsight-compute/2024.3.2/ncu"),
        Path("/opt/nvidia/nsight-compute/2025.10.0/ncu"),
    ]
    monkeypatch.setattr(_ncu.Path, "glob", lambda self, pattern: iter(there if "opt" in pattern else []))
    assert _ncu.find.__wrapped__() == there[1]


def test_without_ncu_the_problem_says_where_it_was_looked_for(monkeypatch):
    monkeypatch.setattr(_mode, "HAS_GPU", True)
    monkeypatch.setattr(_ncu, "_refused", [])
    monkeypatch.setattr(_ncu, "find", lambda: None)
    assert "/opt/nvidia/nsight-compute" in _ncu.missing().why


def test_another_vendor_is_named(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.3")
    assert "AMD" in _ncu.missing().what


# --- the child -------------------------------------------------------------------------------------------------------


def test_the_profiler_looks_at_the_second_call_only(tmp_path, monkeypatch):
    (tmp_path / "job.py").write_text(
        "events = []\n"
        "def make(n):\n"
        "    events.append('make')\n"
        "    return lambda: events.append(f'call {n}')\n"
        "__arguments__ = {'n': 3}\n"
    )
    loaded = _counters_child.load(tmp_path / "job.py", "make")
    events = loaded[0].__globals__["events"]
    monkeypatch.setattr(_counters_child, "load", lambda path, name: loaded)

    marks = {f"cudaProfiler{name}": lambda name=name: events.append(name) for name in ("Start", "Stop")}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("wait"))
    monkeypatch.setattr(torch.cuda, "cudart", lambda: SimpleNamespace(**marks))
    _counters_child.main(tmp_path, "make")
    assert events == ["make", "call 3", "wait", "Start", "call 3", "wait", "Stop"]


def broken(n):
    raise RuntimeError(f"broken on purpose, {n}")


def test_an_error_in_make_comes_back_from_the_child(live, fake_ncu):
    fake_ncu("sys.exit(subprocess.run(command).returncode)")
    with pytest.raises(instrument.CountersError, match="broken on purpose, 4"):
        counters("broken", broken, n=4)


# --- recorded, replayed, unavailable -----------------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path, monkeypatch):
    """A process that takes itself for one with an H200; its record goes to `tmp_path / "records"`."""
    monkeypatch.setenv("KERNELS_RECORDS_OUT", str(tmp_path / "records"))
    monkeypatch.setattr(_mode, "INTERPRETS", False)
    for name in ("KERNELS_REPLAY", "CI", "KERNELS_STRICT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_mode, "HAS_GPU", True)
    monkeypatch.setattr(record, "_this_run", lambda: ("r1", RUN))
    return tmp_path / "records"


def make(n):
    raise AssertionError("never called in this process")


def needed(n):
    return 3 * 4 * n


def replaying(monkeypatch, folder):
    monkeypatch.setenv("KERNELS_REPLAY", "1")
    monkeypatch.setenv("KERNELS_RECORDS", str(folder))


def test_counters_are_recorded_and_replay_the_same(live, fake_ncu, monkeypatch):
    fake_ncu("log.write_text(page('add_one'))")
    taken = counters("add/one", make, bytes=needed, n=2**20)
    assert taken.source.live
    assert taken.tool == "Nsight Compute 2025.3.1.0"
    replaying(monkeypatch, live)
    again = counters("add/one", make, bytes=needed, n=2**20)
    assert not again.source.live
    assert dict(again) == dict(taken)
    assert (again.stalls, again.kernels, again.needed) == (taken.stalls, taken.kernels, taken.needed)
    assert str(again).replace("replayed from the record", "live") == str(taken)


def test_each_set_of_parameters_has_an_entry_of_its_own(live, fake_ncu, monkeypatch):
    fake_ncu("log.write_text(page('add_one'))")
    counters("add/one", make, n=2**20)
    counters("add/one", make, n=2**21)
    entries = json.loads((live / "nvidia-h200.json").read_text())["entries"]
    assert sorted(entries) == ["add/one[n=1048576]", "add/one[n=2097152]"]
    replaying(monkeypatch, live)
    with pytest.raises(record.RecordError, match="add/one"):
        counters("add/one", make, n=5)


def test_changed_code_makes_the_counters_stale(live, fake_ncu, monkeypatch):
    fake_ncu("log.write_text(page('add_one'))")
    counters("add/one", make, n=2**20)
    replaying(monkeypatch, live)
    assert not counters("add/one", make, n=2**20).source.stale
    assert counters("add/one", make_other, n=2**20).source.stale


def make_other(n):
    return lambda: n


def test_several_kernels_replay_together_and_each(live, fake_ncu, monkeypatch, tmp_path):
    (tmp_path / "page").write_text(without(page("eager"), "srcunit_tex"))
    fake_ncu(f"log.write_text(pathlib.Path({str(tmp_path / 'page')!r}).read_text())")
    counters("eager", make, n=1)
    replaying(monkeypatch, live)
    found = counters("eager", make, n=1)
    assert [kernel.name for kernel in found.kernels] == ["vectorized_elementwise_kernel"] * 3
    assert found["dram_read"] == pytest.approx(
        sum(kernel.values["dram_read"] for kernel in found.kernels), rel=1e-3
    )
    assert "3 kernels together" in str(found)
    assert "Not counted on this GPU: read from L2, L2 hit rate, reads." in str(found)


@pytest.fixture
def here(monkeypatch):
    """What was launched on a machine without permission, in place of the call that would find out."""
    seen = read(json.loads((DATA / "launched_h200.json").read_text()), "9.0")[:1]
    monkeypatch.setattr(instrument, "launched", lambda call: seen)
    return seen


def make_nothing(n):
    return lambda: None


REFUSE = "print('==ERROR== ERR_NVGPUCTRPERM - no permission'); sys.exit(1)"


def test_without_permission_the_evidence_and_the_reference_take_their_place(
    live, fake_ncu, here, monkeypatch
):
    fake_ncu("log.write_text(page('add_one'))")
    counters("add/one", make_nothing, bytes=needed, n=2**20)
    monkeypatch.setattr(record, "packaged", lambda: live)
    fake_ncu(REFUSE)
    found = counters("add/one", make_nothing, bytes=needed, n=2**20)
    assert "ERR_NVGPUCTRPERM" in found.problem.what
    assert found.here == here
    assert found["sectors_per_load"] == 1
    assert not found.source.live
    shown = str(found)
    assert (
        shown.index("ERR_NVGPUCTRPERM") < shown.index("on this machine") < shown.index("device memory, read")
    )
    assert "replayed from the record" in shown
    assert "The algorithm must move 12.6 MB." in shown


def test_without_permission_and_reference_every_counter_says_why(live, fake_ncu, here, monkeypatch, tmp_path):
    monkeypatch.setattr(record, "packaged", lambda: tmp_path / "nowhere")
    fake_ncu(REFUSE)
    found = counters("add/one", make_nothing, n=2**20)
    assert len(found) == 0
    with pytest.raises(KeyError, match="ERR_NVGPUCTRPERM"):
        found["dram_read"]
    assert "add_one" in str(found)
    assert "add_one" in found._repr_html_()
    assert not (live / "nvidia-h200.json").exists()  # nothing was measured, so nothing is recorded


def test_data_that_a_child_cannot_have_is_named(live, fake_ncu):
    fake_ncu("log.write_text(page('add_one'))")
    data = torch.zeros(3)

    def make_with_data(n):
        return lambda: data + n

    with pytest.raises(instrument.CountersError, match="'data', a Tensor"):
        counters("bad", make_with_data, n=1)


# --- showing -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(live, fake_ncu):
    fake_ncu("log.write_text(page('add_one'))")
    return counters("add/one", make, bytes=needed, n=2**20)


def test_the_table_has_values_units_and_meanings(shown):
    text = str(shown)
    assert re.search(r"device memory, read +8\.39 MB  what the L2 cache fetched", text)
    assert re.search(r"sectors per load +1\.00  pieces of 32 B", text)
    assert re.search(r"bytes needed +12\.6 MB", text)
    assert re.search(r"moved, of the needed +0\.667 ×", text)
    assert re.search(r"warps: waiting for global memory +87 %", text)
    assert "NVIDIA H200, 2026-01-02, live." in text


def test_only_some_rows_are_shown_on_request(shown):
    text = str(shown.only("sectors_per_load", "stalls"))
    assert "sectors per load" in text
    assert "waiting for global memory" in text
    assert "device memory" not in text.replace("device memory (", "")
    assert dict(shown.only("stalls")) == dict(shown)
    with pytest.raises(KeyError, match="no quantity is called 'sectors'"):
        shown.only("sectors")


def test_html_names_rows_and_escapes(shown):
    html = shown._repr_html_()
    assert re.search(r'<th scope="row"[^>]*>sectors per load</th>', html)
    assert "NVIDIA H200, 2026-01-02, live." in html
    assert "the SM&#x27;s L1 cache" in html


def test_callables_side_by_side(shown):
    found = side_by_side({"one": shown, "again": shown}, "dram_read", "sectors_per_load", "registers")
    assert found.columns == ("counter", "one", "again")
    assert found.rows == [
        ("device memory, read", "8.39 MB", "8.39 MB"),
        ("sectors per load", "1.00", "1.00"),
        ("registers per thread", "16", "16"),
    ]


def test_unknown_name_lists_the_known(shown):
    with pytest.raises(KeyError, match=r"no 'sectors'.*dram_read"):
        shown["sectors"]


# --- evidence that needs no permission -----------------------------------------------------------------------------------


def test_launches_are_read_from_the_activity_trace():
    found = read(json.loads((DATA / "launched_h200.json").read_text()), "9.0")
    assert [one.kernel for one in found][:2] == ["add_one", "add_block"]  # in the order in which they ran
    matmul = next(one for one in found if one.kernel.startswith("nvjet"))
    assert (matmul.programs, matmul.threads, matmul.registers, matmul.shared_bytes) == (128, 384, 168, 213188)
    assert (matmul.occupancy.warps, matmul.occupancy.limited_by) == (12, ("registers", "shared memory"))
    assert math.isclose(matmul.occupancy.share, 0.1875)


def test_an_unknown_gpu_has_no_calculated_occupancy():
    found = read(json.loads((DATA / "launched_h200.json").read_text()), "99.0")
    assert {one.occupancy for one in found} == {None}
    assert isinstance(found[0], Launched)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("add_one", "add_one"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::F<float> >(int, at::F<float>)",
            "vectorized_elementwise_kernel",
        ),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"),
    ],
)
def test_names_are_shortened(name, short):
    assert short_name(name) == short


# --- on a GPU ----------------------------------------------------------------------------------------------------------


def make_double(n):
    x = torch.randn(n, device="cuda")
    return lambda: x * 2


@pytest.mark.gpu
def test_counted_bytes_are_those_that_had_to_move(tmp_path, monkeypatch):
    if _ncu.missing():
        pytest.skip(_ncu.missing().what)
    monkeypatch.setenv("KERNELS_RECORDS_OUT", str(tmp_path))
    found = counters("double", make_double, bytes=lambda n: 8 * n, n=2**26)
    assert found["dram_read"] == pytest.approx(4 * 2**26, rel=0.05)
    assert 0.5 < found.moved / found.needed < 1.05
