"""The start is subtracted from, not the end.

Mistake: start-minus-end
"""

import statistics


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(50):
        start = device.now()
        fn()
        device.synchronize()
        samples.append(start - device.now())
    return statistics.median(samples)
