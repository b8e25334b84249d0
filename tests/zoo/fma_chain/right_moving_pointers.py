"""The pointers to the numbers move on step by step."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, k, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    for _i in range(k):
        x = x * tl.load(scale_ptr) + tl.load(shift_ptr)
        scale_ptr += 1
        shift_ptr += 1
    tl.store(out_ptr + offsets, x, mask=mask)


def fma_chain(x, scale, shift):
    out = torch.empty_like(x)
    n = x.numel()
    if n:
        kernel[(triton.cdiv(n, 512),)](x, scale, shift, out, scale.numel(), n, BLOCK=512)
    return out
