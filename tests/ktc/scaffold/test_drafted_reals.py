"""Floating-point parameters that the host makes of sizes: a mean's factor, the scales of a resized image."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import Draft, draft
from ktc.scaffold.scales.real_values import settled
from ktc.search.verification.rungs.scalar_values import other_numbers

MEANS = """
__global__ void means(const float* x, float* y, int rows, int n, float inv, float scale) {
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[blockIdx.x * n + i];
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x == 0) y[blockIdx.x] = s * inv * scale;
}
void run(const float* x, float* y, int rows, int n, int heads) {
  const float scale = 1.0f / sqrtf((float)n / heads);
  means<<<rows, 32>>>(x, y, rows, n, 1.0f / n, scale);
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def test_formulas_of_what_a_launch_makes_of_sizes() -> None:
    d = drafted(MEANS)
    assert d.roles.reals == {"inv": "1.0 / n", "scale": "1.0 / sqrt(n / heads)"}
    assert {*d.names} == {"rows", "n", "heads"}
    assert all(s["heads"] <= s["n"] for _, s, _ in d.scenarios)


RESIZE = """
__global__ void nearest(const float* x, float* y, int oh, int ow, int ih, int iw, float sh, float sw) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= oh * ow) return;
  int a = min((int)((i / ow) * sh), ih - 1), b = min((int)((i % ow) * sw), iw - 1);
  y[i] = x[a * iw + b];
}
static void launched(const float* x, float* y, int oh, int ow, int ih, int iw, float sh, float sw) {
  nearest<<<(oh * ow + 255) / 256, 256>>>(x, y, oh, ow, ih, iw, sh, sw);
}
void resize(const float* x, float* y, int oh, int ow, int ih, int iw, bool corners) {
  float sh = (float)ih / oh, sw = (float)iw / ow;
  if (corners) { sh = (float)(ih - 1) / (oh - 1); sw = (float)(iw - 1) / (ow - 1); }
  launched(x, y, oh, ow, ih, iw, sh, sw);
}
"""


def test_scales_come_from_callers_and_images_become_larger() -> None:
    d = drafted(RESIZE)
    assert d.roles.reals == {"sh": "ih / oh", "sw": "iw / ow"}
    x = d.shapes["x"]
    assert x is not None and x.shape == ("ih", "iw")
    tuned = [s for _, s, more in d.scenarios if not more]
    assert tuned and all(s["oh"] == 2 * s["ih"] and s["ow"] == 2 * s["iw"] for s in tuned)


WHOLE = """
__global__ void share(const float* x, float* y, float n, float parts) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / parts;
}
void run(const float* x, float* y, int total, int parts) {
  share<<<(total + 255) / 256, 256>>>(x, y, total, (float)parts);
}
"""


def test_integers_that_are_passed_as_real_numbers_stay_integers_of_the_host() -> None:
    k = ktc.loads(WHOLE).kernel
    assert {p.sym.name for p in k.params if p.host} == {"total"}
    d = draft(k)
    assert d.roles.reals == {"n": "total"}


ALONE = """
__global__ void scaled(float* x, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
void run(float* x, int n, int levels) { scaled<<<(n + 255) / 256, 256>>>(x, n, 2.0f / levels); }
"""


def test_numbers_of_the_host_that_nothing_else_knows_are_no_sizes() -> None:
    d = drafted(ALONE)
    assert d.roles.reals == {} and d.names == ["n"]


def test_formulas_are_varied_by_verification(tmp_path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(MEANS)
    from ktc.ir.workload import Workload
    from ktc.scaffold.text import workload_text
    from ktc.sources import SourceSpec

    text, _ = workload_text(ktc.loads(MEANS).kernel, SourceSpec(str(source)), tmp_path / "workload.toml")
    assert 'value = "1.0 / n"' in text
    w = Workload.parse(text, tmp_path / "workload.toml")
    k = w.load_kernel()
    assert {*other_numbers(k, k, w)} == {"inv", "scale"}


PRESET = """
static float scale_of(int before, int after, int mode) {
  if (before == after) return 1.0f;
  if (mode == 2) return float(before - 1) / (after - 1);
  else if (mode == 1 && after <= 1) return 0.0f;
  else return float(before) / after;
}
__global__ void nearest(const float* x, float* y, int oh, int ow, int ih, int iw, float sh, float sw, int mode) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;
  if (i >= oh * ow) return;
  float shift = mode == 0 ? 0.5f : 0.0f;
  int a = min((int)((i / ow + shift) * sh), ih - 1), b = min((int)((i % ow + shift) * sw), iw - 1);
  y[c * oh * ow + i] = x[c * ih * iw + a * iw + b];
}
void resize(const float* x, float* y, int oh, int ow, int ih, int iw, int mode, bool preset, float sh, float sw) {
  float h = 0.0f, w = 0.0f;
  if (preset) { h = sh; w = sw; } else { h = scale_of(ih, oh, mode); w = scale_of(iw, ow, mode); }
  nearest<<<dim3((oh * ow + 255) / 256, 3), 256>>>(x, y, oh, ow, ih, iw, h, w, mode);
}
"""


def test_numbers_of_sizes_are_taken_where_a_caller_may_give_others() -> None:
    d = drafted(PRESET)
    assert "mode" in d.roles.flags and {*d.names} == {"oh", "ow", "ih", "iw"}
    assert d.real("sh") == "1.0 if ih == oh else ih / oh"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a if 1 == 2 else b", "b"), ("a if 1 == 1 and n > 2 else b", "a if n > 2 else b"),
        ("a if 2 < 1 and n > 2 else b", "b"), ("a if n > 2 or 1 < 2 else b", "a"), ("a / (n - 1)", "a / (n - 1)"),
    ],
)  # fmt: skip
def test_choices_that_numbers_decide(text: str, value: str) -> None:
    assert settled(text) == value


PAIRS = """
__global__ void doubled(const size_t pairs, const float2* x, float2* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) y[i] = make_float2(2 * x[i].x, 2 * x[i].y);
}
void run(const float* x, float* y, size_t n) {
  doubled<<<((n >> 1) + 255) / 256, 256>>>(n >> 1, (const float2*)x, (float2*)y);
}
"""


def test_what_is_shifted_is_divided() -> None:
    d = drafted(PAIRS)
    assert d.roles.tied == {"pairs": "n / 2"} and d.names == ["n"]
    assert {b: e.shape for b, e in d.shapes.items() if e is not None} == {"x": ("n",), "y": ("n",)}


ROTARY = """
__global__ void turn(const float* x, float* y, int n, float theta_scale) {
  int i = threadIdx.x, at = blockIdx.x * n + i;
  if (i < n) y[at] = x[at] * cosf(blockIdx.x * powf(theta_scale, i));
}
static void turned(const float* x, float* y, int rows, int n, float freq_base) {
  turn<<<rows, 256>>>(x, y, n, powf(freq_base, -2.0f / n));
}
"""


def test_a_number_of_the_host_that_is_called_as_a_usual_one_is_that() -> None:
    assert drafted(ROTARY).real("theta_scale") == "pow(10000.0, -2.0 / n)"
