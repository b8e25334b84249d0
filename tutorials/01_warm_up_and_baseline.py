# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = ".." }
# ///
"""
1. Is my GPU fast?
==================

You write a first GPU kernel, the way one writes the body of a Python loop, and time it. Three of the four obvious ways to
time it give a wrong number, each for its own reason. With the right one you find that the kernel gives the correct answer
and loses to ``torch.add`` by a factor that grows with the size.
"""

# %%
# What this page was measured on
# ------------------------------
# The workshop's instruments come first: they decide whether kernels run on a GPU or, where there is none, in Triton's
# interpreter on the CPU. So ``lab`` is imported before anything that imports Triton.

from kernels import lab

import os
import tempfile
import time
from unittest.mock import patch

import torch
import triton
import triton.language as tl

lab.show(lab.machine())

# %%
# If something is wrong with your set-up, it stands above with its remedy. ``python -m kernels doctor`` says the same in a
# terminal, and proves that a kernel runs.
#
# The body of a loop
# ------------------
# Add two vectors. In Python that is a loop, and its body handles one element:

x, y = torch.rand(1000, device=lab.device()), torch.rand(1000, device=lab.device())
out = [0.0] * 1000
for i in range(1000):
    out[i] = float(x[i]) + float(y[i])

# %%
# A GPU has no loop over the elements. It runs the body many times at once, each time with another ``i``. One such run is a
# *program*; ``tl.program_id(0)`` tells a program which ``i`` is its own. The code of a program is a *kernel*.

from kernels.add import add_one_element, add_one_element_kernel

lab.show(lab.code(add_one_element_kernel))

# %%
# Arguments that end in ``_ptr`` are addresses in the GPU's memory. ``tl.load`` reads what lies there, ``tl.store`` writes.
# The function that starts one program for each element is the *launcher*. Most of it refuses tensors that would be read
# wrongly; the line with the square brackets is the launch, and between them stands how many programs to run.

lab.show(lab.code(add_one_element))

# %%
# Before timing anything, check the answer. A wrong kernel has no speed.

torch.testing.assert_close(
    add_one_element(x, y), torch.tensor(out, device=lab.device())
)
print("The kernel agrees with the loop.")

# %%
# This is our *baseline*: correct, short, and written as a Python programmer would. How fast is it?
#
# Four ways to take the time, and what each one says
# --------------------------------------------------
# The function below times the baseline on 4 million elements with Python's clock, in four ways. Read it before you run it,
# and decide which number you would believe.
#
# The kernel in it is defined anew, so that its first call has everything still to do.

N_TIMED = 2**22


def four_ways():
    """Return what four ways of timing the same kernel say [s]."""
    x, y = torch.rand(N_TIMED, device="cuda"), torch.rand(N_TIMED, device="cuda")
    out = torch.empty_like(x)

    @triton.jit
    def fresh_kernel(x_ptr, y_ptr, out_ptr):
        i = tl.program_id(0)
        tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))

    def clock(n_calls, wait):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n_calls):
            fresh_kernel[(N_TIMED,)](x, y, out)
        if wait:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / n_calls

    with tempfile.TemporaryDirectory() as empty, patch.dict(os.environ):
        os.environ["TRITON_CACHE_DIR"] = empty  # nothing was compiled before
        first = clock(1, wait=True)
    single = [clock(1, wait=True) for _ in range(100)]
    no_wait = clock(1, wait=False)
    return {"first": first, "no_wait": no_wait, "single": sorted(single)}


ways = lab.observe("warm-up/four ways", four_ways)
single = ways["single"]
median = (single[49] + single[50]) / 2

# %%
# Commit to a guess before you read on: a wrong prediction is what makes a number stick.

lab.show(
    lab.predict(
        "The first call of the kernel against a later one, both waited for: how many times longer does the first take?",
        measured=f"{ways['first'] / median:,.0f} times",
        choices=["about the same", "2 times", "10 times", "more than 50 times"],
    )
)

# %%

from kernels.lab.units import si

answers = [
    ("the first call, waited for", ways["first"], "the compiler, mostly"),
    (
        "a later call, not waited for",
        ways["no_wait"],
        "the launch: asking the GPU to start",
    ),
    ("one call, waited for: fastest of 100", single[0], "kernel and launch, with luck"),
    ("the same: slowest of 100", single[-1], "kernel, launch and some accident"),
    ("the same: median of 100", median, "kernel and launch"),
]
lab.show(
    lab.table(
        ["how it was timed", "what the clock said", "what it measured"],
        [(how, si(seconds, "s"), what) for how, seconds, what in answers],
        caption="One kernel, one size, several answers",
    )
)

# %%
# The first row is the *compiler*. Triton turns the Python source into machine code when the kernel is first called, and
# keeps the result. That is worth knowing, and it is not the speed of the kernel.
#
# The second row is the *launch*. A kernel runs asynchronously: the call puts it into the GPU's queue and returns, while the
# GPU has perhaps not begun. A clock stopped then has timed the asking and not the work.

lab.show(lab.drawing("asynchronous_launch"))

# %%
# ``torch.cuda.synchronize()`` waits until the GPU has done all it was asked to do. A clock around GPU work needs it twice:
# before the start, so that earlier work is not counted, and before the stop.
#
# The remaining rows are the *noise*. One run is a sample of one. The median of many is not moved by a few accidents; their
# mean is.
#
# The right number
# ----------------
# All of that is easy to get wrong again each time, so from here on the workshop uses one instrument, ``lab.measure``. It
# compiles first, uses inputs that are not in a cache, takes the launch out of the number, lets rivals take turns, and
# returns the median with its spread. Its timer is ``triton.testing.do_bench``.
#
# You declare what to measure: a function that makes the inputs and returns the call, the sizes, and how many bytes the work
# must move. An addition reads two numbers of 4 bytes and writes one.


def baseline(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: add_one_element(x, y)


def torch_add(n):
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    return lambda: torch.add(x, y)


def add_bytes(n):
    return 3 * 4 * n


def add_flops(n):
    return n


sizes = [2**k for k in range(12, 29, 2)]
sweep = lab.measure(
    "add",
    {"baseline": baseline, "torch.add": torch_add},
    {"n": sizes},
    bytes=add_bytes,
    flops=add_flops,
)

lab.show(
    lab.predict(
        "At 2^26 elements, how many times faster is torch.add than the baseline? It does the same additions.",
        measured=f"{sweep.ratio('torch.add', 'baseline', n=2**26):,.0f} times",
        unit="times",
    )
)

# %%

lab.show(
    sweep.table("seconds", caption="Time of one addition of two vectors of n elements")
)

# %%
# Read the first row and the last. For a small vector there is little between the two: starting anything at all takes that
# long. Then each step of four in size costs the baseline four times the time, and ``torch.add`` next to nothing until its
# vectors are large.

lab.show(
    lab.plot(
        sweep,
        x="n",
        y="seconds",
        title="The baseline falls behind as the vectors grow",
    )
)

# %%
# Both do the same additions and move the same bytes. Here is the rate at which they move them:

lab.show(sweep.table("bandwidth", caption="Bytes that had to move, per second"))

# %%
# So the answer to this chapter's question is: yes, this GPU is fast, and our kernel is not. The same memory delivers its
# bytes far faster to ``torch.add``. Nothing that you know so far explains it. The arithmetic is the same, the bytes are the
# same, and the code of the baseline has no waste in it.
#
# What the GPU runs
# -----------------
# Below Triton lies PTX, the assembly language of NVIDIA's GPUs. Here is what became of the first ``tl.load``:

trace = lab.trace(add_one_element_kernel, x_ptr="*fp32", y_ptr="*fp32", out_ptr="*fp32")
lab.show(trace.excerpt("ptx", of="tl.load(x_ptr"))

# %%
# One instruction, ``ld.global.b32``: load 32 bits from global memory. One program, one number. Keep this line in mind: in
# chapter 7 you will see what the same ``tl.load`` becomes in a kernel that is written for the hardware.
#
# Where the baseline stands
# -------------------------
# The plot below is the map for the whole workshop, a *roofline*. To the right, more arithmetic for each byte; upwards, more
# arithmetic per second. The slanted line is as fast as memory can deliver, the flat ones as fast as the GPU can calculate.
# No kernel gets above them. Chapter 4 draws this map in detail; until then, look at one thing: how far the point lies below
# the line.

at = sweep["baseline"].at(n=2**26)
lab.show(
    lab.roofline(
        [lab.Point.of("baseline", at)],
        title="The baseline lies far below the roof",
        chapter=1,
    )
)

# %%
# Exercise: write the timer
# -------------------------
# Write ``time_ms(fn, device)``: it returns the time of one call of ``fn`` in milliseconds. ``fn()`` launches work and
# returns at once. ``device.now()`` reads a clock in milliseconds, and ``device.synchronize()`` waits for the work.
#
# The grader runs your function on a simulated GPU whose true time it knows. The first call compiles, and now and then a
# call is slow for reasons of its own, as on a real one.


def time_ms(fn, device):
    raise NotImplementedError


lab.show(lab.check("time_ms", time_ms))

# %%
# Three hints, each more explicit than the one before, and then a solution:

lab.show(
    lab.hint("time_ms", 1),
    lab.hint("time_ms", 2),
    lab.hint("time_ms", 3),
    lab.solution("time_ms"),
)

# %%
# What holds
# ----------
# These are this chapter's claims. The build evaluates them; on the GPU of the published page a false one stops it.

lab.show(
    lab.claim(
        "At 2^26 elements, torch.add is at least a hundred times faster than one program per element.",
        sweep.ratio("torch.add", "baseline", n=2**26),
        at_least=100,
        unit="times",
    ),
    lab.claim(
        "A clock that does not wait for the GPU sees less than a tenth of the time.",
        ways["no_wait"] / median,
        at_most=0.1,
    ),
    lab.claim(
        "The first call takes at least fifty times as long as a later one.",
        ways["first"] / median,
        at_least=50,
        unit="times",
    ),
)

# %%
# What you can now explain
# ------------------------
# - Why the first call of a kernel is slow, and why a clock without ``synchronize`` shows almost nothing.
# - Why one run is not a measurement, and why the median is taken and not the mean.
# - That one program per element gives the right answer, at a small fraction of the speed that the same memory gives to
#   ``torch.add``.
#
# Is my GPU fast? It is. Then why does one addition take it so long? Chapter 2 takes that up.
#
# Where these numbers come from
# -----------------------------

lab.show(lab.sources())
