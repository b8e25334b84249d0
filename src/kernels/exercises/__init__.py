"""The exercises: `kernels.exercises.NAME` declares an `EXERCISE`, which `lab.check("NAME", ...)` finds.

An exercise is a declaration; `kernels.lab` does the grading and knows no particular exercise. To add one:

1. Write the solution first, as functions of the module: a Triton kernel and its launcher, or a plain
   function. Put what the learner is to write between `# <your turn> what to do` and `# </your turn>`. The
   stub is the solution without these lines, so the two cannot drift apart: `EXERCISE.stub` is what the
   chapter shows, `EXERCISE.solution_text` what it folds.
2. Declare a `KernelExercise` or a `FunctionExercise` (below).
3. Add the zoo: `tests/zoo/NAME/*.py`, at least eight wrong solutions that differ, each with a line `Mistake:
   ID` in its docstring, and some right ones in other styles, `right_*.py`. `tests/test_zoo.py` finds them,
   and fails for a wrong solution that passes or is taken for another mistake.

**Kernel exercises.** The learner's launcher takes tensors and returns a new one. The exercise says how to
draw the inputs of a `Case` on the CPU (`inputs`), what the answer is in float64 (`reference`), and which
cases to try: begin small, since the smallest failing one is shown; have ragged sizes, one element, nothing at
all, other layouts (`contiguous` `offset` `strided` `padded` `transposed` `far`), special values, float16. All
else is the grader's: fenced and poisoned memory, tolerances from the dtype, repeated calls, the time limit,
the GPU. bfloat16 belongs in no case, since Triton's interpreter adds its bits as integers.

**Function exercises.** The exercise calls the function itself and yields one `Trial` a case. `answer` does
that for functions of plain numbers; an exercise that must watch what the function does, as `time_ms` does,
yields `Sign`s with its trials.

**Mistakes.** A mistake is recognised by its signs (`shows`, tags that `kernels.lab._diagnose` lists, or the
exercise's own) or, better where it can be had, by its results: `as_if` computes what a solution with this
mistake would return, and the grader compares in every case. The exercise's mistakes are tried in order, then
the general ones of `kernels.lab._mistakes`, which know about masks, tails, strides, overlaps, overflow and
the like, so that only what is peculiar to the exercise need be declared. A hint names where to look and does
not give the solution away.

**Speed.** `speed=Speed(case, bytes)` has a right solution timed on a GPU, and shown as a share of what a copy
of as many bytes reaches. Nothing is timed in the interpreter.
"""

from kernels import lab as lab  # first: it decides how Triton runs
from kernels.lab._exercise import Case as Case
from kernels.lab._exercise import FunctionExercise as FunctionExercise
from kernels.lab._exercise import KernelExercise as KernelExercise
from kernels.lab._exercise import Mistake as Mistake
from kernels.lab._exercise import Sign as Sign
from kernels.lab._exercise import Speed as Speed
from kernels.lab._exercise import Trial as Trial
from kernels.lab._exercise import answer as answer
