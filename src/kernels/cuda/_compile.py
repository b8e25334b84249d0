"""Compile CUDA C++ with NVRTC when it is first needed, and launch it on torch's stream, through NVIDIA's `cuda.core`."""

import ctypes
import importlib
from functools import cache, lru_cache
from importlib.resources import files
from types import ModuleType
from typing import Any

import torch

REMEDY = "pip install 'first-fast-kernel[cuda]'"


def source(*names: str) -> str:
    """Return the text of these files of this package, one after the other."""
    return "\n".join((files("kernels.cuda") / name).read_text(encoding="utf-8") for name in names)


@cache
def cuda_core() -> ModuleType:
    """Import `cuda.core`.

    Raises
    ------
    ImportError
        It is not installed, or too old. The message says how to mend that.
    """
    try:
        core = importlib.import_module("cuda.core")
        if not hasattr(core, "Program"):  # before cuda-core 0.5 the same names stood one level below
            core = importlib.import_module("cuda.core.experimental")
    except ImportError as error:
        raise ImportError(
            f"the kernels in CUDA C++ need the package cuda-core, which cannot be imported ({error}): {REMEDY}"
        ) from error
    return core


@cache
def compiled(text: str, name: str, architecture: str) -> Any:
    """Compile CUDA C++ for an architecture (`"sm_90"`), and return the object code that holds the kernel `name`.

    `name` may be an instance of a template: `"softmax_in_registers<bfloat16, 8, 4, 128, 128>"`.

    Raises
    ------
    ImportError
        `cuda.core` is missing.
    RuntimeError
        NVRTC is missing, or refuses the code. The message holds its own words.
    """
    core = cuda_core()
    options = core.ProgramOptions(std="c++17", arch=architecture)
    try:
        return core.Program(text, "c++", options).compile("cubin", name_expressions=(name,))
    except Exception as error:
        raise RuntimeError(
            f"NVRTC did not compile {name} for {architecture}. If it is not installed: {REMEDY}. It said: {error}"
        ) from error


@cache
def _kernel(text: str, name: str, device: int) -> Any:
    cuda_core().Device(device).set_current()  # torch's own context: CUDA has one a device
    major, minor = torch.cuda.get_device_capability(device)
    return compiled(text, name, f"sm_{major}{minor}").get_kernel(name)


@lru_cache(maxsize=256)
def _config(blocks: int, threads: int) -> Any:
    return cuda_core().LaunchConfig(grid=blocks, block=threads)


@lru_cache(maxsize=256)
def _stream(handle: int) -> Any:
    return cuda_core().Stream.from_handle(handle)


def launch(text: str, name: str, blocks: int, threads: int, *arguments: torch.Tensor | float) -> None:
    """Launch a kernel on torch's current stream, compiling it if this process has not yet done so.

    Parameters
    ----------
    text, name
        CUDA C++, and the kernel in it, see `compiled`.
    blocks, threads
        How many blocks, of how many threads.
    arguments
        What the kernel takes: a tensor for a pointer, an integer for a `long long`, a float for a `float`. The first is a
        tensor, and says on which GPU.
    """
    device = arguments[0].device  # type: ignore[union-attr]
    with torch.cuda.device(device):
        kernel = _kernel(text, name, device.index)
        stream = _stream(torch.cuda.current_stream().cuda_stream)
        cuda_core().launch(stream, _config(blocks, threads), kernel, *map(_plain, arguments))


def _plain(argument: torch.Tensor | float) -> Any:
    if isinstance(argument, torch.Tensor):
        return argument.data_ptr()
    return ctypes.c_float(argument) if isinstance(argument, float) else argument


def check_on_gpu(**tensors: torch.Tensor) -> None:
    """Raise `ValueError` unless all tensors lie on a GPU, which Triton's interpreter does not ask for."""
    for name, tensor in tensors.items():
        if not tensor.is_cuda:
            raise ValueError(
                f"{name} is on {tensor.device}, and CUDA C++ runs on an NVIDIA GPU only: use {name}.cuda()"
            )
