"""Loops that one thread goes through for its block, shared by all its threads before anything else."""

from __future__ import annotations

import pytest

from ktc.agent.embedded.blocks.lone_threads import shared_by_the_block
from ktc.agent.embedded.rules import Rules
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel, print_kernel
from tests.agent.embedded.test_rules import observe
from tests.passes.checks import differs

HEAD = (
    "kernel norm(x: f32 const* restrict, y: f32* restrict, n: i32 range 1..512, host rows: i32)\n"
    "  launch grid(rows) block(64)\n  par r in 0..rows @ [block.x]\n"
)
STORED = "    par j in 0..n @ [thread.x {0}seq]\n      y[r * n + j] = x[r * n + j] / s\n"
ALONE = "    var s: f32 = 0.0\n    for i in 0..n\n      s += x[r * n + i]\n"
NORM = HEAD + ALONE + STORED.format("64, ")

SOURCE = """
__global__ void norm(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float total;
  if (threadIdx.x == 0) {
    float s = 0;
    for (int i = 0; i < n; i++) s += x[blockIdx.x * n + i];
    total = s;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < n; j += blockDim.x) y[blockIdx.x * n + j] = x[blockIdx.x * n + j] / total;
}
void launch(const float* x, float* y, int rows, int n) { norm<<<rows, 64>>>(x, y, n); }
"""


def test_a_loop_of_one_thread_is_its_blocks() -> None:
    kernel = parse_kernel(NORM)
    steps, shared = shared_by_the_block(kernel)
    assert steps == "parallelize{loop=i map=[thread.x 64, seq]} | "
    assert "reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 64, seq]" in print_kernel(shared)
    sizes = [{"n": n, "rows": 3} for n in (1, 63, 130)]
    assert differs(kernel, shared, sizes) is None


def test_all_ideas_begin_with_it() -> None:
    _, o = observe(print_kernel(load(SOURCE, name="k.cu")), {"n": 512, "rows": 4096})
    first = Rules().propose(o, 2)
    assert first
    assert all(p.script.startswith("raise | parallelize{loop=i map=[thread.x 64, seq]} | ") for p in first)


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("hands values on", NORM.replace("s += x[r * n + i]", "s = s * 0.5 + x[r * n + i]")),
        ("is short", NORM.replace("for i in 0..n", "for i in 0..8")),
        ("threads share nothing", HEAD.replace("[block.x]", "[thread.x 64, block.x]") + ALONE + "    y[r * n] = s\n"),
    ],
)
def test_other_loops_stay(why: str, text: str) -> None:
    kernel = parse_kernel(text)
    assert shared_by_the_block(kernel) == ("", kernel), why
