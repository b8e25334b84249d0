"""A chain of elementwise steps, x * scale, then x + shift, then max(x, 0), round and round: k in all, twice.

As one torch operation a step, every step reads all n elements of s bytes and writes them: 2 k n s bytes. As one kernel the
chain reads once and writes once, 2 n s bytes, however long it is. Either way it does k n operations.

Steps are taken in float32; the kernel rounds to the inputs' dtype once, at the end, and torch after each step.

The idea that makes it fast: what one step hands to the next stays in a register.
"""

import torch
import triton
import triton.language as tl

from kernels._checks import check_floats, laid_out_as

SCALE, SHIFT = 1.25, -0.125


def chain_bytes(n: int, k: int, element_size: int = 4) -> int:
    """Return the bytes that a chain of k steps on n elements must move, however long it is [B]."""
    return 2 * n * element_size


def eager_chain_bytes(n: int, k: int, element_size: int = 4) -> int:
    """Return the bytes that k steps move if each of them reads and writes all n elements [B]."""
    return 2 * k * n * element_size


def chain_flops(n: int, k: int) -> int:
    """Return the operations of k steps on n elements [FLOP]."""
    return k * n


def eager_chain(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return what k steps make of each element, one torch operation a step."""
    out = x
    for step in range(k):
        if step % 3 == 0:
            out = torch.mul(out, SCALE)
        elif step % 3 == 1:
            out = torch.add(out, SHIFT)
        else:
            out = torch.relu(out)
    return out if k else x.clone()


@triton.jit
def fused_chain_kernel(x_ptr, out_ptr, scale, shift, n_elements, K: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """Each program reads one block, takes K steps, and writes it."""
    start = tl.program_id(0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    # The compiler knows K, and writes the steps one after the other: no loop, no question left.
    for step in tl.static_range(K):
        if step % 3 == 0:
            x = x * scale
        elif step % 3 == 1:
            x = x + shift
        else:
            # NaN stays NaN, as it does in torch.
            x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + offsets, x, mask=mask)


def fused_chain(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return what k steps make of each element, all in one kernel, compiled once for each k.

    x is float32, float16 or bfloat16, of any shape. Raises `TypeError` or `ValueError` for anything else, and for a negative k.
    """
    check_floats(x=x)
    if k < 0:
        raise ValueError(f"k is {k}: a chain has zero steps or more")
    out = torch.empty_like(x)
    n_elements = out.numel()
    if n_elements:
        # 4 warps of 32 threads with 8 elements each: two loads of 16 bytes a thread for float32.
        grid = (triton.cdiv(n_elements, 1024),)
        fused_chain_kernel[grid](laid_out_as(x, out), out, SCALE, SHIFT, n_elements, K=k, BLOCK_SIZE=1024)
    return out
