"""Row softmax, three kernels: right for every width, layout, dtype and special value; clear about what they refuse."""

import pytest
import torch

from kernels import lab
from kernels.softmax import (
    WIDEST_BLOCK,
    WIDEST_CLUSTER,
    softmax,
    softmax_block,
    softmax_bytes,
    softmax_cluster,
    softmax_loop,
)

ALL = pytest.mark.parametrize("launcher", [softmax, softmax_block, softmax_cluster, softmax_loop])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
WIDTHS = [1, 2, 3, 31, 32, 100, 256, 1000, 1024, 1025, 4097]
WIDE = [8191, 16384, 16387, 32768, 50257, 65536, 131072, 131075, 262144]
# A GPU's exp is off by a few units for each power of two of its argument.
NEAR = {torch.float32: 1e-5, torch.float16: 2**-10, torch.bfloat16: 2**-7}


@pytest.fixture(autouse=True)
def _clusters(request):
    launcher = request.node.callspec.params.get("launcher") if hasattr(request.node, "callspec") else None
    if launcher is softmax_cluster and lab.live() and torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("this GPU has no clusters")


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (2 * torch.randn(*shape, device=lab.device())).to(dtype)


def check(launcher, x):
    before = x.clone()
    out = launcher(x)
    expected = torch.softmax(x.double(), dim=-1)
    # The interpreter cuts bfloat16 off where a GPU rounds, which the tolerance allows for. float16 has denormals.
    floor = 2**-24 if x.dtype == torch.float16 else 1e-37
    torch.testing.assert_close(out.double(), expected, rtol=NEAR[x.dtype], atol=floor, equal_nan=True)
    assert out.shape == x.shape
    assert out.dtype == x.dtype
    assert torch.equal(x.nan_to_num(), before.nan_to_num())


@ALL
@DTYPES
@pytest.mark.parametrize("n_cols", WIDTHS)
def test_every_width_and_dtype(launcher, dtype, n_cols):
    check(launcher, random(5, n_cols, dtype=dtype))


@ALL
@pytest.mark.parametrize("n_cols", WIDE)
def test_wide_rows(launcher, n_cols):
    if launcher is softmax_block and n_cols > 65536:
        pytest.skip("a block that compiles for minutes")
    check(launcher, random(2, n_cols, dtype=torch.bfloat16))


def test_wide_rows_of_odd_width_in_a_wider_matrix():
    check(softmax, random(2, 131088, dtype=torch.bfloat16)[:, :131075])


@pytest.mark.gpu
@ALL
@DTYPES
@pytest.mark.parametrize("n_cols", [4096, 32768, 262144])
def test_many_rows(launcher, dtype, n_cols):
    if launcher is softmax_block and n_cols > 65536:
        pytest.skip("a block that compiles for minutes")
    check(launcher, random(2**23 // n_cols, n_cols, dtype=dtype))


@ALL
@pytest.mark.parametrize("n_rows", [1, 2, 3, 7, 33, 130])
def test_last_block_of_rows_is_masked(launcher, n_rows):
    check(launcher, random(n_rows, 70))


@ALL
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (0,), (2, 0, 4), (2, 3, 0)])
def test_nothing_to_do(launcher, shape):
    assert launcher(random(*shape)).shape == shape


@ALL
@pytest.mark.parametrize("shape", [(7,), (2, 3, 7), (2, 1, 3, 5)])
def test_any_number_of_dimensions(launcher, shape):
    check(launcher, random(*shape))


@ALL
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
    check(launcher, view(random(12, 100)))


@ALL
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy, of the interpreter's NaN
@pytest.mark.parametrize("n_cols", [3, 300, 9000])
def test_special_values(launcher, n_cols):
    x = random(7, n_cols)
    x[0] = -float("inf")  # throughout: NaN, as in torch
    x[1, : n_cols - 1] = -float("inf")  # all but one: whole chunks, and most lanes of a loop
    x[2, 1:] = -float("inf")
    x[2, 0] = -1000  # far below the 0 that stands in for the peak of nothing but -inf
    x[3, n_cols // 2] = float("inf")
    x[4, n_cols // 3] = float("nan")
    x[5] = -3e38
    x[6] = 3e38
    check(launcher, x)


@ALL
@DTYPES
def test_large_values_do_not_overflow(launcher, dtype):
    x = random(3, 1000, dtype=dtype)
    x[0] = x[0] * 100 + 1000
    x[1] = x[1] * 100 - 30000
    check(launcher, x)


@pytest.mark.gpu
@pytest.mark.parametrize("n_cols", [1024, 65536])
def test_result_is_the_same_inside_a_graph(n_cols):
    x = random(512, n_cols, dtype=torch.bfloat16)
    softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = softmax(x)
    for _ in range(3):
        x.normal_()
        out.zero_()
        graph.replay()
        assert torch.equal(out, softmax(x))


@ALL
@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.zeros(3, 4, dtype=torch.int32), TypeError, "int32"),
        ([[0.0]], TypeError, "list"),
        (torch.tensor(1.0), ValueError, r"x\.reshape\(1\)"),
    ],
    ids=["integers", "no tensor", "no dimension"],
)
def test_bad_input_is_named(launcher, x, error, words):
    with pytest.raises(error, match=words):
        launcher(x.to(lab.device()) if isinstance(x, torch.Tensor) else x)


@pytest.mark.parametrize(
    ("launcher", "widest"), [(softmax_block, WIDEST_BLOCK), (softmax_cluster, WIDEST_CLUSTER)]
)
def test_rows_that_a_kernel_cannot_hold_are_refused(launcher, widest):
    with pytest.raises(ValueError, match=rf"{widest:,}: use softmax\(\)"):
        launcher(torch.zeros(1, device=lab.device()).expand(1, widest + 1))


def test_widest_rows_are_left_to_the_loop():
    check(softmax, random(1, WIDEST_CLUSTER + 3))


@pytest.mark.gpu
@ALL
@pytest.mark.parametrize("n_cols", [1000, 40000])
def test_offsets_past_two_to_the_31(launcher, n_cols):
    n_rows = (2**31 + 2**20) // n_cols
    if torch.cuda.mem_get_info()[0] < 5 * n_rows * n_cols:
        pytest.skip("needs 11 GB of GPU memory")
    x = torch.empty(n_rows, n_cols, device="cuda", dtype=torch.float16).normal_()
    out = launcher(x)
    for rows in (slice(0, 3), slice(2**30 // n_cols, 2**30 // n_cols + 3), slice(n_rows - 3, n_rows)):
        torch.testing.assert_close(
            out[rows], torch.softmax(x[rows].float(), 1).half(), rtol=2**-9, atol=2**-23
        )


@ALL
def test_rows_far_apart(launcher):
    x = torch.zeros(1, 8, device=lab.device()).expand(3, 8)
    check(launcher, x)  # a stride of 0: all rows are the same memory


def test_bytes_and_operations():
    assert softmax_bytes(3, 5, 2) == 3 * 5 * 2 * 2
