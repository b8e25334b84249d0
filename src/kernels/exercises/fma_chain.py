"""Exercise: k fused multiply-adds to each element, each step with numbers of its own."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from kernels.exercises import Case, KernelExercise, Mistake, Speed


@triton.jit
def fma_chain_kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, k, n_elements, BLOCK_SIZE: tl.constexpr):
    """Do k multiply-adds to each element of one block."""
    # <your turn> load this program's block, do step after step in registers, and store the block once
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    for step in range(k):
        scale = tl.load(scale_ptr + step)
        shift = tl.load(shift_ptr + step)
        x = tl.fma(x, scale, shift)
    tl.store(out_ptr + offsets, x, mask=mask)
    # </your turn>


def fma_chain(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Return what the steps x = x * scale[i] + shift[i] make of each element."""
    out = torch.empty_like(x)
    n_elements, k = x.numel(), scale.numel()
    # <your turn> launch enough programs of 1024 elements each
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        fma_chain_kernel[grid](x, scale, shift, out, k, n_elements, BLOCK_SIZE=1024)
    # </your turn>
    return out


def _chain(x: torch.Tensor, steps: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    for scale, shift in steps:
        x = x * scale + shift
    return x


def _reference(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return _chain(x, list(zip(scale, shift, strict=True)))


def _magnitude(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Return what the result would be if nothing cancelled: rounding errors are relative to this."""
    return _reference(x.abs(), scale.abs(), shift.abs())


def _inputs(case: Case, random: torch.Generator) -> tuple[torch.Tensor, ...]:
    n, k = case.size["n"], case.size["k"]
    x = torch.randn(n, generator=random)
    # Factors between 1/2 and 1, of either sign: no step fades from the result, and none makes it overflow.
    sign = 2 * torch.randint(0, 2, (k,), generator=random) - 1
    scale = sign * (0.5 + 0.5 * torch.rand(k, generator=random))
    return x, scale, torch.randn(k, generator=random)


def _case(n: int, k: int, what: str = "", **how: object) -> Case:
    elements, steps = "element" if n == 1 else "elements", "step" if k == 1 else "steps"
    return Case(f"{n:,} {elements}, {k} {steps}{what}", {"n": n, "k": k}, **how)  # type: ignore[arg-type]


# --- what wrong solutions return -------------------------------------------------------------------------------------


def _backwards(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return _chain(x, list(zip(scale.flip(0), shift.flip(0), strict=True)))


def _too_few_steps(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> list[torch.Tensor]:
    steps = list(zip(scale, shift, strict=True))
    return [_chain(x, steps[:-1]), _chain(x, steps[1:])]


def _one_step(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> list[torch.Tensor]:
    return [x * scale[0] + shift[0], x * scale[-1] + shift[-1]]


def _same_step(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return _chain(x, [(scale[0], shift[0])] * len(scale))


def _shift_first(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return _chain(x, [(a, a * b) for a, b in zip(scale, shift, strict=True)])


def _sum_of_steps(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> list[torch.Tensor]:
    total = x * scale.sum() + shift.sum()
    return [total, x + total]


EXERCISE = KernelExercise(
    name="fma_chain",
    chapter=2,
    signature="fma_chain(x: float[n], scale: float[k], shift: float[k]) -> float[n]",
    task="Return a new tensor that holds what k steps make of each element, step i being "
    "`x = x * scale[i] + shift[i]`. Each program takes a block of elements, reads it once and writes it once, "
    "whatever k is. All tensors are contiguous.",
    hints=(
        (
            "Between the one load of a block and its one store, the values stay where they are: in a variable of the "
            "kernel. What does each step need besides it?"
        ),
        (
            "A Python `for` over `range(k)` works in a kernel too, with k known only at launch. Step i loads one number "
            "from `scale_ptr + i` and one from `shift_ptr + i`. Only the block's own load and store need a mask."
        ),
        (
            "`offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)`, `mask = offsets < n_elements`; load x; "
            "in the loop `x = tl.fma(x, scale, shift)`, so that each step starts from what the one before has left; store x. "
            "The grid is `(triton.cdiv(n_elements, BLOCK_SIZE),)`."
        ),
    ),
    inputs=_inputs,
    arguments=("x", "scale", "shift"),
    reference=_reference,
    magnitude=_magnitude,
    cases=(
        _case(1, 1),
        _case(5, 2),
        _case(0, 3, ": an empty tensor"),
        _case(4, 0, ": a copy"),
        _case(1000, 1),
        _case(1024, 3),
        _case(1300, 7),
        _case(700, 40),
        _case(900, 5, ", all beginning at an odd address", layout="offset"),
        _case(3000, 16),
    ),
    speed=Speed(_case(1 << 26, 16), bytes=2 * 4 << 26),
    mistakes=(
        Mistake(
            "one-step",
            as_if=_one_step,
            cause="One step is done, or each step starts again from what was loaded.",
            hint="What does step 2 start from?",
        ),
        Mistake(
            "steps-missing",
            as_if=_too_few_steps,
            cause="The first or the last step is left out.",
            hint="`range(k)` goes from 0 to k - 1. From where to where does your loop go?",
        ),
        Mistake(
            "same-step-each-time",
            as_if=_same_step,
            cause="Every step uses the numbers of step 0.",
            hint="Which address does the load of `scale` in step i have?",
        ),
        Mistake(
            "backwards",
            as_if=_backwards,
            cause="The steps are done from the last to the first.",
            hint="Step 0 comes first: the order matters.",
        ),
        Mistake(
            "scale-and-shift-swapped",
            as_if=lambda x, scale, shift: _reference(x, shift, scale),
            cause="scale and shift have changed places.",
            hint="Compare the launch with the kernel's parameters, and `tl.fma(a, b, c)` with `a * b + c`.",
        ),
        Mistake(
            "shifts-first",
            as_if=_shift_first,
            cause="A step adds first and multiplies the sum.",
            hint="Where are the brackets in `x * scale + shift`?",
        ),
        Mistake(
            "only-multiplies",
            as_if=lambda x, scale, shift: x * scale.prod(),
            cause="Nothing is added.",
            hint="A multiply-add has three operands.",
        ),
        Mistake(
            "only-adds",
            as_if=lambda x, scale, shift: x + shift.sum(),
            cause="Nothing is multiplied.",
            hint="A multiply-add has three operands.",
        ),
        Mistake(
            "sums-the-steps",
            as_if=_sum_of_steps,
            cause="Each step is done to what was loaded, and the results are added up.",
            hint="Step 2 starts from the result of step 1, and nothing is added up.",
        ),
    ),
    solution=(fma_chain_kernel, fma_chain),
)
