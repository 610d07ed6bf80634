"""Sizes at which nothing says what the original's results are, for it races or reads memory that nobody wrote, are not
held against a candidate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel
from ktc.ir.workload import ArgSpec, Scenario, Workload
from ktc.search.verification import verify
from tests.search.verification.gate_samples import scalar

ADD = """
__global__ void add(float* y, const float* x, int n, int m) {
  int i = blockIdx.x * 32 + threadIdx.x;
  if (i < n) y[PLACE] = y[PLACE] + x[WHAT];
}
void go(float* y, const float* x, int n, int m) { HOST add<<<(n + 31) / 32, 32>>>(y, x, n, m); }
"""

SIZES = Workload(
    Path("w.toml"),
    Path("k.cu"),
    "add",
    (
        ArgSpec("y", "f32", "inout", ("m",)),
        ArgSpec("x", "f32", "in", ("n",)),
        scalar("n", "n"),
        scalar("m", "m"),
    ),
    (Scenario("usual", {"n": 64, "m": 64}), Scenario("longer", {"n": 200, "m": 300})),
    {"": {}},
)


def add(place: str = "i % m", what: str = "i", thread: str = "threadIdx.x", host: str = "") -> Kernel:
    text = ADD.replace("PLACE", place).replace("WHAT", what).replace("threadIdx.x", thread).replace("HOST", host)
    return load(text, name="k.cu")


BACKWARDS = "(31 - threadIdx.x)"
"""Where two threads of a warp come to one place, another is the last."""


def test_an_order_that_only_a_race_shows_is_none() -> None:
    verdict = verify(add(), add(thread=BACKWARDS), SIZES)
    assert verdict.status == "TESTED"


def test_what_is_wrong_at_other_sizes_is_wrong() -> None:
    assert verify(add(), add(what="n - 1 - i", thread=BACKWARDS), SIZES).status == "REJECTED"


@pytest.mark.parametrize("place", ["i / 2", "i % 7 % m"])
def test_a_source_that_races_at_most_sizes_is_compared_at_all(place: str) -> None:
    assert verify(add(place), add(place, thread=BACKWARDS), SIZES).status == "REJECTED"


def test_sizes_that_the_host_asserts_against_are_not_held_against_a_candidate() -> None:
    """Most of those that are tried race here."""
    few = replace(SIZES, scenarios=(Scenario("few", {"n": 4, "m": 64}), Scenario("more", {"n": 12, "m": 200})))
    for other, host, status in ((2, "assert(n * n <= m);", "TESTED"), (3, "", "REJECTED")):
        place = f"i / (n * n <= m ? 1 : {other})"
        assert verify(add(place, host=host), add(place, thread=BACKWARDS), few).status == status


LAST_OF_FOUR = """
__global__ void last(float* y, const float* x, int n, int m) {
  __shared__ float kept[8];
  int t = threadIdx.x, i = blockIdx.x * 32 + t;
  if (i < n && (t % 4 == 3 || (i == n - 1 && n % 4 != LEFT))) kept[t / 4] = x[i];
  __syncthreads();
  if (i < n) y[i] = kept[t / 4];
}
void go(float* y, const float* x, int n, int m) { last<<<(n + 31) / 32, 32>>>(y, x, n, m); }
"""
"""Where the last four elements are not whole, nobody may have written what is read."""

DIRECTLY = """
__global__ void last(float* y, const float* x, int n, int m) {
  int i = blockIdx.x * 32 + threadIdx.x;
  if (i < n) y[i] = x[min(i / 4 * 4 + 3, n - 1)];
}
void go(float* y, const float* x, int n, int m) { last<<<(n + 31) / 32, 32>>>(y, x, n, m); }
"""
ROWS = replace(
    SIZES,
    kernel_name="last",
    args=(ArgSpec("y", "f32", "out", ("n",)), ArgSpec("x", "f32", "in", ("n",)), *SIZES.args[2:]),
)


@pytest.mark.parametrize(("left", "status"), [("1", "TESTED"), ("(n % 4)", "REJECTED")])
def test_memory_that_nobody_wrote_at_some_sizes_is_not_compared(left: str, status: str) -> None:
    """Where that is so at most sizes, these are compared: they are not what is wrong."""
    verdict = verify(load(LAST_OF_FOUR.replace("LEFT", left), name="k.cu"), load(DIRECTLY, name="k.cu"), ROWS)
    assert verdict.status == status
