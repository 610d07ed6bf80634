"""Launchers: geometry, the guard, the fall-back, and that each is accepted by its language."""

from __future__ import annotations

import ast
import dataclasses
import shutil

import pytest

from ktc.backends import check_compile, emit, emit_launcher
from ktc.backends.launchers.cuda_launcher import python_text
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import binary, cdiv
from ktc.ir.kernel import Assume
from ktc.ir.nodes import Binary, Call, Knob, Select, Var, fresh, i32
from ktc.ir.types import I32
from tests.backends.emit_samples import saxpy, silu_vec

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


def guarded():
    k = silu_vec()
    d = Var(k.param("d").sym)
    return k.with_(assumptions=(Assume(binary("==", binary("%", d, Knob("V")), i32(0)), "guessed"),))


def test_the_guard_binds_knobs_and_checks_alignment_and_falls_back():
    original = dataclasses.replace(emit(saxpy(), "cuda"), entry="silu_naive")
    original = dataclasses.replace(emit(silu_vec().with_(name="silu_naive"), "cuda"))
    text = emit_launcher(emit(guarded(), "cuda"), "cuda", original)
    assert "const bool applies = d % 8 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0" in text
    assert "silu_naive<<<grid, block, 0, stream>>>(out, in, d);" in text
    assert "const dim3 grid(num_tokens);\n  const dim3 block(128);\n  silu_and_mul_kernel<<<" in text
    assert text.index("silu_naive<<<") < text.index("silu_and_mul_kernel<<<")


def test_without_an_original_the_caller_is_told():
    assert "return cudaErrorInvalidValue;" in emit_launcher(emit(guarded(), "cuda"))
    assert "applies" not in emit_launcher(emit(saxpy(), "cuda"))
    assert "const dim3 grid((n + 255) / 256);" in emit_launcher(emit(saxpy(), "cuda"))


@needs_nvcc
def test_the_cuda_launcher_compiles_with_its_kernels():
    code, original = emit(guarded(), "cuda"), emit(saxpy(), "cuda")
    scalar = dataclasses.replace(original, kernel=original.kernel)
    text = scalar.text + code.text + emit_launcher(code, "cuda") + emit_launcher(scalar, "cuda")
    check_compile(dataclasses.replace(code, text=text))


def test_the_cupy_launcher_is_python():
    original = emit(silu_vec().with_(name="silu_naive"), "cuda")
    text = emit_launcher(emit(guarded(), "cuda"), "cupy", original)
    tree = ast.parse(text)
    launch = next(n for n in tree.body if isinstance(n, ast.FunctionDef))
    assert [a.arg for a in launch.args.args] == ["out", "in_", "d", "num_tokens", "stream"]
    assert "if not (d % 8 == 0 and out.data.ptr % 16 == 0 and in_.data.ptr % 16 == 0):" in text
    assert '_ORIGINAL.get_function("silu_naive")' in text


def test_opencl_and_hip_and_torch_launchers():
    text = emit_launcher(emit(guarded(), "opencl"))
    assert "clSetKernelArg(kernel, 2, sizeof(d), &d);" in text and "if (!(d % 8 == 0)) {" in text
    assert "const size_t global[3] = {num_tokens * 128, 1, 1};" in text
    assert "hipError_t launch_silu_and_mul_kernel(" in emit_launcher(emit(guarded(), "hip"))
    text = emit_launcher(emit(guarded(), "cuda"), "torch")
    assert "silu_and_mul_kernel(Tensor(a!) out, Tensor in, int d, int num_tokens) -> ()" in text
    assert "at::kHalf" in text


def test_python_expressions_evaluate_as_c_does():
    n, m = fresh("n", I32), fresh("m", I32)
    for e, want in [
        (cdiv(Var(n), i32(8)), 13), (binary("/", Var(n), Var(m)), 14),
        (binary("*", binary("+", Var(n), i32(1)), Var(m)), 707),
        (Call("min", (Var(n), i32(64)), I32), 64), (Select(Binary(">", Var(n), Var(m)), Var(n), Var(m)), 100),
    ]:  # fmt: skip
        compiled = compile(ast.parse(python_text(e), mode="eval"), "e", "eval")
        assert eval(compiled, {"n": 100, "m": 7}) == want


def test_errors():
    with pytest.raises(KtcError) as e:
        emit_launcher(emit(saxpy(), "cuda"), "fortran")
    assert e.value.exit_code == 2
    no_launch = emit(saxpy().with_(launch=None), "cuda")
    with pytest.raises(KtcError) as e:
        emit_launcher(no_launch)
    assert e.value.code == "E-LAUNCH-UNKNOWN"
    with pytest.raises(KtcError):
        emit_launcher(emit(saxpy(), "opencl"), "cupy")
