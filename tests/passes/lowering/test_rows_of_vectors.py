"""Quotients and remainders of elements by rows of whole vectors: one division a vector, not one a lane."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.driver.printing import printed
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise

SCALED = """
kernel scaled(y: f32* align 16 noalias, x: f32 const* align 16 noalias, w: f32 const* noalias, n: i32, row: TYPE)
  launch grid((n + 255) / 256) block(64)
  assume n % 4 == 0
  FACT
  par i in FIRST..n @ [vec 4, thread.x 64, block.x]
    y[i] = x[i] * w[INDEX]
"""


def scaled(index: str, fact: str = "assume row % 4 == 0", first: str = "0", of: str = "i32") -> Kernel:
    text = SCALED.replace("INDEX", index).replace("FACT", fact).replace("FIRST", first).replace("TYPE", of)
    return parse_kernel("\n".join(line for line in text.split("\n") if line.strip()) + "\n")


def by_lane(kernel: Kernel) -> bool:
    """Whether each lane divides a number of its own."""
    (line,) = (x for x in printed(kernel, "cuda").text.split("\n") if " / row" in x or " % row" in x)
    return "+ v) / row" in line or "+ v) % row" in line


@pytest.mark.parametrize(
    ("index", "of"), [("i / row", "i32"), ("i % row", "i32"), ("i / row * 2 + i % row", "i32"), ("u32(i) / row", "u32")]
)
def test_a_vector_divides_once(index: str, of: str) -> None:
    kernel = scaled(index, of=of)
    assert not by_lane(kernel)
    rng = np.random.default_rng(0)
    args = {"x": rng.integers(-9, 9, 400).astype(np.float32), "w": rng.integers(-9, 9, 900).astype(np.float32)}
    for n, row in ((400, 4), (396, 12), (36, 100)):
        sizes = {"y": np.zeros(400, np.float32), "n": n, "row": row}
        first, second = (run(k, args | sizes) for k in (kernel, materialise(kernel)))
        assert (first.outputs["y"] == second.outputs["y"]).all() and not second.findings


@pytest.mark.parametrize(
    "changed",
    [
        {"fact": ""},  # rows that end in the midst of a vector
        {"fact": "assume row % 2 == 0"},
        {"first": "-8"},  # -8 / 8 is -1, and -7 / 8 is 0
        {"first": "2"},
    ],
)
def test_lanes_that_may_lie_in_two_rows_divide_each(changed: dict[str, str]) -> None:
    assert by_lane(scaled("i / row", **changed))
