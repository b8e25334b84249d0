"""Where this process runs, and in which mode: decided once, before Triton is imported.

Triton fixes at import whether `@triton.jit` compiles for a GPU or interprets on the CPU, so the choice is
made here, and every other module of the lab asks this one.
"""

import os
import sys

import torch

HAS_GPU: bool = torch.cuda.is_available() and torch.version.cuda is not None
"""Whether this process can run a kernel on an NVIDIA GPU."""

_TOO_LATE = (
    "Triton was imported before the lab, and this machine has no CUDA GPU, so its kernels cannot run here. "
    "Put `from kernels import lab` above every import of Triton (or of a module that uses it), "
    "then start Python or the notebook's kernel again. "
    "Setting TRITON_INTERPRET=1 in the environment before Python starts works too."
)


class ModeError(RuntimeError):
    """Triton was imported in a mode that does not suit this machine."""


def _choose() -> None:
    if HAS_GPU or "TRITON_INTERPRET" in os.environ:  # asked for: `0` is a process that only compiles
        return
    if "triton" in sys.modules:
        raise ModeError(_TOO_LATE)
    os.environ["TRITON_INTERPRET"] = "1"


_choose()

INTERPRETS: bool = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether Triton interprets in this process. A later change of the environment does not change what Triton does."""


def interpreting() -> bool:
    """Whether kernels run in Triton's interpreter, on CPU tensors, in this process."""
    return INTERPRETS


def live() -> bool:
    """Whether measurements are taken on this machine, rather than replayed from a record.

    `KERNELS_REPLAY=1` asks for the replay on a machine that could measure.
    """
    return HAS_GPU and not interpreting() and os.environ.get("KERNELS_REPLAY") != "1"


def strict() -> bool:
    """Whether a stale number or a false claim is an error: under CI, or with `KERNELS_STRICT=1`."""
    return os.environ.get("KERNELS_STRICT", os.environ.get("CI", "")).lower() in {"1", "true"}


def device() -> torch.device:
    """Where the tensors of this process belong: the GPU, or the CPU when kernels are interpreted."""
    return torch.device("cpu" if interpreting() or not HAS_GPU else "cuda")


def home() -> str:
    """Who shows the results: `"page"` (sphinx-gallery), `"notebook"` (IPython with a kernel) or `"terminal"`."""
    if "sphinx_gallery.gen_rst" in sys.modules:
        return "page"
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return "notebook" if shell is not None and hasattr(shell, "kernel") else "terminal"
