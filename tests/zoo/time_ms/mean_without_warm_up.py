"""The first of the samples compiles.

Mistake: counts-compilation
"""


def time_ms(fn, device):
    samples = []
    for _ in range(50):
        start = device.now()
        fn()
        device.synchronize()
        samples.append(device.now() - start)
    return sum(samples) / len(samples)
