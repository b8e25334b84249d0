"""The samples are added up.

Mistake: total
"""


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(50):
        start = device.now()
        fn()
        device.synchronize()
        samples.append(device.now() - start)
    return sum(samples)
