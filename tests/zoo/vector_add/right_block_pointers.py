"""Block pointers, with the boundary checked."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, x_stride, y_stride, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x_block = tl.make_block_ptr(x_ptr, (n,), (x_stride,), (start,), (BLOCK,), (0,))
    y_block = tl.make_block_ptr(y_ptr, (n,), (y_stride,), (start,), (BLOCK,), (0,))
    out_block = tl.make_block_ptr(out_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    total = tl.load(x_block, boundary_check=(0,)) + tl.load(y_block, boundary_check=(0,))
    tl.store(out_block, total, boundary_check=(0,))


def vector_add(x, y):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.numel(), 256),)
    add_kernel[grid](x, y, out, x.stride(0), y.stride(0), x.numel(), BLOCK=256)
    return out
