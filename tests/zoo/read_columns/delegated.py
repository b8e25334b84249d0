"""torch adds.

Mistake: delegated
"""

import torch


def read_columns(x):
    return torch.sum(x, dim=0)
