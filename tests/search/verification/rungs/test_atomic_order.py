"""Atomics that each thread makes by itself leave no order, and a candidate may not count on one."""

from pathlib import Path

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.workload import ArgSpec, Scenario, Workload
from ktc.search.verification import verify

WORKLOAD = Workload(
    Path("w.toml"),
    Path("k.cu"),
    "keep",
    (
        ArgSpec("x", "i32", "in", ("n",), init="ints", range=(-99, 99)),
        ArgSpec("out", "i32", "out", ("n",)),
        ArgSpec("count", "i32", "inout", ("1",), init="zeros"),
        ArgSpec("n", "i32", "scalar", value="n"),
    ),
    (Scenario("some", {"n": 1000}),),
    {"": {}},
)
OF_A_WARP = """
    const unsigned m = __ballot_sync(0xffffffff, p);
    int at = 0;
    if (lane == 0) at = atomicAdd(count, __popc(m));
    at = __shfl_sync(0xffffffff, at, 0) + __popc(m & ((1u << lane) - 1));
"""
OF_EACH = "int at = 0; if (p) at = atomicAdd(count, 1);"
LAST = "if (p) atomicExch(&out[0], x[b + lane]);"
HEAD = """
__global__ void keep(const int* x, int* out, int* count, int n) {
  const int lane = threadIdx.x % 32;
  for (int b = blockIdx.x * WARPS * 32 + threadIdx.x / 32 * 32; b < n; b += STEP) {
    const bool p = b + lane < n && x[b + lane] > 0;
    BODY
  }
}
void go(const int* x, int* out, int* count, int n) { keep<<<BLOCKS, WARPS * 32>>>(x, out, count, n); }
"""
STORED = "if (p) out[at] = x[b + lane];"


def kernel(body: str, *, warps: int = 1, blocks: str = "1", step: str = "32") -> Kernel:
    text = HEAD.replace("BODY", body).replace("WARPS", str(warps)).replace("BLOCKS", blocks).replace("STEP", step)
    return load(text, name="k.cu")


@pytest.mark.parametrize(
    ("original", "other", "status"),
    [
        (OF_A_WARP + STORED, OF_EACH + STORED, "REJECTED"),
        (OF_A_WARP + STORED, OF_A_WARP + STORED + ";", "PROVED"),
        ("if (p && lane == 0) atomicExch(&out[0], x[b]);", LAST.replace("(p)", "(p && lane < 1)"), "TESTED"),
        (
            LAST,
            LAST.replace("x[b", "2 * x[b").replace("]);", "] - x[b + lane]);"),
            "TESTED",
        ),  # the order is nobody's promise
    ],
)
def test_who_comes_first_is_not_counted_on(original: str, other: str, status: str) -> None:
    verdict = verify(kernel(original), kernel(other), WORKLOAD)
    assert verdict.status == status, verdict
    assert ("atomics come in another order" in verdict.reason) == (status == "REJECTED")


def test_of_many_warps_nobody_knows_which_comes_first() -> None:
    many = {"warps": 4, "blocks": "(n + 127) / 128", "step": "n"}
    verdict = verify(kernel(OF_A_WARP + STORED, **many), kernel(OF_EACH + STORED, **many), WORKLOAD)
    assert verdict.status == "TESTED"
