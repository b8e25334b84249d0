"""The final benchmark: the workshop's kernels, and the fastest that others have for the same work, in the same run.

Every comparison is declared here once, so that `python -m kernels benchmark`, a chapter and a test speak of the same numbers:
measured on a GPU, replayed without one. All rivals get the same inputs of their own, allocate their results anew in each call, and
are timed in turns. `torch.compile` is asked for its best with fixed shapes, and compiles before it is timed.
"""

import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from kernels import lab
from kernels.add import add, add_bytes, add_flops, add_one_element
from kernels.cuda.add import add_float4, add_one_float
from kernels.cuda.rms_norm import add_rms_norm as add_rms_norm_in_cuda
from kernels.cuda.softmax import softmax as softmax_in_cuda
from kernels.lab import record
from kernels.lab.claims import Claim, ClaimError
from kernels.lab.measure import Comparison, Make, Measurement, Row
from kernels.lab.show import Table
from kernels.lab.units import count, digits, percent, si
from kernels.matmul import matmul_bytes, matmul_flops
from kernels.matmul import matmul_persistent as our_matmul
from kernels.rms_norm import add_rms_norm as our_add_rms_norm
from kernels.rms_norm import add_rms_norm_bytes, add_rms_norm_flops
from kernels.softmax import softmax as our_softmax
from kernels.softmax import softmax_bytes, softmax_flops

OURS = "ours"
"""The label of the workshop's kernel in every comparison."""

LENGTHS = [2**k for k in range(12, 29)]
BASELINE_LENGTHS = [n for n in LENGTHS if n <= 2**24]  # beyond, it takes its time and says nothing new
WIDTHS = [2**k for k in range(8, 19)]
ELEMENTS = 2**28  # of each tensor of rows, whatever their width
SIDES = [4096, 8192]

COMPILE = {"mode": "max-autotune-no-cudagraphs", "dynamic": False}
"""How `torch.compile` is asked: its longest search, for fixed shapes, and no graphs of its own inside those of the timer."""

_PACKAGES = {  # the rivals that not everyone has: the module to import, and what to install
    "CUDA C++": ("cuda.core", "first-fast-kernel[cuda]"),
    "CUDA C++ float4": ("cuda.core", "first-fast-kernel[cuda]"),
    "CUDA C++ one float": ("cuda.core", "first-fast-kernel[cuda]"),
    "Liger": ("liger_kernel", "liger-kernel"),
}
LIGER_WIDEST = 65_536  # it refuses wider rows: `calculate_settings` in liger_kernel/ops/utils.py


# --- vector addition --------------------------------------------------------------------------------------------------


def two_vectors(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random vectors of n float32."""
    return torch.randn(n, device="cuda"), torch.randn(n, device="cuda")


def make_add_ours(n: int) -> Callable[[], Any]:
    """Add in blocks, in Triton."""
    x, y = two_vectors(n)
    return lambda: add(x, y)


def make_add_baseline(n: int) -> Callable[[], Any]:
    """Add one element per program, in Triton."""
    x, y = two_vectors(n)
    return lambda: add_one_element(x, y)


def make_add_torch(n: int) -> Callable[[], Any]:
    """Add with torch."""
    x, y = two_vectors(n)
    return lambda: torch.add(x, y)


def make_add_compiled(n: int) -> Callable[[], Any]:
    """Add with `torch.compile`."""
    x, y = two_vectors(n)
    return compiled(eager_add, x, y)


def make_add_one_float(n: int) -> Callable[[], Any]:
    """Add in CUDA C++, one float a thread."""
    x, y = two_vectors(n)
    return lambda: add_one_float(x, y)


def make_add_float4(n: int) -> Callable[[], Any]:
    """Add in CUDA C++, four floats a thread."""
    x, y = two_vectors(n)
    return lambda: add_float4(x, y)


def eager_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What `torch.compile` compiles for the addition."""
    return x + y


def add_vectors() -> Comparison:
    """Vector addition of float32, every power of two from 2^12 to 2^28."""
    rivals = {
        OURS: make_add_ours,
        "torch.add": make_add_torch,
        "torch.compile": make_add_compiled,
        "CUDA C++ one float": make_add_one_float,
        "CUDA C++ float4": make_add_float4,
    }
    return joined(
        "add",
        _measure("benchmark/add", rivals, {"n": LENGTHS}, bytes=add_bytes, flops=add_flops),
        _measure(
            "benchmark/add",
            {"baseline": make_add_baseline},
            {"n": BASELINE_LENGTHS},
            bytes=add_bytes,
            flops=add_flops,
        ),
    )


# --- softmax ----------------------------------------------------------------------------------------------------------


def rows(width: int) -> torch.Tensor:
    """Return random bfloat16 in rows of this width, 2^28 in all."""
    return torch.randn(ELEMENTS // width, width, device="cuda", dtype=torch.bfloat16)


def make_softmax_ours(width: int) -> Callable[[], Any]:
    """Softmax in Triton."""
    x = rows(width)
    return lambda: our_softmax(x)


def make_softmax_torch(width: int) -> Callable[[], Any]:
    """Softmax with torch."""
    x = rows(width)
    return lambda: torch.softmax(x, dim=-1)


def make_softmax_compiled(width: int) -> Callable[[], Any]:
    """Softmax with `torch.compile`."""
    return compiled(eager_softmax, rows(width))


def make_softmax_cuda(width: int) -> Callable[[], Any]:
    """Softmax in CUDA C++."""
    x = rows(width)
    return lambda: softmax_in_cuda(x)


def make_softmax_liger(width: int) -> Callable[[], Any]:
    """Softmax of the Liger kernels, also in Triton."""
    from liger_kernel.ops.softmax import LigerSoftmaxFunction  # type: ignore[import-not-found]

    x = rows(width)
    return lambda: LigerSoftmaxFunction.apply(x)


def eager_softmax(x: torch.Tensor) -> torch.Tensor:
    """What `torch.compile` compiles for the softmax."""
    return torch.softmax(x, dim=-1)


def softmax_bytes_at(width: int) -> int:
    """Return the bytes that a softmax of 2^28 bfloat16 must move [B]; the same for every width."""
    return softmax_bytes(ELEMENTS // width, width, element_size=2)


def softmax_flops_at(width: int) -> int:
    """Return its operations [FLOP]."""
    return softmax_flops(ELEMENTS // width, width)


def softmax_rows() -> Comparison:
    """Softmax of 2^28 bfloat16 in rows of 256 to 262,144."""
    rivals = {
        OURS: make_softmax_ours,
        "torch": make_softmax_torch,
        "torch.compile": make_softmax_compiled,
        "CUDA C++": make_softmax_cuda,
    }
    return _over_widths("softmax", rivals, make_softmax_liger, bytes=softmax_bytes_at, flops=softmax_flops_at)


# --- residual add and RMSNorm -----------------------------------------------------------------------------------------

EPS = 1e-6


def rows_to_norm(width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random rows, a residual of the same shape, and a weight."""
    return rows(width), rows(width), torch.randn(width, device="cuda", dtype=torch.bfloat16)


def make_add_rms_norm_ours(width: int) -> Callable[[], Any]:
    """Residual add and RMSNorm in one kernel in Triton."""
    x, residual, weight = rows_to_norm(width)
    return lambda: our_add_rms_norm(x, residual, weight, EPS)


def make_add_rms_norm_torch(width: int) -> Callable[[], Any]:
    """Residual add and RMSNorm with torch, one after the other."""
    x, residual, weight = rows_to_norm(width)
    return lambda: eager_add_rms_norm(x, residual, weight)


def make_add_rms_norm_compiled(width: int) -> Callable[[], Any]:
    """Residual add and RMSNorm with `torch.compile`."""
    return compiled(eager_add_rms_norm, *rows_to_norm(width))


def make_add_rms_norm_cuda(width: int) -> Callable[[], Any]:
    """Residual add and RMSNorm in one kernel in CUDA C++."""
    x, residual, weight = rows_to_norm(width)
    return lambda: add_rms_norm_in_cuda(x, residual, weight, EPS)


def make_add_rms_norm_liger(width: int) -> Callable[[], Any]:
    """Residual add and RMSNorm of the Liger kernels, also in Triton."""
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction  # type: ignore[import-not-found]

    x, residual, weight = rows_to_norm(width)
    return lambda: LigerFusedAddRMSNormFunction.apply(x, residual, weight, EPS)


def eager_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Residual add and RMSNorm as one writes it in torch; also what `torch.compile` compiles."""
    total = x + residual
    return torch.nn.functional.rms_norm(total, (total.shape[-1],), weight, EPS), total


def add_rms_norm_bytes_at(width: int) -> int:
    """Return the bytes that a residual add and RMSNorm of 2^28 bfloat16 must move [B]; the same for every width."""
    return add_rms_norm_bytes(ELEMENTS // width, width, element_size=2)


def add_rms_norm_flops_at(width: int) -> int:
    """Return its operations [FLOP]."""
    return add_rms_norm_flops(ELEMENTS // width, width)


def add_rms_norm_rows() -> Comparison:
    """Residual add and RMSNorm of 2^28 bfloat16 in rows of 256 to 262,144."""
    rivals = {
        OURS: make_add_rms_norm_ours,
        "torch": make_add_rms_norm_torch,
        "torch.compile": make_add_rms_norm_compiled,
        "CUDA C++": make_add_rms_norm_cuda,
    }
    return _over_widths(
        "add_rms_norm",
        rivals,
        make_add_rms_norm_liger,
        bytes=add_rms_norm_bytes_at,
        flops=add_rms_norm_flops_at,
    )


# --- matrix multiplication --------------------------------------------------------------------------------------------


def two_matrices(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random square matrices of bfloat16."""
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return a, b


def make_matmul_ours(n: int) -> Callable[[], Any]:
    """Multiply in Triton."""
    a, b = two_matrices(n)
    return lambda: our_matmul(a, b)


def make_matmul_torch(n: int) -> Callable[[], Any]:
    """Multiply with torch, so with cuBLAS."""
    a, b = two_matrices(n)
    return lambda: torch.matmul(a, b)


def square_bytes(n: int) -> int:
    """Return the bytes that a product of square matrices of bfloat16 must move [B]."""
    return matmul_bytes(n, n, n)


def square_flops(n: int) -> int:
    """Return its operations [FLOP]."""
    return matmul_flops(n, n, n)


def matmul_squares() -> Comparison:
    """Multiplication of square matrices of bfloat16."""
    rivals = {OURS: make_matmul_ours, "cuBLAS": make_matmul_torch}
    measured = _measure("benchmark/matmul", rivals, {"n": SIDES}, bytes=square_bytes, flops=square_flops)
    return joined("matmul", measured)


# --- what all share ---------------------------------------------------------------------------------------------------


def compiled(function: Callable[..., Any], *inputs: torch.Tensor) -> Callable[[], Any]:
    """Return a call of what `torch.compile` makes of a function for exactly these shapes, compiled and ready."""
    call = _compiled(function, tuple(tensor.shape for tensor in inputs), **COMPILE)
    call(*inputs)  # compiles when the shapes are new
    return lambda: call(*inputs)


@cache
def _compiled(function: Callable[..., Any], shapes: tuple[torch.Size, ...], **how: Any) -> Callable[..., Any]:
    # Forget earlier shapes: after some recompilations torch.compile runs a function eagerly, without a word.
    torch._dynamo.reset()
    return torch.compile(function, **how)


def _over_widths(
    name: str,
    rivals: Mapping[str, Make],
    liger: Make,
    *,
    bytes: Callable[..., int],
    flops: Callable[..., int],
) -> Comparison:
    """Measure over all widths, Liger as far as it goes."""
    narrow = {"width": [width for width in WIDTHS if width <= LIGER_WIDEST]}
    wide = {"width": [width for width in WIDTHS if width > LIGER_WIDEST]}
    return joined(
        name,
        _measure(f"benchmark/{name}", {**rivals, "Liger": liger}, narrow, bytes=bytes, flops=flops),
        _measure(f"benchmark/{name}, wide", rivals, wide, bytes=bytes, flops=flops),
    )


def _measure(
    name: str,
    rivals: Mapping[str, Make],
    over: Mapping[str, Sequence[int]],
    *,
    bytes: Callable[..., int],
    flops: Callable[..., int],
) -> Comparison:
    there = {label: make for label, make in rivals.items() if available(name, label)}
    return lab.measure(name, there, over, bytes=bytes, flops=flops)


def available(name: str, label: str) -> bool:
    """Whether a rival can take part: its package is installed, or, when replaying, the record has it."""
    if label not in _PACKAGES:
        return True
    if not lab.live():
        return f"{name}/{label}" in record.replayed()["entries"]
    try:
        importlib.import_module(_PACKAGES[label][0])
    except ImportError:
        return False
    return True


def joined(name: str, *comparisons: Comparison) -> Comparison:
    """Return comparisons over several sweeps as one: of each rival, all rows."""
    found: dict[str, Measurement] = {}
    for comparison in comparisons:
        for label, part in comparison.items():
            if label in found:
                before = found[label]
                source = part.source if part.source.stale else before.source
                part = Measurement(
                    before.name, label, before.rows + part.rows, source, before.dropped + part.dropped
                )
            found[label] = part
    return Comparison(name, found)


# --- what a launch costs ----------------------------------------------------------------------------------------------

GRAPH_CALLS = 100


def host_seconds() -> dict[str, Any]:
    """Return what one call costs the host, for an addition so small that the GPU is never behind [s]."""
    n = 4096
    makes = {
        OURS: make_add_ours,
        "torch.add": make_add_torch,
        "torch.compile": make_add_compiled,
        "CUDA C++ one float": make_add_one_float,
        "CUDA C++ float4": make_add_float4,
    }
    seconds = {}
    for label, make in makes.items():
        if available("benchmark/add", label):
            seconds[label] = _host_seconds(make(n), calls=200)
    call, graph = make_add_ours(n), torch.cuda.CUDAGraph()
    call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_CALLS):
            call()
    seconds["ours, in a CUDA graph"] = _host_seconds(graph.replay, calls=4) / GRAPH_CALLS
    return {"n": n, "graph_calls": GRAPH_CALLS, "seconds": seconds}


def _host_seconds(call: Callable[[], Any], calls: int) -> float:
    """Return the median over many turns of so many calls, few enough that the GPU's queue never fills."""
    turns = []
    for _ in range(40):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        turns.append((time.perf_counter() - start) / calls)
    return statistics.median(turns[10:])  # the first turns warm up


def launch_cost() -> record.Observation:
    """Return what one call of each vector addition costs the host, `["seconds"]` by label [s]."""
    return lab.observe("benchmark/launch", host_seconds)


def launch_table(cost: record.Observation) -> Table:
    """Return the host's cost of each call as a table."""
    fastest = min(cost["seconds"].values())
    lines = [(label, si(s, "s"), f"{digits(s / fastest, 2)}") for label, s in cost["seconds"].items()]
    caption = f"What one call costs the host (adding {count(cost['n'])} floats)"
    graph = f"In a CUDA graph: one replay of {cost['graph_calls']} calls, per call."
    return Table(("call", "host time", "times the least"), lines, caption, (graph, cost.source.line))


# --- what comes out ---------------------------------------------------------------------------------------------------

COMPARISONS: Mapping[str, Callable[[], Comparison]] = {
    "add": add_vectors,
    "softmax": softmax_rows,
    "add_rms_norm": add_rms_norm_rows,
    "matmul": matmul_squares,
}
"""The parts of the benchmark by name."""

_CAPTIONS = {
    "add": "Vector addition, float32",
    "softmax": "Softmax of rows, 2^28 elements, bfloat16",
    "add_rms_norm": "Residual add and RMSNorm of rows, 2^28 elements, bfloat16",
    "matmul": "Multiplication of n × n matrices, bfloat16",
}


def copy_ceiling() -> float:
    """Return the speed of a copy that is far larger than any cache [B/s]."""
    attempts = lab.ceilings()["memory"].attempts
    return next(attempt.value for attempt in attempts if attempt.how.startswith("copy"))


def best_rival(comparison: Comparison, **params: Any) -> str | None:
    """Return the label of the fastest other than ours at a point; None where there is no other."""
    times = {}
    for label, measurement in comparison.items():
        row = _row(measurement, params)
        if label != OURS and row:
            times[label] = row.seconds
    return min(times, key=lambda label: times[label]) if times else None


def _row(measurement: Measurement, params: Mapping[str, Any]) -> Row | None:
    return next((row for row in measurement.rows if dict(row.params) == dict(params)), None)


def summary(comparison: Comparison, copy: float | None = None) -> Table:
    """Return how fast each is at each point, and ours as a share of the best rival's speed and of the copy's.

    Parameters
    ----------
    comparison
        One of the parts.
    copy
        The speed of a copy [B/s]; without it the speeds are those of arithmetic [FLOP/s], and nothing is compared with it.
    """
    kind, unit = ("bandwidth", "B/s") if copy else ("rate", "FLOP/s")
    lines = []
    for point in comparison[OURS].rows:
        found = [_row(measurement, point.params) for measurement in comparison.values()]
        rival = best_rival(comparison, **point.params)
        cells = [count(value) for value in point.params.values()]
        cells += [si(getattr(row, kind), unit) if row else "–" for row in found]
        cells += [rival or "–", percent(comparison.ratio(OURS, rival, **point.params)) if rival else "–"]
        cells += [percent(point.bandwidth / copy)] if copy else []
        lines.append(cells)
    heads = [f"{label} (stale)" if m.source.stale else label for label, m in comparison.items()]
    names = list(comparison[OURS].rows[0].params) if comparison[OURS].rows else []
    columns = (*names, *heads, "best rival", "ours to it", *(["ours to a copy"] if copy else []))
    return Table(columns, lines, _CAPTIONS[comparison.name], (*comparison.notes, *_missing(comparison)))


def _missing(comparison: Comparison) -> tuple[str, ...]:
    wanted = {
        "add": ("CUDA C++ one float", "CUDA C++ float4"),
        "softmax": ("CUDA C++", "Liger"),
        "add_rms_norm": ("CUDA C++", "Liger"),
    }
    left_out = [label for label in wanted.get(comparison.name, ()) if label not in comparison]
    return tuple(f"Not measured: {label} (pip install '{_PACKAGES[label][1]}')." for label in left_out)


@dataclass(frozen=True)
class Target:
    """What the workshop wants to reach.

    Attributes
    ----------
    part
        The comparison it is about.
    text
        The claim.
    value
        Computes its value from the comparison and from the speed of a copy [B/s]. A `KeyError`, or a `ValueError` for want of
        points, means that it cannot be judged here.
    at_least
        The bound.
    unit
        Of the value: `"times"` as fast, or nothing for a share.
    """

    part: str
    text: str
    value: Callable[[Comparison, float], float]
    at_least: float
    unit: str = "times"


def worst_ratio(comparison: Comparison, rival: str, points: Sequence[Mapping[str, int]]) -> float:
    """Return how fast ours is compared with a rival at the point where it does worst; `"best"` is the best at each point."""
    return min(
        comparison.ratio(
            OURS, (best_rival(comparison, **point) or rival) if rival == "best" else rival, **point
        )
        for point in points
    )


def _large(comparison: Comparison) -> list[Mapping[str, int]]:
    """Lengths at which the launch no longer counts."""
    return [row.params for row in comparison[OURS].rows if row.params["n"] >= 2**24]


def _between(comparison: Comparison, narrowest: int, widest: int) -> list[Mapping[str, int]]:
    return [row.params for row in comparison[OURS].rows if narrowest <= row.params["width"] <= widest]


def _worst_share(comparison: Comparison, copy: float, points: Sequence[Mapping[str, int]]) -> float:
    return min(comparison[OURS].at(**point).bandwidth / copy for point in points)


TARGETS = (
    Target(
        "add", "From 2^24 elements on, the vector add in Triton is as fast as CUDA C++ with float4.",
        lambda c, copy: worst_ratio(c, "CUDA C++ float4", _large(c)), 0.97,
    ),
    Target(
        "add", "From 2^24 elements on, the vector add is as fast as torch.add.",
        lambda c, copy: worst_ratio(c, "torch.add", _large(c)), 0.97,
    ),
    Target(
        "add", "At the largest length, the vector add moves its bytes as fast as a copy.",
        lambda c, copy: _worst_share(c, copy, _large(c)[-1:]), 0.95, "",
    ),
    Target(
        "add", "At 2^24 elements, the vector add is at least a hundred times faster than one element per program.",
        lambda c, copy: c.ratio(OURS, "baseline", n=2**24), 100,
    ),
    Target(
        "softmax", "For rows of 1,024 to 16,384, the softmax moves its bytes at nine tenths of a copy's speed.",
        lambda c, copy: _worst_share(c, copy, _between(c, 1024, 16_384)), 0.9, "",
    ),
    Target(
        "softmax", "At every width, the softmax is as fast as the best rival.",
        lambda c, copy: worst_ratio(c, "best", _between(c, WIDTHS[0], WIDTHS[-1])), 0.95,
    ),
    Target(
        "softmax", "At every width, the softmax is at least 1.2 times faster than torch.",
        lambda c, copy: worst_ratio(c, "torch", _between(c, WIDTHS[0], WIDTHS[-1])), 1.2,
    ),
    Target(
        "add_rms_norm", "For rows of 1,024 to 32,768, the fused add and norm moves its bytes at nine tenths of a copy's speed.",
        lambda c, copy: _worst_share(c, copy, _between(c, 1024, 32_768)), 0.9, "",
    ),
    Target(
        "add_rms_norm", "At every width, the fused add and norm is as fast as the best rival.",
        lambda c, copy: worst_ratio(c, "best", _between(c, WIDTHS[0], WIDTHS[-1])), 0.95,
    ),
    Target(
        "add_rms_norm", "At every width, the fused add and norm is at least 1.2 times faster than torch's two kernels.",
        lambda c, copy: worst_ratio(c, "torch", _between(c, WIDTHS[0], WIDTHS[-1])), 1.2,
    ),
    Target(
        "matmul", "The matmul is as fast as cuBLAS.",
        lambda c, copy: worst_ratio(c, "cuBLAS", [row.params for row in c[OURS].rows]), 0.95,
    ),
)  # fmt: skip
"""What the benchmark is judged by. "As fast as" leaves a few percent to the spread and to the choice of card."""


def judge(target: Target, comparisons: Mapping[str, Comparison], copy: float) -> Claim | None:
    """Return a target as a claim; None where a rival or a size that it needs is missing.

    Raises
    ------
    ClaimError
        As `lab.claim`.
    """
    try:
        value = target.value(comparisons[target.part], copy)
    except (KeyError, ValueError):
        return None
    return lab.claim(target.text, value, at_least=target.at_least, unit=target.unit)


def targets(comparisons: Mapping[str, Comparison], copy: float) -> list[Claim]:
    """Return as claims all targets about these comparisons that can be judged here, see `judge`."""
    claims = [judge(target, comparisons, copy) for target in TARGETS]
    return [claim for claim in claims if claim]


def main(parts: Sequence[str] = ()) -> int:
    """Measure the named parts, all by default, or replay them, and show tables and targets.

    Returns 1 if the reference GPU misses a target, else 0.
    """
    print(record.describe(), flush=True)
    copy = copy_ceiling()
    print(f"A copy moves {si(copy, 'B/s')}.", end="\n\n", flush=True)
    comparisons = {}
    for part in parts or COMPARISONS:
        comparisons[part] = COMPARISONS[part]()
        lab.show(summary(comparisons[part], None if part == "matmul" else copy))
        if part == "add":
            lab.show(launch_table(launch_cost()))
    missed = 0
    for target in TARGETS:
        if target.part in comparisons:
            try:
                judged = judge(target, comparisons, copy)
            except ClaimError as error:
                print(error)
                missed += 1
            else:
                print(judged or f"– {target.text}\n  It cannot be judged here: a rival or a size is missing.")
                missed += judged is not None and not judged.holds
    return 1 if missed and record.current().is_reference else 0
