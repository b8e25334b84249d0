"""Exercise: add two vectors, a block of elements per program."""

import torch
import triton
import triton.language as tl

from kernels.exercises import Case, KernelExercise, Mistake, Speed


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, x_stride, y_stride, n_elements, BLOCK_SIZE: tl.constexpr):
    """Add one block of BLOCK_SIZE elements."""
    # <your turn> find this program's offsets, load both blocks, store their sum; mind the last block
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets * x_stride, mask=mask)
    y = tl.load(y_ptr + offsets * y_stride, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
    # </your turn>


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y for two vectors of the same length."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n_elements = out.numel()
    # <your turn> launch enough programs of 1024 elements each
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        vector_add_kernel[grid](x, y, out, x.stride(0), y.stride(0), n_elements, BLOCK_SIZE=1024)
    # </your turn>
    return out


_SPECIAL = (0.0, -0.0, float("inf"), 1e30, -3e38, 1e-42, 65504.0, 1.0)


def _inputs(case: Case, random: torch.Generator) -> tuple[torch.Tensor, ...]:
    x, y = (torch.randn(case.size["n"], generator=random) for _ in range(2))
    if case.values == "special":
        x[: len(_SPECIAL)] = torch.tensor(_SPECIAL)
    return x.to(case.dtype), y.to(case.dtype)


def _case(n: int, what: str = "", **how: object) -> Case:
    return Case(f"{n:,} element{'s' if n != 1 else ''}{what}", {"n": n}, **how)  # type: ignore[arg-type]


EXERCISE = KernelExercise(
    name="vector_add",
    chapter=7,
    signature="vector_add(x: float[n], y: float[n]) -> float[n]",
    task="Return a new, contiguous tensor that holds x + y, computed by a Triton kernel in which each "
    "program adds a block of "
    "elements. x and y may be views with any stride, of tensors with more than 2^31 elements.",
    hints=(
        (
            "A program knows only its number. Which elements are its own, and what happens in the last "
            "program when n is no "
            "multiple of the block?"
        ),
        (
            "The offsets of a program are `tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)`. An "
            "element of x lies `x_stride` "
            "elements from the one before. Lanes beyond n must neither load nor store."
        ),
        (
            "With `mask = offsets < n_elements`, both loads and the store take `mask=mask`; the grid is "
            "`(triton.cdiv(n_elements, BLOCK_SIZE),)`."
        ),
    ),
    inputs=_inputs,
    arguments=("x", "y"),
    reference=lambda x, y: x + y,
    cases=(
        _case(1),
        _case(0, ": an empty tensor"),
        _case(3),
        _case(1000),
        _case(1024),
        _case(1300),
        _case(700, ", special values", values="special"),
        _case(1000, ", float16", dtype=torch.float16),
        _case(1000, ", a slice that starts at element 1", layout="offset"),
        _case(1000, ", every second element of a larger tensor", layout="strided"),
        _case(1000, ", only x strided", layout=("strided", "contiguous")),
        _case(1000, ", only y strided", layout=("contiguous", "strided")),
        _case(3, ", x with a stride of more than 2^30", layout=("far", "contiguous"), dtype=torch.float16),
        _case(4099),
    ),
    speed=Speed(_case(1 << 26), bytes=3 * 4 << 26),
    slack=1.0,
    mistakes=(
        Mistake(
            "subtracts",
            as_if=lambda x, y: x - y,
            cause="The kernel subtracts.",
            hint="Look at the line between the loads and the store.",
        ),
        Mistake(
            "adds-one-input-twice",
            as_if=lambda x, y: [x + x, y + y],
            cause="Both loads read the same tensor.",
            hint="Compare the pointers of the two loads.",
        ),
        Mistake(
            "wrong-stride",
            ("read-past-end only-layout", "read-between only-layout", "only-layout"),
            cause="A tensor's stride is left out, or one tensor's stride is used for the other.",
            hint="x and y each have a stride of their own; the new output has stride 1.",
        ),
    ),
    solution=(vector_add_kernel, vector_add),
)
