"""Rows that threads read in vectors, with a sum for each lane and a vector that two loops share."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.lanes.lane_accumulators import with_summed_lanes

from .raised_once import outcome_of, raised

SUMS = """\
kernel k(x: f32 const*, y: f32*, n: i32)
  launch grid(1) block(1)
  array acc: f32[2]
  START
  for i in 0..n
    acc[0] UPDATE x[i * 2]
    acc[1] UPDATE x[i * 2 + 1]
  var sum: f32 = 0.0
  for k in 0..2
    sum += acc[k]
  y[0] = sum
"""
START = "acc[0] = 0.0\n  acc[1] = 0.0"


def test_lanes_that_are_added_up_are_one_sum() -> None:
    kernel = parse_kernel(SUMS.replace("START", START).replace("UPDATE", "+="))
    text = print_kernel(kernel.with_(body=with_summed_lanes(kernel.body)))
    assert "acc" not in text and "sum += x[i * 2 + 1]" in text and text.count("var sum: f32 = 0.0") == 1, text


@pytest.mark.parametrize(
    "old, new",
    [
        ("acc[1] = 0.0", "acc[1] = 1.0"),
        ("y[0] = sum", "y[0] = sum\n  y[1] = acc[1]"),
        ("for k in 0..2", "for k in 0..1"),
        ("acc[0] UPDATE", "acc[0] *="),
        ("acc[1] UPDATE x[i * 2 + 1]", "acc[1] = x[i]"),
    ],
    ids=["other-start", "used-again", "some-lanes", "other-operation", "no-sum"],
)
def test_other_lanes_stay(old: str, new: str) -> None:
    body = parse_kernel(SUMS.replace("START", START).replace(old, new).replace("UPDATE", "+=")).body
    assert with_summed_lanes(body) == body


ROWS = """
struct Lanes { float v[4]; };
__global__ void rms(const float* __restrict__ x, float* __restrict__ y, float eps, int n) {
  __shared__ float parts[2];
  Lanes acc{};
  float vec[4];
  x += n * blockIdx.x;
  for (int i = threadIdx.x * 4; i < n; i += 256) {
    *(float4*)vec = *(const float4*)(x + i);
    for (int k = 0; k < 4; k++) acc.v[k] += vec[k] * vec[k];
  }
  float sum = 0.0f;
  for (int k = 0; k < 4; k++) sum += acc.v[k];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = parts[0] + parts[1];
  float scale = rsqrtf(total / n + eps);
  y += n * blockIdx.x;
  for (int i = threadIdx.x * 4; i < n; i += 256) {
    *(float4*)vec = *(const float4*)(x + i);
    for (int k = 0; k < 4; k++) vec[k] *= scale;
    *(float4*)(y + i) = *(float4*)vec;
  }
}
void run(const float* x, float* y, float eps, int rows, int n) { rms<<<rows, 64>>>(x, y, eps, n); }
"""
LOADED = "*(float4*)vec = *(const float4*)(x + i);"
SCALED = "for (int k = 0; k < 4; k++) vec[k] *= scale;"


def test_no_vector_outlives_an_iteration() -> None:
    kernel, outcome = raised(ROWS)
    assert not any("left: " in n for n in outcome.notes), outcome.notes
    found = print_kernel(outcome.kernel)
    assert "acc" not in found and "f32[64" not in found, found
    assert found.count("0..n @ [vec 4, thread.x 64, seq]") == 2 and "yield vec * vec" in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


@pytest.mark.parametrize(
    "old, new",
    [
        (f"{LOADED}\n    {SCALED}", SCALED),
        ("float scale = ", "y[blockIdx.x * n] = vec[0]; float scale = "),
        ("vec[4];", "vec[4] = {};"),
    ],
    ids=["goes-on", "last-of-all", "starts"],
)
def test_vectors_that_go_on_keep_their_meaning(old: str, new: str) -> None:
    assert old in ROWS
    kernel, outcome = outcome_of(ROWS.replace(old, new))
    if (found := getattr(outcome, "kernel", None)) is not None:
        assert Reference(kernel, instances=5, seed=21).differs(found, given=found.assumptions) == ""
