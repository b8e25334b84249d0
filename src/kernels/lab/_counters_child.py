"""Call a function once for the profiler: `python -m kernels.lab._counters_child FOLDER NAME`, run under Nsight Compute.

The folder holds `job.py`, a module with the function NAME and its `__arguments__`. An exception is left there as text in
`error.txt`, because a profiler's output is no place to look for one.
"""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def load(path: Path, name: str) -> tuple[Callable[..., Callable[[], Any]], dict[str, Any]]:
    """Return the function and its arguments from a job's module."""
    spec = importlib.util.spec_from_file_location("kernels_profiled_job", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name), module.__arguments__


def run(folder: Path, name: str) -> None:
    """Make the inputs and call once to compile; then call once more while the profiler looks."""
    make, arguments = load(folder / "job.py", name)
    call = make(**arguments)
    first = call()
    torch.cuda.synchronize()
    profiler = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    profiler.cudaProfilerStart()
    second = call()
    torch.cuda.synchronize()
    profiler.cudaProfilerStop()
    del first, second  # until here, so that the call's output has memory of its own, as in a measurement


def main(folder: Path, name: str) -> None:
    """Run the job; leave the error, if there is one, where the parent looks for it."""
    try:
        run(folder, name)
    except Exception:
        (folder / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
