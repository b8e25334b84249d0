"""How fast memory, L2 and arithmetic can be on this machine, measured, beside what the datasheet says."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernels.lab import _mode, record
from kernels.lab._ceiling_kernels import (
    copy_kernel,
    fma_kernel,
    read_kernel,
    reread_kernel,
    triad_kernel,
    write_kernel,
)
from kernels.lab.datasheets import Datasheet, datasheet
from kernels.lab.measure import Row, measure
from kernels.lab.record import Source
from kernels.lab.show import Table
from kernels.lab.units import count, percent, si

# --- what is timed ------------------------------------------------------------------------------------------

_MEMORY: Mapping[str, Sequence[Any]] = {
    "kind": ["copy", "triad", "read", "write"],
    "n": [2**26, 2**28],
}  # float32 elements
_TENSORS_MOVED = {"copy": 2, "triad": 3, "read": 1, "write": 1}
_BLOCK = 1024
_READ_BLOCK = 4096  # four times as many loads in flight for each sum that a program ends with

_L2 = {
    "buffer_bytes": [2**20, 2**22, 2**24]
}  # what fits into the L2 of any GPU, and what fits into a large one's only
_L2_PROGRAMS, _L2_READS = (
    2**13,
    32,
)  # 4 GiB a call: fetching the buffer from memory first does not count beside it

_FMA = {"n": [2**22], "steps": [4096]}
_FMA_UNROLL = 32

_MATMUL_SIZES = [4096, 8192]
_TORCH_DTYPES = {"FP32": torch.float32, "TF32": torch.float32, "FP16": torch.float16, "BF16": torch.bfloat16}
_SINCE = {"FP32": (0, 0), "TF32": (8, 0), "FP16": (0, 0), "BF16": (8, 0)}  # compute capability


def make_memory(kind: str, n: int) -> Callable[[], Any]:
    """Return a call that copies, adds, reads or writes tensors of `n` float32 elements."""
    device = _mode.device()
    x = torch.randn(n if kind != "write" else 1, device=device)
    y = torch.randn(n if kind == "triad" else 1, device=device)
    blocks, read_blocks = -(-n // _BLOCK), -(-n // _READ_BLOCK)
    out = torch.empty(read_blocks if kind == "read" else n, device=device)
    return {
        "copy": lambda: copy_kernel[(blocks,)](x, out, n, BLOCK_SIZE=_BLOCK),
        "triad": lambda: triad_kernel[(blocks,)](x, y, out, 0.3, n, BLOCK_SIZE=_BLOCK),
        "read": lambda: read_kernel[(read_blocks,)](x, out, n, BLOCK_SIZE=_READ_BLOCK),
        "write": lambda: write_kernel[(blocks,)](out, 0.3, n, BLOCK_SIZE=_BLOCK),
    }[kind]


def _memory_bytes(kind: str, n: int) -> float:
    return 4.0 * n * _TENSORS_MOVED[kind]


def make_l2(buffer_bytes: int) -> Callable[[], Any]:
    """Return a call that reads a buffer of float32 round and round."""
    x = torch.randn(buffer_bytes // 4, device=_mode.device())
    out = torch.empty(_L2_PROGRAMS, device=_mode.device())
    blocks = x.numel() // _READ_BLOCK
    return lambda: reread_kernel[(_L2_PROGRAMS,)](x, out, blocks, _L2_READS, BLOCK_SIZE=_READ_BLOCK)


def _l2_bytes(buffer_bytes: int) -> float:
    return 4.0 * _READ_BLOCK * _L2_PROGRAMS * _L2_READS


def make_fma(n: int, steps: int) -> Callable[[], Any]:
    """Return a call that does `steps` multiply-adds to each of `n` float32 elements."""
    x = torch.randn(n, device=_mode.device())
    out = torch.empty_like(x)
    # A factor of almost -1 keeps values bounded and their bits toggling: constant bits would need less power.
    return lambda: fma_kernel[(n // _BLOCK,)](
        x, out, -0.9999, 0.3, steps // _FMA_UNROLL, UNROLL=_FMA_UNROLL, BLOCK_SIZE=_BLOCK
    )


def _fma_flops(n: int, steps: int) -> float:
    return 2.0 * n * steps


def make_matmul(dtype: str, n: int) -> Callable[[], Any]:
    """Return a call of `torch.matmul`, so of cuBLAS, on square matrices."""
    a, b = (torch.randn(n, n, device=_mode.device()).to(_TORCH_DTYPES[dtype]) for _ in range(2))
    precision = "high" if dtype == "TF32" else "highest"

    def call() -> torch.Tensor:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            return torch.matmul(a, b)
        finally:
            torch.set_float32_matmul_precision(before)

    return call


def _matmul_flops(dtype: str, n: int) -> float:
    return 2.0 * n**3


# --- what comes out -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """One way to reach for a ceiling, and how far it got [B/s or FLOP/s]."""

    how: str
    value: float


@dataclass(frozen=True)
class Ceiling:
    """The best of several ways to use one part of the hardware.

    Attributes
    ----------
    name
        As people call it: `"HBM3e"`, `"L2 cache"`, `"BF16 tensor cores"`.
    unit
        `"B/s"` or `"FLOP/s"`.
    attempts
        All ways that were measured, the best first.
    promised
        What the datasheet says, in `unit`; None where it does not, or is not known.
    """

    name: str
    unit: str
    attempts: tuple[Attempt, ...]
    promised: float | None = None

    def __post_init__(self) -> None:
        if not self.attempts:
            raise ValueError(
                f"the ceiling of {self.name} was not measured: none of its sizes fitted into the memory"
            )

    @property
    def value(self) -> float:
        """The measured ceiling, in `unit`."""
        return self.attempts[0].value

    @property
    def how(self) -> str:
        """What reached it."""
        return self.attempts[0].how


@dataclass(frozen=True)
class Ceilings(Mapping[str, Ceiling]):
    """This machine's ceilings.

    They are found by key: `"memory"`, `"L2"`, `"FP32"`, `"FP16"`, and `"TF32"`, `"BF16"` where it has them.
    """

    measured: Mapping[str, Ceiling]
    source: Source
    sheet: Datasheet | None = None

    def __getitem__(self, key: str) -> Ceiling:
        try:
            return self.measured[key]
        except KeyError:
            raise KeyError(
                f"{self.source.gpu} has no ceiling {key!r}; it has {', '.join(self.measured)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.measured)

    def __len__(self) -> int:
        return len(self.measured)

    @property
    def bandwidth(self) -> float:
        """The bandwidth of device memory [B/s]."""
        return self["memory"].value

    def peak(self, dtype: str = "FP32") -> float:
        """Return the peak [FLOP/s] for `"FP32"` (without tensor cores), `"TF32"`, `"FP16"` or `"BF16"`."""
        return self[dtype].value

    def table(self) -> Table:
        """Return what was measured beside what the datasheet says."""
        rows = []
        for ceiling in self.measured.values():
            for index, attempt in enumerate(ceiling.attempts):
                rows.append(
                    (
                        ceiling.name if index == 0 else "",
                        attempt.how,
                        si(attempt.value, ceiling.unit),
                        "✓" if index == 0 else "",
                        si(ceiling.promised, ceiling.unit) if ceiling.promised and index == 0 else "",
                        percent(attempt.value / ceiling.promised) if ceiling.promised else "",
                    )
                )
        columns = ("ceiling", "measured with", "measured", "roof", "datasheet", "share of it")
        return Table(columns, rows, f"The ceilings of {self.source.gpu}", self._notes())

    def _notes(self) -> tuple[str, ...]:
        notes = ["✓ the best of its kind is the roof."]
        if self.sheet:
            notes.append(f"Datasheet: {self.sheet.source}; dense matrices.")
        else:
            notes.append("The datasheet of this GPU is not known here.")
        if any(c.promised and c.value > c.promised for c in self.measured.values()):
            notes.append(
                "More than the datasheet: this GPU runs faster than the clock that its datasheet assumes."
            )
        return (*notes, self.source.line)

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def ceilings() -> Ceilings:
    """Measure this machine's ceilings, or replay those of the record.

    Memory is read and written in sizes far beyond any cache, and of two sizes the larger counts; L2 is read
    in the largest buffer that fits; arithmetic is cuBLAS on large matrices, and for float32 without tensor cores also a
    kernel of independent chains of multiply-adds.

    Raises
    ------
    RecordError, StaleError
        See `kernels.lab.record.recorded`.
    """
    dtypes = [dtype for dtype, since in _SINCE.items() if _capability() >= since]
    memory = measure("ceilings/memory", {"Triton": make_memory}, _MEMORY, bytes=_memory_bytes)
    l2 = measure("ceilings/l2", {"Triton": make_l2}, _L2, bytes=_l2_bytes)
    fma = measure("ceilings/fma", {"Triton": make_fma}, _FMA, flops=_fma_flops)
    sizes: Mapping[str, Sequence[Any]] = {"dtype": dtypes, "n": _MATMUL_SIZES}
    matmul = measure("ceilings/matmul", {"cuBLAS": make_matmul}, sizes, flops=_matmul_flops)
    sources = [comparison.source for comparison in (memory, l2, fma, matmul)]
    source = next((source for source in sources if source.stale), sources[0])
    sheet = datasheet(source.gpu)

    # The smaller size may still find some of its data in a large L2, so it does not compete with the larger.
    streams = {
        row.params["kind"]: row for row in sorted(memory["Triton"].rows, key=lambda row: int(row.params["n"]))
    }
    found = {
        "memory": _ceiling(
            sheet.memory if sheet else "device memory", "B/s", sheet.bandwidth if sheet else None,
            [(f"{kind}, {count(row.params['n'])} float32", row.bandwidth) for kind, row in streams.items()],
        ),
        "L2": _ceiling(
            "L2 cache", "B/s", None,
            [
                (f"read {row.params['buffer_bytes'] // 2**20} MiB again and again", row.bandwidth)
                for row in _inside_l2(l2["Triton"].rows)
            ],
        ),
    }  # fmt: skip
    for dtype in dtypes:
        ways = [
            (f"cuBLAS, {row.params['n']:,} × {row.params['n']:,}", row.rate)
            for row in matmul["cuBLAS"].rows
            if row.params["dtype"] == dtype
        ]
        if dtype == "FP32":
            ways += [("multiply-adds in registers", row.rate) for row in fma["Triton"].rows]
        name = "FP32" if dtype == "FP32" else f"{dtype} tensor cores"
        found[dtype] = _ceiling(name, "FLOP/s", sheet.peak(dtype) if sheet else None, ways)
    return Ceilings(found, source, sheet)


def _ceiling(name: str, unit: str, promised: float | None, ways: Sequence[tuple[str, float]]) -> Ceiling:
    best_first = sorted(ways, key=lambda way: -way[1])
    return Ceiling(name, unit, tuple(Attempt(how, value) for how, value in best_first), promised)


def _inside_l2(rows: Sequence[Row]) -> list[Row]:
    """The largest buffer that leaves the L2 cache room.

    A small one reads too fast: SMs that ask for the same line at once share one answer before they reach the cache.
    """
    if _mode.live():
        size = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    else:
        size = record.replayed_run()["l2_bytes"]
    fitting = [row for row in rows if row.params["buffer_bytes"] <= size / 3] or list(rows[:1])
    return fitting[-1:]


def _capability() -> tuple[int, int]:
    """The compute capability of the GPU whose numbers this process shows."""
    if _mode.live():
        return torch.cuda.get_device_capability()
    major, minor = str(record.replayed_run()["compute_capability"]).split(".")
    return int(major), int(minor)
