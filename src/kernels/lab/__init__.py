"""The workshop's instruments: machine, measure, record, roofline, trace, counters, grade, show.

Import this package before Triton: it decides whether kernels compile for a GPU or run in the interpreter.
"""

# isort: off
from kernels.lab import _mode  # first: fixes the mode before anything below imports Triton
from kernels.lab import _interpreter  # noqa: F401  # second: mends the interpreter before a kernel is run by it

# isort: on
from kernels.lab.ceilings import ceilings
from kernels.lab.claims import claim, predict
from kernels.lab.counters import counters, side_by_side
from kernels.lab.grade import check, hint, solution
from kernels.lab.listing import code, drawing
from kernels.lab.machine import machine
from kernels.lab.measure import measure
from kernels.lab.plot import Line, plot
from kernels.lab.record import observe
from kernels.lab.roofline import Point, attainable, bound, intensity, roofline
from kernels.lab.show import show, table
from kernels.lab.sources import sources
from kernels.lab.trace import trace

device = _mode.device
interpreting = _mode.interpreting
live = _mode.live

__all__ = [
    "Line",
    "Point",
    "attainable",
    "bound",
    "ceilings",
    "check",
    "claim",
    "code",
    "counters",
    "device",
    "drawing",
    "hint",
    "intensity",
    "interpreting",
    "live",
    "machine",
    "measure",
    "observe",
    "plot",
    "predict",
    "roofline",
    "show",
    "side_by_side",
    "solution",
    "sources",
    "table",
    "trace",
]
