"""The waiting comes before the call, not after it.

Mistake: synchronises-too-early
"""

import statistics


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(50):
        device.synchronize()
        start = device.now()
        fn()
        samples.append(device.now() - start)
    return statistics.median(samples)
