"""Row softmax, out = exp(x - max(x)) / sum(exp(x - max(x))) over the last dimension, for rows of any width.

For n elements of s bytes it must move 2 n s bytes, one read and one write, and do about 5 n operations: a comparison, a
subtraction, an exponential, an addition and a product. Arithmetic is in float32, rounded once.

The idea that makes it fast: a row is read once and stays in registers until its sum is known. Three kernels differ in whose
registers: those of one program that holds whole rows; those of a cluster of thread blocks that share a row too wide for one;
or nobody's, so that a loop goes through the row twice, which any GPU can do for any width.
"""

import torch
import triton
import triton.language as tl

from kernels._checks import check_floats
from kernels._rows import (
    WIDEST_CLUSTER,
    as_rows,
    block_of,
    cluster_barrier,
    cluster_of,
    cluster_suits,
    has_clusters,
    loop_of,
)

WIDEST_BLOCK = 2**17  # columns; long before, the compiler moves to memory what does not fit in registers
WIDEST_FAST_BLOCK = 2**14  # above, a cluster is faster


def softmax_bytes(n_rows: int, n_cols: int, element_size: int = 4) -> int:
    """Return the bytes that a softmax of so many rows must move [B]."""
    return 2 * n_rows * n_cols * element_size


def softmax_flops(n_rows: int, n_cols: int) -> int:
    """Return the operations that a softmax of so many rows is, an exponential counted as one [FLOP]."""
    return 5 * n_rows * n_cols


@triton.jit
def softmax_block_kernel(
    x_ptr, out_ptr, x_row_stride, n_rows, n_cols, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr
):
    """Each program computes BLOCK_ROWS whole rows, of at most BLOCK_COLS columns."""
    # 64 bits, because a row times its stride passes 2^31 for large tensors.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    cols = tl.arange(0, BLOCK_COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    # Past the end of a row -inf: never the maximum, and its exponential adds nothing.
    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    total = tl.sum(numerator, axis=1)[:, None]
    tl.store(out_ptr + rows * n_cols + cols, numerator / total, mask=mask)


def softmax_block(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row of x, computed by programs that hold whole rows in their registers.

    x is as in `softmax`; rows wider than 131,072 are refused with a `ValueError`.
    """
    rows, out = _rows_and_result(x)
    n_rows, n_cols = rows.shape
    if n_cols > WIDEST_BLOCK:
        raise ValueError(f"a row has {n_cols:,} columns, and a block holds {WIDEST_BLOCK:,}: use softmax()")
    if out.numel():
        block = block_of(n_cols)
        grid = (triton.cdiv(n_rows, block["BLOCK_ROWS"]),)
        softmax_block_kernel[grid](rows, out, rows.stride(0), n_rows, n_cols, **block)
    return out


@triton.jit
def softmax_cluster_kernel(
    x_ptr,
    out_ptr,
    parts_ptr,
    x_row_stride,
    n_cols,
    CHUNKS: tl.constexpr,
    CHUNK_COLS: tl.constexpr,
    CLUSTER: tl.constexpr,
):
    """Each program computes one row, cut into CHUNKS chunks, each held by its own thread block of a cluster."""
    row = tl.program_id(0).to(tl.int64)
    chunks = tl.arange(0, CHUNKS)
    cols = chunks[:, None] * CHUNK_COLS + tl.arange(0, CHUNK_COLS)[None, :]
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    peaks = tl.max(x, axis=1)
    # A chunk may be -inf throughout, and -inf - -inf would be NaN: there subtract 0.
    shifts = tl.where(peaks == -float("inf"), 0.0, peaks)
    numerator = tl.exp(x - shifts[:, None])

    # Each thread block tells the others its peak, and its sum relative to it, through memory: a few bytes, so out of L2.
    parts = parts_ptr + row * (2 * CHUNKS)
    tl.store(parts + chunks, peaks)
    tl.store(parts + CHUNKS + chunks, tl.sum(numerator, axis=1))
    if CLUSTER:
        cluster_barrier()
    everyone = tl.broadcast_to(tl.arange(0, CHUNKS)[None, :], (CHUNKS, CHUNKS))  # a row for each thread block
    all_peaks = tl.load(parts + everyone)
    all_totals = tl.load(parts + CHUNKS + everyone)
    peak = tl.max(all_peaks, axis=1)
    total = tl.sum(all_totals * tl.exp(all_peaks - peak[:, None]), axis=1)

    scale = tl.exp(peaks - peak) / total
    tl.store(out_ptr + row * n_cols + cols, numerator * scale[:, None], mask=mask)


def softmax_cluster(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row of x, computed by clusters of thread blocks that hold a row together.

    x is as in `softmax`. Raises `ValueError` for a GPU without clusters, and for rows wider than 524,288. Wide rows that
    are no multiple of 16 can need more shared memory than there is, which Triton says: `softmax` does not send them here.
    """
    rows, out = _rows_and_result(x)
    if not has_clusters(x):
        raise ValueError(f"{x.device} has no clusters, which came with compute capability 9.0: use softmax()")
    n_rows, n_cols = rows.shape
    if n_cols > WIDEST_CLUSTER:
        raise ValueError(
            f"a row has {n_cols:,} columns, and a cluster holds {WIDEST_CLUSTER:,}: use softmax()"
        )
    if out.numel():
        cluster = cluster_of(x, n_cols)
        parts = torch.empty(n_rows, 2, cluster["CHUNKS"], dtype=torch.float32, device=x.device)
        softmax_cluster_kernel[(n_rows,)](rows, out, parts, rows.stride(0), n_cols, **cluster)
    return out


@triton.jit
def softmax_loop_kernel(x_ptr, out_ptr, x_row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    """Each program goes through one row twice, BLOCK_SIZE columns at a time."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row_stride
    out_ptr += row * n_cols
    lanes = tl.arange(0, BLOCK_SIZE)
    # Each lane keeps the largest value it has seen, and the sum of the exponentials relative to it.
    peaks = tl.full((BLOCK_SIZE,), -float("inf"), tl.float32)
    sums = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        # It is read again: keep it in the caches, rather than what is read or written for the last time.
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_last")
        x = x.to(tl.float32)
        larger = tl.maximum(peaks, x)
        # As long as a lane has seen -inf only, subtract 0: -inf - -inf would be NaN.
        shifts = tl.where(larger == -float("inf"), 0.0, larger)
        sums = sums * tl.exp(peaks - shifts) + tl.exp(x - shifts)
        peaks = larger
    peak = tl.max(peaks, axis=0)
    total = tl.sum(sums * tl.exp(peaks - peak), axis=0)

    blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for block in range(blocks):
        # Backwards: what was read last is most likely still in a cache.
        cols = (blocks - 1 - block) * BLOCK_SIZE + lanes
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_first")
        out = tl.exp(x.to(tl.float32) - peak) / total
        tl.store(out_ptr + cols, out, mask=cols < n_cols, eviction_policy="evict_first")


def softmax_loop(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row of x, computed by one program a row that reads it twice. x is as in `softmax`."""
    rows, out = _rows_and_result(x)
    n_rows, n_cols = rows.shape
    if out.numel():
        softmax_loop_kernel[(n_rows,)](rows, out, rows.stride(0), n_cols, **loop_of(n_cols))
    return out


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of x over its last dimension, by the kernel that suits the width and the GPU.

    x is float32, float16 or bfloat16, of one dimension or more and any strides; views whose elements in a row lie apart
    are copied first. A row that is all -inf becomes NaN, as in torch. Raises `TypeError` or `ValueError` for anything else.
    """
    check_floats(x=x)
    if x.ndim == 0 or x.shape[-1] <= WIDEST_FAST_BLOCK:
        return softmax_block(x)
    if cluster_suits(x, x.shape[-1]):
        return softmax_cluster(x)
    return softmax_loop(x)


def _rows_and_result(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Check x, and return its rows and a tensor for the result, as it were contiguous."""
    check_floats(x=x)
    if x.ndim == 0:
        raise ValueError("x has no dimension: a softmax needs rows, so use x.reshape(1)")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return (as_rows(x) if x.numel() else x.new_empty(0, 1)), out
