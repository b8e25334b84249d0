"""Shared memory is handed out byte by byte.

Mistake: shared-memory-not-rounded
"""


def round_up(value, step):
    return -(-value // step) * step


def occupancy(registers, shared_bytes, warps, sm):
    per_warp = round_up(32 * registers, 256)
    per_program = shared_bytes + sm.shared_reserved
    programs = min(
        4 * (sm.registers // 4 // per_warp) // warps,
        sm.shared_bytes // per_program,
        sm.warps // warps,
        sm.blocks,
    )
    return programs * warps / sm.warps
