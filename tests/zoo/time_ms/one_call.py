"""One call, the first, compilation and all.

Mistake: counts-compilation
"""


def time_ms(fn, device):
    start = device.now()
    fn()
    device.synchronize()
    return device.now() - start
