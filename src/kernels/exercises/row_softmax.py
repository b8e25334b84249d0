"""Exercise: the softmax of each row of a matrix, one row per program."""

import torch
import triton
import triton.language as tl

from kernels.exercises import Case, KernelExercise, Mistake, Speed


@triton.jit
def row_softmax_kernel(x_ptr, out_ptr, x_row_stride, out_row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    """Compute the softmax of one row of at most BLOCK_SIZE elements."""
    # <your turn> load a row, subtract its maximum, exponentiate, divide by the sum, store
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_cols
    x = tl.load(x_ptr + row * x_row_stride + columns, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_row_stride + columns, numerator / tl.sum(numerator, axis=0), mask=mask)
    # </your turn>


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row of a matrix."""
    # <your turn> allocate the output and launch one program a row, with a block that a whole row fits in
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block_size = triton.next_power_of_2(n_cols)
    row_softmax_kernel[(n_rows,)](x, out, x.stride(0), out.stride(0), n_cols, BLOCK_SIZE=block_size)
    return out
    # </your turn>


def _inputs(case: Case, random: torch.Generator) -> tuple[torch.Tensor]:
    shape = (case.size["n_rows"], case.size["n_cols"])
    x = 2 * torch.randn(shape, generator=random)
    if case.values == "large":
        x = 50 * x + 300
    elif case.values == "below-zero":
        x = 2 * x - 30000
    elif case.values == "with-inf":
        x[torch.rand(shape, generator=random) < 0.3] = -torch.inf
        x[0, : shape[1] // 2] = -torch.inf
        x[:, -1] = 1.0  # so that no row is -inf throughout, which has no softmax
    return (x.to(case.dtype),)


def _case(n_rows: int, n_cols: int, what: str = "", **how: object) -> Case:
    size = {"n_rows": n_rows, "n_cols": n_cols}
    return Case(f"{n_rows:,} × {n_cols:,}{what}", size, **how)  # type: ignore[arg-type]


_BLOCKS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def _padded(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when the lanes beyond the row hold a number that takes part."""
    results, width = [x.softmax(1)], x.shape[1]
    blocks = {triton.next_power_of_2(width), *(b for b in _BLOCKS if b >= width)}
    for lanes in (block - width for block in blocks if block > width):
        for value in (0.0, -1e3, -1e4, -65504.0):
            full = torch.cat([x, x.new_full((len(x), lanes), value)], 1).float()
            for peak in (full.amax(1, keepdim=True), x.float().amax(1, keepdim=True)):
                e = torch.exp(full - peak)
                results += [(e / part.sum(1, keepdim=True))[:, :width] for part in (e, e[:, :width])]
    return results


def _first_part(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when a block takes only the first part of a row."""
    rest = [x.new_full((len(x), x.shape[1] - b), torch.nan) for b in _BLOCKS if b < x.shape[1]]
    return [x.softmax(1), *(torch.cat([x[:, : x.shape[1] - r.shape[1]].softmax(1), r], 1) for r in rest)]


def _numerator(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x.float() - x.float().amax(1, keepdim=True))


def _without_maximum(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x.float())
    return e / e.sum(1, keepdim=True)


EXERCISE = KernelExercise(
    name="row_softmax",
    chapter=7,
    signature="row_softmax(x: float[n_rows, n_cols]) -> float[n_rows, n_cols]",
    task="Return a new tensor with exp(x) / sum(exp(x)) of each row. Neighbours in a row are adjacent in "
    "memory, rows may lie "
    "further apart; values may be large, and -inf (but not a whole row of it: there torch's softmax is NaN,"
    " and nothing is asked); "
    "x may span more than 2^31 elements.",
    hints=(
        (
            "One program can do a whole row: load it once, reduce it twice, store it once. What must the "
            "lanes beyond the row hold, so "
            "that they change neither the maximum nor the sum?"
        ),
        (
            "exp(x) overflows where exp(x - max) does not, and the quotient is the same. Load with "
            "`other=-float('inf')`: it never is "
            "the maximum, and its exponential is 0. Compute in float32 whatever x is."
        ),
        (
            "The block is `triton.next_power_of_2(n_cols)` wide and the grid is `(n_rows,)`. Row r begins at "
            "`x_ptr + r.to(tl.int64) * x.stride(0)`; `tl.max(x, axis=0)` and `tl.sum(e, axis=0)` reduce the"
            " row; the store takes the mask."
        ),
    ),
    inputs=_inputs,
    arguments=("x",),
    reference=lambda x: x.softmax(1),
    cases=(
        _case(1, 1),
        _case(0, 5, ": no rows"),
        _case(3, 5),
        _case(4, 64),
        _case(6, 100),
        _case(5, 33, ", every row with some -inf", values="with-inf"),
        _case(4, 70, ", values in the hundreds", values="large"),
        _case(4, 45, ", all values near -30,000", values="below-zero"),
        _case(5, 100, ", float16", dtype=torch.float16),
        _case(3, 300, ", float16 with some -inf", values="with-inf", dtype=torch.float16),
        _case(5, 50, ", a slice of a wider matrix", layout="padded"),
        _case(4, 40, ", beginning at an odd address", layout="offset"),
        _case(3, 6, ", rows 2^30 elements apart", layout="far", dtype=torch.float16),
        _case(3, 1000),
        _case(2, 5000),
    ),
    speed=Speed(_case(16384, 4096), bytes=2 * 4 * 16384 * 4096),
    mistakes=(
        Mistake(
            "no-maximum",
            as_if=_without_maximum,
            cause="exp overflows: the row's maximum is not subtracted first.",
            hint="exp(x - m) / sum(exp(x - m)) is the same for every m; which m keeps the largest exponent "
            "at 0?",
        ),
        Mistake(
            "no-division",
            as_if=_numerator,
            cause="The exponentials are stored without dividing by their sum.",
            hint="Each row must add up to 1.",
        ),
        Mistake(
            "divides-by-the-wrong-thing",
            as_if=lambda x: [
                _numerator(x) / d
                for d in (x.amax(1, keepdim=True), x.sum(1, keepdim=True), x.new_tensor(float(x.shape[1])))
            ],
            cause="The exponentials are divided by something else than their sum.",
            hint="The denominator is the sum of the exponentials, not of x, nor its maximum, nor the number"
            " of columns.",
        ),
        Mistake(
            "wrong-axis",
            as_if=lambda x: [
                x.softmax(0),
                _numerator(x) / _numerator(x).sum(0),
                torch.exp(x - x.amax(0)) / torch.exp(x - x.amax(0)).sum(0),
            ],
            cause="The reduction runs down the columns instead of along the rows.",
            hint="In a tile [rows, columns], axis 1 is the one along a row.",
        ),
        Mistake(
            "base-two",
            as_if=lambda x: (
                torch.exp2(x - x.amax(1, keepdim=True))
                / torch.exp2(x - x.amax(1, keepdim=True)).sum(1, keepdim=True)
            ),
            cause="2^x is computed instead of e^x.",
            hint="`tl.exp2` wants its argument times log2(e).",
        ),
        Mistake(
            "logarithm",
            as_if=lambda x: x.log_softmax(1),
            cause="This is the logarithm of the softmax.",
            hint="The task asks for exp(x) / sum(exp(x)), between 0 and 1.",
        ),
        Mistake(
            "padding-counts",
            as_if=_padded,
            cause="The lanes beyond the row take part in the maximum or the sum.",
            hint="Which value can be in a maximum and never be it, and has the exponential 0?",
        ),
        Mistake(
            "block-shorter-than-row",
            as_if=_first_part,
            cause="The block is shorter than the row, and the rest of the row is never looked at.",
            hint="The block must follow the width: the next power of two, or a loop over the row.",
        ),
        Mistake(
            "row-stride",
            "only-layout",
            cause="The distance between rows is taken for the width, or the input's is used for the output.",
            hint="`x.stride(0)` and `out.stride(0)` need not be equal, and neither need be `n_cols`.",
        ),
        Mistake(
            "infinity-minus-infinity",
            "nan only-values:with-inf",
            cause="-inf - -inf came up, which is NaN: a part of the row that is -inf throughout has the "
            "maximum -inf.",
            hint="If the row is taken in parts, what is the first part's maximum when all of it is -inf?",
        ),
        Mistake(
            "denominator-is-off",
            "rows-scaled",
            cause="The numerators are right and the denominator is not: the sum misses elements, counts "
            "some twice, or adds parts "
            "that were taken under different maxima.",
            hint="If the row is taken in parts and the maximum rises, the sum so far must be brought to the"
            " new maximum.",
        ),
    ),
    solution=(row_softmax_kernel, row_softmax),
)
