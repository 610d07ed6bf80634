"""What no instance of a sequence shows is asked of each launch, by its own grid, block and cached loads."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.ir.workload import ArgSpec
from ktc.search.verification import verify
from ktc.search.verification.instances.instances import axis_name, extents, instances, single_axes
from ktc.search.verification.job import Job
from ktc.search.verification.rungs.static import static
from tests.search.verification.gate_samples import _workload

PAIR = """
kernel pair(y: f32* noalias, x: f32 const* noalias, t: f32* noalias temporary(i64(n) * i64(d)),
    n: i32 range 1..65535, d: i32 range 1..65536)
  launch "first" grid(cdiv(d, 128), n) block(128)
    let c: i32 = i32(blockIdx.x) * 128 + i32(threadIdx.x)
    if c < d
      let at: i64 = i64(blockIdx.y) * i64(d) + i64(c)
      t[at] = x[at] + 1.0
  launch "second" grid(n) block(32)
    for i: i32 = i32(threadIdx.x); i < d; i + 32
      let at_1: i64 = i64(blockIdx.x) * i64(d) + i64(i)
      y[at_1] = exp(t[at_1])
"""
TEMPORARY = ArgSpec("t", "f32", "temp", ("n", "d"))
WORKLOAD = _workload(
    "pair",
    (
        ArgSpec("y", "f32", "out", ("n", "d")),
        ArgSpec("x", "f32", "in", ("n", "d")),
        ArgSpec("n", "i32", "scalar", value="n", range=(1, 65535)),
        ArgSpec("d", "i32", "scalar", value="d", range=(1, 1 << 16)),
    ),
    {"n": 300, "d": 500},
)
FAULTS = {
    "a narrowed index in the second launch": (
        ("let at_1: i64 = i64(blockIdx.x) * i64(d) + i64(i)", "let at_1: i32 = i32(blockIdx.x) * d + i"),
        "overflow",
    ),
    "a grid that no device takes": (("grid(cdiv(d, 128), n)", "grid(cdiv(d, 128), n + n)"), "launch"),
    "a cached load of what the launch writes": (("exp(t[at_1])", "exp(t[at_1]) + y.ldg[at_1]"), "race"),
}


def judged(change: tuple[str, str]):
    candidate = parse_kernel(PAIR.replace(*change))
    return static(Job(parse_kernel(PAIR), candidate, None, [], WORKLOAD))  # type: ignore[arg-type]


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_of_one_launch(what: str) -> None:
    change, kind = FAULTS[what]
    found = judged(change)
    assert found.status == "fail" and found.failure is not None and found.failure.kind == kind


def test_a_later_launch_may_cache_what_an_earlier_one_wrote() -> None:
    assert judged(("exp(t[at_1])", "exp(t.ldg[at_1])")).status == "pass"


def test_axes_are_those_of_each_launch() -> None:
    """One row of blocks of the first launch is no reason to think that the second has had two blocks."""
    pair = parse_kernel(PAIR)
    assert extents(pair, {"n": 3, "d": 129}) == (2, 3, 1, 128, 1, 1, 3, 1, 1, 32, 1, 1)
    tried = instances(pair, pair, WORKLOAD)
    narrow = [i for i in tried if i.sizes["n"] > 1 and i.sizes["d"] <= 128]
    assert [axis_name(pair, k) for k in single_axes(pair, WORKLOAD, narrow)] == ["block along x of 'first'"]
    assert not single_axes(pair, WORKLOAD, tried)
    assert {128, 129} <= {i.sizes["d"] for i in tried}


def test_blocks_that_only_large_sizes_have() -> None:
    """The first launch forgets all blocks but eight along x: 1025 elements of a row are needed to see it."""
    one_row = "grid(min(cdiv(d, 128), 8), n)"
    verdict = verify(parse_kernel(PAIR), parse_kernel(PAIR.replace("grid(cdiv(d, 128), n)", one_row)), WORKLOAD)
    assert not verdict.ok, verdict
