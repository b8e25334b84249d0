"""The length of the first call is kept for ever.

Mistake: unwritten
"""

import torch
import triton
import triton.language as tl

SIZES = {}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, x_stride, y_stride, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets * x_stride, mask=mask)
    y = tl.load(y_ptr + offsets * y_stride, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def vector_add(x, y):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.numel(), 256),)
    n = SIZES.setdefault("n", x.numel())
    add_kernel[grid](x, y, out, x.stride(0), y.stride(0), n, BLOCK=256)
    return out
