"""Registers are rounded for a thread: 256 for a warp are 8 for each of its threads."""


def occupancy(registers, shared_bytes, warps, sm):
    per_thread = (registers + 7) // 8 * 8
    in_a_part = (sm.registers // 4) // (per_thread * 32)
    shared = (
        (shared_bytes + sm.shared_reserved + sm.shared_at_once - 1) // sm.shared_at_once * sm.shared_at_once
    )
    limits = [in_a_part * 4 // warps, sm.shared_bytes // shared, sm.warps // warps, sm.blocks]
    return min(limits) * warps / sm.warps
