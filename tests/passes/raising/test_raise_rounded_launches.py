"""Launches rounded up to whole blocks, with guards that ask about the digits of a flat index."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_expr
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.raising.check.rounded_launches import without_rounding
from ktc.passes.raising.raise_ import Raise

STACKED = """
__global__ void blur(float* __restrict__ y, const float* __restrict__ x, int height, int width, int limit) {
  int at = blockIdx.x * 32 + threadIdx.x;
  int column = at % width, row = at / width * 2;
  for (int i = 0; i < 2; i++) {
    float left = column > 0 && row + i < height ? x[(row + i) * width + column - 1] : 0.f;
    GUARD y[(row + i) * width + column] = left;
  }
}
void go(float* y, const float* x, int height, int width, int limit) {
  int threads = (height + 1) / 2 * width;
  blur<<<(threads + 31) / 32, 32>>>(y, x, height, width, limit);
}
"""


def ends(source: str) -> list[str]:
    outcome = Raise().run(load(source, name="source.cu"))
    assert isinstance(outcome, Result), outcome
    return [print_expr(s.hi) for s in walk(outcome.kernel.body) if hasattr(s, "hi")]


def test_a_guard_about_digits_ends_the_loop() -> None:
    source = STACKED.replace("GUARD", "if (row + i < height)")
    assert ends(source) == ["(height + 1) / 2 * width"]
    kernel = load(source, name="source.cu")
    raised = Raise().run(kernel)
    assert isinstance(raised, Result)
    for height, width in ((1, 1), (5, 3), (7, 33)):
        args = {"x": np.arange(height * width, dtype=np.float32), "height": height, "width": width, "limit": 3}
        outs = [run(k, {**args, "y": np.zeros(height * width, np.float32)}) for k in (kernel, raised.kernel)]
        assert np.array_equal(outs[0].outputs["y"], outs[1].outputs["y"])


@pytest.mark.parametrize("guard", ["if (row + i < height + 40)", "if (at < limit)", ""])
def test_what_the_last_block_stores_beyond_stays(guard: str) -> None:
    room = STACKED.replace("GUARD", guard).replace("row + i < height ?", "row + i < 1 ?")
    assert ends(room) == ["32 * (((height + 1) / 2 * width + 31) / 32)"]


@pytest.mark.parametrize(
    ("end", "n"),
    [
        ("32 * ((n + 31) / 32)", "n"),
        ("32 * cdiv(n, 32)", "n"),
        ("64 * ((4 * n + 255) / 256)", "n"),  # four threads a row
        ("64 * ((4 * n + 3 + 255) / 256)", None),
        ("32 * ((n + 31) / 64)", None),
        ("32 * (n / 32 + 1)", None),
    ],
)
def test_what_whole_blocks_are_rounded_up_from(end: str, n: str | None) -> None:
    loop = f"  par i in 0..{end} @ [thread.x 32, block.x]\n    if i / 4 < m\n      y[i] = 1.0\n"
    body = parse_kernel(f"kernel k(y: f32*, n: i32, m: i32)\n{loop}").body
    done = without_rounding(body)
    assert (print_expr(done[0].hi) == n) if n else done == body  # type: ignore[attr-defined]
