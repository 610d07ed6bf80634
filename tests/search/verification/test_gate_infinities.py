"""Rows that are minus infinity but for one element, as attention masks leave them."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.frontend import load
from ktc.ir.nodes import For, HwIndex, i32
from ktc.ir.walk import map_body, map_expr, walk, walk_expr
from ktc.ir.workload import ArgSpec
from ktc.search.verification import verify
from ktc.search.verification.instances.wide_rows import wide_rows
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import _telling, oracle_for
from ktc.search.verification.rungs.float_rungs import _Sweep
from tests.mutation.subjects import replayed
from tests.search.verification.gate_samples import _workload, scalar

WORK = _workload(
    "sums",
    (
        ArgSpec("y", "f32", "out", ("n",)),
        ArgSpec("x", "f32", "in", ("n", "d")),
        ArgSpec("d", "i32", "scalar", value="d", range=(1, 24)),
        scalar("n", "n"),
    ),
    {"n": 8, "d": 24},
)
HEAD = "__global__ void sums(float* __restrict__ y, const float* __restrict__ x, int d, int n) {\n"
TAIL = "}\nvoid launch(float* y, const float* x, int d, int n) { sums<<<(n + 31) / 32, 32>>>(y, x, d, n); }\n"
WHOLE = """
  int r = blockIdx.x * 32 + threadIdx.x;
  if (r < n) {
    float top = -INFINITY, sum = 0;
    for (int i = 0; i < d; ++i) top = fmaxf(top, x[r * d + i]);
    for (int i = 0; i < d; ++i) sum += expf(x[r * d + i] - top);
    y[r] = sum;
  }
"""
IN_PARTS = """
  int r = blockIdx.x * 32 + threadIdx.x;
  if (r < n) {
    float top = -INFINITY, sum = 0;
    for (int part = 0; part < d; part += 8) {
      float here = -INFINITY, some = 0;
      for (int i = part; i < min(part + 8, d); ++i) here = fmaxf(here, x[r * d + i]);
      float both = fmaxf(top, here), base = both == -INFINITY ? 0.0f : both;
      for (int i = part; i < min(part + 8, d); ++i) some += expf(x[r * d + i] - base);
      sum = sum * expf(top - base) + some;
      top = both;
    }
    y[r] = sum;
  }
"""


def test_a_part_of_a_row_that_is_masked_does_not_spoil_the_row() -> None:
    original, parts = (load(HEAD + body + TAIL) for body in (WHOLE, IN_PARTS))
    loose = parts.with_(flags=parts.flags | {"reassociates"})
    assert verify(original, loose, WORK, layers=("float",), count=3).ok
    unguarded = load(HEAD + IN_PARTS.replace("both == -INFINITY ? 0.0f : both", "both") + TAIL)
    wrong = unguarded.with_(flags=unguarded.flags | {"reassociates"})
    verdict = verify(original, wrong, WORK, layers=("float",), count=3)
    assert verdict.status == "REJECTED" and "rows with infinities" in verdict.reason, verdict


@pytest.mark.parametrize("n", [1, 2, 3, 10, 97, 265, 1024, 4097])
def test_peaks_come_to_every_place_of_a_row_the_telling_ones_first(n: int) -> None:
    places = _telling(n).tolist()
    assert sorted(places) == list(range(n))
    assert {n - 1, 0, (1 << n.bit_length()) // 2 % n} <= set(places[: 3 * n.bit_length() + 12])


def test_a_maximum_that_leaves_one_element_out_is_seen_though_rows_are_fewer_than_their_elements() -> None:
    """256 threads in strides of 257: 256 and 513 are nobody's elements. Another maximum is right, but for overflow."""
    made = replayed("training/softmax", "bf16", "raise")
    first = next(s for s in walk(made.candidate.body) if isinstance(s, For))
    longer = dataclasses.replace(first, step=dataclasses.replace(first.step, b=i32(257)))
    body = map_body(made.candidate.body, lambda s: longer if s == first else s)
    wrong = made.candidate.with_(body=body)
    wide, *_ = wide_rows(made.original, wrong, made.workload)
    oracle = oracle_for(made.original, made.workload, "bf16", 0)
    assert body != made.candidate.body and wide.sizes["n"] < wide.sizes["d"]
    sweep = _Sweep(Job(made.original, wrong, oracle, [wide], made.workload), identical=False)
    failure = sweep.failure(wide, "peaks")
    assert failure is not None and failure.index[1] in (256, 513), failure


def test_a_stride_by_the_number_of_blocks_is_seen_though_long_rows_are_few() -> None:
    """160 rows of 1,031 elements fit: a stride of 160 for 256 threads comes to all of them, one of 263 does not."""
    made = replayed("training/softmax", None, "unroll{loop=stride.* factor=$U} [U=4]")
    first = next(s for s in walk(made.candidate.body) if isinstance(s, For))
    assert HwIndex("block_dim", "x") in walk_expr(first.step)
    by = map_expr(first.step, lambda e: HwIndex("grid_dim", "x") if e == HwIndex("block_dim", "x") else e)
    body = map_body(made.candidate.body, lambda s: dataclasses.replace(first, step=by) if s is first else s)
    long, many = wide_rows(made.original, made.candidate, made.workload)
    assert long.sizes["n"] < 256 < many.sizes["n"] and long.sizes["d"] > many.sizes["d"] > 256
    verdict = verify(made.original, made.candidate.with_(body=body), made.workload)
    assert verdict.status == "REJECTED" and verdict.failure is not None, verdict
    assert verdict.failure.sizes == many.sizes
