"""A chain of multiply-adds: right for every length of chain and vector; clear about what it refuses."""

import pytest
import torch

from kernels import lab
from kernels.fma import fma_chain, fma_chain_bytes, fma_chain_flops

SCALE, SHIFT = -0.75, 0.5


def chain(x, k):
    """Return the chain's result in float64."""
    x = x.double()
    for _ in range(k):
        x = x * SCALE + SHIFT
    return x


def check(x, k, tolerance=1e-5):
    before = x.clone()
    out = fma_chain(x, SCALE, SHIFT, k)
    torch.testing.assert_close(out.double(), chain(x, k), rtol=tolerance, atol=tolerance)
    assert out.dtype == x.dtype
    assert out.shape == x.shape
    assert torch.equal(x, before)


@pytest.mark.parametrize("n", [0, 1, 31, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("k", [0, 1, 2, 3, 16, 37])
def test_every_length_of_chain_and_vector(n, k):
    check(torch.randn(n, device=lab.device()), k)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2**-9), (torch.bfloat16, 2**-6)])
def test_half_precision_is_rounded_once_at_the_end(dtype, tolerance):
    check(torch.randn(700, device=lab.device()).to(dtype), 20, tolerance)


@pytest.mark.parametrize("view", [lambda t: t[1:], lambda t: t[::3], lambda t: t.reshape(20, 50).T])
def test_views_are_not_read_as_contiguous(view):
    check(view(torch.randn(1000, device=lab.device())), 5)


def test_no_step_returns_a_copy():
    x = torch.randn(100, device=lab.device())
    out = fma_chain(x, SCALE, SHIFT, 0)
    assert torch.equal(out, x)
    assert out.data_ptr() != x.data_ptr()


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
        fma_chain(x, SCALE, SHIFT, k)


def test_bytes_do_not_depend_on_the_chain_and_operations_do():
    assert fma_chain_bytes(1000) == 8000
    assert fma_chain_bytes(1000, element_size=2) == 4000
    assert fma_chain_flops(1000, 7) == 14_000
