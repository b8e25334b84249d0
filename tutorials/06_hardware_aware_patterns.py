# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = ".." }
# ///
"""
6. What shape should the work have?
===================================

The baseline had too little under way, and the strided kernel fetched too much. Both had the wrong shape. In this chapter
you cut the same work differently, three times, and each time you count the bytes before you look at the clock: blocks for
what must be under way, tiles for what can be used again, and fusion for what need not move at all.
"""

# %%
# How large a piece for each program?
# -----------------------------------
# Chapter 5 found that the GPU starts programs at a fixed rate, and that a program which brings too few bytes leaves memory
# idle. Take the vector add that works in blocks, and change one thing only, the number of elements in a block. What has to
# move stays the same:

from kernels import lab

import torch
import triton
import triton.language as tl

from kernels.add import add_bytes, add_kernel
from kernels.elementwise import chain_bytes, chain_flops, eager_chain, eager_chain_bytes
from kernels.elementwise import fused_chain, fused_chain_kernel
from kernels.lab.show import Table
from kernels.lab.units import digits, percent, si
from kernels.matmul import GROUP_M, matmul_bytes, matmul_flops, matmul_grouped
from kernels.matmul import matmul_no_reuse, matmul_no_reuse_kernel, matmul_persistent
from kernels.matmul import matmul_tiled, matmul_tiled_kernel, tile_config, tiled_bytes

N = 2**24
BLOCKS = [2**k for k in range(14)]
roofs = lab.ceilings()

print(f"{si(add_bytes(N), 'B')} for {N:,} additions, whatever the block")

# %%
# Two times compete. Programs start one after the other, so their number costs time; and memory needs its time for the bytes.
# Start as many programs that do nothing, as in chapter 5, and you know the first:


@triton.jit
def do_nothing_kernel(x_ptr):
    """Each program ends where it begins."""


def nothing(n):
    x = torch.rand(n, device="cuda")
    return lambda: do_nothing_kernel[(n,)](x)


started = lab.measure("blocks/start", {"nothing": nothing}, {"n": [N]})
start = started["nothing"].at(n=N).seconds / N
bend = roofs.bandwidth * start / add_bytes(1)


def expected_bandwidth(block):
    """Return what the slower of the two, starting and moving, lets through [B/s]."""
    return min(add_bytes(block) / start, roofs.bandwidth)


# %%
# Both are equal when a program moves as much as memory delivers in the time of one start. That is the bend: below it twice
# the block should give twice the bandwidth, and above it nothing more.

print(f"A program is started every {si(start, 's')}")
print(f"The bend is expected at {digits(bend)} elements a program")

# %%


def blocks(n, block):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    grid, out = (triton.cdiv(n, block),), torch.empty_like(x)
    return lambda: add_kernel[grid](x, y, out, n, BLOCK_SIZE=block)


def block_bytes(n, block):
    return add_bytes(n)


sizes = lab.measure(
    "blocks/size", {"blocks": blocks}, {"n": [N], "block": BLOCKS}, bytes=block_bytes
)
reached = {row.params["block"]: row.bandwidth for row in sizes["blocks"].rows}
enough = min(block for block in BLOCKS if reached[block] >= 0.9 * max(reached.values()))

lab.show(
    lab.predict(
        "What is the smallest block (a power of two) that reaches 90 % of the best?",
        measured=f"{enough} elements; the bend was expected at {digits(bend)}",
        unit="elements",
    )
)

# %%

lab.show(
    lab.plot(
        [
            lab.Line("measured", BLOCKS, [reached[block] for block in BLOCKS]),
            lab.Line("expected", BLOCKS, [expected_bandwidth(b) for b in BLOCKS]),
        ],
        x="block",
        y="bandwidth",
        y_unit="B/s",
        x_label="elements a program",
        log="xy",
        ours="measured",
        title="Twice the block is twice the bandwidth, up to a bend",
        notes=sizes.notes,
    )
)

# %%
# The slope is the rate of starting, the flat part is memory. The model knows two numbers of this machine, and nothing about
# the kernel but its bytes.
#
# Where the lines part, something that the model leaves out costs time as well. Near the bend starting and moving do not
# overlap wholly. At the right end a program is so large that only a few fit beside each other, and the last ones to finish
# leave SMs idle.

best = max(reached, key=reached.get)
ends = {
    "one element": 1,
    f"the best, {best:,}": best,
    f"the largest, {max(BLOCKS):,}": max(BLOCKS),
}
rows = [
    [
        what,
        f"{triton.cdiv(N, block):,}",
        si(add_bytes(block), "B"),
        si(reached[block], "B/s"),
        percent(reached[block] / roofs.bandwidth),
    ]
    for what, block in ends.items()
]
heads = ["a block of", "programs", "each moves", "bandwidth", "of the roof"]
lab.show(Table(heads, rows, "The same bytes in fewer and larger pieces", sizes.notes))

# %%
# So think in blocks: not *what does this thread do*, but *which piece is this program's, and how many bytes does it bring*.
#
# What if every number is needed many times?
# ------------------------------------------
# An addition uses each number once. A matrix product does not: to multiply two matrices of n by n numbers takes n
# multiply-adds for each of them. The bytes that *must* move are few, and whether only these move is a matter of shape.
#
# Begin with the shape that the formula suggests. Each program has 128 neighbours in one row of the result, walks down 128
# columns of ``b``, and adds up. It is coalesced, it has plenty under way, and its block is beyond the bend:

lab.show(lab.code(matmul_no_reuse_kernel))

# %%
# Now count. A program of this shape reads 128 numbers of ``b`` to do 128 multiply-adds: each is used once, and read again by
# every other row. The alternative is a *tile*: a program that computes several rows and several columns of the result can
# use each number of ``a`` for all its columns, and each number of ``b`` for all its rows.

lab.show(lab.drawing("tile_reuse"))

# %%
# ``tiled_bytes`` counts what all programs together ask for: each row of tiles reads all of ``b``, each column of tiles all
# of ``a``. The first kernel is a special case, a tile of one row. Numbers are float16 here, two bytes each, and how large a
# tile may be depends on the GPU:


def tiling_facts():
    """Return this GPU's number of SMs and the tile that the kernels take for it."""
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    tile = tile_config(torch.empty(0, device="cuda", dtype=torch.float16))
    return {"sms": facts.multi_processor_count, **tile}


gpu = lab.observe("tiling/gpu", tiling_facts)
BLOCK_M, BLOCK_N, BLOCK_K = gpu["BLOCK_M"], gpu["BLOCK_N"], gpu["BLOCK_K"]
SIDE = 4096
asked = {
    "no reuse": tiled_bytes(SIDE, SIDE, SIDE, 1, 128),
    "tiles": tiled_bytes(SIDE, SIDE, SIDE, BLOCK_M, BLOCK_N),
}

rows = [
    ["a row of 128", si(asked["no reuse"], "B")],
    [f"a tile of {BLOCK_M} × {BLOCK_N}", si(asked["tiles"], "B")],
    ["must move", si(matmul_bytes(SIDE, SIDE, SIDE), "B")],
]
caption = f"What all programs ask for, {SIDE:,} × {SIDE:,}"
lab.show(lab.table(["the program's part", "bytes"], rows, caption))

# %%
# That is the prediction. Now have the hardware count what L2 sent, for both kernels, and time them.


def pair(n):
    a = torch.randn(n, n, device="cuda", dtype=torch.float16)
    return a, torch.randn(n, n, device="cuda", dtype=torch.float16)


def no_reuse(n):
    a, b = pair(n)
    return lambda: matmul_no_reuse(a, b)


def tiles(n):
    a, b = pair(n)
    return lambda: matmul_tiled(a, b)


def both(n):
    a, b = pair(n)
    return lambda: [matmul_no_reuse(a, b), matmul_tiled(a, b)]


def product_bytes(n):
    return matmul_bytes(n, n, n)


def product_flops(n):
    return matmul_flops(n, n, n)


counted = lab.counters("tiling/reuse", both, n=SIDE)
sent = dict(zip(asked, (k.values["l2_read"] for k in counted.kernels), strict=True))
slow = lab.measure(
    "tiling/no reuse",
    {"no reuse": no_reuse, "tiles": tiles},
    {"n": [SIDE]},
    bytes=product_bytes,
    flops=product_flops,
)
once, tiled = slow["no reuse"].at(n=SIDE), slow["tiles"].at(n=SIDE)

lab.show(
    lab.predict(
        "Both do the same multiplications. How many times faster are the tiles?",
        measured=f"{digits(once.seconds / tiled.seconds)} times",
        unit="times",
    )
)

# %%

timed = {"no reuse": once, "tiles": tiled}
rows = [
    [
        name,
        si(asked[name], "B"),
        si(sent[name], "B"),
        si(row.seconds, "s"),
        si(sent[name] / row.seconds, "B/s"),
        percent(sent[name] / row.seconds / roofs["L2"].value),
    ]
    for name, row in timed.items()
]
heads = ["kernel", "expected", "sent by L2", "time", "L2 sends", "of its roof"]
notes = list(dict.fromkeys([*slow.notes, counted.source.line]))
lab.show(Table(heads, rows, "What reuse saves", notes))

# %%
# Look at the bytes first. Where less was sent than expected, programs on one SM found some of each other's numbers in its
# L1 cache. Then look at the last column: what the slow kernel waits for is L2. Its bytes set its pace, not its
# multiplications.
#
# A tile also lets a better tool do the arithmetic. *Tensor cores* multiply small matrices whole, and they are fed from
# shared memory, where the tile lies. Compiled for the reference GPU, one line of Python becomes this; the tile in this
# excerpt is a small one, so that the line is short:

pointers = dict.fromkeys(["a_ptr", "b_ptr", "out_ptr"], "*fp16")
integers = dict.fromkeys(["M", "N", "K", "a_row_stride", "b_row_stride"], "i32")
small = {"BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_K": 16, "num_warps": 4}
trace = lab.trace(
    matmul_tiled_kernel,
    **pointers,
    **integers,
    a_col_stride=1,
    b_col_stride=1,
    **small,
    target="sm_90",
)
lab.show(
    trace.excerpt("ptx", of="a = tl.load", kind="copy"),
    trace.excerpt("ptx", of="total = tl.dot", kind="tensor"),
)

# %%
# The loads have become asynchronous copies of 16 bytes (``0x10``) a thread, from device memory into shared memory, which
# run while the tile before is multiplied. In the other line the shape is part of the instruction's name: ``m64n16k16`` is a
# 64 × 16 result, 16 products for each of its numbers, by 128 threads together.
#
# Does it matter which tile comes first?
# --------------------------------------
# L2 sends what the programs ask for, and device memory sends what L2 has not got. So look at the tiles as the hardware does:
# an SM has room for one of these programs, and as many as there are SMs run at one time. What *they* need can be shared in
# L2. What the next ones need again has to come again, if the matrices are larger than L2.
#
# It is the same picture one level up: the tiles that run at one time are the parts of the result that are computed together.
# Row by row, they make a long thin strip. In *groups*, down the columns of a few rows of tiles, they make something like a
# square. Here are both orders, as the two kernels compute them from the number of the program:

LARGE = 16384
tiles_m, tiles_n = triton.cdiv(LARGE, BLOCK_M), triton.cdiv(LARGE, BLOCK_N)


def row_by_row(pid):
    return pid // tiles_n, pid % tiles_n


def in_groups(pid):
    first = pid // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = pid % (GROUP_M * tiles_n)
    return first + within % height, within // height


# %%
# Count the strips that each round of programs needs, and you have the bytes from device memory, if everything is read once
# a round and nothing is left for the next:


def round_bytes(order, at_once=gpu["sms"]):
    """Return what device memory sends for all tiles, `at_once` in a round [B]."""
    total = LARGE * LARGE * 2  # the result, written once
    for first in range(0, tiles_m * tiles_n, at_once):
        last = min(first + at_once, tiles_m * tiles_n)
        taken = [order(pid) for pid in range(first, last)]
        strips_of_a, strips_of_b = (
            len({i for i, _ in taken}),
            len({j for _, j in taken}),
        )
        total += (strips_of_a * BLOCK_M + strips_of_b * BLOCK_N) * LARGE * 2
    return total


modelled = {"row by row": round_bytes(row_by_row), "in groups": round_bytes(in_groups)}

rows = [[name, si(n_bytes, "B")] for name, n_bytes in modelled.items()]
rows.append(["must move", si(matmul_bytes(LARGE, LARGE, LARGE), "B")])
caption = f"Expected from and to device memory, {LARGE:,} × {LARGE:,}"
lab.show(lab.table(["order of the tiles", "bytes"], rows, caption))

# %%
# Same tiles, same instructions, other numbers for the programs. The hardware counts:


def two_orders(n):
    a, b = pair(n)
    return lambda: [matmul_tiled(a, b), matmul_grouped(a, b)]


def grouped(n):
    a, b = pair(n)
    return lambda: matmul_grouped(a, b)


orders = lab.counters("tiling/order", two_orders, n=LARGE)
moved = {
    name: kernel.values["dram_read"] + kernel.values["dram_written"]
    for name, kernel in zip(modelled, orders.kernels, strict=True)
}

lab.show(
    lab.predict(
        "How many times more does device memory move when the tiles go row by row?",
        measured=f"{digits(moved['row by row'] / moved['in groups'])} times",
        choices=["the same", "about 1.5 times", "about 3 times", "about 10 times"],
    )
)

# %%

ordered = lab.measure(
    "tiling/order", {"row by row": tiles, "in groups": grouped}, {"n": [LARGE]}
)
rows = [
    [
        name,
        si(modelled[name], "B"),
        si(moved[name], "B"),
        si(row.seconds, "s"),
        si(moved[name] / row.seconds, "B/s"),
    ]
    for name in modelled
    if (row := ordered[name].at(n=LARGE))
]
heads = ["order of the tiles", "expected", "counted", "time", "memory moves"]
notes = list(dict.fromkeys([*ordered.notes, orders.source.line]))
lab.show(Table(heads, rows, "What the order saves", notes))

# %%
# The model is crude. Programs do not march in step, and L2 keeps something from one round to the next. It still says which
# order is better, and by about how much, with nothing but the drawing above.
#
# What that is worth in time depends on the matrices: as long as they fit into L2, the order is of no consequence. Here are
# all sizes, and two rivals more:


def persistent(n):
    a, b = pair(n)
    return lambda: matmul_persistent(a, b)


def torch_matmul(n):
    a, b = pair(n)
    return lambda: torch.matmul(a, b)


rates = lab.measure(
    "tiling/rates",
    {
        "row by row": tiles,
        "in groups": grouped,
        "persistent": persistent,
        "torch.matmul": torch_matmul,
    },
    {"n": [1024, 2048, 4096, 8192, LARGE]},
    bytes=product_bytes,
    flops=product_flops,
)
lab.show(rates.table("rate", caption="A product of n × n matrices, float16"))

# %%
# The third kernel, ``matmul_persistent``, has tiles in groups too. It starts one program for each SM, which takes one tile
# after another, so that the next tile's copies begin before the last one is stored. On a GPU of compute capability 9.0 or
# higher it also leaves the copying to a unit of the hardware that fetches a whole tile for one instruction. The fourth is
# NVIDIA's own library.

large, own, theirs = (
    rates[name].at(n=SIDE) for name in ("in groups", "persistent", "torch.matmul")
)
print(f"{SIDE:,} × {SIDE:,}, as a share of torch.matmul's speed:")
print(f"  tiles in groups  {percent(theirs.seconds / large.seconds)}")
print(f"  persistent       {percent(theirs.seconds / own.seconds)}")

# %%
# Can bytes be saved that nobody uses twice?
# ------------------------------------------
# Blocks and tiles leave an addition where it was: every number is used once, and memory is busy. There is one way left to
# make such work faster, and it is to have more of it. Programs rarely do one elementwise step. They scale, shift, clip and
# scale again, and each step in torch is a kernel that reads everything and writes everything:

lab.show(lab.code(eager_chain))

# %%
# What one step writes the next one reads. If one kernel does all of them, that stays in a register:

lab.show(lab.code(fused_chain_kernel))

# %%
# Count: a chain of k steps moves k times as much as one step, and the fused chain no more than one step. So the prediction is
# the plainest of the workshop: *k times faster*. This holds while memory sets the pace, and chapter 2 showed how many
# operations on a number are free.

M = 2**26
STEPS = 8


def eager(n, k):
    x = torch.randn(n, device="cuda")
    return lambda: eager_chain(x, k)


def fused(n, k):
    x = torch.randn(n, device="cuda")
    return lambda: fused_chain(x, k)


def both_chains(n, k):
    x = torch.randn(n, device="cuda")
    return lambda: [fused_chain(x, k), eager_chain(x, k)]


chains = lab.measure(
    "fusion/chain",
    {"eager": eager, "one kernel": fused},
    {"n": [M], "k": [1, 2, 4, STEPS, 16]},
    bytes=chain_bytes,
    flops=chain_flops,
)
ratios = {
    row.params["k"]: chains["eager"].at(**row.params).seconds / row.seconds
    for row in chains["one kernel"].rows
}

lab.show(
    lab.predict(
        f"A chain of {STEPS} steps: how many times faster is it as one kernel?",
        measured=f"{digits(ratios[STEPS])} times",
        unit="times",
    )
)

# %%

seen = lab.counters("fusion/counters", both_chains, n=M, k=STEPS)
each = [k.values["dram_read"] + k.values["dram_written"] for k in seen.kernels]
rows = [
    ["eager", si(eager_chain_bytes(M, STEPS), "B"), si(sum(each[1:]), "B")],
    ["one kernel", si(chain_bytes(M, STEPS), "B"), si(each[0], "B")],
]
caption = f"{STEPS} steps on {M:,} numbers, from and to device memory"
lab.show(Table(["chain", "expected", "counted"], rows, caption, [seen.source.line]))

# %%

rows = [
    [
        str(k),
        si(chains["eager"].at(n=M, k=k).seconds, "s"),
        si(chains["one kernel"].at(n=M, k=k).seconds, "s"),
        f"{digits(ratio)} ×",
    ]
    for k, ratio in ratios.items()
]
heads = ["steps k", "eager", "one kernel", "faster"]
lab.show(Table(heads, rows, "One step costs as much as all of them", chains.notes))

# %%
# Read down the third column: the time of one kernel hardly depends on how much it does. Then read the last one beside the
# first. No trick inside a kernel gives a factor like this, because each of the torch kernels is near the roof already. They
# are good at work that need not be done.
#
# The roofline so far
# -------------------
# Four products, drawn by the bytes that were counted: two by what L2 sent, two by what device memory moved. And the chain,
# by what it must move in either form.

flops, large_flops = product_flops(SIDE), product_flops(LARGE)
chain_points = {
    "eager": (eager_chain_bytes(M, STEPS), chains["eager"].at(n=M, k=STEPS).seconds),
    "fused": (chain_bytes(M, STEPS), chains["one kernel"].at(n=M, k=STEPS).seconds),
}
points = [
    lab.Point("no reuse, from L2", flops, sent["no reuse"], once.seconds, "FP16"),
    lab.Point("tiles, from L2", flops, sent["tiles"], tiled.seconds, "FP16"),
]
points += [
    lab.Point(f"tiles {name}", large_flops, moved[name], row.seconds, "FP16")
    for name in modelled
    if (row := ordered[name].at(n=LARGE))
]
points += [
    lab.Point(f"{STEPS} steps, {name}", chain_flops(M, STEPS), n_bytes, seconds)
    for name, (n_bytes, seconds) in chain_points.items()
]
lab.show(
    lab.roofline(
        points,
        title="Every pattern moves its point to the right",
        chapter=6,
        ceilings=roofs,
    )
)

# %%
# The two points by L2's bytes may lie above the roof of device memory, which did not serve them; L2's own roof, the faint
# one, holds for them. From no reuse to tiles the point moves far to the right, until bytes no longer set the pace. The order
# of the tiles moves it further, where arithmetic is the only roof. Fusion moves the chain to the right along the memory
# roof, and so upwards. In each case the operations stayed the same, and the bytes became fewer.
#
# Exercise: the product in tiles
# ------------------------------
# Write ``matmul(a, b)`` in tiles and in groups. Sizes are no multiples of a tile, so that the tiles at the edges reach
# beyond; the sums want float32, whatever the inputs are. Either input may be transposed or a slice of a larger matrix.
#
# Begin row by row. When the results are right, bring in the groups.


@triton.jit
def matmul_kernel(
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
    """Compute one tile of BLOCK_M by BLOCK_N elements of the product."""
    # Your turn: find the tile in the grouped order; walk along K and add in float32;
    # store


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b."""
    out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    # Your turn: launch one program for each tile
    return out


lab.show(lab.check("matmul", matmul))

# %%
# Three hints, each more explicit than the one before, and then a solution:

hints = [lab.hint("matmul", number) for number in (1, 2, 3)]
lab.show(*hints, lab.solution("matmul"))

# %%
# What holds
# ----------

lab.show(
    lab.claim(
        "From blocks of 1 to blocks of 64 elements the bandwidth grows at least 30 times.",
        reached[64] / reached[1],
        at_least=30,
        unit="times",
    ),
    lab.claim(
        "The bend comes within a factor of four of where it was expected.",
        enough / bend,
        at_least=0.25,
        at_most=4,
    ),
    lab.claim(
        "Without reuse L2 sends at least twenty times as much as with tiles.",
        sent["no reuse"] / sent["tiles"],
        at_least=20,
        unit="times",
    ),
    lab.claim(
        "For tiles, L2 sends what the model says, to within 10 %.",
        sent["tiles"] / asked["tiles"],
        at_least=0.9,
        at_most=1.1,
    ),
    lab.claim(
        "Tiles are at least twenty times faster.",
        once.seconds / tiled.seconds,
        at_least=20,
        unit="times",
    ),
    lab.claim(
        "In groups, device memory moves less than two thirds of what it moves row by row.",
        moved["in groups"] / moved["row by row"],
        at_most=0.67,
    ),
    lab.claim(
        f"The persistent kernel reaches 95 % of torch.matmul's speed at {SIDE:,}.",
        theirs.seconds / own.seconds,
        at_least=0.95,
    ),
    lab.claim(
        f"A chain of {STEPS} steps is {STEPS} times faster as one kernel, to within 20 %.",
        ratios[STEPS] / STEPS,
        at_least=0.8,
        at_most=1.2,
    ),
)

# %%
# What you can now explain
# ------------------------
# - How large a program's piece must be: as many bytes as memory delivers in the time that it takes to start a program.
# - Why a matrix product in tiles reads less than one in rows, how much less, and why even the order of the tiles counts.
# - Why fusion is worth as many times as there are steps, and why nothing else helps a kernel that is bound by memory.
#
# What shape should the work have? Large enough pieces to keep memory busy; pieces that use again what they have read; and
# no more pieces than there are reasons to go back to memory. Is that enough to be as fast as CUDA C++? That is chapter 7.
#
# Where these numbers come from
# -----------------------------

lab.show(lab.sources())
