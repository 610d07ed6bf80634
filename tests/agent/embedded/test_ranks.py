"""Kernels for tensors of any rank: the rank that they are called with is bound."""

from __future__ import annotations

from ktc.agent.embedded.ranks import DIVIDED, of_known_rank
from ktc.agent.embedded.trials import after
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.text import parse_kernel, print_kernel

RANKED = parse_kernel("""kernel k(x: f32 const*, y: f32*, dims: u64 const*, n: u32, rank: i32)
  par i: u32 in 0_u32..n @ [thread.x 64, block.x]
    var left: u32 = i
    var at: u32 = 0_u32
    for d: i32 = 0; d < rank; d + 1
      at += left % dims[d]
      left /= dims[d]
    y[i] = x[at]
""")


def seen(*ranks: int) -> list:
    return [facts(RANKED, {"n": 1000 * k, "rank": rank}) for k, rank in enumerate(ranks, 1)]


def test_the_rank_of_all_calls_is_bound_and_its_divisions_are_products() -> None:
    before, kernel = of_known_rank(RANKED, seen(3, 3))
    assert before == "specialize{rank=3} | "
    done = after(kernel, DIVIDED)
    assert done is not None and print_kernel(done).count("mulhi") == 6


def test_ranks_that_differ_or_are_large_stay() -> None:
    assert of_known_rank(RANKED, seen(3, 4)) == ("", RANKED)
    assert of_known_rank(RANKED, seen(100)) == ("", RANKED)
