"""Nothing is launched when K is 0.

Mistake: empty-sum
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K, a_row, a_col, b_row, b_col,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a_offsets = rows[:, None].to(tl.int64) * a_row + ks[None, :].to(tl.int64) * a_col
        b_offsets = ks[:, None].to(tl.int64) * b_row + cols[None, :].to(tl.int64) * b_col
        a = tl.load(a_ptr + a_offsets, mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptr + b_offsets, mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    out_offsets = rows[:, None].to(tl.int64) * N + cols[None, :]
    tl.store(out_ptr + out_offsets, total, mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 64) * triton.cdiv(N, 64),)
    if out.numel() and K:
        matmul_kernel[grid](a, b, out, M, N, K, *a.stride(), *b.stride(), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return out
