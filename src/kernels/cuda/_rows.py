"""How kernels that reduce rows are laid out: elements a pack, packs a thread, threads a row, threads a block."""

import math
from dataclasses import dataclass

import torch

TYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
"""The names that `rows.cuh` gives to torch's types."""

LOOP_THREADS, LOOP_PER = 512, 4  # of a block that goes through its row in two passes


def pack_size(*rows: torch.Tensor) -> int:
    """Return how many elements one instruction can load in all of these rows: 16 bytes, or what alignment and width allow."""
    sizes = [16 // rows[0].element_size()]
    for tensor in rows:
        sizes += [tensor.shape[-1], tensor.data_ptr() // tensor.element_size()]
        sizes += [tensor.stride(0)] if tensor.ndim == 2 and tensor.shape[0] > 1 else []
    return math.gcd(*sizes)


@dataclass(frozen=True)
class Layout:
    """How a row of packs is held in registers: `per` packs in each of `threads` threads, in blocks of `block` threads."""

    per: int
    threads: int
    block: int


def layout(n_packs: int) -> Layout | None:
    """Return the layout for rows of so many packs; None if registers cannot hold a row.

    Four packs a thread are 64 bytes, enough loads in flight; eight are the most that 1,024 threads have registers for.
    """
    threads = 1
    while (threads * 4 < n_packs and threads < 512) or threads * 8 < n_packs:
        threads *= 2
    if threads > 1024:
        return None
    if n_packs < 32:  # so few that a thread for each pack suits better
        threads = 1 << (n_packs - 1).bit_length()
    return Layout(per=-(-n_packs // threads), threads=threads, block=max(128, threads))
