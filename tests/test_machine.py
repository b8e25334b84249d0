"""The doctor: every fault is named with its remedy, and only a kernel that ran makes it content."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.lab import record

# The package's attribute of that name is the function, so the module is asked for by its name.
machine = importlib.import_module("kernels.lab.machine")


def doctor(**env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernels", "doctor"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )


def test_doctor_proves_that_a_kernel_runs():
    done = doctor()
    assert done.returncode == 0, done.stderr
    assert "✓ A kernel" in done.stdout


def test_doctor_fails_when_no_kernel_can_be_compiled(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = doctor(TRITON_CACHE_DIR=str(blocked / "cache"), TRITON_HOME=str(blocked))
    assert done.returncode == 1
    assert "could not be compiled" in done.stderr
    assert "TRITON_CACHE_DIR" in done.stdout


def test_machine_never_raises_and_has_the_facts(monkeypatch):
    facts = machine.machine()
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert "Triton" in str(facts)
    assert "<table>" in facts._repr_html_()


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(machine._mode, "HAS_GPU", False)
    monkeypatch.setattr(machine.torch.version, "hip", None)
    return monkeypatch


def test_cpu_build_beside_a_gpu_is_named(without_gpu):
    without_gpu.setattr(machine, "_nvidia_smi", lambda: "NVIDIA T4")
    without_gpu.setattr(machine.torch.version, "cuda", None)
    problem = machine._no_gpu()
    assert "CPU build" in problem.what


def test_old_driver_is_named(without_gpu):
    without_gpu.setattr(machine, "_nvidia_smi", lambda: "NVIDIA T4")
    without_gpu.setattr(machine.torch.version, "cuda", "13.0")
    assert "driver" in machine._no_gpu().remedy


def test_no_gpu_at_all_is_no_fault(without_gpu):
    without_gpu.setattr(machine, "_nvidia_smi", lambda: "")
    assert "Nothing to mend" in machine._no_gpu().remedy


def test_missing_compiler_names_the_package(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    assert "apt install gcc" in machine._no_compiler().remedy


def test_triton_of_another_torch_names_the_version(monkeypatch):
    monkeypatch.setattr(
        machine.importlib.metadata, "requires", lambda _: ["triton==9.9.9; platform_system == 'Linux'"]
    )
    monkeypatch.setattr(machine, "_version", lambda _: "3.6.0")
    assert "triton==9.9.9" in machine._triton_of_another_torch().remedy


@pytest.mark.parametrize(
    ("system", "word"), [("Windows", "triton-windows"), ("Darwin", "macOS"), ("Linux", "pip install triton")]
)
def test_missing_triton_has_a_remedy_for_each_system(monkeypatch, system, word):
    monkeypatch.setattr(machine, "_version", lambda _: None)
    monkeypatch.setattr(machine.platform, "system", lambda: system)
    assert word in machine._no_triton().remedy


def test_unwritable_cache_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert "TRITON_CACHE_DIR" in machine._cache_not_writable().remedy


def test_import_of_triton_before_the_lab_says_what_to_do(tmp_path):
    script = tmp_path / "late.py"
    script.write_text("import triton\nfrom kernels import lab\n")
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, env=env)
    assert "Put `from kernels import lab` above every import of Triton" in done.stderr


def test_missing_record_is_named_and_nothing_raised(tmp_path):
    done = doctor(KERNELS_RECORDS=str(tmp_path), KERNELS_REPLAY="1")
    assert done.returncode == 0, done.stderr
    assert "The record cannot be replayed" in done.stdout
    assert "nox -s record" in done.stdout


def test_slug_names_a_file():
    assert record.slug("NVIDIA GeForce RTX 4090") == "nvidia-geforce-rtx-4090"


def test_packaged_records_load():
    found = list(Path(record.packaged()).glob("*.json"))
    assert found, "the package carries no record"
    for path in found:
        assert record.load(path)["gpu"]
