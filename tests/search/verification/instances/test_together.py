"""Sizes that make a loop go round twice together: one that another divides is not left as large as that once was."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.nodes import For
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.ir.workload import ArgSpec, Scenario, Workload
from ktc.search.verification.instances.coverage import SECOND_ROUND, Coverage
from ktc.search.verification.instances.instances import MAX_ELEMENTS, Maker
from ktc.search.verification.instances.together import RING, least_together, somewhat_larger

HEADS = """\
kernel heads(y: f32*, x: f32 const*, n: i32, w: i32, h: i32)
  launch grid(n) block(16)
  assume w / h % 16 == 0
  let tid: i32 = i32(threadIdx.x)
  var sum: f32 = 0.0
  if 0 < w / h
    for c = 0; c < w / h; c + 16
      sum += x[i32(blockIdx.x) * w + c + tid]
  y[i32(blockIdx.x) * 16 + tid] = sum
"""


def _scalar(name: str) -> ArgSpec:
    return ArgSpec(name, "i32", "scalar", value=name, range=(1, 4096))


WORK = Workload(
    Path("w.toml"), Path("k.cu"), "heads",
    (
        ArgSpec("y", "f32", "out", ("n", "16")), ArgSpec("x", "f32", "in", ("n", "w")),
        _scalar("n"), _scalar("w"), _scalar("h"),
    ),
    (Scenario("usual", {"n": 4096, "w": 768, "h": 12}),), {"": {}},
)  # fmt: skip


@pytest.fixture
def kernel():
    return parse_kernel(HEADS)


@pytest.fixture
def maker(kernel) -> Maker:
    return Maker((kernel, kernel), WORK, SECOND_ROUND * MAX_ELEMENTS)


def test_a_quotient_is_large_where_its_divisor_is_small(maker):
    least = least_together(lambda at: at["w"] // at["h"] > 16, maker, {"n": 3, "w": 3, "h": 4})
    assert least == {"n": 3, "w": 68, "h": 4}
    assert least_together(lambda at: at["w"] // at["h"] > 4096, maker, {"n": 3, "w": 3, "h": 4}) is None


def test_a_divisor_is_below_its_base_where_it_has_to_be(maker):
    assert least_together(lambda at: at["w"] // at["h"] > 2048, maker, {"n": 3, "w": 3, "h": 4}) == {
        "n": 3, "w": 2049, "h": 1,
    }  # fmt: skip


def test_what_divides_it_asks_for_round_sizes(maker):
    least = {"n": 3, "w": 68, "h": 4}
    made = list(somewhat_larger(lambda at: at["w"] // at["h"] > 16, maker, least, {"n": 3, "w": 3, "h": 4}))
    assert [dict(i.sizes) for i in made] == [{"n": 3, "w": 256, "h": 4}] and RING * 16 == 256 // 4


def test_the_loop_of_a_tile_goes_round_a_few_times_and_not_as_often_as_may_be(kernel, maker):
    coverage = Coverage(kernel, WORK)
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For))
    coverage.once = {id(loop): loop}
    found = [dict(i.sizes) for i in coverage.sizes_for_loops(maker)]
    rounds = [i["w"] // i["h"] // 16 for i in found]
    assert any(n >= 3 for n in rounds) and max(rounds) <= 2 * RING, found


INSIDE = """\
kernel inside(y: f32*, x: f32 const*, w: i32, h: i32)
  launch grid((w + 7) / 8, (h + 3) / 4) block(8, 4)
  let q: i32 = i32(blockIdx.x) * 8 + i32(threadIdx.x)
  let p: i32 = i32(blockIdx.y) * 4 + i32(threadIdx.y)
  if p > 0 && q > 0 && p + 1 < h && q + 1 < w
    var s: f32 = 0.0
    for a in 0..3
      s += x[(p + a - 1) * w + q]
    y[p * w + q] = s
"""
PLANE = Workload(
    Path("w.toml"), Path("k.cu"), "inside",
    (ArgSpec("y", "f32", "out", ("h", "w")), ArgSpec("x", "f32", "in", ("h", "w")), _scalar("w"), _scalar("h")),
    (Scenario("usual", {"w": 768, "h": 512}),), {"": {}},
)  # fmt: skip


def test_a_loop_that_no_edge_touches_is_entered_in_the_last_block():
    """The first thread of the first block is at an edge, whatever the sizes."""
    kernel = parse_kernel(INSIDE)
    maker = Maker((kernel, kernel), PLANE, SECOND_ROUND * MAX_ELEMENTS)
    coverage = Coverage(kernel, PLANE)
    coverage.once = {id(s): s for s in walk(kernel.body) if isinstance(s, For)}
    found = [i.sizes for i in coverage._sizes_together(maker, {"w": 3, "h": 3})]
    assert found and all(i["w"] > 9 and i["h"] > 5 for i in found), found
    assert min(i["w"] * i["h"] for i in found) < 400
