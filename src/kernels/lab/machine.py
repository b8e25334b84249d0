"""What GPU, driver and packages there are; what is wrong with them and how to mend it.

`machine()` never raises for a bad environment: each fault is a `Problem` with its remedy.
"""

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pynvml
import torch

from kernels.lab import _mode
from kernels.lab.show import Group, Table, escape, wrap

_MIB = 1024**2


@dataclass(frozen=True)
class Problem:
    """Something in the environment that stands in the way, why it does, and how to mend it."""

    what: str
    why: str
    remedy: str
    fault: bool = True
    """False for what is as it is and needs no mending, such as a machine without a GPU."""

    @property
    def _mark(self) -> str:
        return "✗" if self.fault else "○"

    def __str__(self) -> str:
        return f"{self._mark} {self.what}\n  why:    {self.why}\n  remedy: {self.remedy}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return wrap(
            f'<p><span class="{"lab-wrong" if self.fault else "lab-plain"}">{self._mark} {escape(self.what)}</span></p>'
            f"<p>{escape(self.why)}</p>"
            f"<p><strong>Remedy:</strong> {escape(self.remedy)}</p>"
        )


def _size(value: int | None) -> str:
    return f"{value / _MIB:,.0f} MiB" if value else "–"


def _or_dash(value: object) -> str:
    return str(value or "–")


_FACTS: dict[str, Callable[[Any], str]] = {
    "gpu": lambda value: value or "none that CUDA can use",
    "sms": _or_dash,
    "memory_bytes": _size,
    "l2_bytes": _size,
    "compute_capability": _or_dash,
    "driver": _or_dash,
    "cuda": lambda value: value or "none: a CPU build",
    "torch": _or_dash,
    "triton": lambda value: value or "not installed",
    "python": _or_dash,
    "system": _or_dash,
}
_NAMES = {
    "gpu": "GPU",
    "sms": "streaming multiprocessors (SMs)",
    "memory_bytes": "memory",
    "l2_bytes": "L2 cache",
    "compute_capability": "compute capability",
    "driver": "driver",
    "cuda": "CUDA of torch",
    "torch": "torch",
    "triton": "Triton",
    "python": "Python",
    "system": "system",
}


@dataclass(frozen=True)
class Machine:
    """The facts about this machine. Sizes are in bytes; a fact that cannot be read is None."""

    gpu: str | None
    sms: int | None
    memory_bytes: int | None
    l2_bytes: int | None
    compute_capability: str | None
    driver: str | None
    cuda: str | None
    torch: str
    triton: str | None
    python: str
    system: str
    power_limit_w: float | None
    max_sm_clock_hz: float | None
    max_memory_clock_hz: float | None
    problems: tuple[Problem, ...]

    def _table(self) -> Table:
        # Imported here because a record's provenance is made of this module's facts.
        from kernels.lab import record

        columns = {"this machine": asdict(self)}
        if not _mode.live():
            with contextlib.suppress(record.RecordError):  # which is among the problems below the table
                columns["the numbers on this page"] = record.replayed_run()
        facts = [[str(_FACTS[name](values[name])) for values in columns.values()] for name in _FACTS]
        rows = [(_NAMES[name], *cells) for name, cells in zip(_FACTS, facts, strict=True)]
        return Table(("", *columns), rows)

    def _mode_line(self) -> str:
        if _mode.live():
            return "Kernels run on this GPU, and every measurement is taken here and now."
        if _mode.interpreting():
            return (
                "Kernels run in Triton's interpreter on small inputs, so their results are really checked. "
                "Every measurement is replayed from the record of the machine on the right."
            )
        return "Kernels run on this GPU. Every measurement is replayed, because KERNELS_REPLAY=1 asks for it."

    def __str__(self) -> str:
        problems = [str(problem) for problem in self.problems] or ["✓ no problems found"]
        return "\n\n".join([str(self._table()), self._mode_line(), *problems])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        found = Group(self.problems)._repr_html_() or wrap('<p class="lab-good">✓ No problems found.</p>')
        return self._table()._repr_html_() + wrap(f"<p>{escape(self._mode_line())}</p>") + found


def machine() -> Machine:
    """Return the facts about this machine and what is wrong with it.

    It reads and does not try: `python -m kernels doctor` also compiles and runs a kernel.
    """
    facts: dict[str, Any] = dict.fromkeys(
        ("gpu", "sms", "memory_bytes", "l2_bytes", "compute_capability", "driver", "power_limit_w", "max_sm_clock_hz",
         "max_memory_clock_hz")
    )  # fmt: skip
    if _mode.HAS_GPU:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        facts |= {
            "gpu": properties.name,
            "sms": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "compute_capability": f"{properties.major}.{properties.minor}",
        }
    facts |= _nvml_facts()
    return Machine(
        **facts,
        cuda=torch.version.cuda,
        torch=torch.__version__,
        triton=_version("triton"),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        problems=tuple(find_problems()),
    )


@dataclass(frozen=True)
class Conditions:
    """The state of the card as NVML reads it: clock [Hz], power [W], and the reasons it slows down, if any."""

    sm_clock_hz: float
    power_w: float
    throttle: tuple[str, ...]


def conditions() -> Conditions | None:
    """Read the card's clock and power now; None where NVML is not to be had."""
    try:
        pynvml.nvmlInit()
        handle = _nvml_handle()
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        named = {
            pynvml.nvmlClocksEventReasonSwPowerCap: "power limit",
            pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
            pynvml.nvmlClocksEventReasonSwThermalSlowdown: "temperature",
        }
        return Conditions(
            pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6,
            pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            tuple(text for bit, text in named.items() if reasons & bit),
        )
    except pynvml.NVMLError:
        return None


def _nvml_handle() -> Any:
    # By identity, not by index: CUDA_VISIBLE_DEVICES renumbers CUDA's devices and not NVML's.
    uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")


def _nvml_facts() -> dict[str, Any]:
    try:
        pynvml.nvmlInit()
        facts: dict[str, Any] = {"driver": _text(pynvml.nvmlSystemGetDriverVersion())}
        if _mode.HAS_GPU:
            handle = _nvml_handle()
            facts["power_limit_w"] = pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3
            facts["max_sm_clock_hz"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6
            facts["max_memory_clock_hz"] = (
                pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6
            )
        return facts
    except pynvml.NVMLError:
        return {}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_problems() -> list[Problem]:
    """Return what stands between this machine and a running kernel, the most fundamental first."""
    checks = (_no_triton, _triton_of_another_torch, _no_gpu, _old_gpu, _no_bfloat16, _no_compiler, _no_headers,
              _cache_not_writable, _memory_taken, _several_gpus, _no_record)  # fmt: skip
    return [problem for check in checks if (problem := check()) is not None]


def _no_triton() -> Problem | None:
    if _version("triton") or _version("triton-windows"):
        return None
    remedy = {
        "Windows": "Install triton-windows, or work in WSL2 with `pip install triton`.",
        "Darwin": "Triton has no macOS build: read the site, or run the notebooks on a Linux machine or a hosted one.",
    }.get(
        platform.system(), "Run `pip install triton` (the version that your torch names: `pip show torch`)."
    )
    return Problem("Triton is not installed", "Every kernel of the workshop is a Triton kernel.", remedy)


def _triton_of_another_torch() -> Problem | None:
    needs = [r for r in importlib.metadata.requires("torch") or () if r.startswith("triton")]
    have = _version("triton")
    wanted = next((r.split("==")[1].split(";")[0].strip() for r in needs if "==" in r), None)
    if not have or not wanted or have.split("+")[0] == wanted:
        return None
    return Problem(
        f"Triton {have} is installed, and torch {torch.__version__} was built for Triton {wanted}",
        "torch.compile imports Triton's internals and fails with another version.",
        f"Run `pip install triton=={wanted}`, or install torch again and let it choose.",
    )


def _no_gpu() -> Problem | None:
    if _mode.HAS_GPU:
        return None
    card = _nvidia_smi()
    if torch.version.hip:
        return Problem(
            "This torch is built for AMD GPUs",
            "The workshop measures NVIDIA GPUs; its kernels also compile for AMD, and the record is replayed here.",
            "Nothing to mend: read on with the reference GPU's numbers.",
            fault=False,
        )
    if card and torch.version.cuda is None:
        return Problem(
            f"There is an NVIDIA GPU ({card}), and this torch is a CPU build",
            "A CPU build cannot reach the GPU.",
            "Install torch from PyPI or from the CUDA index that https://pytorch.org names.",
        )
    if card:
        return Problem(
            f"There is an NVIDIA GPU ({card}), and torch {torch.__version__} cannot use it",
            f"Usually the driver is older than CUDA {torch.version.cuda} needs, or CUDA_VISIBLE_DEVICES hides the GPU "
            f"(it is {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}).",
            "Update the driver, or install a torch built for an older CUDA.",
        )
    if Path("/proc/version").exists() and "microsoft" in Path("/proc/version").read_text().lower():
        return Problem(
            "WSL2 shows no NVIDIA GPU",
            "WSL2 uses the Windows driver; libcuda.so.1 lies in /usr/lib/wsl/lib.",
            "Install NVIDIA's Windows driver, run `wsl --update`, and set TRITON_LIBCUDA_PATH=/usr/lib/wsl/lib.",
        )
    return Problem(
        "No NVIDIA GPU was found",
        "Measurements need one. Without it they are replayed from the record of the reference GPU, and kernels run in "
        "Triton's interpreter.",
        "Nothing to mend if this machine has none: the workshop runs from start to end without one.",
        fault=False,
    )


def _old_gpu() -> Problem | None:
    if not _mode.HAS_GPU:
        return None
    capability = torch.cuda.get_device_capability()
    built = torch.cuda.get_arch_list()
    oldest = min((int(a.split("_")[1].rstrip("af")) for a in built if a.startswith("sm_")), default=75)
    if capability[0] * 10 + capability[1] >= oldest:
        return None
    return Problem(
        f"This GPU has compute capability {capability[0]}.{capability[1]}, older than this torch supports",
        f"torch {torch.__version__} holds code for {', '.join(built)}.",
        "Install an older torch that still supports the GPU, or read on with replayed numbers (KERNELS_REPLAY=1).",
    )


def _no_bfloat16() -> Problem | None:
    if not _mode.HAS_GPU or torch.cuda.get_device_capability() >= (8, 0):
        return None
    return Problem(
        "This GPU has no bfloat16 arithmetic",
        "bfloat16 came with compute capability 8.0 (2020).",
        "Nothing to mend: use float16 where a chapter uses bfloat16.",
        fault=False,
    )


def _no_compiler() -> Problem | None:
    if platform.system() != "Linux" or os.environ.get("CC") or any(map(shutil.which, ("cc", "gcc", "clang"))):
        return None
    return Problem(
        "No C compiler was found",
        "Triton compiles a small launcher for each kernel when it first runs.",
        "Debian, Ubuntu: `apt install gcc`; Fedora: `dnf install gcc`; conda: `conda install gcc`. Or name one in CC.",
    )


def _no_headers() -> Problem | None:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if platform.system() != "Linux" or not _mode.HAS_GPU or header.exists():
        return None
    return Problem(
        f"Python's headers are missing ({header})",
        "Triton's launcher includes Python.h.",
        f"Debian, Ubuntu: `apt install python{sys.version_info[0]}.{sys.version_info[1]}-dev`; Fedora: `dnf install python3-devel`.",
    )


def _cache_not_writable() -> Problem | None:
    directory = Path(
        os.environ.get("TRITON_CACHE_DIR") or Path(os.environ.get("TRITON_HOME", Path.home())) / ".triton"
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory) as probe:
            probe.write(b"0" * 4096)
    except OSError as error:
        return Problem(
            f"Triton's cache directory {directory} cannot be written ({error.strerror})",
            "Triton keeps compiled kernels there.",
            "Set TRITON_CACHE_DIR to a directory that can be written and has room.",
        )
    return None


def _memory_taken() -> Problem | None:
    if not _mode.HAS_GPU:
        return None
    free, total = torch.cuda.mem_get_info()
    if free >= 0.5 * total:
        return None
    return Problem(
        f"{(total - free) / _MIB:,.0f} of the GPU's {total / _MIB:,.0f} MiB are taken",
        "Another process (often another notebook) uses the GPU: large sizes will be left out, and timings shared.",
        "See `nvidia-smi`, end what you do not need, or choose another GPU with CUDA_VISIBLE_DEVICES.",
    )


def _several_gpus() -> Problem | None:
    if not _mode.HAS_GPU or torch.cuda.device_count() < 2 or os.environ.get("CUDA_VISIBLE_DEVICES"):
        return None
    names = ", ".join(f"{i}: {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count()))
    return Problem(
        f"There are several GPUs ({names})",
        "The workshop uses the first, which may not be the one you mean.",
        "Set CUDA_VISIBLE_DEVICES to the number of the one to use.",
    )


def _no_record() -> Problem | None:
    from kernels.lab import record

    if _mode.live():
        return None
    try:
        record.replayed_run()
    except record.RecordError as error:
        what, _, remedy = str(error).partition(". ")
        return Problem(
            "The record cannot be replayed",
            what,
            remedy or "Measure on a machine with a GPU: `nox -s record`.",
        )
    return None


def _nvidia_smi() -> str:
    """The cards that the driver's own tool sees, whatever torch thinks."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    answer = subprocess.run(
        [tool, "--query-gpu=name", "--format=csv,noheader"],
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return ", ".join(answer.stdout.split("\n")).strip(", ") if answer.returncode == 0 else ""
