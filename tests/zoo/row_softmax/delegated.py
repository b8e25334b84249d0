"""torch does it.

Mistake: delegated
"""

import torch


def row_softmax(x):
    return torch.softmax(x, dim=1)
