"""Vector addition, out[i] = x[i] + y[i], twice: one element per program, and a block of elements per program.

For n elements of s bytes it must move 3 n s bytes (two reads, one write) and do n additions. At 4 bytes that is one operation
for 12 bytes, so it is as fast as the memory, if it keeps the memory busy.

Sums are taken in float32 and rounded once, which gives the same bits as an addition in the inputs' own dtype. (Triton's
interpreter adds bfloat16 numbers as if they were integers, and cuts a float32 off where a GPU rounds it.)

The idea that makes it fast: a program handles a block. Its threads read neighbouring elements together, 16 bytes each, and
enough bytes are on their way at any time.
"""

import torch
import triton
import triton.language as tl

from kernels._checks import check_floats, check_same_shape, laid_out_as

MOST_PROGRAMS = (
    2**31 - 1
)  # along the first axis of a grid; CUDA C++ Programming Guide, technical specifications


def add_bytes(n: int, element_size: int = 4) -> int:
    """Return the bytes that an addition of n elements must move [B]."""
    return 3 * n * element_size


def add_flops(n: int) -> int:
    """Return the operations that an addition of n elements must do [FLOP]."""
    return n


@triton.jit
def add_one_element_kernel(x_ptr, y_ptr, out_ptr):
    """Each program adds one element."""
    i = tl.program_id(0)
    x = tl.load(x_ptr + i).to(tl.float32)
    y = tl.load(y_ptr + i).to(tl.float32)
    tl.store(out_ptr + i, x + y)


def add_one_element(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y, computed by one program per element: the workshop's baseline.

    x and y have one shape, one dtype (float32, float16, bfloat16) and one device.
    Strided views are copied first. Raises `TypeError` or `ValueError` for anything else,
    and for more than 2^31 - 1 elements, the largest grid there is.
    """
    check_floats(x=x, y=y)
    check_same_shape(x=x, y=y)
    if x.numel() > MOST_PROGRAMS:
        raise ValueError(
            f"{x.numel():,} elements need as many programs, and a grid holds {MOST_PROGRAMS:,}: use add()"
        )
    out = torch.empty_like(x)
    if out.numel():
        add_one_element_kernel[(out.numel(),)](laid_out_as(x, out), laid_out_as(y, out), out)
    return out


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """Each program adds one block of BLOCK_SIZE neighbouring elements."""
    # 64 bits, because the product passes 2^31 for large tensors; the range inside the block stays small.
    start = tl.program_id(0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements  # the last block may reach past the end
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y, computed by one program per block.

    x and y have one shape, one dtype (float32, float16, bfloat16) and one device.
    Strided views are copied first. Raises `TypeError` or `ValueError` for anything else.
    """
    check_floats(x=x, y=y)
    check_same_shape(x=x, y=y)
    out = torch.empty_like(x)
    n_elements = out.numel()
    if n_elements:
        # 4 warps of 32 threads with 8 elements each: two loads of 16 bytes a thread for each float32 input.
        grid = (triton.cdiv(n_elements, 1024),)
        add_kernel[grid](laid_out_as(x, out), laid_out_as(y, out), out, n_elements, BLOCK_SIZE=1024)
    return out
