"""Programs move in one by one until one of them does not fit."""

from math import ceil


def occupancy(registers, shared_bytes, warps, sm):
    per_warp = ceil(32 * registers / 256) * 256
    places = min(sm.warps, sm.registers // 4 // per_warp * 4)
    per_program = ceil((shared_bytes + sm.shared_reserved) / sm.shared_at_once) * sm.shared_at_once
    programs = 0
    while (
        (programs + 1) * warps <= places
        and (programs + 1) * per_program <= sm.shared_bytes
        and programs + 1 <= sm.blocks
    ):
        programs += 1
    return programs * warps / sm.warps
