"""A warm-up and then one sample.

Mistake: one-sample
"""


def time_ms(fn, device):
    fn()
    device.synchronize()
    start = device.now()
    fn()
    device.synchronize()
    return device.now() - start
