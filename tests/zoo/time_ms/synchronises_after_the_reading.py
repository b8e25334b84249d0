"""The second reading comes before the waiting.

Mistake: synchronises-too-early
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
        end = device.now()
        device.synchronize()
        samples.append(end - start)
    return statistics.median(samples)
