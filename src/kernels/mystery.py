"""The sum of each column of a matrix, out[j] = sum over i of x[i, j], with one column per program.

For a matrix of m by n elements of s bytes it must read m n s bytes and do m n additions. It is here to be found out: chapter 5
shows what the hardware counted before it shows this source.

The idea that makes it slow: the lanes of a warp stand below each other in a column, so their addresses lie a whole row apart.
"""

import torch
import triton
import triton.language as tl

from kernels._checks import check_floats


@triton.jit
def mystery_kernel(x_ptr, out_ptr, x_row_stride, n_rows, BLOCK_SIZE: tl.constexpr):
    """Each program sums one column, BLOCK_SIZE elements at a time."""
    column = tl.program_id(0)
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_SIZE):
        rows = start + tl.arange(0, BLOCK_SIZE)
        offsets = rows.to(tl.int64) * x_row_stride + column
        total += tl.load(x_ptr + offsets, mask=rows < n_rows, other=0.0).to(tl.float32)
    tl.store(out_ptr + column, tl.sum(total, axis=0))


def mystery(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of each column of a matrix whose rows are contiguous.

    x is float32, float16 or bfloat16; sums are taken in float32. Raises `TypeError` or `ValueError` for anything else.
    """
    check_floats(x=x)
    if x.dim() != 2 or x.stride(1) != 1:
        raise ValueError(
            f"x must be a matrix with contiguous rows, not of shape {tuple(x.shape)} and strides {x.stride()}"
        )
    n_rows, n_cols = x.shape
    out = torch.empty(n_cols, dtype=x.dtype, device=x.device)
    if n_cols:
        mystery_kernel[(n_cols,)](x, out, x.stride(0), n_rows, BLOCK_SIZE=1024)
    return out
