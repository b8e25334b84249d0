"""The median over batches of two calls, each divided by two."""

import statistics


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(100):
        start = device.now()
        fn()
        fn()
        device.synchronize()
        samples.append((device.now() - start) / 2)
    return statistics.median(samples)
