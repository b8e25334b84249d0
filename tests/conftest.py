"""The lab is imported before Triton, so that a machine without a GPU runs kernels in the interpreter."""

import pytest
import torch

from kernels import lab

pytest_plugins = ["site_fixtures"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if lab.live():
        return
    skip = pytest.mark.skip(reason="needs a CUDA GPU")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture
def device() -> torch.device:
    """Where this process's kernels run."""
    return lab.device()
