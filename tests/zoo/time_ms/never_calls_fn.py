"""fn is named, not called.

Mistake: never-calls
"""

import statistics


def time_ms(fn, device):
    for _ in range(5):
        fn  # noqa: B018
    device.synchronize()
    samples = []
    for _ in range(50):
        start = device.now()
        fn  # noqa: B018
        device.synchronize()
        samples.append(device.now() - start)
    return statistics.median(samples)
