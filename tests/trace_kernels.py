"""Kernels that the trace is tested on: small, and one for each thing that a trace must find."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

EPSILON = tl.constexpr(1e-6)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Add two vectors, a block a program."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(
        y_ptr + offsets,
        mask=mask,
    )
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def add_one_element_kernel(x_ptr, y_ptr, out_ptr, n):
    """Add two vectors, one element a program."""
    i = tl.program_id(0)
    if i < n:
        x = tl.load(x_ptr + i)
        y = tl.load(y_ptr + i)
        tl.store(out_ptr + i, x + y)


@triton.jit
def shifted_exp(x):
    top = tl.max(x, axis=0)
    return tl.exp(x - top)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, row_stride, BLOCK_SIZE: tl.constexpr):
    """Softmax of one row a program, by a helper and with a constant of the module."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * row_stride + columns, mask=mask, other=-float("inf"))
    weights = shifted_exp(x)
    out = weights / (tl.sum(weights, axis=0) + EPSILON)
    tl.store(out_ptr + row * row_stride + columns, out, mask=mask)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    """Multiply a strip of rows by a strip of columns."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + (k + i)[None, :])
        b = tl.load(b_ptr + (k + i)[:, None] * BLOCK + i[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + i[:, None] * BLOCK + i[None, :], total)


@triton.jit
def tile_dot_kernel(a_ptr, b_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr):
    """The same through tensor descriptors, whose tiles the copy engine moves."""
    a_tiles = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK, BLOCK])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK, BLOCK])
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        total = tl.dot(a_tiles.load([0, k]), b_tiles.load([k, 0]), total)
    tl.store(out_ptr + i[:, None] * BLOCK + i[None, :], total)


@triton.jit
def map_kernel(x_ptr, FUNCTION: tl.constexpr, TYPE: tl.constexpr, BLOCK_SIZE: tl.constexpr = 512):
    """Apply a function that is a compile-time constant."""
    i = tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + i, FUNCTION(tl.load(x_ptr + i).to(TYPE)))


@triton.jit
def fast_exp(x):
    return libdevice.fast_expf(x)


def scale_kernel_by(factor):
    """Return a kernel that is defined in a function, and takes a constant from there."""
    constant = tl.constexpr(factor)

    @triton.jit
    def scale_kernel(x_ptr):
        tl.store(x_ptr, constant * tl.load(x_ptr))

    return scale_kernel


@triton.jit
def wrong_kernel(x_ptr, BLOCK_SIZE: tl.constexpr):
    """A block whose size is no power of two, which Triton refuses."""
    offsets = tl.arange(0, 3 * BLOCK_SIZE)
    tl.store(x_ptr + offsets, 0)
