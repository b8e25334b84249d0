"""The smallest quotient is rounded down once, at the end."""

import math


def occupancy(registers, shared_bytes, warps, sm):
    per_warp = 256 * math.ceil(32 * registers / 256)
    per_program = sm.shared_at_once * math.ceil((shared_bytes + sm.shared_reserved) / sm.shared_at_once)
    warps_that_fit = 4 * (sm.registers // (4 * per_warp))
    programs = math.floor(
        min(warps_that_fit / warps, sm.shared_bytes / per_program, sm.warps / warps, sm.blocks)
    )
    return programs * warps / sm.warps
