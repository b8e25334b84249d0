"""What the counters mean: each quantity with its name, its unit, one line of meaning, and how it follows from ncu's metrics.

Every quantity is a sum over launches or a ratio of such sums, so that it means the same for one kernel and for the
several kernels that one call can launch. Names of metrics differ between architectures; where they do, all of them are
asked for and the first that exists counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, float]
_Formula = Callable[[Sequence[Values]], float | None]

SECTOR = 32
"""Bytes that the caches fetch and keep together [B]."""


@dataclass(frozen=True)
class Quantity:
    """One line of the table.

    Attributes
    ----------
    name, label
        For code and for people.
    unit
        `"B"`, `"s"`, `"share"` (of one), `"count"` (a whole number) or `"ratio"`.
    meaning
        In one line.
    needs
        What it is made of: for each part, ncu's names of it, the first that exists counts.
    formula
        From the metrics of some launches to the value; None where one of them is missing or nothing happened.
    """

    name: str
    label: str
    unit: str
    meaning: str
    needs: tuple[tuple[str, ...], ...]
    formula: _Formula

    def offered(self, launches: Sequence[Values]) -> bool:
        """Whether ncu gave all parts of it, so that it is not known only if nothing of the kind happened."""
        return all(any(name in launch for name in names) for names in self.needs for launch in launches)


def _sum(names: Sequence[str], launches: Sequence[Values]) -> float | None:
    found = [next((launch[name] for name in names if name in launch), None) for launch in launches]
    numbers = [number for number in found if number is not None]
    return sum(numbers) if len(numbers) == len(found) else None


def _total(name: str, label: str, unit: str, meaning: str, *names: str, times: int = 1) -> Quantity:
    """The sum of a metric, which may have several names."""

    def formula(launches: Sequence[Values]) -> float | None:
        total = _sum(names, launches)
        return None if total is None else total * times

    return Quantity(name, label, unit, meaning, (names,), formula)


def _ratio(name: str, label: str, unit: str, meaning: str, above: str, *below: str) -> Quantity:
    """The sum of `above` over that of all `below` together."""

    def formula(launches: Sequence[Values]) -> float | None:
        top, parts = _sum([above], launches), [_sum([one], launches) for one in below]
        bottom = sum(part for part in parts if part is not None)
        return top / bottom if top is not None and None not in parts and bottom else None

    return Quantity(name, label, unit, meaning, ((above,), *((one,) for one in below)), formula)


def _mean(name: str, label: str, unit: str, meaning: str, metric: str, weight: str) -> Quantity:
    """The mean of a metric over launches, each as heavy as its `weight`."""

    def formula(launches: Sequence[Values]) -> float | None:
        weights = _sum([weight], launches)
        if not weights or any(metric not in launch for launch in launches):
            return None
        return sum(launch[metric] * launch[weight] for launch in launches) / weights

    return Quantity(name, label, unit, meaning, ((metric,), (weight,)), formula)


def _same(name: str, label: str, unit: str, meaning: str, *metrics: str) -> Quantity:
    """A fact of the launch, the sum of some metrics; None where the launches differ in it."""

    def formula(launches: Sequence[Values]) -> float | None:
        if any(metric not in launch for metric in metrics for launch in launches):
            return None
        facts = {sum(int(launch[metric]) for metric in metrics) for launch in launches}
        return facts.pop() if len(facts) == 1 else None

    return Quantity(name, label, unit, meaning, tuple((metric,) for metric in metrics), formula)


_TIME = "gpu__time_duration.sum"
_CYCLES = "sm__cycles_active.sum"
_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_FROM_L2 = "lts__t_sectors_srcunit_tex_op_read{}.sum"

QUANTITIES: tuple[Quantity, ...] = (
    _total("seconds", "duration", "s", "under the profiler, caches empty; for timings use measure", _TIME),
    _total("dram_read", "device memory, read", "B", "what the L2 cache fetched from device memory",
           "dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    _total("dram_written", "device memory, written", "B", "without what still lay in the L2 cache at the end",
           "dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    _mean("dram_share", "device memory, busy", "share", "of the most that it can transfer in this time",
          "dram__throughput.avg.pct_of_peak_sustained_elapsed", _TIME),
    _total("l2_read", "read from L2", "B", "what the SMs asked the L2 cache for", _FROM_L2.format(""), times=SECTOR),
    _ratio("l2_hit_rate", "L2 hit rate, reads", "share", "of these, already in the L2 cache",
           _FROM_L2.format("_lookup_hit"), _FROM_L2.format("_lookup_hit"), _FROM_L2.format("_lookup_miss")),
    _ratio("l1_hit_rate", "L1 hit rate, loads", "share", "of the sectors that loads asked for, already in the SM's L1 cache",
           _GLOBAL.format("sectors", "ld_lookup_hit"), _GLOBAL.format("sectors", "ld")),
    _ratio("sectors_per_load", "sectors per load", "ratio", "pieces of 32 B that one load of a warp touches: 4 for 32 floats side by side",
           _GLOBAL.format("sectors", "ld"), _GLOBAL.format("requests", "ld")),
    _ratio("sectors_per_store", "sectors per store", "ratio", "the same for stores",
           _GLOBAL.format("sectors", "st"), _GLOBAL.format("requests", "st")),
    _total("instructions", "instructions", "count", "executed, each by a whole warp", "smsp__inst_executed.sum"),
    _ratio("issue_share", "instruction slots used", "share", "of the cycles in which a scheduler could start an instruction",
           "smsp__inst_issued.sum", "smsp__cycles_active.sum"),
    _ratio("active_lanes", "active lanes", "ratio", "of the 32 of a warp, those that take part in an instruction",
           "smsp__thread_inst_executed.sum", "smsp__inst_executed.sum"),
    _ratio("unmasked_lanes", "unmasked lanes", "ratio", "of these, those that no mask (predicate) switches off",
           "smsp__thread_inst_executed_pred_on.sum", "smsp__inst_executed.sum"),
    _ratio("active_warps", "active warps", "ratio", "on an SM, on average", "sm__warps_active.sum", _CYCLES),
    _mean("occupancy", "achieved occupancy", "share", "of the warps that an SM can hold",
          "sm__warps_active.avg.pct_of_peak_sustained_active", _CYCLES),
    _mean("occupancy_limit", "theoretical occupancy", "share", "the most that registers, shared memory and block size allow",
          "sm__maximum_warps_per_active_cycle_pct", _CYCLES),
    _mean("tensor_share", "tensor cores, busy", "share", "of the time",
          "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", _TIME),
    _same("programs", "programs", "count", "launched (blocks, in CUDA's words)", "launch__grid_size"),
    _same("threads", "threads per program", "count", "32 for each of its warps", "launch__block_size"),
    _same("registers", "registers per thread", "count", "as the compiler chose", "launch__registers_per_thread"),
    _same("shared_bytes", "shared memory per program", "B", "that the kernel asks for",
          "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),
)  # fmt: skip

STALLS: dict[str, tuple[str, str]] = {
    "long_scoreboard": (
        "waiting for global memory",
        "the result of a load has not come (local memory and texture too)",
    ),
    "short_scoreboard": (
        "waiting for shared memory",
        "or for another of the SM's shared units, such as special functions",
    ),
    "barrier": ("waiting at a barrier", "for the other warps of the program"),
    "membar": ("waiting at a fence", "until memory operations are visible to others"),
    "wait": ("waiting for the instruction before", "whose latency is fixed and known to the compiler"),
    "gmma": ("waiting for the tensor cores", "to take or finish a warp-group matrix product"),
    "math_pipe_throttle": ("arithmetic unit busy", "the unit that the next instruction needs is taken"),
    "lg_throttle": ("load queue full", "too many loads and stores of global memory at once"),
    "mio_throttle": ("shared-memory queue full", "too many shared-memory and special instructions at once"),
    "tex_throttle": ("texture queue full", "too many texture instructions at once"),
    "dispatch_stall": ("dispatch held back", "by a conflict inside the SM"),
    "drain": ("finishing its stores", "before the warp can end"),
    "imc_miss": ("waiting for constants", "kernel arguments and constants that are not in their cache"),
    "no_instruction": ("waiting for instructions", "that are not in the instruction cache, or after a jump"),
    "branch_resolving": ("waiting for a branch", "whose target is being computed"),
    "sleeping": ("sleeping", "because the program asked for it"),
    "misc": ("waiting for another reason", "that the hardware does not tell"),
    "not_selected": ("ready, another warp was chosen", "a scheduler starts one instruction a cycle"),
    "selected": ("starting an instruction", "the only one of these that gets work done"),
}
"""The hardware's names of what a warp is doing in a cycle, in plain words, with one line of meaning each."""

_STALL = "smsp__warps_issue_stalled_{}.sum"

METRICS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [name for quantity in QUANTITIES for names in quantity.needs for name in names]
        + [_STALL.format(reason) for reason in STALLS]
    )
)
"""All that ncu is asked for."""


def quantities(launches: Sequence[Values]) -> dict[str, float]:
    """Return every quantity that follows from the metrics of some launches, by name."""
    found = {quantity.name: quantity.formula(launches) for quantity in QUANTITIES}
    return {name: value for name, value in found.items() if value is not None}


def stalls(launches: Sequence[Values]) -> dict[str, float]:
    """Return how the warps' time divides among the reasons, as shares of one, the largest first."""
    cycles = {reason: _sum([_STALL.format(reason)], launches) for reason in STALLS}
    known = {reason: number for reason, number in cycles.items() if number}
    whole = sum(known.values())
    return {reason: number / whole for reason, number in sorted(known.items(), key=lambda item: -item[1])}
