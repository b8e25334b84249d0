"""Exercise: how many of an SM's places for warps can a kernel fill?

The right answers are those of `kernels.lab.occupancy`, which is tested against what Nsight Compute said of real kernels on
an H200, those of `_COUNTED` among them.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kernels.exercises import FunctionExercise, Mistake, Sign, Trial
from kernels.lab.occupancy import LIMITS, WARP, Limits
from kernels.lab.occupancy import occupancy as calculated


def round_up(value: int, step: int) -> int:
    """Return the smallest multiple of step that is not smaller than value."""
    return -(-value // step) * step


def occupancy(registers: int, shared_bytes: int, warps: int, sm: Limits) -> float:
    """Return the share of an SM's places for warps that programs of a kernel can take at once."""
    # <your turn> count the programs that each of the four resources allows; the smallest number decides
    registers_of_a_warp = round_up(32 * registers, 256)
    warps_in_a_quarter = sm.registers // 4 // registers_of_a_warp
    shared_of_a_program = round_up(shared_bytes + sm.shared_reserved, sm.shared_at_once)
    programs = min(
        4 * warps_in_a_quarter // warps,
        sm.shared_bytes // shared_of_a_program,
        sm.warps // warps,
        sm.blocks,
    )
    return programs * warps / sm.warps
    # </your turn>


@dataclass(frozen=True)
class _Kernel:
    """What a kernel asks for: registers of a thread, shared memory of a program [B], warps of a program."""

    name: str
    registers: int
    shared_bytes: int
    warps: int
    capability: str = "9.0"

    @property
    def arguments(self) -> tuple[int, int, int, Limits]:
        """The arguments of the learner's function."""
        return self.registers, self.shared_bytes, self.warps, LIMITS[self.capability]

    @property
    def share(self) -> float:
        """The right answer."""
        limits = LIMITS[self.capability]
        return calculated(self.registers, self.shared_bytes, self.warps * WARP, limits).share

    def __str__(self) -> str:
        asked = f"{self.registers} registers, {self.shared_bytes:,} B shared, {self.warps} warps"
        return f"{self.name} ({asked}; compute capability {self.capability})"


_COUNTED = (
    _Kernel("as counted on an H200", 16, 0, 4),
    _Kernel("as counted on an H200", 26, 0, 4),
    _Kernel("as counted on an H200", 168, 213188, 12),
    _Kernel("as counted on an H200", 108, 98304, 8),
    _Kernel("as counted on an H200", 64, 16384, 4),
    _Kernel("as counted on an H200", 168, 0, 1),
    _Kernel("as counted on an H200", 95, 8, 2),
    _Kernel("as counted on an H200", 38, 32, 8),
    _Kernel("as counted on an H200", 20, 128, 32),
)
_CALCULATED = (
    _Kernel("one warp, next to nothing", 16, 0, 1),
    _Kernel("one warp, some registers", 48, 0, 1),
    _Kernel("a register more than a step", 41, 0, 2),
    _Kernel("shared memory that would just fit", 32, 57344 + 1, 4),
    _Kernel("shared memory between two steps", 24, 45640, 4),
    _Kernel("an odd number of warps", 40, 4096, 3),
    _Kernel("a wide copy", 168, 0, 4, "8.0"),
    _Kernel("a wide copy", 168, 0, 4, "8.6"),
    _Kernel("a tiled product", 96, 49152, 8, "8.6"),
    _Kernel("a tiled product", 96, 49152, 8, "12.0"),
    _Kernel("few registers", 24, 0, 4, "12.0"),
)


def _drawn(how_many: int) -> Iterator[_Kernel]:
    """Draw kernels that nobody has seen, all of which the hardware could launch."""
    chance = random.SystemRandom()
    while how_many:
        kernel = _Kernel(
            "a kernel drawn by lot", chance.randint(16, 200), 512 * chance.randint(0, 180), chance.choice((1, 2, 4, 8, 16)),
            chance.choice(("8.0", "8.9", "9.0")),
        )  # fmt: skip
        if kernel.shared_bytes <= LIMITS[kernel.capability].shared_bytes_per_block and kernel.share > 0:
            how_many -= 1
            yield kernel


def _trials(function: Callable[..., Any]) -> Iterator[Trial]:
    for kernel in (*_COUNTED, *_CALCULATED, *_drawn(8)):
        result = function(*kernel.arguments)
        number = isinstance(result, int | float) and not isinstance(result, bool)
        passed = number and abs(result - kernel.share) <= 1e-6
        signs = () if number else (Sign("not-a-number", f"it returned a {type(result).__name__}"),)
        got = f"{result:.6g}" if number else repr(result)[:40]
        yield Trial(str(kernel), passed, f"{kernel.share:.6g}", got, signs, kernel.arguments, result)


# --- what wrong solutions return -------------------------------------------------------------------------------------


def _allowed(
    registers: int, shared_bytes: int, warps: int, sm: Limits, *,
    step: int = 256, parts: int = 4, reserved: bool = True, portion: bool = True,
) -> dict[str, int]:  # fmt: skip
    """Return the programs that each resource allows, with one rule or another left out."""
    of_a_warp = round_up(WARP * registers, step)
    of_a_program = shared_bytes + (sm.shared_reserved if reserved else 0)
    of_a_program = round_up(of_a_program, sm.shared_at_once if portion else 1)
    return {
        "registers": parts * (sm.registers // parts // of_a_warp) // warps,
        "shared": sm.shared_bytes // of_a_program if of_a_program else sm.blocks,
        "warps": sm.warps // warps,
        "blocks": sm.blocks,
    }


def _with(**rules: Any) -> Callable[..., float]:
    """Return the answer of a solution that has one rule wrong."""

    def answer(registers: int, shared_bytes: int, warps: int, sm: Limits) -> float:
        return min(_allowed(registers, shared_bytes, warps, sm, **rules).values()) * warps / sm.warps

    return answer


def _without(resource: str) -> Callable[..., float]:
    """Return the answer of a solution that forgets one resource."""

    def answer(registers: int, shared_bytes: int, warps: int, sm: Limits) -> float:
        allowed = _allowed(registers, shared_bytes, warps, sm)
        return min(number for name, number in allowed.items() if name != resource) * warps / sm.warps

    return answer


def _largest(registers: int, shared_bytes: int, warps: int, sm: Limits) -> float:
    return max(_allowed(registers, shared_bytes, warps, sm).values()) * warps / sm.warps


def _not_whole(registers: int, shared_bytes: int, warps: int, sm: Limits) -> list[float]:
    """Divisions whose remainder is kept: everywhere, or all but within a quarter of the registers."""
    of_a_warp = round_up(WARP * registers, 256)
    of_a_program = round_up(shared_bytes + sm.shared_reserved, sm.shared_at_once)
    others = sm.shared_bytes / of_a_program, sm.warps / warps, sm.blocks
    by_registers = sm.registers / of_a_warp / warps, 4 * (sm.registers // 4 // of_a_warp) / warps
    return [min(number, *others) * warps / sm.warps for number in by_registers]


def _as_count(registers: int, shared_bytes: int, warps: int, sm: Limits) -> list[float]:
    programs = min(_allowed(registers, shared_bytes, warps, sm).values())
    return [programs * warps, programs]


def _as_percentage(registers: int, shared_bytes: int, warps: int, sm: Limits) -> float:
    return 100 * min(_allowed(registers, shared_bytes, warps, sm).values()) * warps / sm.warps


def _of_programs(registers: int, shared_bytes: int, warps: int, sm: Limits) -> float:
    return min(_allowed(registers, shared_bytes, warps, sm).values()) / sm.blocks


EXERCISE = FunctionExercise(
    name="occupancy",
    chapter=3,
    signature="occupancy(registers: int, shared_bytes: int, warps: int, sm: Limits) -> float",
    task="Return the share of an SM's places for warps that programs of a kernel can take at once, as a fraction of 1. A "
    "thread needs `registers` registers; a program needs `shared_bytes` bytes of shared memory and has `warps` warps. "
    "`sm.registers`, `sm.shared_bytes`, `sm.warps` and `sm.blocks` are what an SM has; `sm.shared_reserved` and "
    "`sm.shared_at_once` are what the system takes for each program and the step in which shared memory is handed out.",
    hints=(
        (
            "An SM holds whole programs only. Ask of each resource by itself how many programs it allows. What does the "
            "SM do when the four answers differ?"
        ),
        (
            "Shared memory of a program: `shared_bytes + sm.shared_reserved`, rounded up to a multiple of "
            "`sm.shared_at_once`. Registers of a warp: `32 * registers`, rounded up to a multiple of 256. A warp lives in "
            "one of four parts, each with a quarter of `sm.registers`; what is left over in one part is of no use to a "
            "warp in another."
        ),
        (
            "With `per_warp` rounded up, four parts hold `4 * (sm.registers // 4 // per_warp)` warps: divide by `warps`, "
            "rounding down, to have programs. Take the minimum of that, `sm.shared_bytes // per_program`, "
            "`sm.warps // warps` and `sm.blocks`, and return it times `warps / sm.warps`."
        ),
    ),
    trials=_trials,
    mistakes=(
        Mistake(
            "percentage",
            as_if=_as_percentage,
            cause="The result is a percentage.",
            hint="An SM that is full has an occupancy of 1.",
        ),
        Mistake(
            "count-for-share",
            as_if=_as_count,
            cause="The result is a number of warps or of programs.",
            hint="What would the result be for an SM that is full?",
        ),
        Mistake(
            "share-of-programs",
            as_if=_of_programs,
            cause="The programs are divided by the places for programs.",
            hint="Occupancy counts warps: one program of 32 warps fills more than one of 4.",
        ),
        Mistake(
            "largest",
            as_if=_largest,
            cause="The resource that allows most programs decides.",
            hint="Would a program fit if one of the four were used up?",
        ),
        Mistake(
            "ignores-registers",
            as_if=_without("registers"),
            cause="Registers never run out: they are left out, or those of one thread are taken for a warp's.",
            hint="How many registers does one program take, and how many threads has a warp?",
        ),
        Mistake(
            "ignores-shared-memory",
            as_if=_without("shared"),
            cause="Shared memory is left out.",
            hint="Which of the four resources does no line of yours mention?",
        ),
        Mistake(
            "ignores-places-for-warps",
            as_if=_without("warps"),
            cause="An SM is filled with more warps than it has places for.",
            hint="Can the result be more than 1?",
        ),
        Mistake(
            "ignores-places-for-programs",
            as_if=_without("blocks"),
            cause="An SM is filled with more programs than it has places for.",
            hint="How many programs of one warp can be on an SM? `sm.blocks` knows.",
        ),
        Mistake(
            "registers-not-rounded",
            as_if=_with(step=1),
            cause="Registers are counted one by one.",
            hint="A warp gets its registers in steps of 256.",
        ),
        Mistake(
            "registers-in-one-pool",
            as_if=_with(parts=1),
            cause="The registers are taken for one pool.",
            hint="An SM has four parts, and a warp's registers lie in one of them. What is left over in each?",
        ),
        Mistake(
            "shared-memory-not-rounded",
            as_if=_with(portion=False),
            cause="Shared memory is counted byte by byte.",
            hint="Shared memory is handed out in steps, `sm.shared_at_once`.",
        ),
        Mistake(
            "nothing-reserved",
            as_if=_with(reserved=False),
            cause="What the system reserves in shared memory is left out.",
            hint="What does a program take from an SM that asks for no shared memory?",
        ),
        Mistake(
            "parts-of-programs",
            as_if=_not_whole,
            cause="A part of a program is counted.",
            hint="A program comes to an SM as a whole or not at all: which divisions must round down?",
        ),
    ),
    solution=(round_up, occupancy),
)
