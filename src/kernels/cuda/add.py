"""Vector addition of float32 in CUDA C++, out[i] = x[i] + y[i]: one float a thread, and four.

For n elements both must move 12 n bytes and do n additions. The second asks for them with a quarter of the instructions.
"""

import torch

from kernels._checks import check_floats, check_same_shape, laid_out_as
from kernels.cuda._compile import check_on_gpu, launch, source

ADD = source("add.cu")
THREADS = 256  # of a block


def add_one_float(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y, computed in CUDA C++ by one thread per element.

    x and y are float32 and have one shape and one device. Strided views are copied first. Raises `TypeError` or `ValueError`
    for anything else, `ImportError` without `cuda.core`.
    """
    _check(x, y)
    out = torch.empty_like(x)
    n = out.numel()
    if n:
        blocks = -(-n // THREADS)
        launch(ADD, "add_one_float", blocks, THREADS, laid_out_as(x, out), laid_out_as(y, out), out, n)
    return out


def add_float4(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y, computed in CUDA C++ by one thread per four elements, 16 bytes.

    As `add_one_float`; views that do not start on a 16-byte boundary are copied too.
    """
    _check(x, y)
    out = torch.empty_like(x)
    n = out.numel()
    if n:
        blocks = -(-n // (4 * THREADS))
        launch(
            ADD,
            "add_float4",
            blocks,
            THREADS,
            _aligned(laid_out_as(x, out)),
            _aligned(laid_out_as(y, out)),
            out,
            n,
        )
    return out


def _check(x: torch.Tensor, y: torch.Tensor) -> None:
    check_floats(x=x, y=y)
    check_same_shape(x=x, y=y)
    check_on_gpu(x=x, y=y)
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, not {x.dtype}: use x.float(), or kernels.add.add")


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.data_ptr() % 16 else tensor
