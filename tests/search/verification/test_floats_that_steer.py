"""An original whose indices, branches or loops come of floats is judged by runs in floats, not in their stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.scaffold import with_draft
from ktc.search.verification import check_original, defects

SOURCE = """
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float table[9];
  for (int j = 0; j < 9; ++j) table[j] = j * j;
  if (i >= n) return;
  BODY
}
void go(const float* x, float* y, int n) { k<<<(n + 127) / 128, 128>>>(x, y, n); }
"""
WORKLOAD = """
[kernel]
source = "k.cu"
name = "k"
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["n"]
init = "uniform"
range = [0, 1]
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["n"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "small"
sizes = { n = 300 }
"""


def _loaded(folder: Path, body: str) -> tuple[ktc.Program, Workload]:
    (folder / "k.cu").write_text(SOURCE.replace("BODY", body))
    (folder / "workload.toml").write_text(WORKLOAD)
    program = ktc.load(folder)
    assert program.workload is not None
    return program, program.workload


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = table[(int)(8.0f * sqrtf(x[i]))];",
        "float a = atan2f(x[i], 1.0f) / 1.5708f; int k = (int)(a * 8); y[i] = table[k] + table[(k + 1) % 9];",
        "float s = x[i]; for (int j = 1; j <= log2f(16.0f); ++j) s += s; y[i] = s;",
        "float s = 1.0f; while (s > 0.001f) s = s * 0.5f; y[i] = s;",
    ],
    ids=["table", "angle", "logarithm", "convergence"],
)
def test_what_floats_choose_is_no_defect(tmp_path: Path, body: str) -> None:
    program, work = _loaded(tmp_path, body)
    assert check_original(program.kernel, work) == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("y[i] = table[(int)(10.0f * x[i]) + 1];", "out-of-bounds"),
        ("float s = 1.0f; while (s > 0.0f) s = s + x[i] * x[i]; y[i] = s;", "fuel"),
        ("y[(int)(x[i] * 0.5f)] = x[i];", "race"),
    ],
    ids=["beyond-the-table", "endless", "one-place"],
)
def test_what_is_wrong_in_floats_still_is(tmp_path: Path, body: str, kind: str) -> None:
    program, work = _loaded(tmp_path, body)
    assert kind in {d.finding.kind for d in defects(program.kernel, work)}
    said = {
        "out-of-bounds": "the original kernel is defective",
        "fuel": "the original kernel is not checked: did not end within",
    }
    if kind in said:
        with pytest.raises(KtcError, match=said[kind]) as refused:
            check_original(program.kernel, work)
        assert refused.value.code == ("E-ORIGINAL-BUDGET" if kind == "fuel" else "E-ORIGINAL-DEFECT")


def test_places_that_come_as_floats_stay_places_in_exact_arithmetic(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("""
__global__ void rows_of(const float* which, const float* table, float* y, int rows, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * width) return;
  int r = i / width, c = i % width;
  y[i] = table[static_cast<int>(which[r]) * width + c];
}
void go(const float* which, const float* table, float* y, int rows, int width) {
  rows_of<<<(rows * width + 127) / 128, 128>>>(which, table, y, rows, width);
}
""")
    program, _ = with_draft(ktc.load(str(tmp_path / "k.cu"), beside=False), tmp_path)
    spec = program.workload.arg("which")  # type: ignore[union-attr]
    assert spec.init == "index" and spec.dtype == "f32"
    moved = program.apply("raise | delinearise{loop=i loops=3} | distribute{loop=c map=[vec 4, thread.x 64, seq]}").ok
    verdict = moved.verify(device="none")
    assert verdict.ok, verdict
