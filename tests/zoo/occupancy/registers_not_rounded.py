"""Registers are handed out one by one.

Mistake: registers-not-rounded
"""


def round_up(value, step):
    return -(-value // step) * step


def occupancy(registers, shared_bytes, warps, sm):
    per_warp = 32 * registers
    per_program = round_up(shared_bytes + sm.shared_reserved, sm.shared_at_once)
    programs = min(
        4 * (sm.registers // 4 // per_warp) // warps,
        sm.shared_bytes // per_program,
        sm.warps // warps,
        sm.blocks,
    )
    return programs * warps / sm.warps
