"""Row softmax in CUDA C++: out = exp(x - max(x)) / sum(exp(x - max(x))) over the last dimension.

For n elements of s bytes it must move 2 n s bytes. A row of up to 128 KiB is read once and kept in the registers of the
threads that share it, from one thread to 1,024; a wider one is read twice.
"""

import torch

from kernels._checks import check_floats
from kernels._rows import as_rows
from kernels.cuda._compile import check_on_gpu, launch, source
from kernels.cuda._rows import LOOP_PER, LOOP_THREADS, TYPES, layout, pack_size

SOFTMAX = source("rows.cuh", "softmax.cu")


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of x over its last dimension, computed in CUDA C++.

    x is float32, float16 or bfloat16, of any shape and any strides; views whose rows lie apart in memory are copied first.
    A row that is all -inf becomes NaN, as in torch. Raises `TypeError` or `ValueError` for anything else, `ImportError`
    without `cuda.core`.
    """
    check_floats(x=x)
    check_on_gpu(x=x)
    if x.ndim == 0:
        raise ValueError("x has no dimension: a softmax needs rows, so use x.reshape(1)")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    rows = as_rows(x)
    n_rows, n_cols = rows.shape
    size = pack_size(rows, out)
    parameters = f"{TYPES[x.dtype]}, {size}"
    held = layout(n_cols // size)
    if held:
        name = f"softmax_in_registers<{parameters}, {held.per}, {held.threads}, {held.block}>"
        blocks, threads = -(-n_rows // (held.block // held.threads)), held.block
    else:
        name = f"softmax_in_two_passes<{parameters}, {LOOP_PER}, {LOOP_THREADS}>"
        blocks, threads = n_rows, LOOP_THREADS
    launch(SOFTMAX, name, blocks, threads, rows, out, n_rows, n_cols, rows.stride(0))
    return out
