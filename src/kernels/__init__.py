"""Your First Fast GPU Kernel: the workshop's kernels, instruments and exercises."""

__version__ = "0.1.0"
