"""What statements mention, and values of expressions that have a part in several places."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.fold import evaluate, simplify
from ktc.ir.nodes import Binary, Expr, Store, Var, fresh
from ktc.ir.text import parse_kernel, print_kernel
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


@pytest.mark.parametrize(
    ("choice", "folded"),
    [
        ("f32(n > 0 ? f64(x) : 0.5_f64)", "n > 0 ? x : 0.5"),
        ("f32(n > 0 ? f64(x) : 0.1_f64)", None),  # no float equals it
        ("f32(n > 0 ? f64(x) : 1e+40_f64)", None),
        ("f32(n > 0 ? f64(x) : f64(n))", None),
    ],
)
def test_a_choice_that_is_widened_to_be_rounded_back_is_one_of_floats(choice: str, folded: str | None) -> None:
    kernel = parse_kernel(f"kernel k(y: f32*, n: i32, x: f32)\n  launch grid(1) block(1)\n  y[0] = {choice}\n")
    (store,) = kernel.body
    assert isinstance(store, Store)
    again = kernel.with_(body=(dataclasses.replace(store, value=simplify(store.value)),))
    assert f"y[0] = {folded or choice}" in print_kernel(again)


@pytest.mark.parametrize(
    ("number", "folded"),
    [
        ("f32(0.1_f64)", "0.1"),
        ("f32(-(1.70141e+38_f64))", "-1.70141e+38"),
        ("f32(1e+40_f64)", None),
        ("f32(1e-60_f64)", None),
    ],
)
def test_a_double_that_is_rounded_to_a_float_is_the_float(number: str, folded: str | None) -> None:
    kernel = parse_kernel(f"kernel k(y: f32*)\n  launch grid(1) block(1)\n  y[0] = {number}\n")
    (store,) = kernel.body
    assert isinstance(store, Store)
    again = kernel.with_(body=(dataclasses.replace(store, value=simplify(store.value)),))
    assert f"y[0] = {folded or number}" in print_kernel(again)
