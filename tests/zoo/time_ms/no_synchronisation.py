"""The clock sees the launch only.

Mistake: no-synchronisation
"""

import statistics


def time_ms(fn, device):
    for _ in range(5):
        fn()
    samples = []
    for _ in range(50):
        start = device.now()
        fn()
        samples.append(device.now() - start)
    return statistics.median(samples)
