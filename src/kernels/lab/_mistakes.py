"""What the grader recognises in every exercise, after the exercise's own mistakes: the most specific first.

`kernels.lab._diagnose` documents the tags.
"""

from kernels.lab._exercise import Mistake

GENERIC = (
    Mistake(
        "gpu-crashed",
        "gpu-crashed",
        "The kernel used an address that is not the program's, and the GPU stopped everything this process "
        "has on it.",
        "Restart Python (in a notebook: restart the kernel) before anything else, since every later GPU "
        "call here fails as well. "
        "Then look for a load or store without a mask.",
    ),
    Mistake(
        "gpu-busy",
        "gpu-busy",
        "The kernel is still running on the GPU: a loop whose condition never becomes false, or a wait for "
        "another program.",
        "Restart Python (in a notebook: restart the kernel), which stops it. Then check what changes in the"
        " loop's condition.",
    ),
    Mistake(
        "time-limit",
        "time-limit",
        "A loop whose condition never becomes false, or far more work than the input needs.",
        "Check what changes in the loop's condition from one turn to the next.",
    ),
    Mistake(
        "raises-on-empty",
        "raised only-empty",
        "The launcher computes something from the size that does not work for zero elements.",
        "An empty input wants an empty result, and no launch: a grid of zero programs, or an early return.",
    ),
    Mistake(
        "block-not-a-power-of-two",
        "raised:power-of-two",
        "Triton's blocks have a power of two of elements.",
        "Take `triton.next_power_of_2(n)`, and a mask for the lanes that are too many.",
    ),
    Mistake(
        "too-many-resources",
        "raised:resources",
        "The kernel wants more shared memory or registers than a multiprocessor of this GPU has.",
        "Smaller blocks or fewer stages (`num_stages`) need less.",
    ),
    Mistake(
        "reads-a-global",
        "raised:global",
        "The kernel reads a Python variable from outside, which Triton refuses, since it compiles only once.",
        "Pass it as an argument, or make it a constant of the module: `SIZE = tl.constexpr(128)`.",
    ),
    Mistake(
        "wrong-arguments",
        "raised:arguments",
        "The arguments of a call are not those that the function has.",
        "Compare the launch, `kernel[grid](...)`, with the kernel's parameters, one by one.",
    ),
    Mistake(
        "cpu-tensor",
        "raised:cpu-tensor",
        "A tensor in the CPU's memory was given to a kernel on the GPU.",
        "Allocate the output where the input is: `device=x.device`.",
    ),
    Mistake(
        "source-unreadable",
        "raised:no-source",
        "Triton compiles a kernel's source text and cannot find it here.",
        "Define the kernel in a file or a notebook cell, not through exec, python -c or a plain prompt.",
    ),
    Mistake(
        "raises",
        "raised",
        "The call ended with an error before it returned a result.",
        "The last line of the error says what Python or Triton objects to.",
    ),
    Mistake(
        "returns-no-tensor",
        "not-a-tensor",
        "The launcher returns something else than a plain tensor.",
        "Return the output tensor itself.",
    ),
    Mistake(
        "returns-no-number",
        "not-a-number",
        "The function returns something else than a number.",
        "Return the number itself.",
    ),
    Mistake(
        "wrong-device",
        "wrong-device",
        "The output was allocated on another device.",
        "`torch.empty_like(x)` allocates where x is.",
    ),
    Mistake(
        "wrong-shape",
        "wrong-shape",
        "The output was allocated with another shape than the task asks for.",
        "Compare the shape in the task with the one you allocate.",
    ),
    Mistake(
        "wrong-dtype",
        "wrong-dtype",
        "The output was allocated with another data type than the task asks for.",
        "`torch.empty_like(x)` takes x's dtype; `torch.empty(n)` takes float32.",
    ),
    Mistake(
        "delegated",
        "delegated",
        "The work was done by torch rather than by a kernel of yours.",
        "Measurement refused: allocate, launch your kernel, return its output. If torch only prepared the "
        "inputs, let the kernel do that too.",
    ),
    Mistake(
        "aliases-input",
        "aliases-input",
        "The result is an input's own memory.",
        "Allocate a new tensor for the result.",
    ),
    Mistake(
        "changes-input",
        "changes-input",
        "The kernel stores into an input.",
        "Check which pointer the store uses: the caller still needs the inputs.",
    ),
    Mistake(
        "cached-result",
        ("cached-result", "launch-skipped"),
        "The result is kept from an earlier call with the same tensors.",
        "Compute again on each call.",
    ),
    Mistake(
        "no-launch",
        "no-launch",
        "No Triton kernel ran between the call and its result.",
        "Measurement refused: launch your kernel as `kernel[grid](...)`, also when the same input came "
        "before.",
    ),
    Mistake(
        "int32-overflow",
        "int32-overflow",
        "An offset passed 2^31 and wrapped around, since Triton's integers have 32 bits unless told "
        "otherwise.",
        "Make the first factor 64 bits wide: `pid.to(tl.int64)`.",
    ),
    Mistake(
        "stride-ignored",
        "only-layout",
        "A stride is taken for what it is in a contiguous tensor.",
        "`x.stride()` says how far apart neighbours are; pass it to the kernel and multiply.",
    ),
    Mistake(
        "mask-too-wide",
        ("write-one-past-end", "read-one-past-end"),
        "The mask lets one element too many through.",
        "The last valid offset is n - 1: is the comparison `<` or `<=`?",
    ),
    Mistake(
        "reads-output-first",
        "reads-unwritten",
        "The kernel uses what the output holds before anybody wrote there; `torch.empty` promises nothing "
        "about that.",
        "Start from 0 in a variable of the kernel, and store once.",
    ),
    Mistake(
        "writes-out-of-bounds",
        ("write-past-end", "write-before-start"),
        "A store has no mask, or one that lets too much through.",
        "The last block is rarely full: the store needs `mask=offsets < n`.",
    ),
    Mistake(
        "reads-out-of-bounds",
        ("read-past-end", "read-before-start"),
        "A load has no mask, or one that lets too much through.",
        "The last block is rarely full: the load needs `mask=offsets < n` too.",
    ),
    Mistake(
        "reuses-output",
        "reuses-output",
        "Two calls returned the same memory, so the second changes the first one's result.",
        "Allocate the output in each call.",
    ),
    Mistake(
        "nondeterministic",
        "nondeterministic",
        "Programs write the same place, or one reads what another writes, in an order that nobody fixes.",
        "Every output element wants exactly one program that writes it.",
    ),
    Mistake(
        "ignores-input",
        "ignores-input",
        "An input is never used.",
        "Follow that input from the launcher's arguments to the load.",
    ),
    Mistake(
        "low-precision",
        "low-precision",
        "Something is computed in a narrower type than float32.",
        "Widen after the load, `.to(tl.float32)`, and let only the store narrow.",
    ),
    Mistake(
        "every-second",
        ("elements:every-second", "rows:every-second", "columns:every-second"),
        "Two neighbouring programs or lanes do the same work, and every second place gets none.",
        "Look for a factor 2 too many in an offset.",
    ),
    Mistake(
        "blocks-overlap",
        ("written-twice unwritten",),
        "Neighbouring programs take partly the same elements, so the last ones are left over.",
        "Program p starts at p times the block's length: the same length as the block that it loads.",
    ),
    Mistake(
        "first-block-only",
        (
            "elements:after-first-block",
            "rows:all-but-first",
            "rows:after-first-block",
            "columns:after-first-block",
        ),
        "Only the first block is computed.",
        "How many programs does the grid start, and which block does each take?",
    ),
    Mistake(
        "tail",
        ("elements:tail", "rows:tail", "columns:tail"),
        "The last, partly filled block is missing or wrong.",
        "`n // BLOCK_SIZE` drops the rest; `triton.cdiv` rounds up.",
    ),
    Mistake(
        "off-by-one",
        (
            "shifted",
            "elements:last",
            "elements:first",
            "rows:last",
            "columns:last",
            "rows:first",
            "columns:first",
        ),
        "Something starts or ends one place too early or too late.",
        "Check the comparison in the mask and the first offset for n = 1 and n = 2.",
    ),
    Mistake(
        "unwritten",
        "unwritten",
        "Part of the output is never stored to.",
        "Which program is to write the first missing element, and what does its mask say?",
    ),
    Mistake(
        "nan",
        ("nan", "infinite"),
        "An operation overflowed, or inf - inf or 0 / 0 came up.",
        "Which value does a masked-out lane have, and what does the operation make of it?",
    ),
    Mistake(
        "scaled",
        ("scaled", "rows-scaled"),
        "The result is right but for a factor.",
        "Look at the last multiplication or division.",
    ),
)
