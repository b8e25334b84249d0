"""The total is kept in the output, which nobody has set to zero.

Mistake: reads-output-first
"""

import torch
import triton
import triton.language as tl


@triton.jit
def columns_kernel(x_ptr, out_ptr, x_row_stride, n_rows, n_cols, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < n_cols
    for row in range(n_rows):
        x = tl.load(x_ptr + tl.cast(row, tl.int64) * x_row_stride + columns, mask=mask).to(tl.float32)
        total = tl.load(out_ptr + columns, mask=mask).to(tl.float32)
        tl.store(out_ptr + columns, total + x, mask=mask)


def read_columns(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_cols, dtype=x.dtype, device=x.device)
    if n_cols:
        columns_kernel[(triton.cdiv(n_cols, 64),)](x, out, x.stride(0), n_rows, n_cols, BLOCK=64)
    return out
