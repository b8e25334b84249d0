"""Shared memory never runs out.

Mistake: ignores-shared-memory
"""


def round_up(value, step):
    return -(-value // step) * step


def occupancy(registers, shared_bytes, warps, sm):
    per_warp = round_up(32 * registers, 256)
    programs = min(
        4 * (sm.registers // 4 // per_warp) // warps,
        sm.warps // warps,
        sm.blocks,
    )
    return programs * warps / sm.warps
