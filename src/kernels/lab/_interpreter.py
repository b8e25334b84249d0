"""A mend for Triton 3.6's interpreter, which converts an array of one number by a way that NumPy 2.4 has closed.

Without it a kernel stops at the first loop over a run-time argument, with `only 0-dimensional arrays can be converted to
Python scalars`. Triton 3.7 converts as here.
"""

import contextlib
from typing import Any

from kernels.lab import _mode


def _mend() -> None:
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor: type, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = patched


if _mode.INTERPRETS:
    with contextlib.suppress(ImportError):  # no Triton: the doctor says so
        import triton

        if triton.__version__.startswith("3.6."):
            _mend()
