"""Records: written whole or not at all, read strictly, replayed with their source."""

import contextlib
import copy
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernels import lab
from kernels.lab import _mode, record

RUN = {
    "gpu": "NVIDIA H200",
    "sms": 132,
    "memory_bytes": 150_000_000_000,
    "l2_bytes": 62_914_560,
    "compute_capability": "9.0",
    "driver": "580.1",
    "cuda": "13.0",
    "torch": "2.11.0",
    "triton": "3.6.0",
    "python": "3.12.3",
    "system": "Linux x86_64",
    "power_limit_w": 700.0,
    "max_sm_clock_hz": 1.98e9,
    "max_memory_clock_hz": 3.2e9,
    "date": "2026-01-02",
    "commit": "abc",
}
ROW = {
    "params": {"n": 4096},
    "seconds": 2e-6,
    "low": 1.9e-6,
    "high": 2.1e-6,
    "calls": 4096,
    "cold": True,
    "sm_clock_hz": 1.9e9,
    "power_w": 300.0,
}
RECORD = {
    "schema": 1,
    "gpu": "NVIDIA H200",
    "runs": {"r1": RUN},
    "entries": {
        "add/block": {
            "kind": "sweep",
            "fingerprint": "0123456789abcdef",
            "method": "m",
            "run": "r1",
            "values": {"rows": [ROW], "dropped": [], "throttle": []},
        },
        "three": {
            "kind": "observation",
            "fingerprint": "0123456789abcdef",
            "method": "m",
            "run": "r1",
            "values": {"first_s": 0.3},
        },
    },
}


def write(folder: Path, value: Any) -> Path:
    path = folder / "nvidia-h200.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested data, except what an observation or the parameters are free to hold."""
    if path and path[-1] in ("params", "first_s"):
        return []
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [leaf for key, item in inside for leaf in leaves(item, (*path, key))]


def changed(path: tuple[Any, ...], value: Any = None, *, remove: bool = False) -> dict[str, Any]:
    result = copy.deepcopy(RECORD)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return result


def test_good_record_loads(tmp_path):
    assert record.load(write(tmp_path, RECORD)) == RECORD


@pytest.mark.parametrize("path", leaves(RECORD), ids=lambda p: ".".join(map(str, p)))
def test_wrong_type_is_refused_by_name(tmp_path, path):
    with pytest.raises(record.RecordError) as refused:
        record.load(write(tmp_path, changed(path, [{"not": []}])))
    names = [str(key) for key in path if isinstance(key, str)]
    assert names[-1] in str(refused.value)


REMOVABLE = [
    p
    for p in leaves(RECORD)
    if isinstance(p[-1], str) and p not in {("runs", "r1"), ("entries", "add/block"), ("entries", "three")}
]


@pytest.mark.parametrize("path", REMOVABLE, ids=lambda p: ".".join(map(str, p)))
def test_missing_field_is_refused_by_name(tmp_path, path):
    with pytest.raises(record.RecordError, match=path[-1]):
        record.load(write(tmp_path, changed(path, remove=True)))


@pytest.mark.parametrize(
    "path", [(), ("runs", "r1"), ("entries", "three"), ("entries", "add/block", "values")]
)
def test_unknown_field_is_refused_by_name(tmp_path, path):
    with pytest.raises(record.RecordError, match="surprise"):
        record.load(write(tmp_path, changed((*path, "surprise"), 1)))


@pytest.mark.parametrize("value", [0, -1e-6, "fast", None])
def test_impossible_time_is_refused(tmp_path, value):
    with pytest.raises(record.RecordError, match="seconds"):
        record.load(write(tmp_path, changed(("entries", "add/block", "values", "rows", 0, "seconds"), value)))


def test_median_outside_its_percentiles_is_refused(tmp_path):
    with pytest.raises(record.RecordError, match="percentiles"):
        record.load(write(tmp_path, changed(("entries", "add/block", "values", "rows", 0, "seconds"), 1.0)))


def test_not_a_number_is_refused(tmp_path):
    with pytest.raises(record.RecordError, match="NaN"):
        record.load(write(tmp_path, json.dumps(RECORD).replace("2e-06", "NaN")))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_record_is_refused(tmp_path, share):
    text = json.dumps(RECORD)
    with pytest.raises(record.RecordError, match="not valid JSON"):
        record.load(write(tmp_path, text[: int(len(text) * share)]))


def test_future_version_says_to_update(tmp_path):
    with pytest.raises(record.RecordError, match=r"schema 2.*update"):
        record.load(write(tmp_path, changed(("schema",), 2)))


def test_foreign_run_is_refused(tmp_path):
    with pytest.raises(record.RecordError, match="Tesla T4"):
        record.load(write(tmp_path, changed(("runs", "r1", "gpu"), "Tesla T4")))


def test_entry_of_an_unknown_run_is_refused(tmp_path):
    with pytest.raises(record.RecordError, match="'r9'"):
        record.load(write(tmp_path, changed(("entries", "three", "run"), "r9")))


def test_missing_record_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELS_RECORDS", str(tmp_path))
    with pytest.raises(record.RecordError, match="nox -s record"):
        record.replayed()


def test_failed_write_leaves_the_old_record(tmp_path, monkeypatch):
    path = write(tmp_path, RECORD)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        record.save(RECORD, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_invalid_record_is_not_written(tmp_path):
    with pytest.raises(record.RecordError):
        record.save(changed(("gpu",), ""), tmp_path / "nvidia-h200.json")
    assert not list(tmp_path.iterdir())


def test_floats_are_rounded_to_four_digits():
    assert record.rounded({"a": [1.23456789e-6, 7], "b": "x"}) == {"a": [1.235e-6, 7], "b": "x"}


@pytest.fixture
def replaying(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELS_RECORDS", str(tmp_path))
    monkeypatch.setenv("KERNELS_REPLAY", "1")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("KERNELS_STRICT", raising=False)
    write(tmp_path, RECORD)
    return tmp_path


def ask(key: str = "three", fingerprint: str = "0123456789abcdef", method: str = "m"):
    def take():
        raise AssertionError("a replay must not measure")

    return record.recorded(key, kind="observation", method=method, fingerprint=fingerprint, take=take)


def test_replay_returns_the_values_and_their_source(replaying):
    values, source = ask()
    assert values == {"first_s": 0.3}
    assert (source.gpu, source.live, source.stale, source.is_reference) == ("NVIDIA H200", False, False, True)
    assert "replayed" in source.line


@pytest.mark.parametrize("change", [{"fingerprint": "f" * 16}, {"method": "another"}])
def test_changed_code_or_method_is_stale(replaying, change):
    source = ask(**change)[1]
    assert source.stale
    assert "STALE" in source.line


def test_stale_number_fails_a_strict_build(replaying, monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(record.StaleError, match="'three'"):
        ask(fingerprint="f" * 16)


def test_unknown_entry_names_what_there_is(replaying):
    with pytest.raises(record.RecordError, match=r"'four'.*add/block"):
        ask("four")


# --- fingerprints ------------------------------------------------------------------------------------------------------

SCRIPT = '''
import triton
import triton.language as tl
from kernels.lab import record

SCALE = 2
CONFIGS = [triton.Config({"BLOCK": 2}, num_warps=4)]
unused = 1

@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    """Doc."""
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, helper(tl.load(x_ptr + i)))

@triton.jit
def helper(x):
    return x * 2

def launch(x):
    unused = SCALE
    kernel[(1,)](x.unused, unused)

def make(n):
    x = list(range(n))
    return lambda: launch(x)

def other(n):
    return lambda: n

print(record.fingerprint(make, [{"n": 1}]), record.fingerprint(other, [{"n": 1}]))
'''


def fingerprints(tmp_path: Path, text: str) -> list[str]:
    """Run the script in this process, as a module of its own, and return what it printed."""
    script = tmp_path / f"chapter_{len(list(tmp_path.iterdir()))}.py"
    script.write_text(text)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(script))
    return printed.getvalue().split()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Doc."""', '"""Other words."""'),
        ("unused = 1", "unused = 2"),  # a global that a local of the same name hides
        ("def launch(x):", "# A comment.\n\ndef launch(x):"),
        ("helper(tl.load(x_ptr + i))", "helper(\n        tl.load(x_ptr + i)  # why\n    )"),
    ],
)
def test_comment_docstring_and_layout_leave_an_entry_fresh(tmp_path, old, new):
    assert fingerprints(tmp_path, SCRIPT) == fingerprints(tmp_path, SCRIPT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x * 2", "x * 3"),  # a function that the kernel calls
        ("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK) + 1"),  # the kernel
        ("kernel[(1,)]", "kernel[(2,)]"),  # its launcher
        ("SCALE = 2", "SCALE = 4"),  # a constant of the launcher
        ("num_warps=4", "num_warps=8"),  # what the kernel is tuned over
        ("list(range(n))", "list(range(n + 1))"),  # its inputs
        ('record.fingerprint(make, [{"n": 1}])', 'record.fingerprint(make, [{"n": 2}])'),  # the sweep
    ],
)
def test_a_change_makes_its_own_entry_stale_and_no_other(tmp_path, old, new):
    before, after = fingerprints(tmp_path, SCRIPT), fingerprints(tmp_path, SCRIPT.replace(old, new))
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_compiled_and_interpreted_kernels_have_one_fingerprint(tmp_path):
    script = tmp_path / "other.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "TRITON_INTERPRET": "0" if lab.interpreting() else "1"}
    other = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True, env=env)
    assert fingerprints(tmp_path, SCRIPT) == other.stdout.split()


def test_lambda_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="def"):
        record.fingerprint(lambda: 1)


@pytest.mark.gpu
def test_live_measurement_is_saved_and_replays_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELS_RECORDS_OUT", str(tmp_path))
    values, source = record.recorded(
        "x", kind="observation", method="m", fingerprint="0" * 16, take=lambda: {"seconds": 1.23456e-6}
    )
    assert values == {"seconds": 1.235e-6}
    assert source.live
    saved = record.load(tmp_path / f"{record.slug(source.gpu)}.json")
    assert saved["entries"]["x"]["values"] == values


@pytest.mark.parametrize(
    ("has_gpu", "interprets", "replay", "live"),
    [(True, False, "", True), (True, True, "", False), (True, False, "1", False), (False, True, "", False)],
)
def test_measurements_are_live_only_on_a_gpu_that_compiles(monkeypatch, has_gpu, interprets, replay, live):
    monkeypatch.setattr(_mode, "HAS_GPU", has_gpu)
    monkeypatch.setattr(_mode, "INTERPRETS", interprets)
    monkeypatch.setenv("KERNELS_REPLAY", replay)
    assert _mode.live() == live
