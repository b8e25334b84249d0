"""Exercise: the sums of a row-major matrix's columns, read so that no byte is fetched in vain."""

import torch
import triton
import triton.language as tl

from kernels.exercises import Case, KernelExercise, Mistake, Speed


@triton.jit
def read_columns_kernel(
    x_ptr, out_ptr, x_row_stride, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Sum BLOCK_N neighbouring columns, BLOCK_M rows at a time."""
    # <your turn> walk down the rows, tile by tile, and add; reduce each column once at the end
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n_cols)
        offsets = rows[:, None].to(tl.int64) * x_row_stride + columns[None, :]
        total += tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + columns, tl.sum(total, axis=0), mask=columns < n_cols)
    # </your turn>


def read_columns(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of each column of a matrix whose rows are contiguous."""
    out = torch.empty(x.shape[1], dtype=x.dtype, device=x.device)
    # <your turn> launch one program for each block of neighbouring columns
    n_rows, n_cols = x.shape
    if n_cols:
        # 32 columns: 4 sectors of float32 in a row. 128 rows: 16 KiB under way for each program.
        grid = (triton.cdiv(n_cols, 32),)
        read_columns_kernel[grid](x, out, x.stride(0), n_rows, n_cols, BLOCK_M=128, BLOCK_N=32)
    # </your turn>
    return out


def _inputs(case: Case, random: torch.Generator) -> tuple[torch.Tensor]:
    return (torch.randn(case.size["n_rows"], case.size["n_cols"], generator=random).to(case.dtype),)


def _case(n_rows: int, n_cols: int, what: str = "", **how: object) -> Case:
    size = {"n_rows": n_rows, "n_cols": n_cols}
    return Case(f"{n_rows:,} × {n_cols:,}{what}", size, **how)  # type: ignore[arg-type]


_BLOCKS = tuple(2**k for k in range(13))


def _first_rows(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when only the first block of rows is added."""
    return [x.sum(0), *(x[:b].sum(0) for b in _BLOCKS)]


def _full_blocks(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when the last rows, those that fill no block or the very last, are left out."""
    return [x.sum(0), x[:-1].sum(0), *(x[: len(x) // b * b].sum(0) for b in _BLOCKS)]


def _last_block(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when each block of rows takes the place of the one before."""
    return [x.sum(0), *(x[(len(x) - 1) // b * b :].sum(0) for b in _BLOCKS)]


def _overfull_blocks(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when the lanes below the last row hold a number that is added too."""
    results = [x.sum(0)]
    for lanes in {-len(x) % b for b in _BLOCKS}:
        below = torch.arange(len(x), len(x) + lanes)
        results += [x.sum(0) + lanes, x.sum(0) + lanes * x[-1], x.sum(0) + x[below % len(x)].sum(0)]
    return results


def _one_sum(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when the columns of a block are added up as well."""
    sums = x.sum(0)
    return [torch.cat([part.sum().expand(len(part)) for part in sums.split(b)]) for b in _BLOCKS]


EXERCISE = KernelExercise(
    name="read_columns",
    chapter=5,
    signature="read_columns(x: float[n_rows, n_cols]) -> float[n_cols]",
    task="Return the sum of each column, added in float32, by a kernel that reads every byte of x once. "
    "Neighbours in a row are adjacent in memory, rows may lie further apart; x may span more than 2^31 elements.",
    hints=(
        (
            "A sector holds 8 neighbours of a row in float32, and they belong to 8 columns. Which program "
            "should have them all?"
        ),
        (
            "Give each program a block of neighbouring columns, 32 of them, and let it walk down the rows "
            "with a tile of offsets: `rows[:, None]` times the row stride, plus `columns[None, :]`. Then the "
            "lanes of a warp stand side by side in a row."
        ),
        (
            "Keep a tile `total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)` and add each loaded tile to it, "
            "masked with `(rows[:, None] < n_rows) & (columns[None, :] < n_cols)` and `other=0.0`. After the "
            "loop, `tl.sum(total, axis=0)` is one number a column. The row offsets want `.to(tl.int64)`."
        ),
    ),
    inputs=_inputs,
    arguments=("x",),
    reference=lambda x: x.sum(0),
    magnitude=lambda x: x.abs().sum(0),
    cases=(
        _case(1, 1),
        _case(0, 5, ": no rows, so every sum is 0"),
        _case(5, 0, ": no columns"),
        _case(3, 5),
        _case(6, 1),
        _case(4, 50),
        _case(40, 40),
        _case(64, 128),
        _case(37, 70),
        _case(300, 33),
        _case(90, 35, ", float16", dtype=torch.float16),
        _case(45, 50, ", a slice of a wider matrix", layout="padded"),
        _case(33, 40, ", beginning at an odd address", layout="offset"),
        _case(3, 6, ", rows 2^30 elements apart", layout="far", dtype=torch.float16),
        _case(1500, 3, ", float16", dtype=torch.float16),
        _case(1030, 9),
    ),
    speed=Speed(_case(4096, 16384), bytes=4 * 4096 * 16384),
    mistakes=(
        Mistake(
            "sums-rows",
            as_if=lambda x: x.sum(1),
            cause="The sums run along the rows instead of down the columns.",
            hint="In a tile [rows, columns], axis 0 is the one down the columns.",
        ),
        Mistake(
            "mean",
            as_if=lambda x: x.mean(0),
            cause="The sums are divided by the number of rows.",
            hint="The task asks for the sum, not the mean.",
        ),
        Mistake(
            "first-rows-only",
            as_if=_first_rows,
            cause="Only the first block of rows is added.",
            hint="Which part of your kernel walks on to the next block of rows?",
        ),
        Mistake(
            "last-rows-missing",
            as_if=_full_blocks,
            cause="The rows at the end are left out.",
            hint="How many steps does the loop over the rows take if their number is no multiple of the block?",
        ),
        Mistake(
            "last-block-only",
            as_if=_last_block,
            cause="A block of rows replaces what was added before, in a loop or in another program.",
            hint="Who holds the total of all rows when the store comes?",
        ),
        Mistake(
            "rows-beyond-the-end-count",
            as_if=_overfull_blocks,
            cause="Lanes beyond the last row add something to the sums.",
            hint="Which value may a lane hold that has no row, so that a sum does not change?",
        ),
        Mistake(
            "one-sum-for-a-block",
            as_if=_one_sum,
            cause="The columns of a program are added up to a single number.",
            hint="`tl.sum` takes an axis: without it a whole tile becomes one number.",
        ),
        Mistake(
            "row-stride",
            "only-layout",
            cause="The distance between rows is taken for the number of columns.",
            hint="`x.stride(0)` says how far apart two rows are.",
        ),
    ),
    solution=(read_columns_kernel, read_columns),
)
