"""Registers never run out.

Mistake: ignores-registers
"""


def round_up(value, step):
    return -(-value // step) * step


def occupancy(registers, shared_bytes, warps, sm):
    per_program = round_up(shared_bytes + sm.shared_reserved, sm.shared_at_once)
    programs = min(
        sm.shared_bytes // per_program,
        sm.warps // warps,
        sm.blocks,
    )
    return programs * warps / sm.warps
