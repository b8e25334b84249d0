"""It divides by what a kernel without shared memory asks for.

Mistake: raises
"""


def round_up(value, step):
    return -(-value // step) * step


def occupancy(registers, shared_bytes, warps, sm):
    per_warp = round_up(32 * registers, 256)
    per_program = shared_bytes
    programs = min(
        4 * (sm.registers // 4 // per_warp) // warps,
        sm.shared_bytes // per_program,
        sm.warps // warps,
        sm.blocks,
    )
    return programs * warps / sm.warps
