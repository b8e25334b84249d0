"""Exercise: a matrix product in tiles, added up in float32, in an order of tiles that shares what it reads."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import triton
import triton.language as tl

from kernels.exercises import Case, KernelExercise, Mistake, Speed


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    M,
    N,
    K,
    a_row_stride,
    a_col_stride,
    b_row_stride,
    b_col_stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Compute one tile of BLOCK_M by BLOCK_N elements of the product."""
    # <your turn> find the tile in the grouped order; walk along K and add in float32; store
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    first = pid // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = pid % (GROUP_M * tiles_n)
    rows = (first + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = within // height * BLOCK_N + tl.arange(0, BLOCK_N)

    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a_offsets = rows[:, None].to(tl.int64) * a_row_stride + ks[None, :].to(tl.int64) * a_col_stride
        b_offsets = ks[:, None].to(tl.int64) * b_row_stride + cols[None, :].to(tl.int64) * b_col_stride
        a = tl.load(a_ptr + a_offsets, mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptr + b_offsets, mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")

    out_offsets = rows[:, None].to(tl.int64) * N + cols[None, :]
    tl.store(out_ptr + out_offsets, total, mask=(rows[:, None] < M) & (cols[None, :] < N))
    # </your turn>


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b."""
    out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    # <your turn> launch one program for each tile
    (M, K), N = a.shape, b.shape[1]
    grid = (triton.cdiv(M, 128) * triton.cdiv(N, 128),)
    if out.numel():
        matmul_kernel[grid](
            a, b, out, M, N, K, *a.stride(), *b.stride(),
            BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, num_warps=8,
        )  # fmt: skip
    # </your turn>
    return out


def _inputs(case: Case, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    m, n, k = (case.size[name] for name in "mnk")
    a, b = torch.randn(m, k, generator=random), torch.randn(k, n, generator=random)
    return a.to(case.dtype), b.to(case.dtype)


def _case(m: int, n: int, k: int, what: str = "", **how: object) -> Case:
    name = f"{m:,} × {k:,} times {k:,} × {n:,}{what}"
    return Case(name, {"m": m, "n": n, "k": k}, **how)  # type: ignore[arg-type]


_STEPS = (16, 32, 64, 128)  # what a learner's BLOCK_K may be
_SIDES = (16, 32, 64, 128, 256)
_GROUPS = (2, 3, 4, 6, 8, 16)


def _parts(a: torch.Tensor, b: torch.Tensor, step: int) -> list[torch.Tensor]:
    """Return the products of the tiles along K, one a step."""
    return [x @ y for x, y in zip(a.split(step, 1), b.split(step, 0), strict=True)]


def _each_step(
    combine: Callable[[list[torch.Tensor]], torch.Tensor],
) -> Callable[[torch.Tensor, torch.Tensor], list[torch.Tensor]]:
    """Return what comes out when the products of the steps are put together in some wrong way."""
    return lambda a, b: [a @ b, *(combine(_parts(a, b, step)) for step in _STEPS)]


def _counts_twice(parts: list[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros_like(parts[0])
    for part in parts:
        total = 2 * total + part
    return total


def _full_steps(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when the last, partly filled step along K is left out."""
    k = a.shape[1]
    return [a @ b, *(a[:, : k // s * s] @ b[: k // s * s] for s in _STEPS)]


def _steps_along_a_row(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when b's pointers move on by BLOCK_K elements instead of BLOCK_K rows."""
    (k, n), flat = b.shape, b.flatten()
    results = [a @ b]
    for step in _STEPS:
        row, col = torch.meshgrid(torch.arange(k), torch.arange(n), indexing="ij")
        at = row % step * n + col + row // step * step
        results.append(a @ flat[at.clamp_max(k * n - 1)])
    return results


def _half_sums(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes out when the totals between the steps are rounded to float16."""
    results = []
    for step in _STEPS:
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float16)
        for part in _parts(a, b, step):
            total = (total.double() + part).half()
        results.append(total.double())
    return results


Tiles = Iterable[tuple[int, int]]


def _only(
    order: Callable[[int, int, int], Tiles],
    sides: Sequence[int] = _SIDES,
    groups: Sequence[int] = _GROUPS,
) -> Callable[[torch.Tensor, torch.Tensor], list[torch.Tensor]]:
    """Return what comes out when the programs take these tiles of the product, and leave the others out."""

    def result(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        product = a @ b
        (m, n), seen, results = product.shape, set(), [product]
        for block_m in sides:
            for block_n in _SIDES:
                tiles_m, tiles_n = triton.cdiv(m, block_m), triton.cdiv(n, block_n)
                for group in groups:
                    there = torch.zeros(tiles_m, tiles_n, dtype=torch.bool)
                    for i, j in order(tiles_m, tiles_n, group):
                        if 0 <= i < tiles_m and 0 <= j < tiles_n:
                            there[i, j] = True
                    key = (block_m, block_n, tuple(there.flatten().tolist()))
                    if key not in seen and not there.all():
                        written = there.repeat_interleave(block_m, 0).repeat_interleave(block_n, 1)[:m, :n]
                        results.append(torch.where(written, product, torch.nan))
                    seen.add(key)
        return results

    return result


def _not_clamped(tiles_m: int, tiles_n: int, group: int) -> Iterator[tuple[int, int]]:
    for pid in range(tiles_m * tiles_n):
        within = pid % (group * tiles_n)
        yield pid // (group * tiles_n) * group + within % group, within // group


def _not_within(tiles_m: int, tiles_n: int, group: int) -> Iterator[tuple[int, int]]:
    for pid in range(tiles_m * tiles_n):
        first = pid // (group * tiles_n) * group
        height = min(tiles_m - first, group)
        yield first + pid % height, pid // height


def _swapped(tiles_m: int, tiles_n: int, group: int) -> Iterator[tuple[int, int]]:
    for pid in range(tiles_m * tiles_n):
        yield pid % tiles_n, pid // tiles_n


def _one_row_or_column(tiles_m: int, tiles_n: int, group: int) -> Iterator[tuple[int, int]]:
    """Yield the tiles of the first row, of the first column, or the first alone, by the group's size."""
    if group != _GROUPS[0]:
        yield from ((0, j) for j in range(tiles_n if group == _GROUPS[1] else 1))
    else:
        yield from ((i, 0) for i in range(tiles_m))


_SPEED = {"m": 4096, "n": 4096, "k": 4096}

EXERCISE = KernelExercise(
    name="matmul",
    chapter=6,
    signature="matmul(a: float[M, K], b: float[K, N]) -> float[M, N]",
    task="Return the matrix product, added up in float32 and rounded once. Sizes are no multiples of the tile, and may be 0: "
    "a sum of no products is 0. a and b may be transposed or parts of larger matrices, and their elements may lie more than "
    "2^31 places apart. float32 is multiplied as float32.",
    hints=(
        (
            "A program owns one tile of the product. Which rows of a and which columns of b does it need, and what may a "
            "lane beyond an edge hold, so that the sums do not change? Begin with the tiles row by row, and bring in the "
            "groups when the results are right."
        ),
        (
            "Offsets of a tile of a are `rows[:, None] * a_row_stride + ks[None, :] * a_col_stride`, with "
            "`mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0`; b's are alike. Keep `total = tl.zeros((BLOCK_M, "
            'BLOCK_N), tl.float32)`, and in the loop `total = tl.dot(a, b, total, input_precision="ieee")`, which for '
            "float32 asks for float32 and not TF32. The offsets want `.to(tl.int64)`."
        ),
        (
            "A group has GROUP_M * tiles_n tiles. Its first row of tiles is `first = pid // (GROUP_M * tiles_n) * GROUP_M`, "
            "and it has `height = min(tiles_m - first, GROUP_M)` of them, since the last group may be lower. With `within = "
            "pid % (GROUP_M * tiles_n)`, the tile is row `first + within % height`, column `within // height`. The grid has "
            "`triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)` programs; tiles of 128 × 128 × 32 do on most GPUs."
        ),
    ),
    inputs=_inputs,
    arguments=("a", "b"),
    reference=lambda a, b: a @ b,
    magnitude=lambda a, b: a.abs() @ b.abs(),
    cases=(
        _case(1, 1, 1),
        _case(2, 3, 4),
        _case(0, 5, 3, ": no rows"),
        _case(5, 0, 3, ": no columns"),
        _case(5, 6, 0, ": sums of no products"),
        _case(17, 33, 5),
        _case(9, 12, 130),
        _case(64, 64, 64),
        _case(70, 50, 100),
        _case(130, 260, 70),
        _case(40, 30, 200, ", float16", dtype=torch.float16),
        _case(8, 9, 1000, ", float16", dtype=torch.float16),
        _case(36, 20, 14, ", a transposed", layout=("transposed", "contiguous")),
        _case(
            20, 36, 40, ", b transposed, float16", layout=("contiguous", "transposed"), dtype=torch.float16
        ),
        _case(19, 23, 13, ", slices of wider matrices", layout="padded"),
        _case(18, 22, 11, ", beginning at an odd address", layout="offset"),
        _case(3, 5, 6, ", rows of a 2^30 elements apart", layout=("far", "contiguous"), dtype=torch.float16),
        _case(4, 5, 3, ", rows of b 2^30 elements apart", layout=("contiguous", "far"), dtype=torch.float16),
        _case(1100, 300, 20, ": more rows of tiles than a group"),
        _case(300, 1100, 20),
    ),
    speed=Speed(
        _case(4096, 4096, 4096, ", float16", dtype=torch.float16), bytes=2 * 3 * _SPEED["m"] * _SPEED["n"]
    ),
    mistakes=(
        Mistake(
            "empty-sum",
            "only-empty unwritten",
            cause="For K = 0 nothing is stored, although the product has elements: each is a sum of nothing, 0.",
            hint="Skip the launch when the *product* has no elements, and let the loop take no turn when K is 0.",
        ),
        Mistake(
            "first-step-only",
            as_if=_each_step(lambda parts: parts[0]),
            cause="Only the first BLOCK_K products of each sum are added.",
            hint="Which part of your kernel moves on along K?",
        ),
        Mistake(
            "last-step-only",
            as_if=_each_step(lambda parts: parts[-1]),
            cause="Each step along K replaces what was added before.",
            hint="`tl.dot` takes the total so far as its third argument, and returns the new one.",
        ),
        Mistake(
            "counts-twice",
            as_if=_each_step(_counts_twice),
            cause="The total so far is added again in each step.",
            hint="`tl.dot(a, b, total)` has added the total already.",
        ),
        Mistake(
            "last-step-missing",
            as_if=_full_steps,
            cause="The last products of each sum, those that fill no whole step along K, are left out.",
            hint="How many steps does the loop take when K is no multiple of BLOCK_K?",
        ),
        Mistake(
            "same-step-again",
            as_if=lambda a, b: [
                a @ b,
                *(
                    sum(
                        (a[:, : min(s, a.shape[1] - at)] @ b[: min(s, a.shape[1] - at)])
                        for at in range(0, a.shape[1], s)
                    )
                    for s in _STEPS
                ),
            ],
            cause="Every step along K reads the same tiles of a and b again.",
            hint="What in the offsets changes from one step to the next?",
        ),
        Mistake(
            "steps-along-a-row",
            as_if=_steps_along_a_row,
            cause="In b each step moves on by BLOCK_K elements, and should by BLOCK_K rows.",
            hint="The next rows of b begin BLOCK_K times b's row stride further on.",
        ),
        Mistake(
            "first-tiles-only",
            as_if=_only(_one_row_or_column, sides=(16, 32, 64, 128)),
            cause="Only the first tile is computed, or one row or column of tiles.",
            hint="How many tiles are there, and how many programs does the grid start?",
        ),
        Mistake(
            "group-not-clamped",
            as_if=_only(_not_clamped),
            cause="The last group of rows of tiles is lower than the others, and its programs walk past the last row.",
            hint="How many rows of tiles has the last group?",
        ),
        Mistake(
            "order-leaves-its-group",
            # No small groups of small tiles: what they leave is a single row of larger tiles.
            as_if=_only(_not_within, sides=(64, 128, 256), groups=(4, 6, 8, 16)),
            cause="From the second group on the column of tiles is too far to the right: it follows from the number of the "
            "program, and not from its place within the group.",
            hint="What is the number of the first program of the second group, and which column must it take?",
        ),
        Mistake(
            "tiles-swapped",
            as_if=_only(_swapped),
            cause="Rows and columns of tiles are swapped, so that some tiles are taken that do not exist.",
            hint="Which of the two numbers of tiles must the program's number be divided by?",
        ),
        Mistake(
            "output-stride",
            "write-past-end unwritten",
            cause="The rows of the result are taken to lie further apart, or closer together, than they do.",
            hint="How many elements has a row of the result?",
        ),
        Mistake(
            "half-sums",
            as_if=_half_sums,
            cause="The sums are kept in float16 between the steps along K.",
            hint="`tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)`, and nothing narrower before the store.",
        ),
        Mistake(
            "half-sums",
            "low-precision only-dtype:float16",
            cause="The sums are not kept in float32 throughout.",
            hint="`tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)`, and nothing narrower before the store.",
        ),
        Mistake(
            "tf32",
            "low-precision",
            cause="float32 numbers are multiplied as narrower ones: tensor cores take TF32, which has 10 bits of fraction "
            "where float32 has 23.",
            hint='`input_precision="ieee"` asks `tl.dot` for float32, and nothing may narrow a and b before.',
        ),
    ),
    solution=(matmul_kernel, matmul),
)
