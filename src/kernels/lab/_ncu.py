"""Run Nsight Compute on a child process and read its raw page by the names of the metrics."""

import contextlib
import csv
import io
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from kernels.lab import _mode
from kernels.lab.machine import Problem

SECONDS = 300.0
"""How long a profiled process may take before it is stopped [s]."""

_NOT_ON_PATH = (
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/NVIDIA-Nsight-Compute*/ncu",
)


class UnavailableError(RuntimeError):
    """The counters cannot be read on this machine; `problem` says why and how to mend it."""

    def __init__(self, problem: Problem):
        super().__init__(str(problem))
        self.problem = problem


class ProfileError(RuntimeError):
    """Nsight Compute ran, and its output is not what it should be; or the profiled code failed."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch and its metrics, in base units: bytes, seconds, hertz, fractions of one, counts."""

    kernel: str
    values: Mapping[str, float]


# --- where it is, and why it does not work ---------------------------------------------------------------------------


@cache
def find() -> Path | None:
    """Return the newest `ncu`: the one on PATH, else one where CUDA or Nsight Compute is usually installed."""
    if on_path := shutil.which("ncu"):
        return Path(on_path)
    there = [path for pattern in _NOT_ON_PATH for path in Path("/").glob(pattern.lstrip("/"))]
    return max(there, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], default=None)


@cache
def version(ncu: Path) -> str:
    """Return the version that `ncu` gives itself."""
    said = subprocess.run([ncu, "--version"], check=False, capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"Version (\S+)", said)
    return found[1] if found else "unknown"


_refused: list[
    Problem
] = []  # what the first attempt of this process ran into: the next would run into it again


def missing() -> Problem | None:
    """Return what stands in the way of counters before `ncu` is even started, or None."""
    if torch.version.hip:
        return Problem(
            "This is an AMD GPU, and the counters here are those of Nsight Compute",
            "Nsight Compute reads the hardware counters of NVIDIA GPUs only.",
            "AMD's own profiler is rocprof-compute; the counters of the reference GPU are replayed below.",
        )
    if not _mode.HAS_GPU:
        return Problem(
            "No NVIDIA GPU was found",
            "Hardware counters are part of a GPU.",
            "Nothing to mend: they are replayed.",
        )
    if _refused:
        return _refused[0]
    if find() is None:
        return Problem(
            "Nsight Compute (`ncu`) was not found",
            "It is neither on PATH nor in /opt/nvidia/nsight-compute or /usr/local/cuda*/bin.",
            "It comes with the CUDA toolkit, and alone from https://developer.nvidia.com/nsight-compute or, in a conda "
            "environment, with `conda install -c nvidia nsight-compute`.",
        )
    return None


# What ncu says when it cannot read the counters, and what its documentation and forum give as the remedy.
_REASONS: tuple[tuple[str, Problem], ...] = (
    (
        r"ERR_NVGPUCTRPERM",
        Problem(
            "This user may not read the GPU's counters (ERR_NVGPUCTRPERM)",
            "Since 2019 NVIDIA's driver gives counters to administrators only, unless it is told otherwise.",
            "As an administrator: run as root, or put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file in "
            "/etc/modprobe.d and load the driver again (a reboot does). In a container: start it with --cap-add=SYS_ADMIN. In "
            "WSL2: allow it in the NVIDIA Control Panel of Windows, under Developer. On a hosted notebook: nothing to mend. "
            "More: https://developer.nvidia.com/ERR_NVGPUCTRPERM",
        ),
    ),
    (
        r"driver resource was unavailable|ProfilerInUse|already being profiled",
        Problem(
            "Another program is using the GPU's counters",
            "Only one program can collect them at a time; on servers it is often DCGM, which monitors the GPUs.",
            "Stop the other profiler, or pause DCGM with `dcgmi profile --pause` (and --resume afterwards).",
        ),
    ),
    (
        r"LibraryNotLoaded|Failed to initialize the profiler",
        Problem(
            "Nsight Compute cannot reach the driver's counters here",
            "Some sandboxes and virtual machines, gVisor among them, do not pass them on.",
            "Nothing to mend from inside: run on the machine itself, or in a container with --cap-add=SYS_ADMIN.",
        ),
    ),
    (
        r"[Uu]nsupported GPU|not supported on this (GPU|device)|[Cc]uda driver is not compatible|driver.{0,40}too old",
        Problem(
            "This Nsight Compute does not support this GPU or its driver",
            "Each version knows the GPUs and drivers of its time; GPUs before compute capability 7.0 need one from before 2020.",
            "Install the Nsight Compute of this machine's CUDA version, or a newer driver.",
        ),
    ),
    (
        r"[Ii]nterprocess ?[Ll]ock|nsight-compute-lock",
        Problem(
            "Nsight Compute's lock file belongs to another user",
            "It lies in the directory for temporary files, so that two users do not profile at once.",
            "Set TMPDIR to a directory of your own.",
        ),
    ),
)


def _problem(said: str) -> Problem | None:
    messages = "\n".join(line for line in said.splitlines() if line.startswith("=="))
    return next((problem for pattern, problem in _REASONS if re.search(pattern, messages)), None)


# --- running it ----------------------------------------------------------------------------------------------------------


def profile(
    command: Sequence[str],
    metrics: Sequence[str],
    folder: Path,
    *,
    env: Mapping[str, str],
    failure: Callable[[], str | None],
) -> list[Launch]:
    """Run a command under Nsight Compute and return what it launched between cudaProfilerStart and cudaProfilerStop.

    Parameters
    ----------
    command
        The program and its arguments.
    metrics
        Their names, roll-up included. Those that this GPU does not have are left out of the result.
    folder
        A directory for what ncu writes.
    env
        The program's environment.
    failure
        Asked after the run: the error of the profiled program, or None if it did well.

    Raises
    ------
    UnavailableError
        The counters cannot be read on this machine.
    ProfileError
        The program failed, took too long or launched no kernel, or ncu's output cannot be read.
    """
    if (problem := missing()) is not None:
        raise UnavailableError(problem)
    ncu, wanted = find(), list(metrics)
    assert ncu is not None
    while True:
        code, said = _run([str(ncu), *_options(wanted, folder), *command], folder, env)
        unknown = [name for name in wanted if f"metric {name}" in said]
        if code == 0 or not unknown:
            break
        wanted = [
            name for name in wanted if name not in unknown
        ]  # older versions refuse what newer ones leave out
    launches = [launch for launch in parse(said, metrics) if launch.values]
    error = failure()
    if launches and code == 0 and error is None:
        return launches
    if problem := _problem(said):
        _refused.append(problem)
        raise UnavailableError(problem)
    if error is not None:
        raise ProfileError(f"the profiled code failed:\n{error}")
    none = "counted nothing: the callable launched no kernel (a copy such as x.clone() is none: the copy engine does it)"
    why = none if code == 0 else f"ended with code {code}"
    raise ProfileError(f"Nsight Compute {why}. It said:\n{said.strip()[-2000:] or 'nothing'}")


def _options(metrics: Sequence[str], folder: Path) -> list[str]:
    return [
        *("--clock-control", "none", "--profile-from-start", "off", "--target-processes", "all"),
        *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function"),
        *("--metrics", ",".join(metrics), "--log-file", str(folder / "ncu.log")),
    ]


def _run(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    log = folder / "ncu.log"
    log.unlink(missing_ok=True)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**env, "LC_ALL": "C"},  # numbers with a decimal point, whatever the user's language
        text=True,
        errors="replace",
        start_new_session=True,  # so that the profiled program can be stopped together with ncu
    )
    try:
        printed, _ = process.communicate(timeout=SECONDS)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ProfileError(
                f"the profiled code took longer than {SECONDS:.0f} s and was stopped"
            ) from error
        raise
    # Its messages go to the log or to the terminal, depending on the version and on when it fails.
    return process.returncode, (log.read_text(errors="replace") if log.exists() else "") + printed


# --- reading it ----------------------------------------------------------------------------------------------------------

_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS = re.compile(
    r"(?P<prefix>[numKkMGT]?)(?P<unit>bytes?|seconds?|s|hz|Hz|inst|sector|request|cycle|warp)"
)


def scale(unit: str) -> float:
    """Return the factor that turns a value in one of ncu's units into base units.

    >>> scale("Kbyte"), scale("nsecond"), scale("%"), scale("Mbyte/s"), scale("register/thread")
    (1000.0, 1e-09, 0.01, 1000000.0, 1.0)
    """
    if unit == "%":
        return 0.01
    found = _UNITS.fullmatch(unit.split("/")[0])
    return _PREFIXES[found["prefix"]] if found else 1.0


def parse(said: str, metrics: Sequence[str]) -> list[Launch]:
    """Read the raw page: a row of names, a row of units, then a row for each launch.

    Parameters
    ----------
    said
        What ncu wrote, its own messages and the program's output among it.
    metrics
        The names to look for. A metric without a number is left out.

    Raises
    ------
    ProfileError
        The table has no row of units, or no column with the kernels' names.
    """
    lines = said.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.reader(io.StringIO("".join(line for line in lines[start:] if line.startswith('"')))))
    names, units = rows[0], rows[1] if len(rows) > 1 else []
    if "Kernel Name" not in names or len(units) != len(names) or units[0]:
        raise ProfileError(f"Nsight Compute's table is not the one expected; it begins {rows[0][:8]}")
    launches = []
    for row in rows[2:]:
        cells = dict(zip(names, zip(row, units, strict=True), strict=True))
        values = {
            name: number
            for name in metrics
            if name in cells and (number := _number(*cells[name])) is not None
        }
        launches.append(Launch(cells["Kernel Name"][0], values))
    return launches


def _number(text: str, unit: str) -> float | None:
    with contextlib.suppress(ValueError):
        value = float(text.replace(",", "")) * scale(unit)
        return None if math.isnan(value) else value
    return None
