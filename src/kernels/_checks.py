"""What every launcher asks of its tensors, with errors that name the value, the expectation and the remedy."""

import os

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def check_floats(**tensors: torch.Tensor) -> None:
    """Raise unless all are float tensors of one dtype, on one device on which a kernel can run.

    Raises
    ------
    TypeError
        One is no tensor, or its dtype is not float32, float16 or bfloat16.
    ValueError
        Their dtypes or devices differ, or they lie on the CPU while kernels are compiled for the GPU.
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"{name} must be a torch.Tensor, not {type(tensor).__name__}: use torch.as_tensor({name})"
            )
        if tensor.dtype not in FLOATS:
            raise TypeError(
                f"{name} must be float32, float16 or bfloat16, not {tensor.dtype}: use {name}.float()"
            )
    (first, leader), *others = tensors.items()
    for name, tensor in others:
        if tensor.dtype != leader.dtype:
            raise ValueError(
                f"{name} has dtype {tensor.dtype} and {first} {leader.dtype}: use {name}.to({first}.dtype)"
            )
        if tensor.device != leader.device:
            raise ValueError(
                f"{name} is on {tensor.device} and {first} on {leader.device}: use {name}.to({first}.device)"
            )
    if leader.device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(f"{first} is on the CPU, where a compiled kernel cannot read it: use {first}.cuda()")


def check_same_shape(**tensors: torch.Tensor) -> None:
    """Raise `ValueError` unless all tensors have the shape of the first; nothing is broadcast."""
    (first, leader), *others = tensors.items()
    for name, tensor in others:
        if tensor.shape != leader.shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)} and {first} {tuple(leader.shape)}, and kernels do not broadcast: "
                f"use {name}.expand_as({first}) if that is what you mean"
            )


def laid_out_as(tensor: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy of it if its elements do not lie in memory in the order of `out`'s."""
    if tensor.stride() == out.stride():
        return tensor
    return torch.empty_strided(out.shape, out.stride(), dtype=tensor.dtype, device=tensor.device).copy_(
        tensor
    )
