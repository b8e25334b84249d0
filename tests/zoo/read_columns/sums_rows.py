"""Each program adds up a row.

Mistake: sums-rows
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x_ptr, out_ptr, x_row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row_stride + columns, mask=columns < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


def read_columns(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    if n_rows:
        rows_kernel[(n_rows,)](x, out, x.stride(0), n_cols, BLOCK=triton.next_power_of_2(max(n_cols, 1)))
    return out
