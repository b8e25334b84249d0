"""What NVIDIA's datasheets promise, for the GPUs that learners are likely to have.

Numbers are peaks in base units, dense: where a datasheet prints only the figure for sparse matrices, half of
it stands here. A value that its source does not state is None.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Datasheet:
    """The peaks of one GPU.

    Attributes
    ----------
    memory
        The kind of its device memory.
    bandwidth
        Of the device memory [B/s].
    fp32
        Without tensor cores [FLOP/s].
    tf32, fp16, bf16
        With tensor cores, accumulating in float32 [FLOP/s]; None where the GPU has none for the type.
    source
        The document that says so.
    """

    memory: str
    bandwidth: float
    fp32: float
    tf32: float | None
    fp16: float | None
    bf16: float | None
    source: str

    def peak(self, dtype: str) -> float | None:
        """Return the peak for `"FP32"`, `"TF32"`, `"FP16"` or `"BF16"` [FLOP/s]."""
        return {"FP32": self.fp32, "TF32": self.tf32, "FP16": self.fp16, "BF16": self.bf16}[dtype]


_HOPPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet; dense figures from the whitepaper of the H100, the same chip"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet"
_ADA = "NVIDIA Ada GPU Architecture whitepaper"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper"

# By the name that the driver reports.
_KNOWN = {
    "NVIDIA H200": Datasheet("HBM3e", 4.8e12, 67e12, 494.7e12, 989.4e12, 989.4e12, _H200),
    "NVIDIA H100 80GB HBM3": Datasheet("HBM3", 3.35e12, 66.9e12, 494.7e12, 989.4e12, 989.4e12, _HOPPER),
    "NVIDIA A100-SXM4-80GB": Datasheet("HBM2e", 2.039e12, 19.5e12, 156e12, 312e12, 312e12, _A100),
    "NVIDIA A100-SXM4-40GB": Datasheet("HBM2", 1.555e12, 19.5e12, 156e12, 312e12, 312e12, _A100),
    "NVIDIA L4": Datasheet(
        "GDDR6", 300e9, 30.3e12, 60e12, 121e12, 121e12, "NVIDIA L4 Tensor Core GPU datasheet"
    ),
    "Tesla T4": Datasheet(
        "GDDR6", 320e9, 8.1e12, None, 65e12, None, "NVIDIA Turing GPU Architecture whitepaper"
    ),
    "NVIDIA GeForce RTX 4090": Datasheet("GDDR6X", 1008e9, 82.6e12, 82.6e12, 165.2e12, 165.2e12, _ADA),
    "NVIDIA GeForce RTX 3090": Datasheet("GDDR6X", 936e9, 35.6e12, 35.6e12, 71e12, 71e12, _GA102),
}


def datasheet(gpu: str) -> Datasheet | None:
    """Return the datasheet of a GPU by the name that its driver reports, or None where it is not known."""
    return _KNOWN.get(gpu)
