# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = ".." }
# ///
"""
3. Where is my data, and how far away?
======================================

A number that a thread needs lies in a register, in a cache beside the thread, in a cache that all share, or in memory off
the chip. In this chapter you measure from Python how far away each of them is. Then you find how many threads it takes to
bridge the way, and meet a kernel that gets faster when most of them stay at home.
"""

# %%
# What is there
# -------------
# A GPU is a collection of *streaming multiprocessors* (SMs): processors that have arithmetic units, registers and a small
# memory of their own. A program runs on one SM from its start to its end. Its threads go in groups of 32, the *warps*, and
# the threads of a warp execute each instruction together.
#
# The driver knows how many there are, and how large:

from kernels import lab

import statistics

import torch
import triton
import triton.language as tl

from kernels.lab.units import digits, percent, si


def device_facts():
    """Return what the driver says about this GPU; sizes are in bytes."""
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "capability": f"{facts.major}.{facts.minor}",
        "sms": facts.multi_processor_count,
        "warps": facts.max_threads_per_multi_processor // facts.warp_size,
        "registers": 4 * facts.regs_per_multiprocessor,
        "shared": facts.shared_memory_per_multiprocessor,
        "l2": facts.L2_cache_size,
        "memory": facts.total_memory,
    }


gpu = lab.observe("hierarchy/device", device_facts)

# %%
# One size it does not tell: the L1 cache. An SM has one piece of memory for two purposes. Programs ask for some of it as
# *shared memory*, and the rest is L1 cache. How large the piece is stands in the `CUDA C++ Programming Guide
# <https://docs.nvidia.com/cuda/cuda-c-programming-guide/>`_, for each compute capability:

KIB, MIB = 2**10, 2**20
L1_AND_SHARED = {"7.5": 96 * KIB, "8.0": 192 * KIB, "8.6": 128 * KIB, "8.7": 192 * KIB}
L1_AND_SHARED |= {"8.9": 128 * KIB, "9.0": 256 * KIB, "10.0": 256 * KIB}

l1 = L1_AND_SHARED.get(gpu["capability"], gpu["shared"])

# %%


def size(n_bytes):
    """Write a size in the units in which memories are built."""
    units = (("GiB", 2**30), ("MiB", MIB), ("KiB", KIB), ("B", 1))
    unit, step = next((u, s) for u, s in units if n_bytes >= s or s == 1)
    return f"{n_bytes / step:.4g} {unit}"


places = [
    ("registers", "a thread", gpu["registers"], gpu["registers"] * gpu["sms"]),
    ("L1 cache and shared memory", "an SM", l1, l1 * gpu["sms"]),
    ("L2 cache", "the GPU", gpu["l2"], gpu["l2"]),
    ("device memory", "the GPU", gpu["memory"], gpu["memory"]),
]
lab.show(
    lab.table(
        ["place", "belongs to", "an SM has", "all together"],
        [
            [place, owner, size(each) if owner != "the GPU" else "–", size(together)]
            for place, owner, each, together in places
        ],
        caption=f"Where data can lie, on a GPU with {gpu['sms']} SMs",
    )
)

# %%
# The registers are not a handful, as on a CPU: an SM has at least as many bytes of them as of L1 cache. Keep the order of
# the rows in mind. It is the order of distance.

lab.show(lab.drawing("memory_hierarchy"))

# %%
# In Triton you do not choose a place. ``tl.load`` asks for an address in device memory, the nearest place that holds a copy
# answers, and what comes back lies in registers.
#
# How do you time one load?
# -------------------------
# No clock in Python is fine enough. So make a chain: each load fetches the place of the next one, which therefore cannot
# start before the answer is there. One warp follows the chain. Its 32 threads ask for the same address, which is one
# request.


@triton.jit
def chase_kernel(next_ptr, at_ptr, n_hops):
    """Follow the chain from the place in `at_ptr`, and write down where that leads."""
    at = tl.load(at_ptr)
    for _ in range(n_hops):
        at = tl.load(next_ptr + at)
    tl.store(at_ptr, at)


# %%
# The chain visits memory in random order, so that no hardware can guess the next address. It visits each *line* once, the
# 128 bytes that a cache keeps together, and then is back where it started: one cycle, however long you follow it.

LINE = 128


def random_cycle(n_bytes, device):
    """Return int32[n_bytes / 4] in which each line starts with the index of another."""
    order = torch.randperm(n_bytes // LINE, device=device) * (LINE // 4)
    cycle = torch.zeros(n_bytes // 4, dtype=torch.int32, device=device)
    cycle[order] = order.roll(-1).int()
    return cycle


cycle = random_cycle(64 * LINE, lab.device())
at = torch.zeros(1, dtype=torch.int32, device=lab.device())
chase_kernel[(1,)](cycle, at, 63, num_warps=1)
assert at.item() != 0, "the cycle closed too early"
chase_kernel[(1,)](cycle, at, 1, num_warps=1)
assert at.item() == 0, "the cycle did not close"
print("64 lines, 64 hops: the chase is back at its start, and not before.")

# %%
# Did the compiler leave the chain a chain? Look for the register that the load writes, the one in braces:

trace = lab.trace(chase_kernel, "*i32", "*i32", "i32", num_warps=1)
lab.show(trace.excerpt("ptx", of="at = tl.load(next_ptr"))

# %%
# The address is made from the register that the load before has filled, so no load can overtake another. ``ld.global``
# without a further word may be answered by every cache on the way, L1 included.
#
# Two things would spoil the measurement. Starting a kernel takes longer than many loads: so two launches of different length
# are timed, and their difference counts. And the first turn through a set finds its caches empty: so one turn goes
# before, untimed. L1 is emptied whenever a kernel starts, so for sets that fit into it each launch makes such a turn
# of its own, which the difference removes too.


def time_of_more(launch, first, more):
    """Return what `more` units of work take beyond `first` [s]: low, median, high."""

    def seconds(amount):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        launch(amount)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    seconds(first), seconds(first + more)  # whatever is still to be compiled
    taken = [seconds(first + more) - seconds(first) for _ in range(5)]
    low, *_, high = statistics.quantiles(taken, n=5)
    return {"low": low, "seconds": statistics.median(taken), "high": high}


# %%
# An event is a mark in the GPU's queue at which the GPU writes down its own time. Now the chase, in sets from 16 KiB to
# 1 GiB, four to each doubling:

HOPS = 2**15
SETS = [part * KIB << k for k in range(2, 15) for part in (4, 5, 6, 7)]
SETS += [128 * MIB, 256 * MIB, 512 * MIB, 1024 * MIB]


def time_of_a_load(n_bytes):
    """Return the time of one dependent load in a set of `n_bytes` [s]."""
    cycle, lines = random_cycle(n_bytes, "cuda"), n_bytes // LINE
    at = torch.zeros(1, dtype=torch.int32, device="cuda")

    def chase(hops):
        chase_kernel[(1,)](cycle, at, hops, num_warps=1)

    chase(min(lines, 2**20))  # one turn; beyond 2^20 lines there is no cache to fill
    taken = time_of_more(chase, first=min(lines, 2**13), more=HOPS)
    return {name: seconds / HOPS for name, seconds in taken.items()}


def latency_staircase():
    """Time a load in each set that fits into memory, and read the SMs' clock [Hz]."""
    from kernels.lab.machine import conditions

    rows, clocks = [], []
    for n_bytes in reversed(SETS):  # the long chases first: they warm the card up
        try:
            rows.insert(0, {"bytes": n_bytes, **time_of_a_load(n_bytes)})
        except torch.OutOfMemoryError:
            continue
        if state := conditions():
            clocks.append(state.sm_clock_hz)
    return {"rows": rows, "clock": statistics.median(clocks) if clocks else None}


chased = lab.observe("hierarchy/latency", latency_staircase)

# %%
# The steps
# ---------
# You will see a staircase. To find its steps without squinting, let code look for the flat parts: the longest run of sizes
# over which the value stays within 15 %, then the same to the left and to the right of it.


def flat_parts(values, tolerance=0.15, shortest=4):
    """Return the flat parts of a curve, as pairs of first and last index."""
    ends = range(len(values))
    runs = [
        (first, last)
        for first in ends
        for last in ends[first + shortest - 1 :]
        if max(values[first : last + 1])
        <= (1 + tolerance) * min(values[first : last + 1])
    ]
    if not runs:
        return []
    first, last = max(runs, key=lambda run: run[1] - run[0])
    left = flat_parts(values[:first], tolerance, shortest)
    right = flat_parts(values[last + 1 :], tolerance, shortest)
    return [*left, (first, last), *((last + 1 + a, last + 1 + b) for a, b in right)]


# %%
# Each flat part belongs to the nearest place that could hold its sets, by the sizes that stand above.

stated = {"L1 cache": l1, "L2 cache": gpu["l2"], "device memory": gpu["memory"]}
sets = [row["bytes"] for row in chased["rows"]]
loads = [row["seconds"] for row in chased["rows"]]

steps = []
for first, last in flat_parts(loads):
    middle = (sets[first] * sets[last]) ** 0.5
    place = next(place for place, holds in stated.items() if middle <= holds)
    seconds = statistics.median(loads[first : last + 1])
    steps.append((place, sets[first], sets[last], seconds))

nearest, farthest = steps[0], steps[-1]

# %%
# Before you look at them, commit. An SM does multiply-adds at a rate that the workshop has measured: it is the flat roof
# for FP32 in chapter 1's map.

roofs = lab.ceilings()
fmas_per_sm = roofs.peak("FP32") / 2 / gpu["sms"]  # a multiply-add is two operations

lab.show(
    lab.predict(
        "A warp asks device memory for one number and waits. How many multiply-adds "
        "could its SM have done by the time the answer comes?",
        measured=f"about {digits(farthest[3] * fmas_per_sm, 2)}",
        choices=["about 10", "about 1,000", "about 10,000", "more than 50,000"],
    )
)

# %%

left_out = [size(n_bytes) for n_bytes in SETS if n_bytes not in sets]
lab.show(
    lab.plot(
        [
            lab.Line(
                "one load",
                sets,
                loads,
                [row["low"] for row in chased["rows"]],
                [row["high"] for row in chased["rows"]],
            )
        ],
        x="set",
        y="time of one load",
        x_label="size of the set that the loads go to",
        x_unit="B",
        y_unit="s",
        log="xy",
        ours="one load",
        region=("more than the L2 cache holds", gpu["l2"], sets[-1]),
        title="The larger the set, the longer the way, in steps",
        notes=[
            chased.source.line,
            *(
                [f"Too large for this GPU's memory: {', '.join(left_out)}."]
                if left_out
                else []
            ),
        ],
    )
)

# %%
# From left to right: as long as the set fits into the cache of the SM, each load is answered there. Then the answers come
# from the L2 cache, and when that overflows, from device memory. Here is what the code found, beside what the driver and the
# guide state:


def cycles(seconds):
    """Write a time in cycles of the SMs' clock, where that could be read."""
    return digits(seconds * chased["clock"], 2) if chased["clock"] else "–"


rows = []
for place, smallest, largest, seconds in steps:
    again = any(place == row[0] for row in rows)
    rows.append(
        [
            place if not again else f"{place}, farther",
            f"{size(smallest)} to {size(largest)}",
            size(stated[place]),
            si(seconds, "s"),
            cycles(seconds),
        ]
    )
lab.show(
    lab.table(
        ["place", "flat for sets of", "holds, as stated", "one load", "cycles"],
        rows,
        caption="The flat parts of the staircase",
    )
)

# %%
# The sizes fit: no flat part of a cache ends beyond what that cache is said to hold, give or take one point of the sweep.
# L1 ends a little before, because the system and shared memory have a share in the same piece.
#
# L2 is the odd one. On GPUs as large as an A100 or later it is built in two partitions, each wired to half of the SMs (`A100
# whitepaper <https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf>`_,
# section on the L2 cache), and what lies in the other half is farther away. Look at sets between half the L2 cache and all
# of it: there the time rises already, in a row of its own ("farther") or as a slope that is no flat part at all.
#
# What could have run meanwhile?
# ------------------------------

lab.show(
    lab.table(
        [
            "answered by",
            "one load",
            "cycles",
            "multiply-adds that one SM does meanwhile",
        ],
        [
            [row[0], row[3], row[4], digits(step[3] * fmas_per_sm, 2)]
            for row, step in zip(rows, steps, strict=True)
        ],
        caption="What a wait costs",
    )
)

# %%
# This is why global memory, as device memory is called from inside a kernel, dominates everything. An operation costs next
# to nothing, and a number that is not at hand costs thousands of operations. A program that has to wait for each of its
# numbers is a program that waits.
#
# Is the near memory also wider?
# ------------------------------
# A load's time is one side. The other is how many bytes a second all SMs get when they ask for as much as they can. One
# program of 32 warps on each SM reads a part of memory that is its own, again and again:


@triton.jit
def read_again_kernel(
    x_ptr, out_ptr, n_blocks, n_rounds, CACHE: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    """Read the program's own blocks, one after the other, `n_rounds` times."""
    pid = tl.program_id(0)
    part_ptr = x_ptr + pid.to(tl.int64) * n_blocks * BLOCK_SIZE
    lanes = tl.arange(0, BLOCK_SIZE)
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for _ in range(n_rounds):
        for block in range(n_blocks):
            offsets = block * BLOCK_SIZE + lanes
            total += tl.load(part_ptr + offsets, cache_modifier=CACHE)
    tl.store(out_ptr + pid, tl.sum(total, axis=0))


x, out = torch.rand(2, 3 * 64, device=lab.device()), torch.empty(2, device=lab.device())
read_again_kernel[(2,)](x, out, 3, 5, CACHE="", BLOCK_SIZE=64)
torch.testing.assert_close(out, 5 * x.sum(1))
print("Two programs, three blocks each, five rounds: the sums are right.")

# %%
# The sum is kept and stored, or the compiler would drop the loads; and each part has at least two blocks, or it would load
# once and keep the value for all rounds. With ``CACHE=".cg"`` the loads skip L1, which shows what L2 does alone.

EACH = [part * KIB for part in range(64, 449, 32)]
EACH += [part * KIB for part in (512, 640, 768, 1024, 2048, 4096, 8192, 16384, 32768)]


def reading_rate(bytes_each, cache):
    """Return the rate at which all SMs together read, each its part [B/s]."""
    sms, block = torch.cuda.get_device_properties(0).multi_processor_count, 8192
    x = torch.randn(sms * bytes_each // 4, device="cuda")
    out = torch.empty(sms, device="cuda")

    def read(rounds):
        shape = {"CACHE": cache, "BLOCK_SIZE": block, "num_warps": 32}
        read_again_kernel[(sms,)](x, out, bytes_each // 4 // block, rounds, **shape)

    first = max(1, 32 * MIB // bytes_each)
    taken = time_of_more(read, first, more=4 * first)
    low, middle, high = (taken[name] for name in ("high", "seconds", "low"))
    n_bytes = sms * bytes_each * 4 * first
    return {"low": n_bytes / low, "rate": n_bytes / middle, "high": n_bytes / high}


def bandwidth_staircase():
    """Measure the reading rate for each part, with L1 in use and without."""
    rows = []
    for bytes_each in EACH:
        try:
            used, skipped = (
                reading_rate(bytes_each, ""),
                reading_rate(bytes_each, ".cg"),
            )
        except torch.OutOfMemoryError:
            break
        rows.append({"bytes": bytes_each, "L1 in use": used, "L1 skipped": skipped})
    return {"rows": rows}


read = lab.observe("hierarchy/bandwidth", bandwidth_staircase)
parts = [row["bytes"] for row in read["rows"]]

# %%
# The flat parts are named as before. A part is answered by L1 if it fits into the SM's own, and by L2 if the parts of
# all SMs together fit.

rates = []
for way in ("L1 in use", "L1 skipped"):
    taken = [row[way]["rate"] for row in read["rows"]]
    for first, last in flat_parts(taken, shortest=3):
        middle = (parts[first] * parts[last]) ** 0.5
        fits = {
            "L1 cache": way == "L1 in use" and middle <= l1,
            "L2 cache": middle * gpu["sms"] <= gpu["l2"],
            "device memory": True,
        }
        place = next(place for place, does in fits.items() if does)
        if place not in [rate[0] for rate in rates]:
            rate = statistics.median(taken[first : last + 1])
            rates.append((place, parts[first], parts[last], rate))

rates.sort(key=lambda rate: list(stated).index(rate[0]))
rate_of = {place: rate for place, _, _, rate in rates}

lab.show(
    lab.predict(
        "How many times more bytes a second do all L1 caches together deliver than "
        "device memory does?",
        measured=f"{digits(rate_of['L1 cache'] / rate_of['device memory'], 2)} times",
        unit="times",
    )
)

# %%

lab.show(
    lab.plot(
        [
            lab.Line(
                way,
                parts,
                [row[way]["rate"] for row in read["rows"]],
                [row[way]["low"] for row in read["rows"]],
                [row[way]["high"] for row in read["rows"]],
            )
            for way in ("L1 in use", "L1 skipped")
        ],
        x="part",
        y="bytes per second",
        x_label="size of the part that each SM reads again and again",
        x_unit="B",
        y_unit="B/s",
        log="xy",
        ours="L1 in use",
        region=("all parts together exceed L2", gpu["l2"] / gpu["sms"], parts[-1]),
        title="The nearer the memory, the more it delivers",
        notes=[read.source.line],
    )
)

# %%
# The same staircase, upside down, and the last step is where you expect it: when all parts together exceed L2, both lines
# drop to what device memory gives.
#
# The first step is a surprise. See how far the upper line stays up, and how large L1 is. If it goes on where a part no longer
# fits, then loads found in L1 more than L1 holds at one time. Our guess is that nothing keeps the 32 warps of a program
# together: those whose numbers lie in L1 run ahead, come to their end, and leave room for the others. Whoever wants to
# know puts a ``tl.debug_barrier()`` into each round.

clock = chased["clock"]
lab.show(
    lab.table(
        ["answered by", "flat for parts of", "all SMs together", "an SM, each cycle"],
        [
            [
                place,
                f"{size(smallest)} to {size(largest)}",
                si(rate, "B/s"),
                f"{digits(rate / gpu['sms'] / clock, 2)} B" if clock else "–",
            ]
            for place, smallest, largest, rate in rates
        ],
        caption="What each place delivers",
    )
)

# %%
# Each SM has an L1 of its own, so all of them answer at once. L2 is one for all, and device memory lies behind a bus off
# the chip. Near data is doubly good: it comes sooner, and more of it comes.
#
# How much must be on its way?
# ----------------------------
# Think of a pipe: what is in it is its length times what comes out. So to keep a path busy, as many bytes must be on their
# way as its latency times its bandwidth, which is *Little's law*. Now both are known for each place. The last column
# divides by the threads of a full SM:

wait_of = {place: seconds for place, _, _, seconds in reversed(steps)}
threads = 32 * gpu["warps"]
on_the_way = {
    place: wait_of[place] * rate / gpu["sms"]
    for place, rate in rate_of.items()
    if place in wait_of
}
lab.show(
    lab.table(
        [
            "answered by",
            "one load",
            "an SM gets",
            "on its way to an SM",
            "to each thread",
        ],
        [
            [
                place,
                si(wait_of[place], "s"),
                si(rate_of[place] / gpu["sms"], "B/s"),
                size(needed),
                f"{digits(needed / threads, 2)} B",
            ]
            for place, needed in on_the_way.items()
        ],
        caption=f"What must be under way, with {gpu['warps']} warps on an SM",
    )
)

# %%
# Take the last row as the least: under load the way gets longer. So a thread of a full SM must always have a few bytes
# under way, or a few of its threads more each. The product counts: *threads that are there, times bytes that each has
# asked for*. See what limits the first factor, then turn the second.
#
# How many warps fit?
# -------------------
# *Occupancy* is the share of an SM's places for warps that are taken. A program comes to an SM as a whole, and keeps what it
# was given until it ends. Four things can run out, and the first that does decides:
#
# - places for programs, and places for warps;
# - shared memory: a program takes what it asks for and 1 KiB that the system reserves, in steps of 128 bytes;
# - registers: a warp takes 32 times what a thread needs, in steps of 256. An SM is built in four parts, each with a quarter
#   of the registers, and a warp lives in one of them.
#
# (The limits stand in the programming guide, the steps in ``cuda_occupancy.h`` of the CUDA toolkit.) Here is a kernel to try
# it on. It multiplies a vector by a number, and takes the size of its blocks as a constant:


@triton.jit
def scale_kernel(x_ptr, out_ptr, factor, n_elements, BLOCK_SIZE: tl.constexpr):
    """Multiply one block of neighbouring elements by a factor."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, factor * x, mask=mask)


SHAPES = {  # bytes that each thread loads at once: block size and warps
    4: (256, 8),
    16: (1024, 8),
    64: (4096, 8),
    256: (8192, 4),
    512: (16384, 4),
}

x = torch.rand(1000, device=lab.device())
out = torch.empty_like(x)
for block, warps in SHAPES.values():
    grid = (triton.cdiv(1000, block),)
    scale_kernel[grid](x, out.zero_(), 3.0, 1000, BLOCK_SIZE=block, num_warps=warps)
    torch.testing.assert_close(out, 3 * x)
print("All five shapes of the kernel give the right answer.")

# %%
# A thread that loads 512 bytes at once must put them somewhere: into registers. The compiler says how many the kernel needs,
# and the rest is a calculation.

from kernels.lab.occupancy import limits
from kernels.lab.occupancy import occupancy as calculated

block, warps = SHAPES[512]
types = ("*fp32", "*fp32", "fp32", "i32")
wide = lab.trace(scale_kernel, *types, BLOCK_SIZE=block, num_warps=warps)
print(f"{wide.registers} registers a thread, {wide.threads} threads a program")

sm = limits(gpu["capability"])
lab.show(calculated(wide.registers, wide.shared, wide.threads, sm))

# %%
# Is the calculation right?
# -------------------------
# The GPU has hardware counters that can tell. Seven kernels: the baseline of chapter 1, the five shapes, and
# ``torch.matmul``, which is the fastest code on this machine.

from kernels.add import add_one_element

N = 2**26


def scaled(n, bytes_each):
    block, warps = SHAPES[bytes_each]
    x = torch.randn(n, device="cuda")
    out, grid = torch.empty_like(x), (triton.cdiv(n, block),)
    shape = {"BLOCK_SIZE": block, "num_warps": warps}
    return lambda: scale_kernel[grid](x, out, 1.5, n, **shape)


def seven_kernels():
    x, y = torch.randn(2**20, device="cuda"), torch.randn(2**20, device="cuda")
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    shapes = [scaled(N, bytes_each) for bytes_each in SHAPES]

    def call():
        add_one_element(x, y)
        for shape in shapes:
            shape()
        torch.matmul(a, a)

    return call


counted = lab.counters("hierarchy/occupancy", seven_kernels)
names = ["baseline", *(f"scale, {each} B a thread" for each in SHAPES), "torch.matmul"]

# %%
# Where this machine's counters cannot be read, the driver still tells what was launched, and the counted columns stay empty.


def resources(index):
    """Return a kernel's registers a thread, its shared memory [B], its threads."""
    if counted.here:
        told = counted.here[index]
        return told.registers, told.shared_bytes, told.threads
    told = counted.kernels[index].values
    return int(told["registers"]), int(told["shared_bytes"]), int(told["threads"])


fits = [calculated(*resources(index), sm) for index in range(len(names))]
known = [] if counted.problem else [kernel.values for kernel in counted.kernels]


def share(index, quantity):
    """Write what was counted for one kernel."""
    return percent(known[index][quantity]) if known else "–"


rows = []
for index, (name, fit) in enumerate(zip(names, fits, strict=True)):
    registers, shared, threads = resources(index)
    rows.append(
        [
            name,
            f"{registers}",
            size(shared),
            f"{threads // 32}",
            ", ".join(fit.limited_by),
            percent(fit.share),
            share(index, "occupancy_limit"),
            share(index, "occupancy"),
        ]
    )
lab.show(
    *([counted.problem] if counted.problem else []),
    lab.table(
        [
            "kernel",
            "registers",
            "shared",
            "warps",
            "limited by",
            "calculated",
            "counted limit",
            "achieved",
        ],
        rows,
        caption="Occupancy of seven kernels: calculated, and by the counters",
    ),
)

# %%
# The calculation and the counters agree on the limit. What is achieved lies below it: when a program ends, its place is empty
# until the next one has moved in, and the shorter the programs, the more that counts.
#
# Are more warps faster?
# ----------------------
# Look at the extremes of that table. The baseline, the slowest of them, could have every place of the SM. ``torch.matmul`` leaves most of them empty. Now the five shapes, which do the same work:


def load_4_bytes(n):
    return scaled(n, 4)


def load_16_bytes(n):
    return scaled(n, 16)


def load_64_bytes(n):
    return scaled(n, 64)


def load_256_bytes(n):
    return scaled(n, 256)


def load_512_bytes(n):
    return scaled(n, 512)


def scale_bytes(n):
    return 2 * 4 * n


def scale_flops(n):
    return n


scale = lab.measure(
    "hierarchy/scale",
    {
        "4 B a thread": load_4_bytes,
        "16 B a thread": load_16_bytes,
        "64 B a thread": load_64_bytes,
        "256 B a thread": load_256_bytes,
        "512 B a thread": load_512_bytes,
    },
    {"n": [N]},
    bytes=scale_bytes,
    flops=scale_flops,
)
measured = {each: scale[f"{each} B a thread"].at(n=N) for each in SHAPES}
occupied = dict(zip(SHAPES, fits[1:-1], strict=True))
crowded, roomy = measured[4], measured[512]

lab.show(
    lab.predict(
        f"The shape with 4 B a thread fills {percent(occupied[4].share)} of an SM's "
        f"places, the one with 512 B only {percent(occupied[512].share)}. How fast is the "
        "second, compared with the first?",
        measured=f"{digits(roomy.bandwidth / crowded.bandwidth, 3)} times as fast",
        choices=["a fifth as fast", "half as fast", "as fast", "faster"],
    )
)

# %%

in_flight = {each: 32 * occupied[each].warps * each for each in SHAPES}
lab.show(
    lab.table(
        ["a thread loads", "occupancy", "on its way to an SM, at most", "bandwidth"],
        [
            [
                f"{each} B at once",
                percent(occupied[each].share),
                size(in_flight[each]),
                si(row.bandwidth, "B/s"),
            ]
            for each, row in measured.items()
        ],
        caption="One kernel in five shapes, each moving the same bytes",
    )
)

# %%
# Warps alone do not explain the last column. Their product with the bytes that each thread has asked for does:

needed = on_the_way["device memory"]
lab.show(
    lab.plot(
        [
            lab.Line(
                "scale",
                list(in_flight.values()),
                [row.bandwidth for row in measured.values()],
                [scale_bytes(N) / row.high for row in measured.values()],
                [scale_bytes(N) / row.low for row in measured.values()],
            )
        ],
        x="on its way",
        y="bandwidth",
        x_label="bytes on their way to an SM, at most",
        x_unit="B",
        y_unit="B/s",
        ours="scale",
        ceilings={"device memory": roofs.bandwidth},
        region=("enough to keep device memory busy", needed, max(in_flight.values())),
        title="It is the bytes on their way that count, not the warps",
        notes=[scale.source.line],
    )
)

# %%
# With one small load a thread, a full SM still has too little under way. With wide loads a few warps are enough, and a
# further warp finds the path busy. So occupancy is a means: worth raising while too few bytes are under way, and worth
# nothing beyond. When you can choose, give each thread more to ask for before you ask for more threads.
#
# The counters of the two extremes say the same of other work:

if known:
    lab.show(
        lab.table(
            ["kernel", "occupancy achieved", "device memory busy", "tensor cores busy"],
            [
                [
                    names[i],
                    share(i, "occupancy"),
                    share(i, "dram_share"),
                    share(i, "tensor_share"),
                ]
                for i in (0, len(names) - 1)
            ],
            caption="The slowest kernel of the workshop, and the fastest",
        )
    )

# %%
# The roofline so far
# -------------------
# The kernel does one multiplication for each eight bytes. Both of its points lie at the same place along the axis, and the
# one with the empty SM lies higher.

lab.show(
    lab.roofline(
        [
            lab.Point.of("scale, 4 B a thread", crowded),
            lab.Point.of("scale, 512 B a thread", roomy),
        ],
        title="Fewer warps, nearer to the roof",
        chapter=3,
        ceilings=roofs,
    )
)

# %%
# Exercise: how many warps fit?
# -----------------------------
# Write ``occupancy(registers, shared_bytes, warps, sm)``. It returns the share of an SM's places for warps that programs of
# a kernel can take at once. ``registers`` counts for a thread, ``shared_bytes`` and ``warps`` for a program. ``sm`` holds what
# an SM has: ``sm.registers``, ``sm.shared_bytes``, ``sm.warps`` and ``sm.blocks`` (places for programs), and
# ``sm.shared_reserved`` and ``sm.shared_at_once``, the 1 KiB and the 128 bytes from above.
#
# The grader asks about kernels whose answer Nsight Compute gave on an H200, and about others on several GPUs.


def occupancy(registers, shared_bytes, warps, sm):
    raise NotImplementedError


lab.show(lab.check("occupancy", occupancy))

# %%
# Three hints, each more explicit than the one before, and then a solution:

hints = [lab.hint("occupancy", number) for number in (1, 2, 3)]
lab.show(*hints, lab.solution("occupancy"))

# %%
# What holds
# ----------

l2_ends = max(
    [largest for place, _, largest, _ in steps if place == "L2 cache"], default=0
)
claims = [
    lab.claim(
        "A load from device memory takes at least eight times as long as one from L1.",
        farthest[3] / nearest[3],
        at_least=8,
        unit="times",
    ),
    lab.claim(
        "While it is under way, one SM could do at least fifty thousand multiply-adds.",
        farthest[3] * fmas_per_sm,
        at_least=50_000,
    ),
    lab.claim(
        "The first step comes where the stated L1 ends: at half of its size or more, and "
        "not beyond it.",
        nearest[2] / l1,
        at_least=0.5,
        at_most=1,
    ),
    lab.claim(
        "L2 answers evenly up to three tenths of its stated size or more, and not far beyond "
        "all of it.",
        l2_ends / gpu["l2"],
        at_least=0.3,
        at_most=1.25,
    ),
    lab.claim(
        "All L1 caches together deliver at least three times what device memory does.",
        rate_of["L1 cache"] / rate_of["device memory"],
        at_least=3,
        unit="times",
    ),
    lab.claim(
        "With at most half of the warps, and wide loads, the same work is at least a tenth "
        "faster.",
        roomy.bandwidth / crowded.bandwidth,
        at_least=1.1,
        unit="times",
    ),
]
if known:
    apart = [
        abs(fit.share - one["occupancy_limit"])
        for fit, one in zip(fits, known, strict=False)
    ]
    claims.append(
        lab.claim(
            "Calculated and counted occupancy differ by less than a hundredth.",
            max(apart),
            at_most=0.01,
        )
    )
lab.show(*claims)

# %%
# What you can now explain
# ------------------------
# - Where a number can lie, how long each place takes to answer, and how many operations that wait is worth.
# - What occupancy is, how registers, shared memory and the size of a program limit it, and why that calculation agrees with
#   the hardware.
# - Why a kernel can win with most of an SM empty: threads times bytes under way is what keeps memory busy.
#
# Where is my data, and how far away? Mostly in device memory, and some hundreds of cycles away, unless you bring it nearer
# and use it there more than once. Which kernels can profit from that, and how fast could they be at best? Chapter 4 draws the
# map.
#
# Where these numbers come from
# -----------------------------

lab.show(lab.sources())
