"""The clock starts while the warm-up is still at work.

Mistake: warm-up-not-awaited
"""


def time_ms(fn, device):
    for _ in range(20):
        fn()
    start = device.now()
    for _ in range(5):
        fn()
    device.synchronize()
    return (device.now() - start) / 5
