"""The order in which threads take precedence, read off what a tree of comparisons leaves."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.fold import evaluate, i32, simplify
from ktc.ir.nodes import Call, Expr
from ktc.ir.walk import map_expr
from ktc.passes.raising.recognise.tie_orders import Order, order_of


def tree(threads: int, distances: list[int], later: frozenset[int] = frozenset()):
    """What is left of tied threads by steps of these ``distances``; ``later``: those that prefer the other one."""

    def winner(tied: np.ndarray) -> int | None:
        kept = {t: t for t in range(threads)}
        for d in distances:
            for t in [t for t in sorted(kept) if not t & d]:
                a, b = kept[t], kept.pop(t | d)
                take = tied[b] if d in later else tied[b] and not tied[a]
                kept[t] = b if take else a
        (left,) = kept.values()
        return left if tied[left] else None

    return winner


def number(e: Expr) -> int:
    def reversed_bits(x: Expr) -> Expr:
        if isinstance(x, Call) and x.fn == "brev":
            return i32(int(f"{int(evaluate(x.args[0], {}) or 0):032b}"[::-1], 2))
        return x

    found = evaluate(simplify(map_expr(e, reversed_bits)), {})
    assert found is not None
    return int(found)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_distances_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances = [1 << int(b) for b in rng.permutation(6)]
    later = frozenset(d for d in distances if rng.integers(2))
    winner = tree(64, distances, later)
    order = order_of(64, winner)
    assert order is not None
    for _ in range(20):
        tied = rng.integers(0, 5, 64) == 0
        tied[rng.integers(64)] = True
        ranks = order.ranks(64)
        assert winner(tied) == min(np.flatnonzero(tied), key=lambda t: ranks[t])


@pytest.mark.parametrize(
    "order", [Order(0, (5, 4, 3, 2, 1, 0)), Order(0, (0, 1, 2, 3, 4, 5)), Order(9, (3, 5, 4, 0, 1, 2))]
)
def test_the_rank_of_a_thread_and_back(order: Order) -> None:
    ranks = order.ranks(64)
    assert sorted(ranks) == list(range(64))
    for t in range(64):
        assert number(order.rank(i32(t))) == ranks[t]
        assert number(order.thread(i32(int(ranks[t])))) == t


def test_what_is_no_order() -> None:
    assert order_of(48, tree(64, [32, 16, 8, 4, 2, 1])) is None
    assert order_of(8, lambda tied: int(np.flatnonzero(tied)[tied.sum() // 2])) is None
    assert order_of(8, lambda tied: None) is None
