# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = "../.." }
# ///
"""
Ceilings and rooflines
======================

``lab.ceilings()`` measures what this machine can do at most. ``lab.roofline`` sets kernels under those ceilings.
"""

# %%
# The ceilings are measured, each in several ways of which the best counts, and set
# beside the datasheet's promise where the GPU is a known one.

from kernels import lab

import torch

lab.show(lab.ceilings())

# %%
# A kernel is a point: how many operations it must do for each byte it must move, and
# how many it does each second. The bytes and operations are those of the algorithm.


def add(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: torch.add(x, y)


def matmul(n):
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    return lambda: a @ b


adds = lab.measure(
    "instruments/add",
    {"torch.add": add},
    {"n": [2**k for k in range(16, 29, 3)]},
    bytes=lambda n: 12 * n,
    flops=lambda n: n,
)
matmuls = lab.measure(
    "instruments/matmul",
    {"torch.matmul": matmul},
    {"n": [256, 512, 1024, 2048, 4096, 8192]},
    bytes=lambda n: 3 * 2 * n * n,
    flops=lambda n: 2 * n**3,
)
lab.show(matmuls.table("rate", caption="A product of two n × n matrices in bfloat16"))

# %%
# A sweep draws as a path that ends in its last point. The vector add climbs straight
# up, since its intensity stays what it is; the matrix product moves to the right,
# because a larger one does more with each byte.

lab.show(
    lab.roofline(
        [
            lab.Point.swept("vector add", adds["torch.add"]),
            lab.Point.swept("matrix product", matmuls["torch.matmul"], roof="BF16"),
        ],
        title="Two operations, two ways to climb",
    )
)

# %%
# The arithmetic behind the plot is three plain functions.

roofs = lab.ceilings()
ai = lab.intensity(flops=1, bytes=12)
print(f"A float32 vector add does {ai:.3f} FLOP/B: it is bound by")
print(lab.bound(ai, roofs.bandwidth, roofs.peak("FP32")))

# %%
lab.show(lab.sources())
