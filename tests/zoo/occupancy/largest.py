"""The most generous resource decides.

Mistake: largest
"""


def round_up(value, step):
    return -(-value // step) * step


def occupancy(registers, shared_bytes, warps, sm):
    per_warp = round_up(32 * registers, 256)
    per_program = round_up(shared_bytes + sm.shared_reserved, sm.shared_at_once)
    programs = max(
        4 * (sm.registers // 4 // per_warp) // warps,
        sm.shared_bytes // per_program,
        sm.warps // warps,
        sm.blocks,
    )
    return programs * warps / sm.warps
