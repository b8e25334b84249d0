"""Compile and run one small kernel, in a process of its own: `python -m kernels.lab._proof`."""

from kernels.lab import _mode  # isort: skip -- first: it decides how Triton runs

import os
import subprocess
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Each program doubles one block."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def run() -> None:
    """Double 1,000 random numbers, and compare."""
    x = torch.rand(1000, device=_mode.device())
    out = torch.full_like(x, torch.nan)
    double_kernel[(8,)](x, out, x.numel(), BLOCK_SIZE=128)
    if not torch.equal(out, 2 * x):
        raise RuntimeError("the kernel ran and its result is wrong")


def compile_without_gpu() -> int:
    """Compile the same kernel for the reference GPU, and return the size of its machine code [B]."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK_SIZE": "constexpr"}
    kernel = ASTSource(fn=double_kernel, signature=signature, constexprs={"BLOCK_SIZE": 128})
    return len(triton.compile(kernel, target=GPUTarget("cuda", 90, 32)).asm["cubin"])


if __name__ == "__main__":
    if sys.argv[1:] == ["compile"]:
        print(compile_without_gpu())
    elif _mode.HAS_GPU:
        run()
        print("A kernel was compiled for this GPU, ran on it, and its result is right.")
    else:
        run()
        # A process that interprets cannot compile, so the second half happens in another.
        env = {**os.environ, "TRITON_INTERPRET": "0"}
        subprocess.run(
            [sys.executable, "-m", "kernels.lab._proof", "compile"],
            check=True,
            env=env,
            stdout=subprocess.DEVNULL,
        )
        print(
            "A kernel ran in the interpreter with the right result, and compiled for a GPU of compute capability 9.0."
        )
