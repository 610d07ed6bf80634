"""What statements mention, and values of expressions that have a part in several places."""

from __future__ import annotations

from ktc.ir.fold import evaluate
from ktc.ir.nodes import Binary, Expr, Var, fresh
from ktc.ir.text import parse_kernel
from ktc.ir.types import I32
from ktc.ir.walk import assigned, mentions, used_in, walk
from tests.ir.interp.interp_samples import ROWS_PARALLEL, ROWS_TREE


def test_a_statement_mentions_what_it_and_those_in_it_read_and_write() -> None:
    for text in (ROWS_TREE, ROWS_PARALLEL):
        for s in walk(parse_kernel(text).body):
            assert mentions(s) == used_in((s,)) | assigned((s,)), s


def test_a_part_that_stands_in_many_places_is_evaluated_once() -> None:
    """A sum of two of itself, 200 times over: as a tree it has 2^200 leaves."""
    n = fresh("n", I32)
    e: Expr = Var(n)
    for _ in range(200):
        e = Binary("+", e, e)
    assert evaluate(e, {"n": 3}) == 3 << 200 and evaluate(e, {"n": 5}) == 5 << 200 and evaluate(e, {}) is None
