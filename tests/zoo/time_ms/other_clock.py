"""The host's real clock knows nothing of the simulated device.

Mistake: other-clock
"""

import statistics
import time


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(50):
        start = time.perf_counter()
        fn()
        device.synchronize()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)
