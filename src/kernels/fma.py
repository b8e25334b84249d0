"""A chain of multiply-adds: k times x = x * scale + shift, for each element.

For n elements of s bytes it must move 2 n s bytes (one read, one write) and do 2 k n operations. So k alone says what bounds it:
memory while k is small, arithmetic once k is large.

Steps are taken in float32 and each is rounded once (a *fused* multiply-add). The result is rounded to the inputs' dtype.

The idea that makes it fast: no step of an element's chain can start before the one before it has ended, but a thread has
several elements, and an SM many threads, whose chains do not wait for each other.
"""

import torch
import triton
import triton.language as tl

from kernels._checks import check_floats, laid_out_as


def fma_chain_bytes(n: int, element_size: int = 4) -> int:
    """Return the bytes that a chain on n elements must move, however long it is [B]."""
    return 2 * n * element_size


def fma_chain_flops(n: int, k: int) -> int:
    """Return the operations that k multiply-adds on each of n elements are [FLOP]."""
    return 2 * n * k


@triton.jit
def fma_chain_kernel(x_ptr, out_ptr, scale, shift, k, n_elements, BLOCK_SIZE: tl.constexpr):
    """Each program reads one block, does k multiply-adds to each element, and writes it."""
    start = tl.program_id(0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    for _ in range(k):
        x = tl.fma(x, scale, shift)
    tl.store(out_ptr + offsets, x, mask=mask)


def fma_chain(x: torch.Tensor, scale: float, shift: float, k: int) -> torch.Tensor:
    """Return what k steps x = x * scale + shift make of each element.

    x is float32, float16 or bfloat16, of any shape. Raises `TypeError` or `ValueError` for anything else, and for a negative k.
    """
    check_floats(x=x)
    if k < 0:
        raise ValueError(f"k is {k}: a chain has zero steps or more")
    out = torch.empty_like(x)
    n_elements = out.numel()
    if n_elements:
        # 4 warps of 32 threads with 8 elements each: two loads of 16 bytes, and eight chains that do not wait for each other.
        grid = (triton.cdiv(n_elements, 1024),)
        fma_chain_kernel[grid](laid_out_as(x, out), out, scale, shift, k, n_elements, BLOCK_SIZE=1024)
    return out
