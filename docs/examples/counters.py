# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = "../.." }
# ///
"""
Hardware counters
=================

``lab.counters`` asks NVIDIA's Nsight Compute what a kernel really did, records the answer, and replays it.
"""

# %%
# It is declared like a measurement: a function that makes the inputs and returns the
# call, and its parameters.

from kernels import lab

import torch

from kernels.add import add, add_bytes, add_one_element


def blocks(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: add(x, y)


def one_element(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: add_one_element(x, y)


counted = lab.counters("instruments/blocks", blocks, bytes=add_bytes, n=2**24)
lab.show(counted)

# %%
# Two kernels that do the same work, side by side:

baseline = lab.counters(
    "instruments/one element", one_element, bytes=add_bytes, n=2**24
)
lab.show(lab.side_by_side({"one element": baseline, "blocks": counted}))

# %%
# Where the counters cannot be read, because Nsight Compute is missing, its permission
# is missing, or the GPU is of another vendor, the table says which and how to mend it,
# and shows what can be known without them.

lab.show(lab.sources())
