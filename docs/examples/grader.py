# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = "../.." }
# ///
"""
The grader
==========

``lab.check`` tries a solution on many inputs, and says which mistake it makes.
"""

# %%
# Here is a vector add with a mistake that a size of 1,024 would hide. What would you
# say to its author?

from kernels import lab

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def rounded_down(x, y):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    x, y = x.contiguous(), y.contiguous()
    blocks = max(1, x.numel() // 256)
    kernel[(blocks,)](x, y, out, x.numel(), BLOCK_SIZE=256)
    return out


lab.show(lab.check("vector_add", rounded_down))

# %%
# Another one, which reads every view as if its elements lay side by side:


def any_stride(x, y):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), 256),)
        kernel[grid](x, y, out, x.numel(), BLOCK_SIZE=256)
    return out


lab.show(lab.check("vector_add", any_stride))

# %%
# And one that leaves the work to the framework:

lab.show(lab.check("vector_add", torch.add))
