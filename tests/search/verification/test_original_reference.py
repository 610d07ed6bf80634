"""The workload's reference judges the source, before any candidate is looked at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import ktc
from ktc.agent.optimize import optimize
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import Finding
from ktc.ir.workload import Workload
from ktc.search.verification import check_original, check_reference, verify
from ktc.search.verification.defects import Defect
from ktc.search.verification.verdict import Failure
from tests.paths import KERNELS

TREE = """
__global__ void dbias(float* db, const float* dy, int rows, int cols) {
  __shared__ float part[THREADS];
  int t = threadIdx.x;
  float acc = 0.0f;
  for (int r = t; r < rows; r += blockDim.x) acc += dy[r * cols + blockIdx.x];
  part[t] = acc;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) db[blockIdx.x] = part[0];
}
void go(float* db, const float* dy, int rows, int cols) { dbias<<<cols, THREADS>>>(db, dy, rows, cols); }
"""
WORKLOAD = """
[kernel]
source = "k.cu"
name = "dbias"
[[args]]
name = "db"
dtype = "f32"
role = "out"
shape = ["cols"]
[[args]]
name = "dy"
dtype = "f32"
role = "in"
shape = ["rows", "cols"]
[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"
[[args]]
name = "cols"
dtype = "i32"
role = "scalar"
value = "cols"
[[scenario]]
name = "small"
sizes = { rows = 80, cols = 5 }
[reference]
db = "FORMULA"
"""


def written(folder: Path, threads: int, formula: str) -> Path:
    (folder / "k.cu").write_text(TREE.replace("THREADS", str(threads)))
    (folder / "workload.toml").write_text(WORKLOAD.replace("FORMULA", formula))
    return folder


def test_a_source_that_computes_what_is_asked_passes(tmp_path: Path) -> None:
    work = Workload.load(written(tmp_path, 64, "sum(dy, axis=0)"))
    check_reference(work.load_kernel(), work)


@pytest.mark.parametrize(
    ("threads", "formula"),
    [(64, "sum(dy, axis=0) * 2"), (64, "sum(dy, axis=0) + 0.00001"), (64, "sum(dy, axis=0) / 0"),
     (48, "sum(dy, axis=0)")],  # a tree of 48 threads leaves some out
)  # fmt: skip
def test_one_that_does_not_is_told_before_any_candidate(tmp_path: Path, threads: int, formula: str) -> None:
    program = ktc.load(str(written(tmp_path, threads, formula)))
    work = program.workload
    assert work is not None
    for asked in (
        lambda: check_original(program.kernel, work),
        lambda: program.verify(device="none"),
        lambda: program.apply("licm").verify(device="none"),
        lambda: optimize(work, budget=1, out_dir=tmp_path / "out"),
    ):
        with pytest.raises(KtcError) as e:
            asked()
        assert e.value.code == "E-ORIGINAL" and "db[" in e.value.message and "tolerance" in e.value.message
        assert "rows=" in e.value.message and formula in e.value.hint and e.value.loc is not None


def test_the_ladder_rejects_it_by_the_original(tmp_path: Path) -> None:
    program = ktc.load(str(written(tmp_path, 64, "2 * sum(dy, axis=0)"))).apply("raise")
    assert program.workload is not None and program.original is not None
    verdict = verify(program.original, program.lowered(), program.workload)
    assert (verdict.status, verdict.layer) == ("REJECTED", "original")
    assert verdict.failure is not None and verdict.failure.buffer == "db" and verdict.failure.index == (0,)


def test_an_integer_that_a_rounding_decides_is_no_mistake(tmp_path: Path) -> None:
    source = """
__global__ void cut(int* q, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) q[i] = (int)(x[i] * 3.0f / 3.0f * 100.0f);
}
void run(int* q, const float* x, int n) { cut<<<(n + 63) / 64, 64>>>(q, x, n); }
"""
    (tmp_path / "k.cu").write_text(source)
    text = WORKLOAD.replace('"dbias"', '"cut"').replace('"db"', '"q"').replace('"f32"', '"i32"', 1)
    text = text.replace('"dy"', '"x"\ninit = "ints"').replace('"rows", "cols"', '"cols"').replace('["cols"]', '["n"]')
    text = text[: text.index('[[args]]\nname = "rows"')] + '[[args]]\nname = "n"\ndtype = "i32"\nrole = "scalar"\n'
    text += 'value = "n"\n[[scenario]]\nname = "s"\nsizes = { n = 500 }\n[reference]\nq = "int(x * 3 / 3 * 100)"\n'
    (tmp_path / "workload.toml").write_text(text)
    work = Workload.load(tmp_path)
    check_reference(work.load_kernel(), work)


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*/*/workload.toml")), ids=lambda p: p.parent.name)
def test_every_kernel_of_the_library_is_what_its_reference_says(path: Path) -> None:
    work = Workload.load(path)
    check_reference(work.load_kernel(), work)


@pytest.mark.parametrize(("certain", "code"), [(True, "E-ORIGINAL-DEFECT"), (False, "E-ORIGINAL-BUDGET")])
def test_a_kernel_that_is_too_long_for_the_interpreter_has_no_defect(monkeypatch, certain: bool, code: str) -> None:
    long = Finding("fuel", "did not end within 300000 statements", certain=certain)
    found = [Defect(long, Failure(long.kind, long.message, {"n": 71}))]
    monkeypatch.setattr(sys.modules[Defect.__module__], "defects", lambda *_: found)
    with pytest.raises(KtcError) as e:
        check_original(ktc.load("saxpy").kernel, Workload.load(KERNELS / "dense/saxpy"))
    assert e.value.code == code and ("defective" in e.value.message) == certain
