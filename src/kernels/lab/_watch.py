"""A time limit on a learner's code, in the interpreter and on the GPU.

A signal interrupts Python code, hence an interpreted kernel too, without a thread or a child process, and
works for functions of a notebook cell. It cannot stop a kernel that runs on a GPU, so there the launch is
followed by an event that is asked, not waited for: the report comes on time, and says that the GPU is still
busy. A compiler that never returns cannot be interrupted: the learner has to interrupt Python.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import torch


class TimeLimit(BaseException):
    """The learner's code ran longer than it may. No `Exception`, so that `except Exception` lets it through."""


class GpuBusy(TimeLimit):
    """A kernel is still running on the GPU, and nothing but the end of the process stops it."""


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise `TimeLimit` in what runs inside after so many seconds.

    Only the main thread can be interrupted, which is where scripts and notebooks run; elsewhere there is no
    limit. A timer that was running before goes on afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimit(f"longer than {seconds:g} s")

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, stop)
    # It strikes again every half second: a bare `except:` in the learner's code may have caught the first.
    left, repeat = signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.01), repeat)


def finish(seconds: float) -> None:
    """Wait for the GPU, but not longer than so many seconds.

    Raises
    ------
    GpuBusy
        It is still at work.
    """
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()
    deadline = time.monotonic() + seconds
    while not done.query():  # type: ignore[no-untyped-call]
        if time.monotonic() > deadline:
            raise GpuBusy(f"longer than {seconds:g} s")
        time.sleep(0.0005)
