"""The total is kept in float16.

Mistake: low-precision
"""

import torch
import triton
import triton.language as tl


@triton.jit
def columns_kernel(
    x_ptr, out_ptr, x_row_stride, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float16)
    for start in range(0, n_rows, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n_cols)
        offsets = rows[:, None].to(tl.int64) * x_row_stride + columns[None, :]
        total += tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float16)
    tl.store(out_ptr + columns, tl.sum(total, axis=0), mask=columns < n_cols)


def read_columns(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_cols, dtype=x.dtype, device=x.device)
    if n_cols:
        grid = (triton.cdiv(n_cols, 16),)
        columns_kernel[grid](x, out, x.stride(0), n_rows, n_cols, BLOCK_M=32, BLOCK_N=16)
    return out
