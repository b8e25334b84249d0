"""A chain of elementwise steps: right for every length of chain and vector; clear about what it refuses."""

import pytest
import torch

from kernels import lab
from kernels.elementwise import (
    SCALE,
    SHIFT,
    chain_bytes,
    chain_flops,
    eager_chain,
    eager_chain_bytes,
    fused_chain,
)

BOTH = pytest.mark.parametrize("launcher", [fused_chain, eager_chain])


def chain(x, k):
    """Return the chain's result in float64."""
    x = x.double()
    for step in range(k):
        x = (x * SCALE, x + SHIFT, x.relu())[step % 3]
    return x


def check(launcher, x, k, tolerance=1e-5):
    before = x.clone()
    out = launcher(x, k)
    torch.testing.assert_close(out.double(), chain(x, k), rtol=tolerance, atol=tolerance, equal_nan=True)
    assert out.dtype == x.dtype
    assert out.shape == x.shape
    assert torch.equal(x.nan_to_num(), before.nan_to_num())
    assert out.data_ptr() != x.data_ptr() or x.numel() == 0


@BOTH
@pytest.mark.parametrize("n", [0, 1, 31, 1024, 1025, 3000])
@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 8])
def test_every_length_of_chain_and_vector(launcher, n, k):
    check(launcher, torch.randn(n, device=lab.device()), k)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2**-10), (torch.bfloat16, 2**-7)])
def test_half_precision_is_rounded_once_at_the_end(dtype, tolerance):
    check(fused_chain, torch.randn(700, device=lab.device()).to(dtype), 16, tolerance)


@BOTH
@pytest.mark.parametrize("view", [lambda t: t[1:], lambda t: t[::3], lambda t: t.reshape(20, 50).T])
def test_views_are_not_read_as_contiguous(launcher, view):
    check(launcher, view(torch.randn(1000, device=lab.device())), 5)


@BOTH
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_special_values(launcher, k):
    check(launcher, torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan], device=lab.device()), k)


@pytest.mark.parametrize(
    ("x", "k", "error", "words"),
    [
        (torch.zeros(3), -1, ValueError, "-1"),
        (torch.zeros(3, dtype=torch.int32), 1, TypeError, "int32"),
        ([0.0], 1, TypeError, "list"),
    ],
    ids=["negative", "integers", "no tensor"],
)
def test_bad_input_is_named(x, k, error, words):
    x = x.to(lab.device()) if isinstance(x, torch.Tensor) else x
    with pytest.raises(error, match=words):
        fused_chain(x, k)


def test_bytes_grow_with_the_chain_only_where_each_step_moves_them():
    assert chain_bytes(1000, 7) == chain_bytes(1000, 1) == 8000
    assert eager_chain_bytes(1000, 7) == 7 * 8000
    assert chain_bytes(1000, 7, element_size=2) == 4000
    assert chain_flops(1000, 7) == 7000


@pytest.mark.gpu
def test_offsets_past_two_to_the_31():
    n = 2**31 + 4099
    if torch.cuda.mem_get_info()[0] < 3 * 2 * n:
        pytest.skip("needs 13 GB of GPU memory")
    x = torch.empty(n, device="cuda", dtype=torch.float16).normal_()
    out = fused_chain(x, 3)
    for start in (0, 2**31 - 2048, n - 4096):
        part = slice(start, start + 4096)
        torch.testing.assert_close(out[part].double(), chain(x[part], 3), rtol=2**-10, atol=2**-10)
