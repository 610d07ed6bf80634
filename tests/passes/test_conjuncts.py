"""Conditions that some iteration meets: never claimed where none does."""

from __future__ import annotations

import itertools
import random

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.nodes import Binary, Expr, Level, Par, Var, fresh, i32
from ktc.ir.types import I32
from ktc.passes.shared.conjuncts import for_some

V, A, B = (fresh(name, I32) for name in "vab")


def _term(rng: random.Random, most: int) -> Expr:
    k = rng.choice([n for n in range(-most, most + 1) if n])
    beside = Binary("+", Binary("*", i32(rng.randint(-1, 1)), Var(rng.choice((A, B)))), i32(rng.randint(-3, 3)))
    return Binary("+", Binary("*", i32(k), Var(V)), beside)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_iteration_that_is_promised_is_there(most: int) -> None:
    """Against all numbers; with the counter once in each bound, nothing is missed either."""
    rng = random.Random(most)
    loop = Par(V, i32(0), i32(4), (Level("seq"),), ())
    said = missed = 0
    for _ in range(60):
        conds = [Binary(rng.choice(("<", ">=")), _term(rng, most), i32(rng.randint(-2, 4))) for _ in range(2)]
        left = for_some(loop, conds)
        assert left is not None
        for a, b in itertools.product(range(-3, 4), repeat=2):
            env = {"a": a, "b": b}
            claimed = all(evaluate(c, env) for c in left)
            meets = any(all(evaluate(c, {**env, "v": v}) for c in conds) for v in range(4))
            assert meets or not claimed, (conds, env)
            said += claimed
            missed += meets and not claimed
    assert said and (most > 1 or not missed)


def test_products_of_the_counter_are_not_followed() -> None:
    loop = Par(V, i32(0), i32(4), (Level("seq"),), ())
    assert for_some(loop, [Binary("<", Binary("*", Var(V), Var(A)), i32(3))]) is None
    assert for_some(loop, [Binary("<", Var(A), i32(3))]) == [Binary("<", Var(A), i32(3))]
