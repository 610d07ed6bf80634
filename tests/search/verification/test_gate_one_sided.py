"""What no run has shown the other side of: conditions without a branch, choices, values that data does not have."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.text import parse_kernel
from ktc.ir.workload import ArgSpec, Workload
from ktc.search.verification import verify
from tests.search.verification.gate_samples import _workload, scalar

EACH = """
kernel each(y: f32*, x: f32 const*, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n
    y[i] = VALUE
"""
WHOLE = EACH.replace("f32", "i32")


def elementwise(dtype: str, n: int) -> Workload:
    args = (ArgSpec("y", dtype, "out", ("n",)), ArgSpec("x", dtype, "in", ("n",)), scalar("n", "n"))
    return _workload("each", args, {"n": n})


FLOATS = {
    "x[i]": {
        "x[i] == 3.25 ? 0.0 : x[i]": "UNKNOWN",
        "n == 1000003 ? 0.0 : x[i]": "REJECTED",  # sizes of their own settle the doubts
        "n == 1000007 ? 0.0 : x[i]": "UNKNOWN",
        "x[i % 500000]": "REJECTED",
        "x[i & 524287]": "REJECTED",
        "x[min(i, 600000)]": "REJECTED",
        "x[i % 50000]": "REJECTED",
        "x[i & 65535]": "REJECTED",
        "x[min(i, 60000)]": "REJECTED",
        "x[i - i32(n > 1000000)]": "REJECTED",
        "x[min(i, n - 1)]": "TESTED",  # by the guard, always i
        "x[i & 2147483647]": "TESTED",
        "x[i % n]": "TESTED",
        "x[i32(f32(i))]": "UNKNOWN",  # not from 2^24 on
        "x[i] + 0.0": "REJECTED",  # -0
        "-(0.0 - x[i])": "REJECTED",
        "isnan(x[i]) ? 0.0 : x[i]": "REJECTED",
        "min(x[i], 3.0e38)": "REJECTED",
        "max(x[i], -3.0e38)": "REJECTED",
        "abs(x[i]) < 1.0e-38 ? 0.0 : x[i]": "REJECTED",
    },
    "abs(x[i])": {
        "x[i] < 0.0 ? -x[i] : x[i]": "REJECTED",  # -0
        "max(x[i], -x[i])": "TESTED",
    },
    "max(x[i], 0.0)": {
        "x[i] > 0.0 ? x[i] : 0.0": "TESTED",
        "max(0.0, x[i])": "TESTED",
        "x[i] < 0.0 ? 0.0 : x[i]": "REJECTED",  # NaN
    },
}  # fmt: skip
INTEGERS = {
    "x[i] / 2": {
        "x[i] >> 1": "REJECTED",
        "i32(u32(x[i]) / 2_u32)": "REJECTED",
        "(x[i] + i32(x[i] < 0)) >> 1": "TESTED",
        "(x[i] + i32(u32(x[i]) >> 31)) >> 1": "TESTED",
    },
    "x[i] % 8": {"x[i] & 7": "REJECTED", "x[i] - ((x[i] >> 3) << 3)": "REJECTED", "x[i] - x[i] / 8 * 8": "TESTED"},
    "x[i] * 3": {
        "i32(f32(x[i]) * 3.0)": "REJECTED",
        "i32(i16(x[i])) * 3": "REJECTED",
        "(x[i] << 1) + x[i]": "TESTED",
    },
    "abs(x[i])": {"x[i] < 0 ? -x[i] : x[i]": "TESTED", "i32(abs(f32(x[i])))": "REJECTED"},
}


def pairs(table: dict[str, dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(a, b, status) for a, others in table.items() for b, status in others.items()]


@pytest.mark.parametrize(("value", "other", "status"), pairs(FLOATS))
def test_floats(value: str, other: str, status: str) -> None:
    original, candidate = (parse_kernel(EACH.replace("VALUE", v)) for v in (value, other))
    verdict = verify(original, candidate, elementwise("f32", 1000003))
    assert verdict.status == status, verdict.reason


@pytest.mark.parametrize(("value", "other", "status"), pairs(INTEGERS))
def test_integers_of_no_given_range_are_any(value: str, other: str, status: str) -> None:
    original, candidate = (parse_kernel(WHOLE.replace("VALUE", v)) for v in (value, other))
    verdict = verify(original, candidate, elementwise("i32", 4096))
    assert verdict.status == status, verdict.reason


def test_what_the_original_takes_for_an_index_is_one() -> None:
    """Of data for which the original itself is out of bounds nothing is asked."""
    gather = WHOLE.replace("VALUE", "x[x[i] + 0]").replace("n: i32)", "n: i32 range 16..1000000)")
    args = (ArgSpec("y", "i32", "out", ("n",)), ArgSpec("x", "i32", "in", ("n",)), scalar("n", "n"))
    verdict = verify(
        parse_kernel(gather),
        parse_kernel(gather.replace("x[i] + 0", "x[i] & 15")),
        _workload("each", args, {"n": 4096}),
    )
    assert verdict.status == "UNKNOWN" and "kept its first operand" in verdict.reason


LIMITED = """
kernel limited(y: i32*, x: i32 const*, z: i32 const*, w: i32 const*, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n
    let limit: i32 = w[0]
    let v: i32 = x[i]
    y[i] = v < limit ? z[i] : 0
"""
LIKE_BEFORE = {
    "let most: i32 = w[0]\n    y[i] = x[i] < most ? z[i] : 0": "TESTED",
    "y[i] = v < limit ? (z[i] < limit ? z[i] : 0) : 0": "UNKNOWN",
    "let u: i32 = z[i]\n    y[i] = v < limit ? (u < limit ? u : 0) : 0": "UNKNOWN",
}


@pytest.mark.parametrize(("body", "status"), LIKE_BEFORE.items())
def test_a_condition_like_one_before_is_of_the_same_arguments(body: str, status: str) -> None:
    """Every x is below the limit in the original too; whether every z is nobody has asked."""
    buffers = {"x": (0, 1), "z": (0, 100), "w": (101, 200)}
    args = (
        ArgSpec("y", "i32", "out", ("n",)),
        *(ArgSpec(b, "i32", "in", ("n",), init="ints", range=r) for b, r in buffers.items()),
        scalar("n", "n"),
    )
    candidate = LIMITED.replace("y[i] = v < limit ? z[i] : 0", body)
    for _ in range(2):  # what the original has shown is known again when it is read again
        verdict = verify(parse_kernel(LIMITED), parse_kernel(candidate), _workload("limited", args, {"n": 4096}))
        assert verdict.status == status, verdict.reason
        assert status != "UNKNOWN" or any(f"{v} < limit" in verdict.reason for v in ("z[i]", "u")), verdict.reason


ROWS = """
kernel rows(y: f32*, x: f32 const*, n: i32 range 1..100000, d: i32 range 1..100000)
  launch grid(n) block(64)
  array s: shared f32[64]
  let t: i32 = i32(threadIdx.x)
  var a: f32 = 0.0
  for i: i32 = t; i < d; i + 64
    a += x[i32(blockIdx.x) * d + i]
  s[t] = a
  WHEN
    barrier
  if t == 0
    var b: f32 = 0.0
    for j: i32 = 0; j < 64; j + 1
      b += s[j]
    y[blockIdx.x] = b
"""


GUARDS = {"x[i32(blockIdx.x) * d] > -100.0": "REJECTED", "x[0] == x[0]": "UNKNOWN", "d > 0 && x[0] < 1000.0": "UNKNOWN"}


@pytest.mark.parametrize(("when", "status"), GUARDS.items())
def test_a_barrier_that_hangs_on_data_is_looked_at_for_data_without_it(when: str, status: str) -> None:
    args = (
        ArgSpec("y", "f32", "out", ("n",)),
        ArgSpec("x", "f32", "in", ("n", "d")),
        scalar("n", "n"),
        scalar("d", "d"),
    )
    original = parse_kernel(ROWS.replace("  WHEN\n    barrier", "  barrier"))
    verdict = verify(
        original, parse_kernel(ROWS.replace("WHEN", f"if {when}")), _workload("rows", args, {"n": 64, "d": 512})
    )
    assert verdict.status == status, verdict.reason
    assert status == "UNKNOWN" or (verdict.failure is not None and verdict.failure.kind == "race")


def test_signed_zeros_have_an_order_wherever_they_are() -> None:
    """numpy's own choice hangs on the place in the array."""
    import numpy as np

    from ktc.ir.interp import run

    k = parse_kernel(EACH.replace("VALUE", "max(x[i], 0.0) + min(0.0, x[i])"))
    for n in (1, 7, 16, 64, 100):
        for zero in (0.0, -0.0):
            x = np.full(n, zero, np.float32)
            assert not np.signbit(run(k, {"y": np.zeros(n, np.float32), "x": x, "n": n}).outputs["y"]).any()


HALVING = """
kernel each(y: f32*, x: f32 const*, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  var z: f32 = 0.0
  for o = FIRST; o > 0; o / DIVISOR
    z = i < n ? abs(x[i]) : 0.0
  if i < n
    y[i] = z
"""


@pytest.mark.parametrize(
    ("first", "divisor", "status"),
    [("1", "2", "TESTED"), ("3", "4", "TESTED"), ("1 + n / 2000003", "2", "UNKNOWN"), ("1 + n / 11", "2", "TESTED")],
)
def test_a_loop_that_halves_to_zero_at_once_says_no_more(first: str, divisor: str, status: str) -> None:
    original = parse_kernel(EACH.replace("VALUE", "abs(x[i])"))
    candidate = parse_kernel(HALVING.replace("FIRST", first).replace("DIVISOR", divisor))
    assert verify(original, candidate, elementwise("f32", 1 << 20)).status == status


LOOP = """
kernel each(y: f32*, x: f32 const*, n: i32)
  launch grid(1) block(64)
  for j = i32(threadIdx.x); j < n; j + 64
    y[j] = x[j]
"""


@pytest.mark.parametrize(
    ("original", "candidate", "status"),
    [
        ("j < n", "j < n && j < 20000", "REJECTED"),  # a size of its own settles the doubt
        ("j < n", "j < n && j < 100000007", "UNKNOWN"),
        ("j < n && j < 100000007", "!(j >= 100000007) && j < n", "TESTED"),
    ],
)
def test_what_ends_a_loop_beside_its_count(original: str, candidate: str, status: str) -> None:
    a, b = (parse_kernel(LOOP.replace("j < n", ends)) for ends in (original, candidate))
    verdict = verify(a, b, elementwise("f32", 1000))
    assert verdict.status == status, verdict


@pytest.mark.parametrize(("end", "status"), [("min(72, room)", "TESTED"), ("min(n, room)", "UNKNOWN")])
def test_what_a_number_decides_in_the_end_of_a_loop_has_one_side(end: str, status: str) -> None:
    """``room`` is 100,000,007, as the workload says: at least 72 at all sizes, and beyond every one that is run."""
    a, b = (
        parse_kernel(LOOP.replace("n: i32)", "n: i32, room: i32)").replace("j < n", f"j < {e}"))
        for e in ("72" if "72" in end else "n", end)
    )
    work = elementwise("f32", 1000)
    work = dataclasses.replace(work, args=(*work.args, scalar("room", 100_000_007)))
    assert verify(a, b, work).status == status


RING = """
kernel ring(y: f32*, x: f32 const*, n: i32)
  launch grid(n) block(THREADS)
  array row: shared f32[512]
  let t: i32 = threadIdx.x
  let first: i32 = i32(blockIdx.x) * n
  for k = t; k < n; k + THREADS
    let at: i32 = k % 512
    row[at] = x[first + k]
  barrier
  for q = t; q < n; q + THREADS
    y[first + q] = row[q % 512]
"""


@pytest.mark.parametrize(("threads", "status"), [(64, "TESTED"), (96, "REJECTED")])
def test_places_that_many_store_to_beyond_some_size_are_met(threads: int, status: str) -> None:
    """Below 512 elements each has a place of its own, and the subscripts are the original's; beyond, what is stored
    last stays, and with 96 threads it is another thread that stores it."""
    square = dataclasses.replace(elementwise("f32", 2000), kernel_name="ring")
    args = tuple(dataclasses.replace(a, shape=("n", "n")) if a.shape else a for a in square.args)
    original, candidate = (parse_kernel(RING.replace("THREADS", str(n))) for n in (128, threads))
    assert verify(original, candidate, dataclasses.replace(square, args=args)).status == status
