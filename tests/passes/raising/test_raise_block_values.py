"""What one thread leaves in shared memory for its block is a value of the block, so that rows can lie beside each
other."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Alloc, Decl
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import loads_in, walk
from ktc.passes.core.base import Result
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.passes.raising.normalise.block_values import with_block_values
from ktc.passes.raising.normalise.exchange_form import named_totals
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.recognise.block import raise_block
from ktc.passes.raising.recognise.coordinates import prepare

NORM = """
__device__ float sum_of_warp(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}
__global__ void norm(const float* x, float* y, int rows) {
  __shared__ float mean;
  __shared__ float scale;
  int i = blockIdx.x * 32 + threadIdx.x;
  float value = x[i];
  float sum = sum_of_warp(value);
  if (threadIdx.x == 0) mean = sum / 32.0f;
  __syncthreads();
  float square = sum_of_warp((value - mean) * (value - mean));
  if (threadIdx.x == 0) scale = rsqrtf(square / 32.0f + 1e-5f);
  __syncthreads();
  y[i] = (value - mean) * scale;
}
void host(const float* x, float* y, int rows) { norm<<<rows, 32>>>(x, y, rows); }
"""


def test_rows_whose_threads_share_a_value_lie_beside_each_other() -> None:
    source = load(NORM)
    found = Raise().run(source)
    assert isinstance(found, Result)
    raised = found.kernel
    assert not any(isinstance(s, Alloc) and s.sym.type.space == "shared" for s in walk(raised.body))
    assert "let mean: f32 = sum / 32.0" in print_kernel(raised)
    rows = next(s.var.name for s in raised.body if hasattr(s, "var"))
    script = f"distribute{{loop={rows} map=[thread.y 4, block.x]}}"
    done = apply_script(raised, parse_script(script))
    kernel = materialise(getattr(done, "kernel", done))
    x = np.random.default_rng(0).standard_normal(7 * 32).astype(np.float32)
    want, got = (np.zeros_like(x) for _ in range(2))
    run(source, {"x": x, "y": want, "rows": 7})
    run(kernel, {"x": x, "y": got, "rows": 7})
    assert np.allclose(got, want, rtol=1e-5, atol=1e-6)


HEAD = (
    "kernel k(x: f32*, n: i32)\n  launch grid(1) block(32)\n  par b in 0..n @ [block.x]\n    array s: shared f32[1]\n"
)


def _valued(body: str) -> str:
    kernel = parse_kernel(HEAD + body)
    return print_kernel(kernel.with_(body=with_block_values(kernel.body))).partition("block.x]\n")[2]


def test_each_store_is_a_value_of_its_own() -> None:
    text = _valued("    s[0] = x[b]\n    s[0] = s[0] + 1.0\n    par t in 0..32 @ [thread.x 32]\n      x[t] = s[0]\n")
    assert "let s_1: f32 = x[b]" in text and "let s_2: f32 = s_1 + 1.0" in text and "x[t] = s_2" in text


def test_what_is_read_before_or_stored_elsewhere_stays_in_memory() -> None:
    for body in (
        "    for i in 0..n\n      x[i] = s[0]\n      s[0] = x[b]\n",
        "    if x[b] > 0.0\n      s[0] = 1.0\n    x[b] = s[0]\n",
        "    s[0] = x[b]\n    atomic add s[0], 1.0\n    x[b] = s[0]\n",
        "    par t in 0..32 @ [thread.x 32]\n      s[0] = x[t]\n    x[b] = s[0]\n",
    ):
        assert _valued(body).count("s[0]") == body.count("s[0]"), body


COMBINED = """kernel norm(x: f32 const* restrict, y: f32* restrict, n: i32)
  launch grid(1) block(32)
  array mean: shared f32[1]
  var s: f32 = 0.0
  for i = threadIdx.x; i < n; i + blockDim.x
    s += x[i]
  for o = 16; o > 0; o / 2
    s += shfl_xor(s, o)
  if threadIdx.x == 0_u32
    mean[0] = VALUE
  barrier
  for k = threadIdx.x; k < n; k + blockDim.x
    y[k] = x[k] - mean[0]
"""


@pytest.mark.parametrize(("value", "taken"), [("s", "x[k] - s"), ("s / n", "x[k] - mean"), ("-s", "x[k] - mean")])
def test_what_is_made_of_a_total_is_not_taken_for_it(value: str, taken: str) -> None:
    kernel = parse_kernel(COMBINED.replace("VALUE", value))
    assert kernel.launch is not None
    first = print_kernel(kernel.with_(body=next(raise_block(prepare(kernel, kernel.launch), kernel.launch))))
    assert f"y[k] = {taken}\n" in first and (value == "s" or f"let mean: f32 = {value}" in first), first


PAIRS = """
kernel norm(x: f32 const*, y: f32*)
  launch grid(1) block(1)
  array scale: shared f32[1]
  for k in 0..2
    let v: f32x2 = f32x2{x[k], x[k + 2]}
    y[k] = v[0] * scale[0] + scale[0] * x[0]
"""


def test_what_a_loop_makes_is_not_multiplied_with_a_shared_value_before_it() -> None:
    """A part of a vector of the loop is no shared cell: no total of it stands in front of the loop."""
    body = named_totals(parse_kernel(PAIRS).body)
    (total,) = [s for s in body if isinstance(s, Decl)]
    assert total.init is not None and {x.buffer.name for x in loads_in(total.init)} == {"scale", "x"}
