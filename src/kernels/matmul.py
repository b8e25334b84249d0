"""Matrix multiplication, out[m, n] = sum over k of a[m, k] * b[k, n], four times, each time with more reuse.

For matrices of M by K and K by N elements of s bytes it must move (M K + K N + M N) s bytes and do 2 M N K operations.
A square one of side n so does n / 3 operations for each 2-byte element's byte: the larger, the more each byte can be used.

Whether it *is* used depends on the shape of the work. A program that computes BLOCK_M by BLOCK_N elements reads BLOCK_M rows
of a and BLOCK_N columns of b, so that all programs together read (M N K / BLOCK_N + M N K / BLOCK_M) s bytes. These come
from L2 if another program had them there a moment ago, and from device memory otherwise, so the order of the tiles counts too.

Products are added up in float32 and rounded once. float32 inputs are multiplied as float32, not as TF32, so without tensor
cores.

The ideas that make it fast: a tile large enough that tensor cores, not loads, set the pace; tiles that share rows and columns
side by side in time; the next tile's copies under way while this one is multiplied.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels._checks import check_floats

GROUP_M = 8  # rows of tiles that the grouped order takes together


def matmul_bytes(m: int, n: int, k: int, element_size: int = 2) -> int:
    """Return the bytes that a product of m by k and k by n elements must move: each operand once, the result once [B]."""
    return (m * k + k * n + m * n) * element_size


def matmul_flops(m: int, n: int, k: int) -> int:
    """Return the operations of a product of m by k and k by n elements, a multiply-add counted as two [FLOP]."""
    return 2 * m * n * k


def tiled_bytes(m: int, n: int, k: int, block_m: int, block_n: int, element_size: int = 2) -> int:
    """Return the bytes that programs of block_m by block_n elements ask for, whichever cache they come from [B].

    Every row of tiles reads b once and every column of tiles reads a once; the result is written once.
    """
    rows_of_tiles, columns_of_tiles = -(-m // block_m), -(-n // block_n)
    return (rows_of_tiles * k * n + columns_of_tiles * m * k + m * n) * element_size


def tile_config(a: torch.Tensor) -> dict[str, int]:
    """Return the tile and the launch options that suit a's dtype and device."""
    if a.dtype == torch.float32:  # without tensor cores: what a thread's registers hold
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    if a.is_cuda and torch.cuda.get_device_capability(a.device)[0] >= 9:
        # 8 warps, so that a thread's share of the sums is 128 registers; 3 stages of 48 KiB in shared memory.
        return {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    # At most 48 KiB: below the 64 KiB of the smallest shared memory, a T4's.
    return {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}


def _operands(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Check the operands and allocate the result."""
    check_floats(a=a, b=b)
    if a.dim() != 2 or b.dim() != 2:
        raise ValueError(
            f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}: both must be matrices, use a.view() for more dimensions"
        )
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a is {a.shape[0]} × {a.shape[1]} and b {b.shape[0]} × {b.shape[1]}: a must have as many columns as b rows"
        )
    out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    # The interpreter multiplies bfloat16 as if it were integers.
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        return a.float(), b.float(), out
    return a, b, out


@triton.jit
def matmul_no_reuse_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    M,
    N,
    K,
    a_row_stride,
    a_col_stride,
    b_row_stride,
    b_col_stride,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Each program computes BLOCK_N neighbours in one row, and uses each element of b once."""
    blocks = tl.cdiv(N, BLOCK_N)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    cols = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_K, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K).to(tl.int64)
        a = tl.load(a_ptr + row * a_row_stride + ks * a_col_stride, mask=ks < K, other=0.0)
        b_offsets = ks[:, None] * b_row_stride + cols[None, :] * b_col_stride
        b = tl.load(b_ptr + b_offsets, mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        total += a.to(tl.float32)[:, None] * b.to(tl.float32)
    tl.store(out_ptr + row * N + cols, tl.sum(total, axis=0), mask=cols < N)


def matmul_no_reuse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, computed by one program for each 128 neighbours in a row of the result.

    a is [M, K] and b [K, N], of one dtype (float32, float16, bfloat16) and one device, with any strides.
    Raises `TypeError` or `ValueError` for anything else.
    """
    a, b, out = _operands(a, b)
    if out.numel():
        # 32 by 128 elements of b at a time: 32 loads under way in each of 128 threads, as there is nothing else to do.
        grid = (a.shape[0] * triton.cdiv(b.shape[1], 128),)
        sizes = (*out.shape, a.shape[1])
        matmul_no_reuse_kernel[grid](
            a, b, out, *sizes, *a.stride(), *b.stride(), BLOCK_N=128, BLOCK_K=32, num_warps=4
        )
    return out


@triton.jit
def matmul_tiled_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    M,
    N,
    K,
    a_row_stride,
    a_col_stride,
    b_row_stride,
    b_col_stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Each program computes a tile of BLOCK_M by BLOCK_N elements: it uses a BLOCK_N times, and b BLOCK_M times."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m = tl.program_id(0) // tiles_n
    tile_n = tl.program_id(0) % tiles_n

    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_row_stride + ks[None, :].to(tl.int64) * a_col_stride
    b_ptrs = b_ptr + ks[:, None].to(tl.int64) * b_row_stride + cols[None, :] * b_col_stride
    step = tl.full((), BLOCK_K, tl.int64)  # 64 bits, because a step down b's rows may pass 2^31 elements

    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        # Past the edge of a matrix a zero is loaded, which adds nothing.
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - start) & (cols[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        a_ptrs += step * a_col_stride
        b_ptrs += step * b_row_stride

    out_ptrs = out_ptr + rows[:, None] * N + cols[None, :]
    tl.store(out_ptrs, total, mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul_tiled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, computed by one program for each tile, row of tiles by row of tiles.

    a is [M, K] and b [K, N], of one dtype (float32, float16, bfloat16) and one device, with any strides.
    Raises `TypeError` or `ValueError` for anything else.
    """
    a, b, out = _operands(a, b)
    if out.numel():
        config = tile_config(a)
        grid = (triton.cdiv(out.shape[0], config["BLOCK_M"]) * triton.cdiv(out.shape[1], config["BLOCK_N"]),)
        matmul_tiled_kernel[grid](a, b, out, *out.shape, a.shape[1], *a.stride(), *b.stride(), **config)
    return out


@triton.jit
def matmul_grouped_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    M,
    N,
    K,
    a_row_stride,
    a_col_stride,
    b_row_stride,
    b_col_stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Each program computes a tile, and programs with neighbouring numbers share rows of a and columns of b."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    # GROUP_M rows of tiles together, down their columns: what runs at one time is a block of tiles, not a long row.
    pid = tl.program_id(0)
    first = pid // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)  # the last group may be lower
    within = pid % (GROUP_M * tiles_n)
    tile_m = first + within % height
    tile_n = within // height

    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_row_stride + ks[None, :].to(tl.int64) * a_col_stride
    b_ptrs = b_ptr + ks[:, None].to(tl.int64) * b_row_stride + cols[None, :] * b_col_stride
    step = tl.full((), BLOCK_K, tl.int64)

    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - start) & (cols[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        a_ptrs += step * a_col_stride
        b_ptrs += step * b_row_stride

    out_ptrs = out_ptr + rows[:, None] * N + cols[None, :]
    tl.store(out_ptrs, total, mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul_grouped(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, computed by one program for each tile, group of rows of tiles by group.

    a is [M, K] and b [K, N], of one dtype (float32, float16, bfloat16) and one device, with any strides.
    Raises `TypeError` or `ValueError` for anything else.
    """
    a, b, out = _operands(a, b)
    if out.numel():
        config = tile_config(a)
        grid = (triton.cdiv(out.shape[0], config["BLOCK_M"]) * triton.cdiv(out.shape[1], config["BLOCK_N"]),)
        sizes = (*out.shape, a.shape[1])
        matmul_grouped_kernel[grid](a, b, out, *sizes, *a.stride(), *b.stride(), GROUP_M=GROUP_M, **config)
    return out


@triton.jit
def matmul_persistent_kernel(
    a_desc,
    b_desc,
    out_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Each program computes one tile after another, so that the next one's copies begin before this one is stored."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    # Flattened, the two loops are one to the compiler, and its pipeline does not run dry between tiles.
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        first = tile // (GROUP_M * tiles_n) * GROUP_M
        height = min(tiles_m - first, GROUP_M)
        within = tile % (GROUP_M * tiles_n)
        row = (first + within % height) * BLOCK_M
        col = within // height * BLOCK_N

        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            # One thread asks for a whole tile, and hardware finds the addresses, and the zeros past the edges.
            a = a_desc.load([row, start])
            b = b_desc.load([start, col])
            total = tl.dot(a, b, total)
        out_desc.store([row, col], total.to(out_desc.dtype))


def matmul_persistent(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, computed by as many programs as there are SMs, each with one tile after another.

    a is [M, K] and b [K, N], of one dtype (float32, float16, bfloat16) and one device, with any strides.
    What the hardware's tile copies cannot do is left to `matmul_grouped`: see `has_descriptors`.
    Raises `TypeError` or `ValueError` for anything else.
    """
    a, b, out = _operands(a, b)
    if not has_descriptors(a, b, out):
        return matmul_grouped(a, b).to(out.dtype)
    config = tile_config(a)
    block_m, block_n, block_k = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    tiles = triton.cdiv(out.shape[0], block_m) * triton.cdiv(out.shape[1], block_n)
    described = (
        TensorDescriptor.from_tensor(a, [block_m, block_k]),
        TensorDescriptor.from_tensor(b, [block_k, block_n]),
        TensorDescriptor.from_tensor(out, [block_m, block_n]),
    )
    grid = (min(tiles, _sms(a)),)
    matmul_persistent_kernel[grid](*described, *out.shape, a.shape[1], GROUP_M=GROUP_M, **config)
    return out


def has_descriptors(*matrices: torch.Tensor) -> bool:
    """Whether the hardware's tile copies (TMA) can read and write these matrices.

    They must have 2-byte elements, at least one of them, adjacent in a row; rows and their beginnings at multiples of
    16 bytes; and a GPU of compute capability 9.0 or higher (or the interpreter, which has the rule but not the copies).
    """

    def described(x: torch.Tensor) -> bool:
        capable = not x.is_cuda or torch.cuda.get_device_capability(x.device)[0] >= 9
        aligned = x.data_ptr() % 16 == 0 and x.stride(0) % 8 == 0 and x.stride(0) >= x.shape[1]
        return capable and x.element_size() == 2 and x.numel() > 0 and x.stride(1) == 1 and aligned

    return all(described(x) for x in matrices)


def _sms(x: torch.Tensor) -> int:
    """Return how many SMs x's GPU has; the interpreter has one, and takes four programs so that each has several tiles."""
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
