"""torch does the work.

Mistake: delegated
"""


def fma_chain(x, scale, shift):
    out = x.clone()
    for i in range(scale.numel()):
        out = out * scale[i] + shift[i]
    return out
