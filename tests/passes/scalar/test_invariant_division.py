"""Divisions by what a loop does not change."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.core.refusals import Refused, Result
from ktc.passes.raising.raise_ import Raise
from ktc.passes.scalar.invariant_division import InvariantDivision

ROWS = """kernel k(x: u32 const*, q: u32*, r: u32*, n: u32, d: u32)
  par i: u32 in 0_u32..n @ [thread.x 32, block.x, seq]
    q[i] = x[i] / d
    r[i] = x[i] % d
"""
RANKED = """
__global__ void gather(const float* x, float* y, const size_t* dims, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    unsigned left = i, at = 0;
    for (int d = 2; d >= 0; d--) {
      at += left % dims[d] * dims[3 + d];
      left /= dims[d];
    }
    y[i] = x[at];
  }
}
void go(const float* x, float* y, const size_t* dims, unsigned n) { gather<<<(n + 63) / 64, 64>>>(x, y, dims, n); }
"""


def divided(kernel: Kernel) -> Kernel:
    done = InvariantDivision().run(kernel)
    assert isinstance(done, Result)
    return done.kernel


EDGES = (0, 1, 2, 3, 7, (1 << 16) - 1, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1)


@pytest.mark.parametrize("d", [d for d in EDGES if d] + [random.Random(5).randrange(1, 1 << 32) for _ in range(6)])
def test_quotients_and_remainders_of_words_are_exact(d: int) -> None:
    rng = random.Random(d)
    near = [max(0, min((1 << 32) - 1, d * k + by)) for k in (1, 2, 3, ((1 << 32) - 1) // d) for by in (-1, 0, 1)]
    x = np.array([*EDGES, *near, *(rng.randrange(1 << 32) for _ in range(40))], np.uint32)
    kernel = divided(parse_kernel(ROWS))
    assert "d_reciprocal" in print_kernel(kernel) and "% d" not in print_kernel(kernel)
    q, r = np.zeros_like(x), np.zeros_like(x)
    found = run(kernel, {"x": x, "q": q, "r": r, "n": len(x), "d": d})
    assert found.ok
    assert (found.outputs["q"] == x // d).all() and (found.outputs["r"] == x % d).all()


@pytest.mark.parametrize("extents", [(4, 5, 6), (1, 1, 120), (120, 1, 1), (1 << 33, 2, 60), (3, 1 << 40, 40)])
def test_extents_in_memory_are_read_once_in_front_of_the_loop(extents: tuple[int, int, int]) -> None:
    raised = Raise().run(load(RANKED, name="k.cu"))
    assert isinstance(raised, Result)
    kernel = divided(raised.kernel)
    text = print_kernel(kernel)
    assert text.count("let over_dims") == 6 and "for d" not in text
    n = 120
    x, dims = np.arange(n, dtype=np.float32), np.array([*extents, 1, 1, 1], np.uint64)
    args = {"x": x, "y": np.zeros(n, np.float32), "dims": dims, "n": n}
    both = [run(k, {**args, "y": np.zeros(n, np.float32)}).outputs["y"] for k in (raised.kernel, kernel)]
    assert (both[0] == both[1]).all() and both[0].any()


@pytest.mark.parametrize(
    ("levels", "count", "asks"),
    [
        ("thread.x 32, block.x", "n: u32", False),
        ("thread.x 32, block.x 8, seq", "n: u32", True),
        ("thread.x 32, block.x 8, seq", "n: u32 range 1..1000", False),
    ],
)
def test_extents_are_read_without_a_question_where_threads_have_something_to_do(
    levels: str, count: str, asks: bool
) -> None:
    kernel = divided(
        parse_kernel(f"""kernel k(x: f32 const*, y: f32*, dims: u32 const*, {count})
  par i: u32 in 0_u32..n @ [{levels}]
    y[i] = x[i % dims[1]]
""")
    )
    assert ("0_u32 < n ?" in print_kernel(kernel)) == asks


def test_nothing_is_read_in_front_of_a_loop_without_iterations() -> None:
    raised = Raise().run(load(RANKED, name="k.cu"))
    assert isinstance(raised, Result)
    args = {"x": np.zeros(1, np.float32), "y": np.zeros(1, np.float32), "dims": np.zeros(0, np.uint64), "n": 0}
    assert run(divided(raised.kernel), args).ok


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (ROWS.replace("/ d", "/ 8").replace("% d", "% 8"), "numbers of the source are the compiler's"),
        (ROWS.replace("/ d", "/ (i + 1_u32)").replace("% d", "% (i + 1_u32)"), "another divisor in each iteration"),
        (ROWS.replace("u32", "i32"), "it may be negative"),
        (ROWS.replace("/ d", "/ q[0]").replace("% d", "% r[0]"), "the loop writes it"),
    ],
)
def test_what_is_left(source: str, why: str) -> None:
    assert isinstance(InvariantDivision().run(parse_kernel(source)), Refused), why
