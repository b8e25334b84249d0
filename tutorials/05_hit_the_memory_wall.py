# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = ".." }
# ///
"""
5. What is it waiting for?
==========================

The baseline lies far below both roofs, so neither memory nor arithmetic explains it. The GPU itself knows more: it counts
what happens inside. In this chapter you read its counters, find several that praise the slower kernel, and follow the
others to one cause. Then you meet a second way to lose, in which memory is as busy as it can be, with bytes that nobody wants.
"""

# %%
# What did the hardware count?
# ----------------------------
# A GPU has *hardware counters*: circuits that count bytes, requests, instructions, and the cycles that warps spend waiting.
# NVIDIA's profiler, Nsight Compute, reads them, and ``lab.counters`` runs it for you. It takes a function like those of
# ``lab.measure``. Here 16 million additions are done by three kernels: the baseline, a version in which a program adds a
# block of 1024 neighbours, and torch's.

from kernels import lab

import torch
import triton
import triton.language as tl

from kernels.add import add, add_bytes, add_one_element, add_one_element_kernel
from kernels.lab.show import Table
from kernels.lab.units import digits, percent, si

N = 2**24


def baseline(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: add_one_element(x, y)


def blocks(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: add(x, y)


def torch_add(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: torch.add(x, y)


slow = lab.counters("profile/baseline", baseline, bytes=add_bytes, n=N)
fast = lab.counters("profile/blocks", blocks, bytes=add_bytes, n=N)
torchs = lab.counters("profile/torch.add", torch_add, bytes=add_bytes, n=N)
profiles = {"baseline": slow, "blocks": fast, "torch.add": torchs}

# %%
# Three of the counters first, those about time and memory. Where this machine's counters cannot be read, the table says why,
# and shows those of the GPU of the published page.

lab.show(slow.only("seconds", "dram_read", "dram_written", "needed", "dram_share"))

# %%
# So device memory did what was needed and no more, and it was hardly busy with it: the last row is the share of the time in
# which it moved anything. Whatever the baseline is waiting for, it is not a memory that has too much to do.
#
# Four numbers that praise the slower kernel
# ------------------------------------------
# A load asks the L1 cache of its SM first, then the L2 cache that all SMs share, then device memory. The *hit rate* of a
# cache is the share of what it was asked for that it had. Everyone likes a high one.

lab.show(
    lab.predict(
        "Which of the two kernels has the higher hit rate in L1?",
        measured=f"the baseline has {percent(slow['l1_hit_rate'])}, "
        f"the version in blocks {percent(fast['l1_hit_rate'])}",
        choices=["the baseline", "the version in blocks", "both have the same"],
    )
)

# %%

lab.show(
    lab.side_by_side(
        profiles,
        "seconds",
        "l1_hit_rate",
        "l2_hit_rate",
        "sectors_per_load",
        "active_lanes",
        caption="The first row, and four that seem to contradict it",
    )
)

# %%
# Take them one by one. **L1 hit rate.** A program of Triton has 4 warps unless you say otherwise, 128 threads. The baseline
# has one number for them to load. So all four warps load it, and three of four find it in L1. The version in blocks reads
# nothing twice, so nothing can be found. A hit rate tells how often the same bytes are asked for again, and not whether
# anybody needed to.
#
# **L2 hit rate.** Caches and memory hand out *sectors* of 32 bytes (`Nsight Compute's guide
# <https://docs.nvidia.com/nsight-compute/ProfilingGuide/>`_). Eight neighbours lie in one, and belong to eight programs,
# mostly on different SMs. The first of them brings the sector into L2, and the others find it there.
#
# **Sectors per load.** When a warp executes a load, that is one *request* with 32 addresses, and the fewer sectors they fall
# into, the less must be fetched. The baseline's requests touch a single one. They also want a single number: 4 bytes of the
# 32. A request of the version in blocks touches 16 sectors and wants all their 512 bytes.
#
# **Active lanes.** One element for 32 lanes should mean that one is at work. The counter says that nearly all are. The PTX
# shows why:

trace = lab.trace(add_one_element_kernel, x_ptr="*fp32", y_ptr="*fp32", out_ptr="*fp32")
lab.show(
    trace.excerpt("ptx", of="x = tl.load", kind="load"),
    trace.excerpt("ptx", of="tl.store", kind="store"),
)

# %%
# The load stands there without a condition: all 128 threads load the same number, and all of them add. Only the store has a
# condition in front, ``@%p1``, which is true for the first thread of the program. The others are active, and what they do is
# thrown away. Counted over all lanes:

lanes = {
    name: one["instructions"] * one["active_lanes"] / N
    for name, one in profiles.items()
}
rows = [[name, digits(each)] for name, each in lanes.items()]
lab.show(
    lab.table(
        ["kernel", "for each addition"],
        rows,
        caption="Instructions, every lane counted",
    )
)

# %%
# That is a lot of work for one addition. Is it why the baseline is slow? An SM can start four instructions in each cycle.
# Look at how many of these slots were used, and at what the warps did instead.


def of_each(read):
    """Return what is read off each of the three profiles, as a share."""
    return [percent(read(one)) for one in profiles.values()]


rows = [
    ["SMs: instruction slots used", *of_each(lambda one: one["issue_share"])],
    ["warps: starting one", *of_each(lambda one: one.stalls.get("selected", 0))],
    [
        "warps: waiting for loads",
        *of_each(lambda one: one.stalls.get("long_scoreboard", 0)),
    ],
]
lab.show(
    lab.table(["of the time", *profiles], rows, caption="What a warp does all day")
)

# %%
# The slots are mostly free, so the instructions are not what it waits for. In all three kernels a warp spends most of its
# life waiting for its loads. *That* a kernel waits for memory tells nothing: they all do, the fastest too. What matters is
# how much is under way meanwhile.
#
# How much is under way?
# ----------------------
# The counters can tell how long a program stays on an SM. They know the cycles of all SMs together, the programs, and how
# many warps are there on average; the rest is division.

SCHEDULERS = 4  # of an SM; each can start one instruction a cycle


def life(counted):
    """Return what happens on an average SM: times are in cycles of its clock."""
    cycles = counted["instructions"] / counted["issue_share"] / SCHEDULERS
    every = cycles / counted["programs"]
    there = counted["active_warps"] / (counted["threads"] / 32)
    room = there * counted["occupancy_limit"] / counted["occupancy"]
    return {"every": every, "there": there, "room": room, "stays": there * every}


lives = {name: life(one) for name, one in profiles.items()}
asks = {name: 2 * 4 * N / one["programs"] for name, one in profiles.items()}

under_way = {name: lives[name]["there"] * asks[name] for name in profiles}

# %%
# A program cannot have more under way than all that it ever loads. So this is the most that an SM can have asked for and not
# yet received:


def cycles(what):
    """Return one of the times for each of the three kernels."""
    return [f"{digits(each[what])} cycles" for each in lives.values()]


rows = [
    ["a program loads", *(si(n_bytes, "B") for n_bytes in asks.values())],
    ["and stays for", *cycles("stays")],
    ["another comes every", *cycles("every")],
    ["so there are", *(digits(each["there"]) for each in lives.values())],
    ["there is room for", *(digits(each["room"]) for each in lives.values())],
    ["bytes under way", *(si(n_bytes, "B") for n_bytes in under_way.values())],
]
notes = [slow.source.line]
lab.show(Table(["on one SM", *profiles], rows, "Coming, staying, going", notes))

# %%
# Here the kernels part. Compare the last row: the baseline has next to nothing under way. The other two have so much that
# memory is busy and their programs queue for it, which is why theirs stay longer.
#
# And it need not be so little. Millions of programs are waiting, the SM has room for more of them, and still most of its
# places are empty. A program of the baseline stays for about one trip to memory and is gone, and the next one is a long time
# coming.
#
# Is it the starting?
# -------------------
# That suggests a suspect: the GPU cannot start programs fast enough. A suspect is no culprit, so make the experiment. Take
# the loads out of the baseline, and the addition, and the store, and start as many programs that do nothing.


@triton.jit
def do_nothing_kernel(x_ptr):
    """Each program ends where it begins."""


def nothing(n):
    x = torch.rand(n, device="cuda")
    return lambda: do_nothing_kernel[(n,)](x)


def nothing_with_one_warp(n):
    x = torch.rand(n, device="cuda")
    return lambda: do_nothing_kernel[(n,)](x, num_warps=1)


def baseline_with_one_warp(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    out = torch.empty_like(x)
    return lambda: add_one_element_kernel[(n,)](x, y, out, num_warps=1)


starts = lab.measure(
    "profile/start",
    {
        "baseline": baseline,
        "with one warp": baseline_with_one_warp,
        "nothing": nothing,
        "nothing, one warp": nothing_with_one_warp,
    },
    {"n": [2**20, 2**22, N]},
)
idle, busy = starts["nothing"].at(n=N), starts["baseline"].at(n=N)

lab.show(
    lab.predict(
        "Doing nothing, 16 million times: which share of the baseline's time does that take?",
        measured=percent(idle.seconds / busy.seconds),
        choices=["less than 1 %", "about 10 %", "about half", "nearly all of it"],
    )
)

# %%

lab.show(starts.table("seconds", caption="The time of n programs"))

# %%
# So that is what it waits for. To load two numbers, add them and store the sum costs the baseline next to nothing beyond
# what it costs to start its programs. One warp where there were four does not help either: what counts is the number of
# programs, whatever is in them. The time of one start:

start = idle.seconds / N
lab.show(
    lab.table(
        ["what", "how much"],
        [
            ["a program is started every", si(start, "s")],
            ["one of the baseline moves", si(add_bytes(1), "B")],
            ["which can be at most", si(add_bytes(1) / start, "B/s")],
            ["the baseline moves", si(add_bytes(N) / busy.seconds, "B/s")],
        ],
        caption="What starting costs",
    )
)

# %%
# The chain of causes, from the line of Python to the counters:
#
# 1. ``i = tl.program_id(0)`` is used as an index, so the whole work of a program is one element.
# 2. As many programs as elements must be started, and the GPU starts them at a fixed rate: *the time*.
# 3. A program asks for two numbers, waits for one trip to memory, and ends before many others have come: *warps that wait
#    for loads, and few of them there*.
# 4. So next to nothing is under way: *device memory hardly busy*.
# 5. The 128 threads of a program share one element, and its neighbours share its sectors: *high hit rates, one sector per
#    load, all lanes active*. These are symptoms of too little work for a program, and they look like health.
#
# The same numbers say what a better kernel needs. If a program is started every so often, and memory is to be busy, then
# each has to move at least this much:

roofs = lab.ceilings()
least = roofs.bandwidth * start
print(
    f"{si(least, 'B')}, which is {digits(least / add_bytes(1))} elements of the addition"
)

# %%
# Remember that number. Chapter 6 gives a program more and more elements and looks for the bend.
#
# A second way to lose
# --------------------
# The baseline had too little under way. A kernel can have plenty under way and still lose, if most of it is rubbish.
#
# Memory hands out sectors and nothing smaller. If the 32 lanes of a warp want 32 neighbouring numbers, their request is 128
# bytes: 4 sectors, all of them wanted. Such accesses are called *coalesced*. If the numbers lie apart, more sectors must
# come, and less of each is wanted.

lab.show(lab.drawing("coalescing"))

# %%
# The kernel below reads numbers that lie ``stride`` elements apart, and adds them up so that the compiler cannot drop the
# loads. However large the stride, it wants the same number of bytes. Triton compiles a special version when an argument is
# 1; here that is forbidden, so that the very same machine code runs for each stride.


@triton.jit(do_not_specialize=["stride"])
def read_strided_kernel(x_ptr, out_ptr, stride, BLOCK_SIZE: tl.constexpr):
    """Each program sums BLOCK_SIZE elements that lie `stride` elements apart."""
    pid = tl.program_id(0)
    places = pid.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + places * stride)
    tl.store(out_ptr + pid, tl.sum(x, axis=0))


def read_strided(x, n, stride, block=2048):
    """Return the sums of blocks of every `stride`-th element of x, `n` elements in all."""
    out = torch.empty(n // block, device=x.device)
    read_strided_kernel[(n // block,)](x, out, stride, BLOCK_SIZE=block)
    return out


x = torch.rand(7 * 256, device=lab.device())
torch.testing.assert_close(read_strided(x, 256, 7, block=64), x[::7].view(4, 64).sum(1))
print("The sums of every seventh element are right.")

# %%
# In PTX the loads of a thread all look like this one, with stride 1 and with stride 64:

types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "stride": "i32"}
strided_trace = lab.trace(
    read_strided_kernel, **types, unaligned=["stride"], BLOCK_SIZE=128
)
lab.show(strided_trace.excerpt("ptx", of="x = tl.load", kind="load"))

# %%
# The instruction says what one thread wants. Nothing in it says where the neighbours' numbers lie, so from the code of a
# single thread you cannot see the difference. The counters can. And what will the clock say?

N_READ = 2**25
STRIDES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def strided(n, stride):
    x = torch.rand(n * stride, device="cuda")
    return lambda: read_strided(x, n, stride)


def wanted_bytes(n, stride):
    return 4 * n


def additions(n, stride):
    return n


sweep = lab.measure(
    "coalescing/stride",
    {"every stride-th element": strided},
    {"n": [N_READ], "stride": STRIDES},
    bytes=wanted_bytes,
    flops=additions,
)
timed = {row.params["stride"]: row for row in sweep["every stride-th element"].rows}

lab.show(
    lab.predict(
        "The kernel reads as many numbers with stride 8 as with stride 1. "
        "How many times longer does it take?",
        measured=f"{digits(timed[8].seconds / timed[1].seconds, 2)} times",
        unit="times",
    )
)

# %%
# First the counters, for six of the strides. What is sent grows with what is wanted, so fewer numbers will do here:

N_COUNTED = 2**23
COUNTED = [1, 2, 4, 8, 16, 32]


def counted_strides(n):
    x = torch.rand(n * max(COUNTED), device="cuda")
    return lambda: [read_strided(x, n, stride) for stride in COUNTED]


touched = lab.counters("coalescing/counters", counted_strides, n=N_COUNTED)
seen = {
    stride: kernel.values
    for stride, kernel in zip(COUNTED, touched.kernels, strict=True)
}


def times_wanted(stride, quantity):
    """Return how many times the bytes wanted were sent, by L2 or by device memory."""
    return seen[stride][quantity] / wanted_bytes(N_COUNTED, stride)


rows = [
    [
        str(stride),
        digits(seen[stride]["sectors_per_load"]),
        f"{digits(times_wanted(stride, 'l2_read'))} ×",
        f"{digits(times_wanted(stride, 'dram_read'))} ×",
    ]
    for stride in COUNTED
]
heads = ["stride", "sectors per load", "sent by L2", "sent by device memory"]
caption = "What was sent, in multiples of what was wanted"
lab.show(Table(heads, rows, caption, [touched.source.line]))

# %%
# With stride 1 a request touches 4 sectors, and every byte of them is wanted. Each doubling of the stride doubles the
# sectors, until at stride 8 each of the 32 lanes has one to itself. More than 32 there cannot be: from here on L2 sends the
# same.
#
# Whether device memory sends the same is a question of its own. L2 may fetch more from it than it was asked for, in the hope
# that the neighbours will be wanted too. For a number that lies quite alone, the last row says:

alone = seen[32]["dram_read"] / N_COUNTED
print(f"{si(alone, 'B')} leave device memory for each 4 B wanted")

# %%
# Now the clock. *Effective* bandwidth counts the bytes that are wanted, as everywhere in this workshop so far. *Actual*
# bandwidth counts the bytes that left device memory, by the table above, in the same time.

actual = {
    stride: timed[stride].bandwidth * times_wanted(stride, "dram_read")
    for stride in COUNTED
    if stride in timed
}

rows = [
    [
        str(stride),
        si(timed[stride].seconds, "s"),
        si(timed[stride].bandwidth, "B/s"),
        si(actual[stride], "B/s"),
        percent(actual[stride] / roofs.bandwidth),
    ]
    for stride in actual
]
heads = ["stride", "time", "effective", "actual", "actual, of the roof"]
caption = "The same bytes wanted, from farther and farther apart"
lab.show(Table(heads, rows, caption, sweep.notes))

# %%

by_stride = sorted(timed)
lab.show(
    lab.plot(
        [
            lab.Line(
                "effective: wanted",
                by_stride,
                [timed[stride].bandwidth for stride in by_stride],
            ),
            lab.Line("actual: moved", list(actual), list(actual.values())),
        ],
        x="stride",
        y="bandwidth",
        y_unit="B/s",
        x_label="stride [elements]",
        ours="effective: wanted",
        ceilings={"device memory": roofs.bandwidth},
        title="Memory stays busy, and the kernel gets less and less of it",
        notes=sweep.notes,
    )
)

# %%
# Up to a stride of 8 the two lines tell one story: memory works as hard as before, and what the kernel gets of it is one
# part in ``stride``. Beyond, L2 is asked for no more, and what still changes is device memory's own affair: how much it
# sends for one sector, and how it copes with sectors that lie far apart.
#
# So a bandwidth far below the roof has two causes that look alike on a clock and have nothing else in common. In one memory
# is idle, in the other it is busy. *Bytes moved over bytes needed* tells them apart.
#
# The roofline so far
# -------------------
# The same can be seen on the map. One kernel, stride 8, is drawn twice: by the bytes that it wants, and by the bytes that it
# moved.

eighth = timed[8]
moved = eighth.bytes * times_wanted(8, "dram_read")

lab.show(
    lab.roofline(
        [
            lab.Point.of("stride 1", timed[1]),
            lab.Point.of("stride 8, wanted", eighth),
            lab.Point("stride 8, moved", eighth.flops, moved, eighth.seconds),
        ],
        title="Counted by what it moved, the strided kernel is at the roof",
        chapter=5,
        ceilings=roofs,
    )
)

# %%
# By the bytes that it moved, the kernel lies under the memory roof like the one with stride 1, only farther to the left: it
# does less for each byte. It is as fast as this memory allows, at work that was not asked for. The baseline cannot be saved
# that way. It moved what it needed, so both of its points would be the same.
#
# A mystery kernel
# ----------------
# Try it on a kernel that you have not seen. It reads a matrix of 4096 × 16384 numbers, each once, and adds them up in some
# way.

from kernels.mystery import mystery, mystery_kernel

SHAPE = {"n_rows": 4096, "n_cols": 16384}


def matrix_bytes(n_rows, n_cols):
    return 4 * n_rows * n_cols


def suspect(n_rows, n_cols):
    x = torch.randn(n_rows, n_cols, device="cuda")
    return lambda: mystery(x)


found = lab.measure("mystery", {"mystery": suspect}, [SHAPE], bytes=matrix_bytes)
evidence = lab.counters("mystery/counters", suspect, bytes=matrix_bytes, **SHAPE)
needed = matrix_bytes(**SHAPE)
reached = found["mystery"].at(**SHAPE).bandwidth

print(
    f"It reaches {si(reached, 'B/s')}, {percent(reached / roofs.bandwidth)} of the roof."
)

# %%

memory_rows = ("dram_read", "needed", "dram_share", "l2_read", "l2_hit_rate")
warp_rows = ("sectors_per_load", "active_lanes", "occupancy")
lab.show(evidence.only(*memory_rows, *warp_rows))

# %%
# Decide before you read on. The clue is a pair of rows.

lab.show(
    lab.predict(
        "What slows the mystery kernel down?",
        measured=f"L2 sent {digits(evidence['l2_read'] / needed)} times the bytes needed, "
        f"device memory {digits(evidence['dram_read'] / needed)} times: "
        "the SMs fetch sectors for a part of their bytes",
        choices=[
            "too few programs are there",
            "device memory sends too much",
            "L2 sends too much",
            "arithmetic",
        ],
    )
)

# %%
# A request touches as many sectors as it has lanes: each lane wants a number that lies far from its neighbour's. That most
# of these sectors are found in L2, a splendid hit rate again, means only that somebody else had fetched them before: another
# program, for another number in them. Here is the source:

lab.show(lab.code(mystery_kernel))

# %%
# It sums the columns of a matrix, and each program has a column to itself. Neighbours in a column lie a whole row apart in
# memory: a coalesced access to a *row* was turned into a strided one to a column. Eight programs fetch each sector, for one
# number each.
#
# Exercise: read the columns
# --------------------------
# Write ``read_columns(x)``, which returns the sum of each column and reads every byte once. Neighbours in a row are adjacent
# in memory; the rows may lie further apart, since ``x`` may be a slice of a wider matrix. Add in float32 whatever ``x`` is.
#
# What torch needs for the same sums is a mark to aim at:


def torch_sum(n_rows, n_cols):
    x = torch.randn(n_rows, n_cols, device="cuda")
    return lambda: torch.sum(x, dim=0)


aim = lab.measure(
    "mystery/torch", {"torch.sum": torch_sum}, [SHAPE], bytes=matrix_bytes
)
lab.show(aim.table("bandwidth", caption="The sums of the columns, by torch"))

# %%
# The grader tries ragged sizes, slices of wider matrices and float16. On a GPU it also measures how your kernel's bandwidth
# compares with a copy's.


@triton.jit
def read_columns_kernel(
    x_ptr,
    out_ptr,
    x_row_stride,
    n_rows,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Sum BLOCK_N neighbouring columns, BLOCK_M rows at a time."""
    # Your turn: walk down the rows, tile by tile, and add; reduce each column once
    # at the end


def read_columns(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of each column of a matrix whose rows are contiguous."""
    out = torch.empty(x.shape[1], dtype=x.dtype, device=x.device)
    # Your turn: launch one program for each block of neighbouring columns
    return out


lab.show(lab.check("read_columns", read_columns))

# %%
# Three hints, each more explicit than the one before, and then a solution:

hints = [lab.hint("read_columns", number) for number in (1, 2, 3)]
lab.show(*hints, lab.solution("read_columns"))

# %%
# What holds
# ----------

lab.show(
    lab.claim(
        "The baseline moves no more than 1.2 times the bytes that it needs.",
        slow.moved / slow.needed,
        at_most=1.2,
        unit="times",
    ),
    lab.claim(
        "Its hit rate in L1 is higher than that of the version in blocks by at least half.",
        slow["l1_hit_rate"] - fast["l1_hit_rate"],
        at_least=0.5,
    ),
    lab.claim(
        "An SM has at least a hundred times more bytes under way in the version in blocks.",
        under_way["blocks"] / under_way["baseline"],
        at_least=100,
        unit="times",
    ),
    lab.claim(
        "Starting programs that do nothing takes at least 70 % of the baseline's time.",
        idle.seconds / busy.seconds,
        at_least=0.7,
    ),
    lab.claim(
        "From stride 1 to stride 8 the sectors per load grow eightfold.",
        seen[8]["sectors_per_load"] / seen[1]["sectors_per_load"],
        at_least=7.5,
        at_most=8.5,
        unit="times",
    ),
    lab.claim(
        "From stride 1 to stride 8 the effective bandwidth falls to less than a quarter.",
        timed[8].bandwidth / timed[1].bandwidth,
        at_most=0.25,
    ),
    lab.claim(
        "For the mystery kernel L2 sends at least four times the bytes needed.",
        evidence["l2_read"] / needed,
        at_least=4,
        unit="times",
    ),
)

# %%
# What you can now explain
# ------------------------
# - Why a hit rate, active lanes, sectors per load or a warp's waiting say little alone, and which question comes first: is
#   the memory busy?
# - Why one element for each program is slow: the GPU starts programs at a fixed rate, and each of them brings a few bytes.
# - Why the distance between neighbouring lanes decides how much of what memory sends is of use, and how the counters show
#   it.
#
# What is it waiting for? The baseline's warps wait for memory, as all warps do. The GPU waits for programs. And a strided
# kernel waits for bytes that it has no use for. Both mend the same way: give a program neighbouring elements, and enough of
# them. How many, and in what shape? That is chapter 6.
#
# Where these numbers come from
# -----------------------------

lab.show(lab.sources())
