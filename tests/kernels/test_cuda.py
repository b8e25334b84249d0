"""The rivals in CUDA C++: compiled by NVRTC without a GPU, right on one for every shape, layout and dtype, clear about what they refuse."""

import itertools
import sys

import pytest
import torch

from kernels import lab
from kernels._rows import as_rows
from kernels.cuda import _compile
from kernels.cuda._rows import LOOP_PER, LOOP_THREADS, TYPES, layout, pack_size
from kernels.cuda.add import ADD, add_float4, add_one_float
from kernels.cuda.rms_norm import ADD_RMS_NORM, add_rms_norm
from kernels.cuda.softmax import SOFTMAX, softmax

gpu = pytest.mark.gpu
ADDS = pytest.mark.parametrize("launcher", [add_one_float, add_float4])
DTYPES = pytest.mark.parametrize("dtype", list(TYPES), ids=TYPES.values())


# --- without a GPU ----------------------------------------------------------------------------------------------------


def _can_compile() -> bool:
    try:
        core = _compile.cuda_core()
        core.Program('extern "C" __global__ void f() {}', "c++", core.ProgramOptions(arch="sm_90")).compile(
            "cubin"
        )
    except Exception:  # noqa: BLE001 - no cuda.core, no NVRTC, or a cuda.core that needs a driver even to compile
        return False
    return True


compiles = pytest.mark.skipif(not _can_compile(), reason="needs cuda-core and NVRTC")


@compiles
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        (ADD, "add_one_float"),
        (ADD, "add_float4"),
        *(
            (text, f"{kernel}_{instance}>")
            for text, kernel in ((SOFTMAX, "softmax"), (ADD_RMS_NORM, "add_rms_norm"))
            for instance in (
                "in_registers<bfloat16, 8, 4, 8, 128",
                "in_registers<bfloat16, 8, 8, 1024, 1024",
                "in_registers<float16, 4, 3, 64, 128",
                "in_registers<float32, 1, 1, 1, 128",
                f"in_two_passes<bfloat16, 8, {LOOP_PER}, {LOOP_THREADS}",
                f"in_two_passes<float32, 2, {LOOP_PER}, {LOOP_THREADS}",
            )
        ),
    ],
)
def test_nvrtc_compiles_each_kernel(text, name, architecture):
    assert len(_compile.compiled(text, name, architecture).code) > 1000


@compiles
def test_code_that_nvrtc_refuses_is_reported_in_its_words():
    with pytest.raises(RuntimeError, match=r"did not compile f for sm_90[\s\S]*undefined"):
        _compile.compiled("__global__ void f() { nothing(); }", "f", "sm_90")


def test_missing_cuda_core_is_reported_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    _compile.cuda_core.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'first-fast-kernel\[cuda\]'"):
        _compile.cuda_core()
    _compile.cuda_core.cache_clear()


@pytest.mark.parametrize(
    "n_packs", [1, 2, 3, 31, 32, 33, 127, 128, 513, 1024, 2048, 2049, 4096, 4097, 8191, 8192]
)
def test_layout_holds_the_whole_row_and_hardly_more(n_packs):
    held = layout(n_packs)
    assert held.per * held.threads >= n_packs
    assert (held.per - 1) * held.threads < n_packs
    assert held.per <= (4 if held.threads < 512 else 8)
    assert held.block % held.threads == 0
    assert 128 <= held.block <= 1024


def test_layout_of_a_row_beyond_the_registers_is_none():
    assert layout(8193) is None


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: torch.zeros(4, 256, dtype=torch.bfloat16), 8),
        (lambda: torch.zeros(4, 256), 4),
        (lambda: torch.zeros(4, 255), 1),
        (lambda: torch.zeros(4, 260, dtype=torch.bfloat16), 4),
        (lambda: torch.zeros(4, 257, dtype=torch.bfloat16)[:, :256], 1),
        (lambda: torch.zeros(4, 256, dtype=torch.bfloat16)[:, 2:130], 2),
        (lambda: torch.zeros(1, 257, dtype=torch.bfloat16)[:, :256], 8),
        (lambda: torch.zeros(1, 256, dtype=torch.bfloat16).expand(4, 256), 8),
    ],
    ids=["bfloat16", "float32", "odd width", "multiple of 4", "odd stride", "offset", "one row", "expanded"],
)
def test_a_pack_is_as_large_as_alignment_allows(make, size):
    assert pack_size(as_rows(make())) == size


def test_only_rows_whose_elements_lie_apart_are_copied():
    x = torch.zeros(8, 10)
    assert as_rows(x[:, 2:7]).data_ptr() == x[:, 2:7].data_ptr()
    assert as_rows(x.T).stride() == (8, 1)


@pytest.mark.skipif(lab.live(), reason="needs a process without a GPU")
@pytest.mark.parametrize(
    "call",
    [
        lambda: add_one_float(torch.zeros(3), torch.zeros(3)),
        lambda: softmax(torch.zeros(3, 4)),
        lambda: add_rms_norm(torch.zeros(3, 4), torch.zeros(3, 4), torch.zeros(4)),
    ],
    ids=["add", "softmax", "add_rms_norm"],
)
def test_a_tensor_on_the_cpu_is_refused(call):
    with pytest.raises(ValueError, match=r"CPU|cpu"):
        call()


# --- on a GPU ---------------------------------------------------------------------------------------------------------


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def close(out: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    """Within one rounding to the dtype of the answer in float64, and what float32 leaves of it."""
    assert out.dtype == dtype
    torch.testing.assert_close(
        out.double(), expected, rtol=max(torch.finfo(dtype).eps, 3e-6), atol=1e-7, equal_nan=True
    )


@gpu
@ADDS
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 255, 1023, 1024, 1025, 100_003])
def test_add_every_length(launcher, n):
    x, y = random(n), random(n)
    assert torch.equal(launcher(x, y), x + y)


@gpu
@ADDS
@pytest.mark.parametrize(
    "view",
    [lambda t: t[1:], lambda t: t[::2], lambda t: t[:960].view(30, 32).T, lambda t: t[:1].expand(77)],
    ids=["offset", "strided", "transposed", "expanded"],
)
def test_add_views(launcher, view):
    x, y = random(1000), random(1000)
    assert torch.equal(launcher(view(x), view(y)), view(x) + view(y))
    assert torch.equal(launcher(view(x), view(y).contiguous()), view(x) + view(y))


@gpu
@ADDS
def test_add_refuses_other_types_and_shapes(launcher):
    with pytest.raises(TypeError, match=r"x\.float\(\)"):
        launcher(random(4).half(), random(4).half())
    with pytest.raises(ValueError, match="do not broadcast"):
        launcher(random(4), random(3))


@gpu
@ADDS
def test_add_past_two_to_the_31(launcher):
    n = 2**31 + 4099
    if torch.cuda.mem_get_info()[0] < 3 * 4 * n + 2**30:
        pytest.skip("needs 27 GB of GPU memory")
    x, y = torch.empty(n, device="cuda").normal_(), torch.empty(n, device="cuda").normal_()
    out = launcher(x, y)
    for start in (0, 2**31 - 2048, n - 4096):
        part = slice(start, start + 4096)
        assert torch.equal(out[part], x[part] + y[part])


WIDTHS = [
    1,
    2,
    7,
    8,
    31,
    64,
    255,
    256,
    257,
    1000,
    1024,
    4096,
    5120,
    8193,
    16_384,
    32_768,
    65_536,
    65_544,
    131_072,
    100_001,
]


@gpu
@DTYPES
@pytest.mark.parametrize("width", WIDTHS)
def test_softmax_every_width(width, dtype):
    x = random(5, width, dtype=dtype) * 3
    close(softmax(x), torch.softmax(x.double(), -1), dtype)


@gpu
@DTYPES
@pytest.mark.parametrize("width", WIDTHS)
def test_add_rms_norm_every_width(width, dtype):
    x, residual, weight = (
        random(5, width, dtype=dtype),
        random(5, width, dtype=dtype),
        random(width, dtype=dtype),
    )
    out, total = add_rms_norm(x, residual, weight)
    assert torch.equal(total, x + residual)
    expected = (
        total.double() * torch.rsqrt(total.double().square().mean(-1, keepdim=True) + 1e-6) * weight.double()
    )
    close(out, expected, dtype)


VIEWS = {
    "offset": lambda t: t[:, 3:67],
    "aligned columns": lambda t: t[:, 8:136],
    "every other row": lambda t: t[::2],
    "every other column": lambda t: t[:, ::2],
    "transposed": lambda t: t.T,
    "expanded": lambda t: t[:1].expand(9, 200),
    "three dimensions": lambda t: t.view(4, 10, 200)[:, 2:5],
    "one dimension": lambda t: t[7],
    "no rows": lambda t: t[:0],
    "no columns": lambda t: t[:, :0],
    "many rows": lambda t: t.reshape(-1, 2),
}
views = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


@gpu
@views
@DTYPES
def test_softmax_views(view, dtype):
    x = view(random(40, 200, dtype=dtype))
    close(softmax(x), torch.softmax(x.double(), -1), dtype)


@gpu
@views
@DTYPES
def test_add_rms_norm_views(view, dtype):
    x, residual = view(random(40, 200, dtype=dtype)), view(random(40, 200, dtype=dtype))
    weight = random(400, dtype=dtype)[1 : 1 + x.shape[-1]]
    for first, second in itertools.permutations((x, residual.contiguous())):
        out, total = add_rms_norm(first, second, weight)
        assert torch.equal(total, first + second)
        expected = total.double() * torch.rsqrt(total.double().square().mean(-1, keepdim=True) + 1e-6)
        close(out, expected * weight.double(), dtype)


@gpu
@pytest.mark.parametrize("width", [8, 300, 4096, 70_000, 200_000])
def test_softmax_of_special_values(width):
    x = random(8, width)
    x[0] = -float("inf")
    x[1, :-1] = -float("inf")
    x[2, width // 2] = float("inf")
    x[3, -1] = float("nan")
    x[4] += 3e5
    x[5] = 3e38
    x[6] = -3e38
    x[7, ::2] = -float("inf")
    close(softmax(x), torch.softmax(x.double(), -1), torch.float32)


@gpu
@pytest.mark.parametrize("n_cols", [4099, 70_001])
def test_rows_past_two_to_the_31(n_cols):
    n_rows = 2**31 // n_cols + 3
    if torch.cuda.mem_get_info()[0] < 5 * 2 * n_rows * n_cols + 2**30:
        pytest.skip("needs 23 GB of GPU memory")
    x, residual = (
        torch.empty(n_rows, n_cols, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(2)
    )
    last = slice(-2, None)
    close(softmax(x)[last], torch.softmax(x[last].double(), -1), torch.bfloat16)
    out, total = add_rms_norm(x, residual, torch.ones(n_cols, device="cuda", dtype=torch.bfloat16))
    assert torch.equal(total[last], x[last] + residual[last])
    expected = torch.nn.functional.rms_norm(total[last].double(), (n_cols,), eps=1e-6)
    close(out[last], expected, torch.bfloat16)


@gpu
def test_add_rms_norm_names_what_does_not_fit():
    x = random(3, 8)
    with pytest.raises(ValueError, match=r"\(7,\).*\(3, 8\)"):
        add_rms_norm(x, x, random(7))
    with pytest.raises(ValueError, match="do not broadcast"):
        add_rms_norm(x, x[:1], random(8))
    with pytest.raises(ValueError, match="float16"):
        add_rms_norm(x, x, random(8).half())


@gpu
def test_launches_run_on_the_current_stream_and_in_a_graph():
    x, y = random(5000), random(5000)
    rows, weight = random(50, 100), random(100)
    add_float4(x, y), softmax(rows), add_rms_norm(rows, rows, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        added, soft, (normed, _) = add_float4(x, y), softmax(rows), add_rms_norm(rows, rows, weight)
    x.fill_(1), y.fill_(2), rows.normal_()
    graph.replay()
    assert torch.equal(added, torch.full_like(x, 3))
    close(soft, torch.softmax(rows.double(), -1), torch.float32)
    close(
        normed, torch.nn.functional.rms_norm(2 * rows.double(), (100,), weight.double(), 1e-6), torch.float32
    )
