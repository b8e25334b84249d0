"""The mean of the middle half."""


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    samples = []
    for _ in range(100):
        start = device.now()
        fn()
        device.synchronize()
        samples.append(device.now() - start)
    middle = sorted(samples)[25:75]
    return sum(middle) / len(middle)
