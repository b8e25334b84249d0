"""Vector addition: right for every length, layout and dtype; clear about what it refuses."""

import pytest
import torch

from kernels import lab
from kernels.add import MOST_PROGRAMS, add, add_one_element

BOTH = pytest.mark.parametrize("launcher", [add, add_one_element])
LENGTHS = [0, 1, 2, 127, 128, 1023, 1024, 1025, 3000]


def pair(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = (torch.randn(*shape, device=lab.device()).to(dtype) for _ in range(2))
    return x, y


def check(launcher, x, y):
    before = x.clone(), y.clone()
    out = launcher(x, y)
    # The interpreter cuts bfloat16 off where a GPU rounds: one unit in the last of 8 bits.
    cut_off = 2**-7 if lab.interpreting() and x.dtype == torch.bfloat16 else 0
    torch.testing.assert_close(out, x + y, rtol=cut_off, atol=0, equal_nan=True)
    assert out.dtype == x.dtype
    assert torch.equal(x.nan_to_num(), before[0].nan_to_num())
    assert torch.equal(y.nan_to_num(), before[1].nan_to_num())


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", LENGTHS)
def test_every_length_and_dtype(launcher, n, dtype):
    check(launcher, *pair(n, dtype=dtype))


@BOTH
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[1:],  # starts off a 16-byte boundary
        lambda t: t[::2],
        lambda t: t[::3][5:],
        lambda t: t[:640].reshape(20, 32).T,
        lambda t: t[:640].reshape(20, 32)[:, 3:17],
        lambda t: t[:1].expand(500),
        lambda t: t[:24].reshape(2, 3, 4).permute(2, 0, 1),
    ],
    ids=["offset", "strided", "offset and strided", "transposed", "columns", "expanded", "permuted"],
)
def test_views_are_not_read_as_contiguous(launcher, view):
    x, y = pair(1000)
    check(launcher, view(x), view(y))
    check(launcher, view(x), view(y).contiguous())
    check(launcher, view(x).contiguous(), view(y))


@BOTH
def test_special_values(launcher):
    values = torch.tensor(
        [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 3e38, 1e-45], device=lab.device()
    )
    check(launcher, values.repeat(7), values.repeat_interleave(7))


@BOTH
@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (torch.zeros(4), ValueError, r"\(4,\).*\(3,\)"),
        (torch.zeros(1, 3), ValueError, "do not broadcast"),
        (torch.zeros(3, dtype=torch.float16), ValueError, r"float16.*float32"),
        (torch.zeros(3, dtype=torch.int32), TypeError, "int32"),
        ([0.0, 0.0, 0.0], TypeError, "list"),
        (torch.zeros(3, device="meta"), ValueError, "meta"),
    ],
    ids=["length", "shape", "dtype", "integers", "no tensor", "device"],
)
def test_bad_input_is_named(launcher, y, error, words):
    x = torch.zeros(3, device=lab.device())
    y = y.to(lab.device()) if isinstance(y, torch.Tensor) and y.device.type != "meta" else y
    with pytest.raises(error, match=words):
        launcher(x, y)


def test_grid_that_cannot_be_launched_is_refused():
    huge = torch.zeros(1, device=lab.device()).expand(MOST_PROGRAMS + 1)
    with pytest.raises(ValueError, match=r"2,147,483,647: use add\(\)"):
        add_one_element(huge, huge)


@pytest.mark.gpu
def test_tensor_on_the_cpu_is_refused():
    with pytest.raises(ValueError, match=r"x\.cuda\(\)"):
        add(torch.zeros(3), torch.zeros(3))


@pytest.mark.gpu
def test_offsets_past_two_to_the_31():
    n = 2**31 + 4099
    if torch.cuda.mem_get_info()[0] < 4 * 2 * n:
        pytest.skip("needs 18 GB of GPU memory")
    x, y = (torch.empty(n, device="cuda", dtype=torch.float16).normal_() for _ in range(2))
    out = add(x, y)
    for start in (0, 2**30, 2**31 - 2048, n - 4096):
        part = slice(start, start + 4096)
        assert torch.equal(out[part], x[part] + y[part])


@pytest.mark.gpu
def test_one_element_per_program_reaches_the_last_program():
    n = MOST_PROGRAMS
    if torch.cuda.mem_get_info()[0] < 4 * 2 * n:
        pytest.skip("needs 18 GB of GPU memory")
    x, y = (torch.empty(n, device="cuda", dtype=torch.float16).normal_() for _ in range(2))
    out = add_one_element(x, y)
    assert torch.equal(out[-4096:], x[-4096:] + y[-4096:])
