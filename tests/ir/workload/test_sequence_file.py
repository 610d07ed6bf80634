"""Workloads of sequences: launches of kernels in given files, bound to the buffers that they share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.sequences import launches
from ktc.ir.text import print_kernel
from ktc.ir.workload import Workload

SOURCE = """
template <typename T>
__global__ void scale(T* y, const T* __restrict__ x, float s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (; n > 0 && i < n; n = 0) y[i] = x[i] * s;
}
__global__ void __launch_bounds__(128) add(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
void host(float* y, const float* x, int n) { add<<<(n + 127) / 128, 128>>>(y, x, n); }
"""

SHEET = """
[sequence]
name = "both"
source = "kernels.cu"

[[args]]
name = "x"
dtype = "f32"
shape = ["2 * n"]
role = "in"

[[args]]
name = "t"
dtype = "f32"
shape = ["n"]
role = "temp"

[[args]]
name = "out"
dtype = "f32"
shape = ["n"]
role = "inout"

[[launch]]
kernel = "scale"
template = { T = "float" }
args = { y = "t", x = "x + n", s = 3.0 }
grid = ["cdiv(n, 64)"]
block = ["64"]

[[launch]]
kernel = "add"
args = { y = "out", x = "t" }

[[scenario]]
name = "usual"
sizes = { n = 200 }
"""


def sheet(folder: Path, text: str = SHEET, source: str = SOURCE) -> Workload:
    (folder / "kernels.cu").write_text(source)
    (folder / "workload.toml").write_text(text)
    return Workload.load(folder)


def test_parameters_are_what_is_passed_for_them(tmp_path: Path) -> None:
    """Template arguments, an offset, a constant, a parameter that the kernel changes, and the source's own launch."""
    work = sheet(tmp_path)
    k = work.load_kernel()
    listing = print_kernel(k)
    assert "t[i] = x[i + n_1] * 3.0" in listing or "x[i + n] * 3.0" in listing, listing
    assert "var n" in listing
    first, second = launches(k)
    assert [s.name for s in first.restrict] == ["x"] and second.max_threads is not None
    assert 'launch "add" grid((n + 127) / 128) block(128) max_threads(128)' in listing
    x, out = np.arange(14, dtype=np.float32), np.ones(7, np.float32)
    got = run(k, {"x": x, "out": out, "n": 7}).outputs
    np.testing.assert_array_equal(got["out"], 1 + 3 * x[7:])


def test_sizes_are_scalars_of_the_sequence_and_temporaries_are_nobodys_argument(tmp_path: Path) -> None:
    work = sheet(tmp_path)
    assert [a.name for a in work.args] == ["x", "out", "n"] and [a.name for a in work.temporaries] == ["t"]
    assert work.make_inputs({"n": 7}).keys() == {"x", "out", "n"}


@pytest.mark.parametrize("value, shown", [("rows * d", "rows * d"), ("cdiv(rows * d, 2) * 2", "n")])
def test_a_scalar_made_of_sizes_is_what_it_is_made_of(tmp_path: Path, value: str, shown: str) -> None:
    """So loops over ``n`` elements are seen to be over as many as the buffers have; what may wrap stays as it is."""
    source = """__global__ void neg(const float* x, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = -x[i];
    }"""
    text = f"""
[sequence]
name = "negated"
source = "kernels.cu"

[[args]]
name = "x"
dtype = "f32"
shape = ["rows", "d"]
role = "in"

[[args]]
name = "y"
dtype = "f32"
shape = ["rows", "d"]
role = "out"

[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "{value}"

[[args]]
name = "d"
dtype = "i32"
role = "scalar"
value = "d"

[[launch]]
kernel = "neg"
grid = ["cdiv(n, 64)"]
block = ["64"]

[[scenario]]
name = "usual"
sizes = {{ rows = 3, d = 8 }}
"""
    k = sheet(tmp_path, text, source).load_kernel()
    listing = print_kernel(k)
    assert f"if i < {shown}\n" in listing and f"grid(cdiv({shown}, 64))" in listing, listing
    x = np.arange(24, dtype=np.float32)
    got = run(k, {"x": x, "y": np.zeros_like(x), "n": 24, "d": 8, "rows": 3}).outputs
    np.testing.assert_array_equal(got["y"], -x)


WRONG = {
    ('args = { y = "out", x = "t" }', 'args = { y = "out", x = "u" }'): "passed no buffer: 'u'",
    ('args = { y = "out", x = "t" }', 'args = { y = "out", z = "t" }'): "add has no parameter 'z'",
    ('args = { y = "out", x = "t" }', 'args = { y = "out", x = "t", m = 1 }'): "add has no parameter 'm'",
    ('args = { y = "out", x = "t" }', 'args = { y = "x", x = "t" }'): "add writes 'x', whose role is in",
    ('x = "x + n", s = 3.0', 'x = "x + m", s = 3.0'): "no size or parameter named 'm'",
    ('x = "x + n", s = 3.0', 'x = "x + n", s = "t"'): "which is none of the scalars",
    ('T = "float"', 'T = "double"'): "'y' of scale holds f64, 't' holds f32",
    ('grid = ["cdiv(n, 64)"]\nblock = ["64"]\n', ""): "the source shows no launch of scale",
}


@pytest.mark.parametrize("change", WRONG, ids=lambda c: c[1][:40])
def test_what_does_not_fit_is_said_with_the_launch(tmp_path: Path, change: tuple[str, str]) -> None:
    with pytest.raises(KtcError) as e:
        sheet(tmp_path, SHEET.replace(*change)).load_kernel()
    said = str(e.value)
    assert WRONG[change] in said and "launch " in said and e.value.code.startswith("E-SEQUENCE"), said
    assert e.value.loc is not None and e.value.loc.line > SHEET.splitlines().index("[[launch]]")


def test_the_file_is_checked(tmp_path: Path) -> None:
    for text, said in (
        (SHEET.replace("[[launch]]", "[[launched]]"), "unknown key 'launched'"),
        (SHEET.replace('kernel = "add"', 'kernels = "add"'), "unknown key 'kernels'"),
        (SHEET.replace('source = "kernels.cu"', ""), "needs source"),
        (SHEET.replace("[sequence]", "[kernel]"), "a kernel has no temporaries"),
    ):
        with pytest.raises(KtcError, match=said):
            sheet(tmp_path, text)


def test_a_buffer_that_no_launch_takes_is_said(tmp_path: Path) -> None:
    more = SHEET.replace(
        "[[launch]]", '[[args]]\nname = "u"\ndtype = "f32"\nshape = ["n"]\nrole = "in"\n\n[[launch]]', 1
    )
    with pytest.raises(KtcError, match="no launch is passed u"):
        sheet(tmp_path, more).load_kernel()


def test_an_array_of_pointers_is_no_buffer_of_a_sequence(tmp_path: Path) -> None:
    before, after = SOURCE.split("__global__ void __launch_bounds__")
    rows = after.replace("const float* x", "const float* const* x").replace("y[i] += x[i]", "y[i] += x[0][i]")
    work = sheet(tmp_path, source=f"{before}__global__ void __launch_bounds__{rows}")
    with pytest.raises(KtcError, match="'x' of add is an array of pointers"):
        work.load_kernel()
