"""How many warps of a kernel fit on a streaming multiprocessor (SM) at once, from the kernel's resources alone.

An SM holds whole blocks. Four things can run out: registers, shared memory, warps, and places for blocks; the one that
allows the fewest blocks decides. In Triton a block is a program, and it has 32 threads for each of its `num_warps`.

The limits are those of the table "Technical Specifications per Compute Capability" in NVIDIA's CUDA programming guide; the
steps in which registers and shared memory are handed out are those of the toolkit's occupancy calculator
(`cuda_occupancy.h`, CUDA 13.0). An SM divides one memory between shared memory and L1 cache, and the driver chooses how for
each launch; here shared memory gets the most it can, so a profiler may name a lower limit for it.
"""

from dataclasses import dataclass

import torch

from kernels.lab.show import Table
from kernels.lab.units import count, percent

WARP = 32
"""Threads in a warp."""
REGISTERS_AT_ONCE = 256
"""Registers are handed to a warp in portions of this size."""
SCHEDULERS = 4
"""Parts of an SM, each with a quarter of the registers and its own warps."""


@dataclass(frozen=True)
class Limits:
    """What one SM has, and what one block may take of it.

    Attributes
    ----------
    warps, blocks
        That an SM holds at once.
    shared_bytes, shared_bytes_per_block
        Shared memory of an SM and the most that one block can ask for [B].
    shared_reserved
        Taken from the SM by the system for each block [B].
    shared_at_once
        Shared memory is handed to a block in portions of this size [B].
    registers, registers_per_thread
        32-bit registers of an SM (a block may have them all) and the most that one thread can have.
    threads_per_block
        The most that one block can have.
    """

    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int
    shared_reserved: int = 1024
    shared_at_once: int = 128
    registers: int = 65536
    registers_per_thread: int = 255
    threads_per_block: int = 1024


_KIB = 1024
LIMITS: dict[str, Limits] = {
    "7.5": Limits(32, 16, 64 * _KIB, 64 * _KIB, shared_reserved=0, shared_at_once=256),
    "8.0": Limits(64, 32, 164 * _KIB, 163 * _KIB),
    "8.6": Limits(48, 16, 100 * _KIB, 99 * _KIB),
    "8.7": Limits(48, 16, 164 * _KIB, 163 * _KIB),
    "8.9": Limits(48, 24, 100 * _KIB, 99 * _KIB),
    "9.0": Limits(64, 32, 228 * _KIB, 227 * _KIB),
    "10.0": Limits(64, 32, 228 * _KIB, 227 * _KIB),
    "10.3": Limits(64, 32, 228 * _KIB, 227 * _KIB),
    "11.0": Limits(48, 24, 228 * _KIB, 227 * _KIB),
    "12.0": Limits(48, 24, 100 * _KIB, 99 * _KIB),
    "12.1": Limits(48, 24, 100 * _KIB, 99 * _KIB),
}
"""By compute capability."""


def limits(capability: str | None = None) -> Limits:
    """Return the limits of a compute capability, such as `"9.0"`, or of this machine's GPU.

    Raises
    ------
    ValueError
        The capability is not in the table, or none is given and there is no GPU.
    """
    if capability is None:
        if not torch.cuda.is_available():
            raise ValueError('there is no GPU here: name a compute capability, such as limits("9.0")')
        capability = "{}.{}".format(*torch.cuda.get_device_capability())
    if capability not in LIMITS:
        raise ValueError(
            f"no limits are known for compute capability {capability!r}; there are {', '.join(LIMITS)}"
        )
    return LIMITS[capability]


@dataclass(frozen=True)
class Occupancy:
    """How many blocks and warps fit on an SM, and what stops more from fitting.

    Attributes
    ----------
    blocks
        That an SM can hold at once.
    warps
        Of these blocks.
    share
        Of the warps that an SM could hold: the theoretical occupancy.
    limited_by
        The resources that allow no further block, in words.
    allowed
        The number of blocks that each resource alone would allow.
    """

    blocks: int
    warps: int
    share: float
    limited_by: tuple[str, ...]
    allowed: dict[str, int]

    def __str__(self) -> str:
        return str(self._table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        rows = [
            (what, count(n), "the limit" if what in self.limited_by else "")
            for what, n in self.allowed.items()
        ]
        caption = (
            f"{self.warps} warps in {self.blocks} blocks on an SM: {percent(self.share)} occupancy at most"
        )
        return Table(("resource", "blocks it allows", ""), rows, caption)


def occupancy(
    registers_per_thread: int, shared_bytes_per_block: int, threads_per_block: int, limits: Limits
) -> Occupancy:
    """Calculate the theoretical occupancy of a kernel.

    Parameters
    ----------
    registers_per_thread
        As the compiler reports them (`n_regs` of a compiled Triton kernel).
    shared_bytes_per_block
        Static and dynamic shared memory that the kernel asks for, without what the system reserves [B].
    threads_per_block
        32 times `num_warps` in Triton.
    limits
        Of the GPU: `limits("9.0")`, or `limits()` for this machine's.

    Raises
    ------
    ValueError
        A number is out of the range that the hardware can launch.
    """
    _check("threads_per_block", threads_per_block, 1, limits.threads_per_block)
    _check("registers_per_thread", registers_per_thread, 1, limits.registers_per_thread)
    _check("shared_bytes_per_block", shared_bytes_per_block, 0, limits.shared_bytes_per_block)
    warps = -(-threads_per_block // WARP)
    allowed = {
        "registers": _by_registers(registers_per_thread, warps, limits),
        "shared memory": _by_shared_memory(shared_bytes_per_block, limits),
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
    }
    blocks = min(allowed.values())
    limited_by = tuple(what for what, number in allowed.items() if number == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / limits.warps, limited_by, allowed)


def _by_registers(per_thread: int, warps: int, limits: Limits) -> int:
    per_warp = _round_up(per_thread * WARP, REGISTERS_AT_ONCE)
    # A launch is refused if its registers would not fit with the warps spread over all four parts.
    if per_warp * _round_up(warps, SCHEDULERS) > limits.registers:
        return 0
    return limits.registers // SCHEDULERS // per_warp * SCHEDULERS // warps


def _by_shared_memory(per_block: int, limits: Limits) -> int:
    taken = _round_up(per_block + limits.shared_reserved, limits.shared_at_once)
    # A kernel that takes none is limited by the places for blocks.
    return min(limits.blocks, limits.shared_bytes // taken) if taken else limits.blocks


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, and this GPU launches kernels with {low} to {high}")
