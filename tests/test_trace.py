"""The trace: stages linked to Python, facts read from them, excerpts, and the places where kernels are defined."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import trace_kernels as kernels
import triton.language as tl

from kernels.lab import _stages
from kernels.lab.trace import Trace, TraceError, trace

ADD = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
DOT = {"a_ptr": "*fp16", "b_ptr": "*fp16", "out_ptr": "*fp32", "K": "i32", "BLOCK": 64}
NVIDIA = ["ttir", "ttgir", "llir", "ptx", "sass"]


@pytest.fixture(scope="module")
def add() -> Trace:
    return trace(kernels.add_kernel, **ADD, BLOCK_SIZE=1024, target="sm_90")


@pytest.fixture(scope="module")
def softmax() -> Trace:
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n_columns": "i32", "row_stride": "i32"}
    return trace(kernels.softmax_kernel, **types, BLOCK_SIZE=1024, target="sm_90")


@pytest.fixture(scope="module")
def dot() -> Trace:
    return trace(kernels.dot_kernel, **DOT, target="sm_90")


# --- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", NVIDIA)
def test_every_stage_says_what_became_of_a_load(add: Trace, stage: str):
    cut = add.excerpt(stage, of="x = tl.load(x_ptr", kind="load")
    assert [statement.text for statement in cut.python] == ["x = tl.load(x_ptr + offsets, mask=mask)"]
    assert cut.text


@pytest.mark.parametrize("stage", NVIDIA)
def test_two_loads_are_told_apart(add: Trace, stage: str):
    x, y = (add.excerpt(stage, of=f"tl.load({name}_ptr", kind="load") for name in "xy")
    assert x.text != y.text


def test_a_statement_over_several_lines_is_one(add: Trace):
    cut = add.excerpt("ptx", of="tl.load(y_ptr+offsets", kind="load")
    assert cut.python[0].text == "y = tl.load(y_ptr + offsets, mask=mask)"
    assert len(cut.python[0].numbers) == 4


@pytest.mark.parametrize("stage", ["ttir", "llir", "ptx", "sass"])
def test_a_helper_and_its_call_are_both_origins(softmax: Trace, stage: str):
    start = {s.text: s.numbers.start for s in softmax.statements()}
    helper, call = start["return tl.exp(x - top)"], start["weights = shifted_exp(x)"]
    assert any(line.origins == (helper, call) for line in softmax.stage(stage).lines)


@pytest.mark.parametrize("stage", NVIDIA)
def test_what_tritons_own_functions_became_belongs_to_their_call(softmax: Trace, stage: str):
    assert softmax.excerpt(stage, of="tl.sum(weights").text


def test_an_unknown_statement_is_answered_with_those_there_are(add: Trace):
    with pytest.raises(TraceError, match=r"no statement of add_kernel contains 'tl\.load\(z_ptr'") as caught:
        add.excerpt("ptx", of="tl.load(z_ptr")
    assert "x = tl.load(x_ptr + offsets, mask=mask)" in str(caught.value)


def test_a_kind_that_is_not_there_is_answered_with_those_that_are(add: Trace):
    with pytest.raises(TraceError, match="no tensor-core instructions from: add_kernel") as caught:
        add.excerpt("ptx", kind="tensor")
    assert "4 loads from global memory" in str(caught.value)


def test_unknown_stages_and_kinds_are_named(add: Trace):
    with pytest.raises(TraceError, match="no stage 'amdgcn'; it has ttir, ttgir, llir, ptx, sass"):
        add.excerpt("amdgcn", kind="load")
    with pytest.raises(TraceError, match="no kind 'lode' of line; there are load, store"):
        add.excerpt("ptx", kind="lode")


def test_no_path_of_this_machine_gets_into_a_trace(softmax: Trace):
    text = "".join(line.text for stage in softmax.stages.values() for line in stage.lines)
    assert str(Path(__file__).parent) not in text + softmax._repr_html_()


# --- facts -----------------------------------------------------------------------------------------------------------


def test_blocks_move_128_bits_an_instruction_and_single_elements_32(add: Trace):
    one = trace(kernels.add_one_element_kernel, **ADD, target="sm_90")
    assert (add.widths("load"), add.widths("store")) == ((128,), (128,))
    assert (one.widths("load"), one.widths("store")) == ((32,), (32,))


@pytest.mark.parametrize(
    ("given", "bits"),
    [({"n": 1000}, 32), ({"n": 1024}, 128), ({"n": "i32", "unaligned": ["n"]}, 32), ({"n": "i64"}, 128)],
)
def test_alignment_is_that_of_a_launch(given: dict, bits: int):
    traced = trace(kernels.add_kernel, **{**ADD, **given}, BLOCK_SIZE=1024, target="sm_90")
    assert traced.widths("load") == (bits,)


def test_tensors_give_their_type_and_alignment():
    x = torch.zeros(1025, dtype=torch.float16)
    whole = trace(kernels.add_kernel, x[:1024], x[:1024], x[:1024], 1024, BLOCK_SIZE=1024, target="sm_90")
    shifted = trace(kernels.add_kernel, x[1:], x[1:], x[1:], 1024, BLOCK_SIZE=1024, target="sm_90")
    assert (whole.widths("load"), shifted.widths("load")) == ((128,), (16,))


def test_a_size_of_one_is_a_constant_as_in_a_launch():
    traced = trace(kernels.add_kernel, **{**ADD, "n": 1}, BLOCK_SIZE=1024, target="sm_90")
    assert "%n" not in traced.stage("ttir").text


def test_accesses_name_their_statement(add: Trace):
    stores = add.accesses("store")
    assert [(a.bits, a.count, a.python) for a in stores] == [
        (128, 2, "tl.store(out_ptr + offsets, x + y, mask=mask)")
    ]


def test_resources_are_read_from_the_binary(softmax: Trace, dot: Trace):
    assert 8 <= softmax.registers <= 64
    assert softmax.spills == 0
    assert softmax.shared > 0
    assert softmax.threads == 128
    assert dot.shared >= 2 * 2 * 64 * 64 * 2  # at least two stages of two tiles of float16


def test_registers_that_do_not_suffice_spill():
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n_columns": "i32", "row_stride": "i32"}
    tight = trace(kernels.softmax_kernel, **types, BLOCK_SIZE=8192, maxnreg=32, target="sm_90")
    assert tight.registers <= 32
    assert tight.spills > 0
    assert tight.settings["maxnreg"] == 32


@pytest.mark.parametrize(
    ("target", "ptx", "sass"),
    [
        ("sm_80", "mma.sync", "HMMA"),
        ("sm_90", "wgmma.mma_async", "HGMMA"),
        ("sm_100", "tcgen05.mma", "UTCHMMA"),
    ],
)
def test_tensor_cores_and_asynchronous_copies_are_found(target: str, ptx: str, sass: str):
    traced = trace(kernels.dot_kernel, **DOT, target=target)
    assert all(name.startswith(ptx) for name in traced.instructions("tensor"))
    assert any(name.startswith(sass) for name in traced.instructions("tensor", "sass"))
    assert traced.widths("copy") == (128,)
    assert traced.excerpt("ptx", of="tl.load(a_ptr", kind="copy").text.startswith("    cp.async")


def test_tiles_moved_by_the_copy_engine_are_found():
    types = {"a_ptr": "*fp16", "b_ptr": "*fp16", "out_ptr": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    traced = trace(kernels.tile_dot_kernel, **types, BLOCK=64, target="sm_90")
    copies = traced.accesses("copy")
    assert copies
    assert all(a.instruction.startswith("cp.async.bulk.tensor") and a.bits is None for a in copies)
    assert "UTMALDG" in traced.excerpt("sass", kind="copy").text


@pytest.mark.parametrize(
    ("text", "kind", "bits"),
    [
        ("@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", "load", 128),
        ("ld.global.L1::evict_last.v2.b16 {%rs1, %rs2}, [%rd1];", "load", 32),
        ("@%p3 st.global.b8 [ %rd1 + 0 ], { %rs1 };", "store", 8),
        ("cp.async.cg.shared.global [ %r25 + 0 ], [ %rd8 + 0 ], 0x10, %r26;", "copy", 128),
        ("cp.async.commit_group;", "", None),
        ("@!P0 LDG.E.128 R16, desc[UR4][R2.64];", "load", 128),
        ("LDG.E R16, desc[UR4][R2.64];", "load", 32),
        ("LDG.E.U16 R16, desc[UR4][R2.64];", "load", 16),
        ("LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64];", "copy", 128),
        ("global_load_dwordx4 v[0:3], v[0:1], off", "load", 128),
        ("buffer_store_short v2, v3, s[0:3], 0 offen", "store", 16),
        ("global_load_b128 v[0:3], v[0:1], off", "load", 128),
        ("HMMA.16816.F32 R4, R8, R12, R4;", "tensor", None),
        ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "tensor", None),
        ("fma.rn.f32 %r1, %r2, %r3, %r4;", "math", None),
        ("ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];", "shared", None),
        ("ld.param.b64 %rd7, [add_kernel_param_0];", "", None),
        ("atom.global.gpu.acq_rel.add.u32 %r1, [%rd1], 1;", "atomic", None),
        ("bar.sync 0;", "barrier", None),
    ],
)
def test_instructions_are_known_by_what_they_do(text: str, kind: str, bits: int | None):
    assert _stages.kind_of(text) == kind
    assert _stages.width(text) == bits


# --- targets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_any_nvidia_target_compiles_without_its_gpu(target: str):
    traced = trace(kernels.add_kernel, **ADD, BLOCK_SIZE=1024, target=target)
    assert list(traced.stages) == NVIDIA
    assert f".target {target}" in traced.stage("ptx").text
    assert traced.excerpt("sass", of="tl.store(out_ptr", kind="store").text


@pytest.mark.parametrize(("target", "threads"), [("gfx942", 256), ("gfx1100", 128)])
def test_amd_targets_compile_to_their_own_assembly(target: str, threads: int):
    traced = trace(kernels.add_kernel, **ADD, BLOCK_SIZE=1024, target=target)
    assert list(traced.stages) == ["ttir", "ttgir", "llir", "amdgcn"]
    assert traced.threads == threads
    assert traced.widths("load") == (128,)
    assert traced.excerpt("amdgcn", of="tl.load(x_ptr", kind="load").text
    assert traced.registers > 0


def test_a_stage_that_cannot_be_made_is_explained():
    # Some versions of Triton compile for a GPU that their disassembler does not know.
    traced = trace(kernels.add_kernel, **ADD, BLOCK_SIZE=1024, target="sm_121")
    assert "sass" in traced.stages or any(
        "no SASS" in note and "disassembler" in note for note in traced.notes
    )


def test_the_target_and_the_compiler_are_named(add: Trace):
    import triton

    assert f"Compiled for sm_90 by Triton {triton.__version__}" in str(add)
    assert f"for sm_90, compiled by Triton {triton.__version__}" in str(add.excerpt("ptx", kind="load"))


def test_a_compiler_that_is_not_the_one_measured_with_is_told(add: Trace):
    other = dataclasses.replace(add, measured_with="1.2.3")
    same = dataclasses.replace(add, measured_with=add.triton)
    assert "(measurements: Triton 1.2.3)" in other._repr_html_()
    assert "(measurements: Triton 1.2.3)" in str(other.excerpt("ptx", kind="load"))
    assert "measurements" not in str(same)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "sm_42"}, "'sm_42' is unknown: give an NVIDIA architecture from 'sm_75' on"),
        ({"target": "H200"}, "'H200' is unknown"),
        ({"BLOCK_SIZE": None, "n": "int"}, "n='int' is no type that Triton knows"),
        ({"n": [1]}, "n is a list: give the name of its type"),
        ({"unaligned": ["m"]}, "unaligned names 'm', which is no argument; there are x_ptr"),
        ({"num_wraps": 8}, "'num_wraps' is neither an argument of the kernel"),
    ],
)
def test_a_wrong_argument_is_named_with_a_remedy(given: dict, message: str):
    with pytest.raises(TraceError, match=message):
        trace(kernels.add_kernel, **{**ADD, "BLOCK_SIZE": 1024, **given})


def test_a_missing_argument_is_named():
    with pytest.raises(
        TraceError, match="add_kernel needs n, BLOCK_SIZE: give a compile-time constant its value"
    ):
        trace(kernels.add_kernel, "*fp32", "*fp32", "*fp32")


def test_a_launcher_is_no_kernel():
    with pytest.raises(TraceError, match=r"launcher is a Python function, not a Triton kernel.*@triton\.jit"):
        trace(launcher)


def launcher() -> None:
    """Stand for a function that launches a kernel."""


def test_a_kernel_that_triton_refuses_says_why_and_where():
    with pytest.raises(TraceError) as caught:
        trace(kernels.wrong_kernel, x_ptr="*fp32", BLOCK_SIZE=8, target="sm_90")
    lines = str(caught.value).splitlines()
    assert lines[0] == "wrong_kernel does not compile for sm_90: arange's range must be a power of 2"
    assert lines[2].strip() == "offsets = tl.arange(0, 3 * BLOCK_SIZE)"
    assert "Traceback" not in str(caught.value)


def test_an_architecture_that_the_assembler_does_not_know_is_reported_without_its_listing():
    with pytest.raises(TraceError, match="does not compile for sm_199") as caught:
        trace(kernels.add_kernel, **ADD, BLOCK_SIZE=1024, target="sm_199")
    assert len(str(caught.value)) < 500


# --- where kernels are defined ---------------------------------------------------------------------------------------

SCRIPT = """
from kernels import lab
from kernels.lab.trace import trace

import triton
import triton.language as tl

SCALE = tl.constexpr(3.0)


@triton.jit
def scaled(x):
    return SCALE * x


@triton.jit
def scale_kernel(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    i = tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + i, scaled(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


traced = trace(scale_kernel, x_ptr="*fp32", n="i32", BLOCK_SIZE=512, target="sm_90")
"""


def executed(path: Path) -> Trace:
    """Return the trace of a script that is run as sphinx-gallery runs one: as `__main__`, and with no `__file__`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)  # noqa: S102
    return namespace["traced"]


def test_a_kernel_in_a_script_that_is_executed_without_a_file(tmp_path: Path):
    path = tmp_path / "chapter with spaces.py"
    path.write_text(SCRIPT, encoding="utf-8")
    traced = executed(path)
    assert traced.excerpt("ptx", of="SCALE * x", kind="math").text.count("0f40400000") == 4
    assert [function.name for function in traced.functions] == ["scale_kernel", "scaled"]


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_interpreting_and_compiling_processes_get_the_same(tmp_path: Path, interpret: str):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + '\nprint(traced.stage("ptx").text)', encoding="utf-8")
    here = executed(path)
    env = {**os.environ, "TRITON_INTERPRET": interpret, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here.stage("ptx").text.strip()


def test_a_kernel_in_a_notebook_cell_shows_itself_with_its_own_style_and_script():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(text) for text in (*SCRIPT.rsplit("\n\n\n", 1), "traced")]
    book = nbformat.v4.new_notebook(cells=cells)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(argv=command, language="python", display_name="here")
    nbclient.NotebookClient(book, km=manager, timeout=120).execute(env=env)
    html = book.cells[-1].outputs[0]["data"]["text/html"]
    assert "<style>" in html
    assert "<script>" in html
    assert "ld.global" in html


def test_functions_types_and_defaults_are_constants_too():
    traced = trace(kernels.map_kernel, "*fp32", FUNCTION=kernels.fast_exp, TYPE=tl.float32, target="sm_90")
    assert traced.title == "map_kernel for sm_90 (FUNCTION=fast_exp, TYPE=fp32, BLOCK_SIZE=512, num_warps=4)"
    assert "ex2.approx" in traced.excerpt("ptx", of="libdevice.fast_expf(x)").text


def test_a_kernel_in_a_function_keeps_the_constants_around_it():
    four, five = (trace(kernels.scale_kernel_by(factor), "*fp32", target="sm_90") for factor in (4.0, 5.0))
    assert "0f40800000" in four.excerpt("ptx", of="constant *", kind="math").text
    assert "0f40A00000" in five.excerpt("ptx", of="constant *", kind="math").text


def test_a_kernel_without_source_is_refused():
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    return x", namespace)  # noqa: S102
    from triton.runtime.interpreter import InterpretedFunction

    with pytest.raises(TraceError, match="the source of 'f' cannot be read"):
        trace(InterpretedFunction(namespace["f"]), x=1)


def test_the_same_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    run, calls = subprocess.run, []
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: (calls.append(a), run(*a, **k))[1])
    for _ in range(2):
        trace(kernels.add_kernel, **ADD, BLOCK_SIZE=256, target="sm_90")
    assert len(calls) == 1


# --- how it looks ----------------------------------------------------------------------------------------------------


def test_the_stages_are_there_to_read_without_javascript(add: Trace):
    html = add._repr_html_()
    assert re.findall(r'<details class="lab-trace-stage" data-stage="(\w+)"', html) == NVIDIA
    assert re.findall(r'data-stage="(\w+)" open', html) == ["ptx"]
    text = re.sub(r"<[^>]+>", "", html)
    assert "ld.global.v4.b32 { %r1, %r2, %r3, %r4 }" in text


def test_nothing_is_coloured_as_an_error(softmax: Trace):
    html = softmax._repr_html_()
    assert 'class="err"' not in html
    assert 'class="nd">@%p1' in html


def test_long_stages_are_folded_and_keep_what_matters():
    traced = trace(kernels.dot_kernel, **DOT, target="sm_75")
    assert len(traced.stage("llir").lines) > 1000
    html = traced._repr_html_()
    assert len(html) < 400_000
    assert "more such lines" in html
    assert re.sub(r"<[^>]+>", "", html).count("st.global.v4.b32") >= 8


def test_a_terminal_gets_the_facts_and_what_each_statement_moved(add: Trace):
    lines = str(add).splitlines()
    assert any(re.fullmatch(r"  global loads +4 × 128 bit", line) for line in lines)
    store = next(i for i, line in enumerate(lines) if "tl.store(" in line)
    assert "store 128 bit" in lines[store + 1]


def test_two_traces_side_by_side_show_their_facts_and_lines(add: Trace):
    one = trace(kernels.add_one_element_kernel, **ADD, target="sm_90")
    compared = one.compare(add)
    assert ("global loads", "2 × 32 bit", "4 × 128 bit") in compared.table().rows
    assert [cut.stage.name for cut in compared.excerpts] == ["ptx", "ptx"]
    assert compared._repr_html_().count('class="lab lab-excerpt"') == 2
    assert "ld.global.v4.b32" in str(compared)


def test_two_traces_of_one_kernel_are_told_apart_by_what_differs(add: Trace):
    other = trace(kernels.add_kernel, **ADD, BLOCK_SIZE=1024, num_warps=8, target="sm_80")
    assert add.compare(other).names() == ("add_kernel, sm_90, num_warps=4", "add_kernel, sm_80, num_warps=8")
    assert "asynchronous copies" not in str(add.compare(other).table())


def test_an_excerpt_on_a_page_counts_as_one(add: Trace):
    assert 'class="lab lab-excerpt"' in add.excerpt("ptx", kind="load")._repr_html_()
