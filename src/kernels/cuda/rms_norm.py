"""Residual add and RMSNorm in one kernel in CUDA C++: sum = x + residual, out = sum / sqrt(mean(sum^2) + eps) * weight.

For n elements of s bytes it must move 4 n s bytes: two reads, two writes. A row of up to 128 KiB stays in registers; of a
wider one the sum is read back once.
"""

import torch

from kernels._checks import check_floats, check_same_shape
from kernels._rows import as_rows
from kernels.cuda._compile import check_on_gpu, launch, source
from kernels.cuda._rows import LOOP_PER, LOOP_THREADS, TYPES, layout, pack_size

ADD_RMS_NORM = source("rows.cuh", "rms_norm.cu")


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the RMSNorm of x + residual over the last dimension, and the sum itself, computed in CUDA C++.

    x and residual are float32, float16 or bfloat16, of one shape and any strides; weight is a vector as long as the last
    dimension, of the same dtype. The sum is rounded to that dtype before it is normalised. Raises `TypeError` or
    `ValueError` for anything else, `ImportError` without `cuda.core`.
    """
    check_floats(x=x, residual=residual, weight=weight)
    check_same_shape(x=x, residual=residual)
    check_on_gpu(x=x)
    if x.ndim == 0 or weight.shape != x.shape[-1:]:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)} and x {tuple(x.shape)}: weight must be a vector as long as x's last dimension"
        )
    out, total = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    if not x.numel():
        return out, total
    rows, residual_rows, weight = as_rows(x), as_rows(residual), weight.contiguous()
    n_rows, n_cols = rows.shape
    size = pack_size(rows, residual_rows, weight, out)
    parameters = f"{TYPES[x.dtype]}, {size}"
    held = layout(n_cols // size)
    if held:
        name = f"add_rms_norm_in_registers<{parameters}, {held.per}, {held.threads}, {held.block}>"
        blocks, threads = -(-n_rows // (held.block // held.threads)), held.block
    else:
        name = f"add_rms_norm_in_two_passes<{parameters}, {LOOP_PER}, {LOOP_THREADS}>"
        blocks, threads = n_rows, LOOP_THREADS
    strides = rows.stride(0), residual_rows.stride(0)
    launch(
        ADD_RMS_NORM, name, blocks, threads,
        rows, residual_rows, weight, out, total, n_rows, n_cols, *strides, 1 / n_cols, float(eps),
    )  # fmt: skip
    return out, total
