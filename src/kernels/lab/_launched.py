"""What a callable launches, as CUDA's activity records tell it: they need no permission, unlike hardware counters."""

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from kernels.lab.occupancy import LIMITS, Occupancy, occupancy


@dataclass(frozen=True)
class Launched:
    """One kernel launch: its size, what each of its parts takes, and how many would fit on an SM.

    Attributes
    ----------
    kernel
        Its name, without namespaces and template arguments.
    programs, threads
        Programs (blocks) launched, and threads in each.
    registers
        Per thread.
    shared_bytes
        Per program, without what the system reserves [B].
    occupancy
        None where the GPU's limits are not known.
    """

    kernel: str
    programs: int
    threads: int
    registers: int
    shared_bytes: int
    occupancy: Occupancy | None


def launched(call: Callable[[], Any]) -> tuple[Launched, ...]:
    """Call once to compile and once under `torch.profiler`, and return what the second call launched."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))
    return read(trace, "{}.{}".format(*torch.cuda.get_device_capability()))


def read(trace: dict[str, Any], capability: str) -> tuple[Launched, ...]:
    """Return the kernels in a trace that `torch.profiler` exported, in the order in which they ran."""
    events = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    return tuple(_launch(event, capability) for event in sorted(events, key=lambda event: event["ts"]))


def _launch(event: dict[str, Any], capability: str) -> Launched:
    told = event["args"]
    programs, threads = prod(told["grid"]), prod(told["block"])
    registers, shared = told["registers per thread"], told["shared memory"]
    limits = LIMITS.get(capability)
    fits = occupancy(registers, shared, threads, limits) if limits else None
    return Launched(short_name(event["name"]), programs, threads, registers, shared, fits)


def short_name(name: str) -> str:
    """Return a C++ function's name without its return type, namespaces, template arguments and parameters.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::F<float> >(int, at::F<float>)")
    'vectorized_elementwise_kernel'
    >>> short_name("add_one")
    'add_one'
    """
    found = re.match(r"(?:\w+ )?((?:[\w~]|\(anonymous namespace\)|::)+)", name)
    return found[1].rpartition("::")[2] if found else name
