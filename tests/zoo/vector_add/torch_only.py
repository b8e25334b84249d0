"""No kernel at all.

Mistake: delegated
"""

import torch


def vector_add(x, y):
    return torch.add(x, y)
