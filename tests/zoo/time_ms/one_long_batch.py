"""A thousand calls between two readings: a mean in disguise.

Mistake: one-sample
"""


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    start = device.now()
    for _ in range(1000):
        fn()
    device.synchronize()
    return (device.now() - start) / 1000
