"""Matrix multiplication: right for every shape, layout and dtype; clear about what it refuses."""

import pytest
import torch

from kernels import lab
from kernels.matmul import (
    has_descriptors,
    matmul_bytes,
    matmul_flops,
    matmul_grouped,
    matmul_no_reuse,
    matmul_persistent,
    matmul_tiled,
    tile_config,
    tiled_bytes,
)

ALL = pytest.mark.parametrize(
    "launcher",
    [matmul_no_reuse, matmul_tiled, matmul_grouped, matmul_persistent],
    ids=["no reuse", "tiled", "grouped", "persistent"],
)
TILED = pytest.mark.parametrize(
    "launcher", [matmul_tiled, matmul_grouped, matmul_persistent], ids=["tiled", "grouped", "persistent"]
)
# Half a unit in the last place of the result, and one more for the order of the sums; the interpreter cuts bfloat16 off.
ROUNDING = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=lab.device()).to(dtype)


def check(launcher, a, b):
    before = a.clone(), b.clone()
    out = launcher(a, b)
    assert out.shape == (a.shape[0], b.shape[1])
    assert out.dtype == a.dtype
    assert out.is_contiguous()
    reference = a.double() @ b.double()
    room = ROUNDING[a.dtype]
    # An error of a float32 sum grows with the terms, not with the result, which may be near zero.
    slack = 2e-6 * (a.double().abs() @ b.double().abs()) + room * reference.abs() + 1e-7
    assert ((out.double() - reference).abs() <= slack).all()
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])


@ALL
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1, 1),
        (3, 5, 7),
        (64, 64, 32),
        (65, 63, 33),
        (129, 200, 100),
        (1, 300, 40),
        (300, 1, 40),
        (16, 16, 500),
    ],
)
def test_every_shape(launcher, m, n, k):
    check(launcher, random(m, k), random(k, n))


@ALL
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("m", "n", "k"), [(7, 9, 11), (136, 264, 72)])
def test_half_precision_is_added_in_float32(launcher, dtype, m, n, k):
    check(launcher, random(m, k, dtype=dtype), random(k, n, dtype=dtype))


@ALL
@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 3), (5, 0, 3), (0, 0, 0), (0, 5, 0)])
def test_no_element(launcher, m, n, k):
    out = launcher(random(m, k), random(k, n))
    assert out.shape == (m, n)


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_sum_of_no_products_is_zero(launcher, dtype):
    out = launcher(random(5, 0, dtype=dtype), random(0, 8, dtype=dtype))
    assert torch.equal(out, torch.zeros(5, 8, dtype=dtype, device=lab.device()))


@ALL
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.T.contiguous().T,
        lambda t: torch.cat([t, t], 1)[:, : t.shape[1]],
        lambda t: torch.cat([t, t], 1)[:, 1 : t.shape[1] + 1],
        lambda t: t.repeat_interleave(2, 0)[::2],
        lambda t: t.repeat_interleave(3, 1)[:, ::3],
        lambda t: t[:1].expand(t.shape),
        lambda t: t[:, :1].expand(t.shape),
    ],
    ids=[
        "transposed",
        "slice",
        "slice at an odd address",
        "every second row",
        "every third column",
        "one row",
        "one column",
    ],
)
def test_views_are_not_read_as_contiguous(launcher, view):
    a, b = random(40, 56, dtype=torch.float16), random(56, 72, dtype=torch.float16)
    check(launcher, view(a), b)
    check(launcher, a, view(b))


@ALL
def test_zeros_past_the_edge_do_not_meet_infinity(launcher):
    a, b = random(5, 40), random(40, 6)
    a[2, 3] = torch.inf
    b[7, 1] = torch.nan
    out = launcher(a, b)
    torch.testing.assert_close(out, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-4, equal_nan=True)


@ALL
def test_sums_do_not_stop_growing(launcher):
    """A float16 sum of ones stops at 2048."""
    a, b = torch.ones(2, 3000), torch.ones(3000, 8)
    out = launcher(a.half().to(lab.device()), b.half().to(lab.device()))
    assert (out == 3000).all()


@TILED
def test_several_tiles_each_way(launcher):
    """More rows of tiles than a group holds, a lower last group, and several tiles for each persistent program."""
    config = tile_config(random(1, 1, dtype=torch.float16))
    m, n = 10 * config["BLOCK_M"] + 8, 2 * config["BLOCK_N"] + 8
    check(launcher, random(m, 16, dtype=torch.float16), random(16, n, dtype=torch.float16))


@pytest.mark.parametrize(
    ("matrix", "can"),
    [
        (lambda: random(8, 16, dtype=torch.float16), True),
        (lambda: random(8, 16), False),
        (lambda: random(8, 17, dtype=torch.float16), False),
        (lambda: random(16, 8, dtype=torch.float16).T, False),
        (lambda: random(8, 32, dtype=torch.float16)[:, 8:24], True),
        (lambda: random(8, 32, dtype=torch.float16)[:, 4:20], False),
        (lambda: random(1, 16, dtype=torch.float16).expand(8, 16), False),
        (lambda: random(0, 16, dtype=torch.float16), False),
    ],
    ids=["half", "float32", "odd rows", "transposed", "slice", "off 16 bytes", "expanded", "empty"],
)
def test_what_descriptors_can_do(matrix, can):
    if lab.device().type == "cuda" and torch.cuda.get_device_capability()[0] < 9:
        can = False
    assert has_descriptors(matrix()) == can


@ALL
@pytest.mark.parametrize(
    ("a", "b", "error", "words"),
    [
        (torch.zeros(2, 3), torch.zeros(4, 5), ValueError, "2 × 3 and b 4 × 5"),
        (torch.zeros(3), torch.zeros(3, 2), ValueError, r"\(3,\)"),
        (torch.zeros(1, 2, 3), torch.zeros(3, 2), ValueError, r"\(1, 2, 3\)"),
        (torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.float16), ValueError, "float16"),
        (torch.zeros(2, 3, dtype=torch.int32), torch.zeros(3, 2), TypeError, "int32"),
        ([[0.0]], torch.zeros(1, 2), TypeError, "list"),
    ],
    ids=["inner size", "vector", "three dimensions", "dtypes", "integers", "no tensor"],
)
def test_bad_input_is_named(launcher, a, b, error, words):
    a, b = (x.to(lab.device()) if isinstance(x, torch.Tensor) else x for x in (a, b))
    with pytest.raises(error, match=words):
        launcher(a, b)


def test_bytes_and_operations():
    assert matmul_bytes(2, 3, 5) == 2 * (10 + 15 + 6)
    assert matmul_flops(2, 3, 5) == 60
    # Two rows of tiles read b twice, three columns of tiles read a three times.
    assert tiled_bytes(20, 30, 7, 10, 10) == 2 * (2 * 210 + 3 * 140 + 600)
    assert tiled_bytes(20, 30, 7, 20, 30) == matmul_bytes(20, 30, 7)


@pytest.mark.gpu
@ALL
@pytest.mark.parametrize("transposed", [False, True])
def test_offsets_past_two_to_the_31(launcher, transposed):
    """The last rows of a, and its last columns, lie more than 2^31 elements from its first element."""
    if torch.cuda.mem_get_info()[0] < 6 * 2**30:
        pytest.skip("needs 6 GB of GPU memory")
    far = torch.empty(2**31 + 2**20, device="cuda", dtype=torch.float16)
    a = far.as_strided((24, 64), ((far.numel() - 64) // 23 // 8 * 8, 1)).normal_()
    if transposed:
        a = a.T
    check(launcher, a, random(a.shape[1], 40, dtype=torch.float16))
    b = a.T if transposed else a
    check(launcher, random(16, b.shape[0], dtype=torch.float16), b)


@pytest.mark.gpu
@TILED
def test_result_past_two_to_the_31(launcher):
    if torch.cuda.mem_get_info()[0] < 8 * 2**30:
        pytest.skip("needs 8 GB of GPU memory")
    a, b = random(46_400, 16, dtype=torch.float16), random(16, 46_400, dtype=torch.float16)
    out = launcher(a, b)
    for start in (0, 23_000, 46_300):
        expected = (a[start : start + 100].double() @ b.double()).half()
        torch.testing.assert_close(out[start : start + 100], expected, rtol=2**-9, atol=1e-2)
