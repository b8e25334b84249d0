"""torch multiplies.

Mistake: delegated
"""

import torch


def matmul(a, b):
    return torch.matmul(a, b)
