"""Variables at file scope that the source initialises: their values go where the kernel goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ktc
from ktc.backends.emitter import emit
from ktc.backends.launchers.cuda_launcher import emit_launcher
from ktc.backends.runtimes import open_runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.workload import Workload
from ktc.scaffold import with_draft

SOURCE = """
__constant__ float taps[3] = {-1.0f, 0.5f, 2.0f};
__device__ int calls = 7;
__global__ void blur(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) calls += 1;
  if (i < n) out[i] = in[i] * taps[0] + in[i] * taps[1] + taps[2];
}
void go(float* out, const float* in, int n) { blur<<<(n + 63) / 64, 64>>>(out, in, n); }
"""
IN = np.arange(8, dtype=np.float32)


def given() -> dict[str, object]:
    return {"out": np.zeros(8, np.float32), "in": IN.copy(), "n": 8}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "blur.cu"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("domain", ["float", "int", "field"])
def test_the_interpreter_starts_with_them(domain: str) -> None:
    k = load(SOURCE.replace("0.5f", "3.0f"), name="blur.cu")
    got = run(k, given(), domain=domain)
    assert not got.findings
    if domain == "float":
        assert np.array_equal(got.outputs["out"], IN * 2 + 2)


def test_a_runtime_passes_them_and_keeps_what_launches_leave() -> None:
    runtime = open_runtime("numba")
    exe = runtime.compile(emit(load(SOURCE, name="blur.cu"), "numba"))
    for _ in range(2):
        args = given()
        exe.launch(args)
        assert np.array_equal(args["out"], IN * np.float32(-0.5) + 2)  # type: ignore[arg-type]
    assert exe.module.calls_initial[0] == 7, "the launches had memory of their own"


def test_texts_and_launchers_say_them() -> None:
    k = load(SOURCE, name="blur.cu")
    assert "// taps holds at first {-1.0f, 0.5f, 2.0f}." in emit(k, "opencl").text
    assert "// taps holds at first {-1.0f, 0.5f, 2.0f}." in emit_launcher(emit(k, "opencl"))
    numba = emit(k, "numba").text
    assert "taps_initial = np.array([-1.0, 0.5, 2.0], np.float32)" in numba
    assert "calls=calls_initial, taps=taps_initial):" in numba
    cupy = emit_launcher(emit(k, "cuda"), "cupy")
    assert "def launch(out, in_, n, stream=None):" in cupy, "CUDA declares them again: they are no arguments"


def test_a_drafted_workload_has_them_and_is_verified(file: Path) -> None:
    program, _ = with_draft(ktc.load(str(file), beside=False), file.parent)
    assert program.workload is not None
    spec = {a.name: a for a in program.workload.args}
    assert (spec["taps"].role, spec["taps"].values) == ("in", (-1.0, 0.5, 2.0))
    assert (spec["calls"].role, spec["calls"].values) == ("inout", (7,))
    made = program.workload.make_inputs({"n": 64})
    assert made["taps"].tolist() == [-1.0, 0.5, 2.0] and made["calls"].tolist() == [7]  # type: ignore[union-attr]
    exact = program.workload.make_inputs({"n": 64}, exact=True)
    assert exact["taps"].tolist() == [-1.0, 1.0, 2.0]  # type: ignore[union-attr]
    verdict = program.apply("raise").ok.verify(device="numba")
    assert verdict.status == "TESTED", verdict


def test_a_workload_that_is_silent_leaves_them_to_the_source(file: Path) -> None:
    with_draft(ktc.load(str(file), beside=False), file.parent)
    toml = file.parent / "workload.toml"
    text = toml.read_text()
    at = text.index('name = "taps"')
    toml.write_text(text[: text.rindex("[[args]]", 0, at)] + text[text.index("init = [-1.0, 0.5, 2.0]") + 23 :])
    program = ktc.load(str(file))
    assert "taps" not in {a.name for a in program.workload.args}  # type: ignore[union-attr]
    assert program.apply("raise").ok.verify(device="numba").status == "TESTED"


def test_values_of_another_number_are_refused(file: Path) -> None:
    with_draft(ktc.load(str(file), beside=False), file.parent)
    toml = file.parent / "workload.toml"
    toml.write_text(toml.read_text().replace("init = [-1.0, 0.5, 2.0]", "init = [-1.0, 0.5]"))
    with pytest.raises(KtcError) as e:
        Workload.load(toml).make_inputs({"n": 64})
    assert e.value.code == "E-WORKLOAD-SHAPE"
    toml.write_text(toml.read_text().replace("init = [-1.0, 0.5]", "init = [[1.0]]"))
    with pytest.raises(KtcError) as e:
        Workload.load(toml)
    assert e.value.code == "E-WORKLOAD-SCHEMA"


def test_values_may_be_formulas_of_sizes(file: Path) -> None:
    with_draft(ktc.load(str(file), beside=False), file.parent)
    toml = file.parent / "workload.toml"
    drafted = toml.read_text()
    toml.write_text(drafted.replace("init = [-1.0, 0.5, 2.0]", 'init = [3, "n - 1", "2 * n if n > 8 else n"]'))
    w = Workload.load(toml)
    assert w.make_inputs({"n": 64})["taps"].tolist() == [3, 63, 128]
    assert w.make_inputs({"n": 8})["taps"].tolist() == [3, 7, 8]
    toml.write_text(drafted.replace("init = [-1.0, 0.5, 2.0]", 'init = [3, "n - 1", "2 * m"]'))
    with pytest.raises(KtcError, match="'m'") as e:
        Workload.load(toml)
    assert (
        e.value.loc is not None and toml.read_text().splitlines()[e.value.loc.line - 1][e.value.loc.col - 1 :][0] == "m"
    )
