"""It waits for a stable sample that never comes.

Mistake: time-limit
"""


def time_ms(fn, device):
    for _ in range(5):
        fn()
    device.synchronize()
    while True:
        start = device.now()
        fn()
        device.synchronize()
        if device.now() == start:
            break
    return start
