"""No warm-up: the median of many samples does not see the one that compiles."""

import statistics


def time_ms(fn, device):
    samples = []
    for _ in range(101):
        start = device.now()
        fn()
        device.synchronize()
        samples.append(device.now() - start)
    return statistics.median(samples)
