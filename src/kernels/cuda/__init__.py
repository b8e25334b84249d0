"""The workshop's operations written by hand in CUDA C++: rivals for the kernels in Triton, for comparison only.

Each module is a launcher, and beside it lies a `.cu` file with its kernels, which NVRTC compiles when they are first called.
That needs the package `cuda-core`: `pip install 'first-fast-kernel[cuda]'`.
"""
