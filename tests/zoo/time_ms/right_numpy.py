"""NumPy's median, with a generous warm-up."""

import numpy as np


def time_ms(fn, device):
    for _ in range(25):
        fn()
    device.synchronize()
    samples = []
    for _ in range(200):
        start = device.now()
        fn()
        device.synchronize()
        samples.append(device.now() - start)
    return float(np.median(samples))
