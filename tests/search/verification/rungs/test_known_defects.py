"""What the sanitizer says of a candidate is held against it only where it does not say so of the original."""

from __future__ import annotations

from ktc.ir.workload import ArgSpec
from ktc.search.verification import verify
from ktc.search.verification.verdict import Verdict
from tests.ir.interp.interp_samples import kernel
from tests.search.verification.gate_samples import _workload, scalar

WORK = _workload(
    "k",
    (ArgSpec("y", "i32", "out", ("n",)), ArgSpec("x", "f32", "in", ("n",)), scalar("n", "n")),
    {"n": 100},
    {"n": 37},
)
TWICE = """kernel k(y: i32*, x: f32 const*, n: i32)
  launch grid((n + 31) / 32) block(32)
  let i: i32 = i32(blockIdx.x) * 32 + i32(threadIdx.x)
  if i < n
    {first}
    if x[i] > 1000000.0
      y[i] = 7
    else
      y[i] = i32(x[i] * 0.001)
"""
"""Zero again for nearly every float, and for no number of an exact domain. The branch that no data enter has every run
looked at."""


def judged(first: str) -> Verdict:
    return verify(kernel(TWICE.format(first="y[i] = 0")), kernel(TWICE.format(first=first)), WORK)


def test_what_is_stored_twice_by_the_original_on_such_data_is_no_defect() -> None:
    verdict = judged("y[i] = i - i")
    assert {r.name: r.status for r in verdict.rungs}["float"] == "pass", verdict


def test_what_is_read_before_it_is_written_is_one() -> None:
    assert judged("y[i] = y[i] + 1").status == "REJECTED"
