# /// script
# requires-python = ">=3.11"
# dependencies = ["first-fast-kernel"]
#
# [tool.uv.sources]
# first-fast-kernel = { path = "../.." }
# ///
"""
The trace
=========

``lab.trace`` compiles a kernel and shows every stage on the way to machine code, linked line to line. It needs no GPU.
"""

# %%
# Point at a line, or move with the arrow keys: what it became lights up in every
# stage, and a line of a stage shows where it came from. Escape lets go.

from kernels import lab

from kernels.add import add_kernel, add_one_element_kernel

pointers = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32"}
blocks = lab.trace(add_kernel, **pointers, n_elements="i32", BLOCK_SIZE=1024)
lab.show(blocks)

# %%
# An excerpt is cut by what it shows, so it survives the next compiler: here all that
# one line of Python became, and then every store.

lab.show(
    blocks.excerpt("ptx", of="tl.load(x_ptr"), blocks.excerpt("sass", kind="store")
)

# %%
# Two kernels side by side:

baseline = lab.trace(add_one_element_kernel, **pointers)
lab.show(baseline.compare(blocks))

# %%
# Any NVIDIA GPU from ``sm_75`` to ``sm_120`` can be the target, and AMD's too:

lab.show(
    lab.trace(
        add_kernel, **pointers, n_elements="i32", BLOCK_SIZE=1024, target="gfx942"
    ).excerpt("amdgcn", kind="load")
)
