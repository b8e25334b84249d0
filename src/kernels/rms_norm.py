"""RMSNorm, out = x / sqrt(mean(x^2) + eps) * weight over the last dimension; and a residual add before it, fused or not.

Both for n elements of s bytes, weights not counted, as they are read once for all rows:

    RMSNorm                      moves 2 n s bytes (one read, one write)      and does about 4 n operations
    add, then RMSNorm            moves 5 n s bytes (three reads, two writes)  and does about 5 n operations
    add and RMSNorm in one       moves 4 n s bytes (two reads, two writes)    and does about 5 n operations

The sum x + residual is a result too: the next layer's residual. It is rounded to the inputs' dtype, and it is the rounded
sum that is normalised, so that fused or not the results are the same. All other arithmetic is in float32, rounded once.

The idea that makes it fast: the sum is normalised while it is still in registers, so nobody reads it back.
"""

import torch
import triton
import triton.language as tl

from kernels._checks import check_floats, check_same_shape
from kernels._rows import as_rows, block_of, cluster_barrier, cluster_of, cluster_suits, loop_of
from kernels.add import add

WIDEST_BLOCK = 2**15  # columns that the registers of one program hold


def rms_norm_bytes(n_rows: int, n_cols: int, element_size: int = 4) -> int:
    """Return the bytes that an RMSNorm of so many rows must move, without the weights [B]."""
    return 2 * n_rows * n_cols * element_size


def rms_norm_flops(n_rows: int, n_cols: int) -> int:
    """Return its operations: a square, an addition and two products an element [FLOP]."""
    return 4 * n_rows * n_cols


def add_then_rms_norm_bytes(n_rows: int, n_cols: int, element_size: int = 4) -> int:
    """Return the bytes that an addition, and then an RMSNorm, must move as two kernels [B]."""
    return 5 * n_rows * n_cols * element_size


def add_rms_norm_bytes(n_rows: int, n_cols: int, element_size: int = 4) -> int:
    """Return the bytes that an addition and an RMSNorm must move as one kernel [B]."""
    return 4 * n_rows * n_cols * element_size


def add_rms_norm_flops(n_rows: int, n_cols: int) -> int:
    """Return the operations of both, fused or not [FLOP]."""
    return 5 * n_rows * n_cols


@triton.jit
def rms_norm_block_kernel(
    x_ptr, weight_ptr, out_ptr, x_row_stride, n_rows, n_cols, eps, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr
):  # fmt: skip
    """Each program normalises BLOCK_ROWS whole rows, of at most BLOCK_COLS columns."""
    # 64 bits, because a row times its stride passes 2^31 for large tensors.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    cols = tl.arange(0, BLOCK_COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / n_cols + eps)[:, None]
    tl.store(out_ptr + rows * n_cols + cols, x * scale * weight, mask=mask)


@triton.jit
def rms_norm_loop_kernel(x_ptr, weight_ptr, out_ptr, x_row_stride, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    """Each program goes through one row twice, BLOCK_SIZE columns at a time."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE)
    squares = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + eps)

    blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for block in range(blocks):
        # Backwards: what was read last is most likely still in a cache.
        cols = (blocks - 1 - block) * BLOCK_SIZE + lanes
        mask = cols < n_cols
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * n_cols + cols, x * scale * weight, mask=mask)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return the RMSNorm of x over its last dimension.

    x is float32, float16 or bfloat16, of one dimension or more and any strides; weight is a vector as long as x's last
    dimension, of the same dtype. Raises `TypeError` or `ValueError` for anything else.
    """
    check_floats(x=x, weight=weight)
    _check_weight(x, weight)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    rows, weight = as_rows(x), weight.contiguous()
    n_rows, n_cols = rows.shape
    if n_cols <= WIDEST_BLOCK:
        block = block_of(n_cols)
        grid = (triton.cdiv(n_rows, block["BLOCK_ROWS"]),)
        rms_norm_block_kernel[grid](rows, weight, out, rows.stride(0), n_rows, n_cols, eps, **block)
    else:
        rms_norm_loop_kernel[(n_rows,)](rows, weight, out, rows.stride(0), n_cols, eps, **loop_of(n_cols))
    return out


def add_then_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the RMSNorm of x + residual, and the sum, computed by two kernels. Arguments as in `add_rms_norm`."""
    total = add(x, residual)
    return rms_norm(total, weight, eps), total


@triton.jit
def add_rms_norm_block_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, x_row_stride, residual_row_stride, n_rows, n_cols, eps,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Each program adds and normalises BLOCK_ROWS whole rows, of at most BLOCK_COLS columns."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    cols = tl.arange(0, BLOCK_COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + rows * residual_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    # Rounded before it is normalised, as if it had been stored and read back.
    rounded = (x + residual).to(total_ptr.dtype.element_ty)
    tl.store(total_ptr + rows * n_cols + cols, rounded, mask=mask)
    total = rounded.to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(total * total, axis=1) / n_cols + eps)[:, None]
    tl.store(out_ptr + rows * n_cols + cols, total * scale * weight, mask=mask)


@triton.jit
def add_rms_norm_cluster_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, parts_ptr, x_row_stride, residual_row_stride, n_cols, eps,
    CHUNKS: tl.constexpr, CHUNK_COLS: tl.constexpr, CLUSTER: tl.constexpr,
):  # fmt: skip
    """Each program takes one row, cut into CHUNKS chunks, each held by its own thread block of a cluster."""
    row = tl.program_id(0).to(tl.int64)
    chunks = tl.arange(0, CHUNKS)
    cols = chunks[:, None] * CHUNK_COLS + tl.arange(0, CHUNK_COLS)[None, :]
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * residual_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rounded = (x + residual).to(total_ptr.dtype.element_ty)
    total = rounded.to(tl.float32)

    # Each thread block tells the others its sum of squares through memory: a few bytes, so out of L2.
    parts = parts_ptr + row * CHUNKS
    tl.store(parts + chunks, tl.sum(total * total, axis=1))
    if CLUSTER:
        cluster_barrier()
    everyone = tl.broadcast_to(tl.arange(0, CHUNKS)[None, :], (CHUNKS, CHUNKS))  # a row for each thread block
    squares = tl.sum(tl.load(parts + everyone), axis=1)

    # Stored behind the barrier, which waits for all stores before it.
    tl.store(total_ptr + row * n_cols + cols, rounded, mask=mask)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(squares / n_cols + eps)[:, None]
    tl.store(out_ptr + row * n_cols + cols, total * scale * weight, mask=mask)


@triton.jit
def add_rms_norm_loop_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, x_row_stride, residual_row_stride, n_cols, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    """Each program goes through one row BLOCK_SIZE columns at a time, and then through the sum that it has stored."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE)
    squares = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        mask = cols < n_cols
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        residual = tl.load(residual_ptr + row * residual_row_stride + cols, mask=mask, other=0.0).to(
            tl.float32
        )
        rounded = (x + residual).to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + row * n_cols + cols, rounded, mask=mask)
        total = rounded.to(tl.float32)
        squares += total * total
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + eps)

    blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for block in range(blocks):
        # Backwards, as above. The reduction lies between, so what any thread of this program stored is there to be read.
        cols = (blocks - 1 - block) * BLOCK_SIZE + lanes
        mask = cols < n_cols
        total = tl.load(total_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * n_cols + cols, total * scale * weight, mask=mask)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the RMSNorm of x + residual over the last dimension, and the sum, computed by one kernel.

    x and residual are float32, float16 or bfloat16, of one shape, with any strides; weight is a vector as long as their last
    dimension, of the same dtype. Raises `TypeError` or `ValueError` for anything else.
    """
    check_floats(x=x, residual=residual, weight=weight)
    check_same_shape(x=x, residual=residual)
    _check_weight(x, weight)
    out, total = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    if out.numel():
        _add_rms_norm(as_rows(x), as_rows(residual), weight.contiguous(), out, total, eps)
    return out, total


def _add_rms_norm(x, residual, weight, out, total, eps):
    """Launch the kernel that suits the width and the GPU."""
    n_rows, n_cols = x.shape
    tensors, strides = (x, residual, weight, out, total), (x.stride(0), residual.stride(0))
    if n_cols <= WIDEST_BLOCK:
        block = block_of(n_cols)
        grid = (triton.cdiv(n_rows, block["BLOCK_ROWS"]),)
        add_rms_norm_block_kernel[grid](*tensors, *strides, n_rows, n_cols, eps, **block)
    elif cluster_suits(x, n_cols):
        cluster = cluster_of(x, n_cols)
        parts = torch.empty(n_rows, cluster["CHUNKS"], dtype=torch.float32, device=x.device)
        add_rms_norm_cluster_kernel[(n_rows,)](*tensors, parts, *strides, n_cols, eps, **cluster)
    else:
        add_rms_norm_loop_kernel[(n_rows,)](*tensors, *strides, n_cols, eps, **loop_of(n_cols))


def _check_weight(x: torch.Tensor, weight: torch.Tensor) -> None:
    if x.ndim == 0 or weight.shape != x.shape[-1:]:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)} and x {tuple(x.shape)}: weight must be a vector as long as x's last dimension"
        )
