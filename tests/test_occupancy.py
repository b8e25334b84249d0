"""Occupancy from a kernel's resources, against what Nsight Compute said of real kernels on an H200 (compute capability 9.0)."""

import re

import pytest

from kernels import lab  # noqa: F401  the lab comes before Triton
from kernels.lab.occupancy import LIMITS, limits, occupancy

H200 = LIMITS["9.0"]


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "by_registers", "by_warps", "warps"),
    [
        # launch__occupancy_limit_registers, launch__occupancy_limit_warps, sm__maximum_warps_avg_per_active_cycle
        (16, 0, 128, 32, 16, 64),
        (26, 0, 128, 16, 16, 64),
        (168, 213188, 384, 1, 5, 12),
        (108, 98304, 256, 2, 8, 16),
        (64, 16384, 128, 8, 16, 32),
        (168, 0, 32, 12, 64, 12),
        (95, 8, 64, 10, 32, 20),
        (55, 16, 128, 9, 16, 36),
        (38, 32, 256, 6, 8, 48),
        (26, 64, 512, 4, 4, 64),
        (20, 128, 1024, 2, 2, 64),
    ],
)
def test_matches_the_profiler_on_a_real_gpu(registers, shared, threads, by_registers, by_warps, warps):
    found = occupancy(registers, shared, threads, H200)
    assert (found.allowed["registers"], found.allowed["warps"], found.warps) == (
        by_registers,
        by_warps,
        warps,
    )
    assert found.share == warps / 64


def test_shared_memory_counts_what_the_system_reserves():
    # 228 KiB hold four programs of 56 KiB only if nothing were reserved for each: 4 * (56 + 1) = 228.
    assert occupancy(32, 56 * 1024, 128, H200).allowed["shared memory"] == 4
    assert occupancy(32, 56 * 1024 + 1, 128, H200).allowed["shared memory"] == 3


def test_turing_reserves_nothing():
    assert occupancy(32, 16 * 1024, 128, LIMITS["7.5"]).allowed["shared memory"] == 4


def test_registers_are_handed_out_in_portions():
    assert occupancy(33, 0, 32, H200).allowed == occupancy(40, 0, 32, H200).allowed
    assert occupancy(41, 0, 32, H200).allowed["registers"] < occupancy(40, 0, 32, H200).allowed["registers"]


def test_a_launch_that_the_hardware_refuses_has_no_blocks():
    found = occupancy(255, 0, 1024, H200)
    assert (found.blocks, found.share, found.limited_by) == (0, 0, ("registers",))


def test_every_resource_that_is_used_up_is_named():
    assert occupancy(32, 0, 128, H200).limited_by == ("registers", "warps")
    assert occupancy(16, 0, 32, H200).limited_by == ("shared memory", "blocks")


def test_a_part_of_a_warp_counts_as_a_whole_one():
    assert occupancy(32, 0, 33, H200) == occupancy(32, 0, 64, H200)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0, 0, 128), "registers_per_thread is 0"),
        ((256, 0, 128), "registers_per_thread is 256"),
        ((32, -1, 128), "shared_bytes_per_block is -1"),
        ((32, 228 * 1024, 128), "shared_bytes_per_block is 233472"),
        ((32, 0, 1025), "threads_per_block is 1025"),
    ],
)
def test_impossible_kernels_are_refused(arguments, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        occupancy(*arguments, H200)


@pytest.mark.parametrize("capability", LIMITS)
def test_an_empty_kernel_fills_an_sm_of_every_gpu(capability):
    assert occupancy(16, 0, 128, limits(capability)).share == 1


def test_unknown_capability_is_named():
    with pytest.raises(ValueError, match=r"6\.1"):
        limits("6.1")


def test_shows_the_limit():
    shown = str(occupancy(168, 0, 32, H200))
    assert "12 warps in 12 blocks on an SM: 19 % occupancy at most" in shown
    assert re.search(r"registers +12  the limit", shown)


@pytest.mark.gpu
def test_this_gpu_is_in_the_table():
    import torch

    here, facts = limits(), torch.cuda.get_device_properties(0)
    assert here.warps * 32 == facts.max_threads_per_multi_processor
    assert here.shared_bytes == facts.shared_memory_per_multiprocessor
    assert here.registers == facts.regs_per_multiprocessor
