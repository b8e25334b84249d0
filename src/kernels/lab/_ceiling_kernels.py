"""Kernels that do one thing as fast as the hardware can: what a ceiling is measured with."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# Triton's language is not typed, and a kernel is not Python.

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """Read a block, write it."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def triad_kernel(x_ptr, y_ptr, out_ptr, scale, n_elements, BLOCK_SIZE: tl.constexpr):
    """Read two blocks, write `x + scale * y`: the third loop of the STREAM benchmark."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + scale * y, mask=mask)


@triton.jit
def read_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """Read a block and write its sum, without which the compiler would drop the read."""
    pid = tl.program_id(0)
    offsets = pid.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0)
    tl.store(out_ptr + pid, tl.sum(x, axis=0))


@triton.jit
def write_kernel(out_ptr, value, n_elements, BLOCK_SIZE: tl.constexpr):
    """Fill a block."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.zeros([BLOCK_SIZE], tl.float32) + value, mask=offsets < n_elements)


@triton.jit
def reread_kernel(x_ptr, out_ptr, n_blocks, n_reads, BLOCK_SIZE: tl.constexpr):
    """Read `n_reads` blocks of a small buffer, round and round from the program's own place.

    `.cg` keeps them out of L1, so that they come from L2.
    """
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK_SIZE)
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for step in range(n_reads):
        block = (pid + step) % n_blocks
        total += tl.load(x_ptr + block * BLOCK_SIZE + lanes, cache_modifier=".cg")
    tl.store(out_ptr + pid, tl.sum(total, axis=0))


@triton.jit
def fma_kernel(x_ptr, out_ptr, scale, shift, n_rounds, UNROLL: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """Do `n_rounds * UNROLL` dependent multiply-adds to each element.

    A thread's elements are chains independent of each other, so that it need not wait for a result.
    """
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    for _ in range(n_rounds):
        for _ in tl.static_range(UNROLL):
            x = tl.fma(x, scale, shift)
    tl.store(out_ptr + offsets, x)
