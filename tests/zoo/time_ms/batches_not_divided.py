"""Each sample is a batch of four calls, and is not divided.

Mistake: batch-not-divided
"""

import statistics


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(50):
        start = device.now()
        for _ in range(4):
            fn()
        device.synchronize()
        samples.append(device.now() - start)
    return statistics.median(samples)
