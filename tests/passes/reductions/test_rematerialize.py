"""rematerialize: what sweeps keep in an array of their block is computed again where later ones read it."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, body_of, differs, refused

HEAD = (
    "kernel softmax(x: f32 const* restrict, w: f32* restrict, y: f32* restrict, n: i32 range 1..512, host rows: i32)\n"
    "  launch grid(rows) block(64)\n  par r in 0..rows @ [block.x]\n    array s: shared f32[512]\n"
)
COPY = "    par i in 0..n @ [thread.x 64, seq]\n      s[i] = x[r * n + i] * 2.0\n"
TOP = "    reduce(max) m: f32 = -inf over j in 0..n @ [thread.x 64, seq]\n      yield s[j]\n"
SUM = "    reduce(+) l: f32 = 0.0 over k in 0..n @ [thread.x 64, seq]\n      s[k] = exp(s[k] - m)\n      yield s[k]\n"
OUT = "    par o in 0..n @ [thread.x 64, seq]\n      y[r * n + o] = s[o] / l\n"
SOFTMAX = HEAD + COPY + TOP + SUM + OUT
SIZES = [{"n": n, "rows": 3} for n in (1, 7, 64, 130)]


def test_before_and_after() -> None:
    kernel = parse_kernel(SOFTMAX)
    done = applied(kernel, "rematerialize{array=s}")
    text = body_of(done)
    assert (
        text[text.index("  par r") :]
        == """\
  par r in 0..rows @ [block.x]
    reduce(max) m: f32 = -inf over j in 0..n @ [thread.x 64, seq]
      let s: f32 = x[r * n + j] * 2.0
      yield s
    reduce(+) l: f32 = 0.0 over k in 0..n @ [thread.x 64, seq]
      let s_2: f32 = x[r * n + k] * 2.0
      let s_1: f32 = exp(s_2 - m)
      yield s_1
    par o in 0..n @ [thread.x 64, seq]
      let s_3: f32 = x[r * n + o] * 2.0
      let s_4: f32 = exp(s_3 - m)
      y[r * n + o] = s_4 / l
"""
    )
    assert differs(kernel, done, SIZES) is None


ATTENTION = """
__global__ void attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                       float* __restrict__ o, int n, int d) {
  __shared__ float s[64], red[32];
  int t = blockIdx.x, tx = threadIdx.x;
  float top = -1e30f, sum = 0;
  for (int j = tx; j <= t; j += 32) {
    float dot = 0;
    for (int i = 0; i < d; i++) dot += q[t * d + i] * k[j * d + i];
    s[j] = dot;
    top = fmaxf(top, dot);
  }
  red[tx] = top;
  __syncthreads();
  for (int h = 16; h > 0; h /= 2) { if (tx < h) red[tx] = fmaxf(red[tx], red[tx + h]); __syncthreads(); }
  top = red[0];
  __syncthreads();
  for (int j = tx; j <= t; j += 32) { float e = expf(s[j] - top); s[j] = e; sum += e; }
  red[tx] = sum;
  __syncthreads();
  for (int h = 16; h > 0; h /= 2) { if (tx < h) red[tx] += red[tx + h]; __syncthreads(); }
  sum = red[0];
  for (int i = tx; i < d; i += 32) {
    float a = 0;
    for (int j = 0; j <= t; j++) a += s[j] * v[j * d + i];
    o[t * d + i] = a / sum;
  }
}
void go(const float* q, const float* k, const float* v, float* o, int n, int d) { attend<<<n, 32>>>(q, k, v, o, n, d); }
"""


def test_rows_that_a_block_has_one_of_are_swept_once_by_blocks_of_many() -> None:
    kernel = load(ATTENTION, name="k.cu")
    steps = "raise | normalise | rematerialize{array=s} | specialize{d=8} | tile{loops=t sizes=8}"
    done = applied(
        kernel, f"{steps} | online-softmax{{loop=j keys=4 tile=8}} | map{{t=[thread.y 8] i.*=[thread.x 4, unroll 2]}}"
    )
    assert "array s" not in body_of(done)
    assert differs(kernel, done, [{"n": n, "d": d} for n, d in ((1, 8), (13, 8), (40, 8))]) is None


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("beyond what was stored", HEAD + COPY + OUT.replace("0..n", "0..n + 1").replace("/ l", "")),
        ("beyond what was stored", HEAD + COPY.replace("0..n", "1..n") + OUT.replace("/ l", "")),
        ("over another range", HEAD + COPY + TOP + SUM.replace("0..n", "1..n") + OUT),
        ("under a condition", HEAD + COPY.replace("s[i] =", "if i > 3\n        s[i] =") + OUT.replace("/ l", "")),
        ("at its counter", HEAD + COPY.replace("s[i] =", "s[i + 1] =") + OUT.replace("/ l", "")),
        ("reads another element", HEAD + COPY + TOP + SUM.replace("exp(s[k]", "exp(s[0]") + OUT),
        ("before a sweep has stored", HEAD + TOP + OUT.replace("/ l", "/ m")),
        ("may change", HEAD + COPY.replace("x[", "w[") + "    w[r] = 0.0\n" + OUT.replace("/ l", "")),
        ("may change", HEAD + COPY.replace("x[", "w[") + OUT.replace("y[", "w[").replace("/ l", "")),
        ("more than a value", HEAD + COPY.replace("      s[i]", "      w[r * n + i] = 1.0\n      s[i]").replace(
            "x[r * n + i] * 2.0", "atomic_add(w[r], 1.0)") + OUT.replace("/ l", "")),
    ],
)  # fmt: skip
def test_what_may_be_another_value_refuses(why: str, text: str) -> None:
    assert why in refused(parse_kernel(text), "rematerialize{array=s}").why


def test_a_variable_that_changes_in_between_refuses() -> None:
    text = HEAD + "    var c: f32 = 2.0\n" + COPY.replace("2.0", "c") + "    c = 3.0\n" + OUT.replace("/ l", "* c")
    no = refused(parse_kernel(text), "rematerialize{array=s}")
    assert no.code == "E-REMATERIALIZE-USE" and "'c'" in no.why


@pytest.mark.parametrize("loop", ["for k in 0..e\n", "for k in 0..n\n      if k > 5\n        break\n"])
def test_a_sweep_that_may_not_store_all_there_is_refuses(loop: str) -> None:
    """``e`` is another number by then, or the loop ends early: what the first sweep stored is there still."""
    first = COPY.replace("0..n", "0..e") if "0..e" in loop else COPY
    text = HEAD + "    var e: i32 = n\n" + first + "    e = n / 2\n" + f"    {loop}      s[k] = 1.0\n"
    no = refused(parse_kernel(text + OUT.replace("/ l", "")), "rematerialize{array=s}")
    assert no.code == "E-REMATERIALIZE-USE" and ("'e'" in no.why or "end early" in no.why)


def test_planes_are_no_rows() -> None:
    text = (HEAD + COPY).replace("f32[512]", "f32[512, 2]").replace("s[i]", "s[i, 0]")
    assert refused(parse_kernel(text), "rematerialize{array=s}").code == "E-REMATERIALIZE-ARRAY"
