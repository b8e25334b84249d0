"""RMSNorm alone, and with a residual add, as two kernels and as one: right for every width, layout and dtype."""

import pytest
import torch

from kernels import lab
from kernels._rows import WIDEST_CLUSTER
from kernels.rms_norm import (  # fmt: skip
    add_rms_norm,
    add_rms_norm_bytes,
    add_then_rms_norm,
    add_then_rms_norm_bytes,
    rms_norm,
)

BOTH = pytest.mark.parametrize("launcher", [add_rms_norm, add_then_rms_norm])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
WIDTHS = [1, 2, 3, 31, 100, 256, 1000, 1024, 1025, 4097]
WIDE = [32768, 32769, 50257, 65536, 131072, 131075, 262144, WIDEST_CLUSTER + 3]
EPS = 1e-6
NEAR = {torch.float32: 4e-6, torch.float16: 2**-9, torch.bfloat16: 2**-6}


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=lab.device()).to(dtype)


def normalised(total: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    wide = total.double()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.double()


def close(out, expected, dtype):
    # The interpreter cuts bfloat16 off where a GPU rounds, which the tolerance allows for.
    torch.testing.assert_close(out.double(), expected.double(), rtol=NEAR[dtype], atol=1e-6, equal_nan=True)
    assert out.dtype == dtype


def check_norm(x, weight):
    out = rms_norm(x, weight, EPS)
    assert out.shape == x.shape
    close(out, normalised(x, weight), x.dtype)


def check(launcher, x, residual, weight):
    before = x.clone(), residual.clone(), weight.clone()
    out, total = launcher(x, residual, weight, EPS)
    assert out.shape == total.shape == x.shape
    close(total, x.double() + residual.double(), x.dtype)
    close(out, normalised(total, weight), x.dtype)
    for tensor, was in zip((x, residual, weight), before, strict=True):
        assert torch.equal(tensor.nan_to_num(), was.nan_to_num())


@DTYPES
@pytest.mark.parametrize("n_cols", WIDTHS)
def test_norm_of_every_width_and_dtype(dtype, n_cols):
    check_norm(random(5, n_cols, dtype=dtype), random(n_cols, dtype=dtype))


@pytest.mark.parametrize("n_cols", WIDE)
def test_norm_of_wide_rows(n_cols):
    check_norm(random(2, n_cols, dtype=torch.bfloat16), random(n_cols, dtype=torch.bfloat16))


@BOTH
@DTYPES
@pytest.mark.parametrize("n_cols", WIDTHS)
def test_every_width_and_dtype(launcher, dtype, n_cols):
    check(launcher, *(random(5, n_cols, dtype=dtype) for _ in range(2)), random(n_cols, dtype=dtype))


@BOTH
@pytest.mark.parametrize("n_cols", WIDE)
def test_wide_rows(launcher, n_cols):
    bf16 = torch.bfloat16
    check(launcher, *(random(2, n_cols, dtype=bf16) for _ in range(2)), random(n_cols, dtype=bf16))


@BOTH
def test_wide_rows_of_odd_width_in_a_wider_matrix(launcher):
    bf16 = torch.bfloat16
    x, residual = (random(2, 131088, dtype=bf16)[:, :131075] for _ in range(2))
    check(launcher, x, residual, random(131075, dtype=bf16))


@pytest.mark.gpu
@BOTH
@DTYPES
@pytest.mark.parametrize("n_cols", [4096, 65536, 262144])
def test_many_rows(launcher, dtype, n_cols):
    check(
        launcher,
        *(random(2**23 // n_cols, n_cols, dtype=dtype) for _ in range(2)),
        random(n_cols, dtype=dtype),
    )


@BOTH
@pytest.mark.parametrize("n_rows", [1, 2, 3, 7, 33, 130])
def test_last_block_of_rows_is_masked(launcher, n_rows):
    check(launcher, random(n_rows, 70), random(n_rows, 70), random(70))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n_cols", [100, 40000])
def test_fused_or_not_the_results_are_the_same(dtype, n_cols):
    inputs = random(4, n_cols, dtype=dtype), random(4, n_cols, dtype=dtype), random(n_cols, dtype=dtype)
    for fused, separate in zip(add_rms_norm(*inputs), add_then_rms_norm(*inputs), strict=True):
        # The sums of squares are taken in another order, which may tip a rounding; the residuals are equal to the bit.
        torch.testing.assert_close(fused, separate, rtol=NEAR[dtype], atol=0)
    assert torch.equal(add_rms_norm(*inputs)[1], add_then_rms_norm(*inputs)[1])


@BOTH
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (0,), (2, 0, 4), (2, 3, 0)])
def test_nothing_to_do(launcher, shape):
    out, total = launcher(random(*shape), random(*shape), random(shape[-1]))
    assert out.shape == total.shape == shape


@BOTH
@pytest.mark.parametrize("shape", [(7,), (2, 3, 7), (2, 1, 3, 5)])
def test_any_number_of_dimensions(launcher, shape):
    check(launcher, random(*shape), random(*shape), random(shape[-1]))


@BOTH
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[:, 1:],  # starts off a 16-byte boundary
        lambda t: t[:, 3:40],
        lambda t: t[::2],
        lambda t: t[1:2],
        lambda t: t[:, ::2],
        lambda t: t.T,
        lambda t: t[:1].expand(9, -1),
        lambda t: t[:, :1].expand(-1, 9),
        lambda t: t[:, :48].reshape(6, 2, 48).transpose(0, 1),
        lambda t: t[:, :1],
    ],
    ids=["offset", "columns", "rows", "one row", "strided", "transposed", "one row repeated", "one column repeated",
         "three dimensions", "one column"],
)  # fmt: skip
def test_views_are_not_read_as_contiguous(launcher, view):
    x, residual = view(random(12, 100)), view(random(12, 100))
    width = x.shape[-1]
    check(launcher, x, residual, random(2 * width)[::2])
    check(launcher, x, residual.contiguous(), random(width))
    check(launcher, x.contiguous(), residual, random(width + 1)[1:])


@BOTH
@pytest.mark.parametrize("n_cols", [3, 300])
def test_special_values(launcher, n_cols):
    x, residual, weight = random(4, n_cols), random(4, n_cols), random(n_cols)
    x[0], residual[0] = 0, 0  # eps keeps the division from being by zero
    x[1, n_cols // 2] = float("inf")
    x[2, n_cols // 3] = float("nan")
    x[3] *= 1e15
    check(launcher, x, residual, weight)


def test_eps_counts():
    x, weight = 1e-3 * random(3, 50), random(50)
    close(rms_norm(x, weight, 1e-2), normalised(x, weight, 1e-2), torch.float32)


@BOTH
@pytest.mark.parametrize(
    ("residual", "weight", "error", "words"),
    [
        (torch.zeros(2, 4), torch.zeros(3), ValueError, r"\(2, 4\).*\(2, 3\)"),
        (torch.zeros(3), torch.zeros(3), ValueError, "do not broadcast"),
        (torch.zeros(2, 3), torch.zeros(4), ValueError, r"\(4,\).*as long as x's last dimension"),
        (torch.zeros(2, 3), torch.zeros(2, 3), ValueError, "must be a vector"),
        (torch.zeros(2, 3), torch.zeros(3, dtype=torch.float16), ValueError, "float16.*float32"),
        (torch.zeros(2, 3, dtype=torch.int32), torch.zeros(3), TypeError, "int32"),
        (torch.zeros(2, 3), [1.0, 1.0, 1.0], TypeError, "list"),
    ],
    ids=["width", "shape", "weight's length", "weight's shape", "weight's dtype", "integers", "no tensor"],
)
def test_bad_input_is_named(launcher, residual, weight, error, words):
    x = torch.zeros(2, 3, device=lab.device())
    residual, weight = (t.to(lab.device()) if isinstance(t, torch.Tensor) else t for t in (residual, weight))
    with pytest.raises(error, match=words):
        launcher(x, residual, weight)


@pytest.mark.gpu
@pytest.mark.parametrize("n_cols", [1024, 65536])
def test_result_is_the_same_inside_a_graph(n_cols):
    x, residual = (random(512, n_cols, dtype=torch.bfloat16) for _ in range(2))
    weight = random(n_cols, dtype=torch.bfloat16)
    add_rms_norm(x, residual, weight)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = add_rms_norm(x, residual, weight)
    for _ in range(3):
        x.normal_()
        for tensor in results:
            tensor.zero_()
        graph.replay()
        for replayed, again in zip(results, add_rms_norm(x, residual, weight), strict=True):
            assert torch.equal(replayed, again)


@pytest.mark.gpu
@pytest.mark.parametrize("n_cols", [1000, 40000])
def test_offsets_past_two_to_the_31(n_cols):
    n_rows = (2**31 + 2**20) // n_cols
    if torch.cuda.mem_get_info()[0] < 9 * n_rows * n_cols:
        pytest.skip("needs 20 GB of GPU memory")
    x, residual = (
        torch.empty(n_rows, n_cols, device="cuda", dtype=torch.float16).normal_() for _ in range(2)
    )
    weight = random(n_cols, dtype=torch.float16)
    out, total = add_rms_norm(x, residual, weight, EPS)
    for rows in (slice(0, 3), slice(2**30 // n_cols, 2**30 // n_cols + 3), slice(n_rows - 3, n_rows)):
        assert torch.equal(total[rows], x[rows] + residual[rows])
        close(out[rows], normalised(total[rows], weight), torch.float16)


def test_fusing_saves_one_tensor_in_five():
    assert 5 * add_rms_norm_bytes(3, 7, 2) == 4 * add_then_rms_norm_bytes(3, 7, 2)
