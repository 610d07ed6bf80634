"""Affine forms: what they accept, what they refuse, and that they mean the same as the expression."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktc.ir.arith.affine import coefficient, is_unit_stride, linear_form, remainder
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import multiple_of, polynomial, same_value
from ktc.ir.fold import evaluate, is_const
from ktc.ir.nodes import Binary, Cast, Const, HwIndex, Knob, Load, Unary, Var, fresh, i32
from ktc.ir.types import F32, I32, I64, U32, Ptr

I, J, D, N = (fresh(n, I32) for n in ("i", "j", "d", "n"))
i, j, d, n = (Var(s) for s in (I, J, D, N))
TX, BX, BDX = HwIndex("thread", "x"), HwIndex("block", "x"), HwIndex("block_dim", "x")


def op(o, a, b):
    return Binary(o, a, b)


def wide(e):
    return Cast(I64, e)


def test_row_major_index_has_symbolic_and_unit_coefficients():
    index = op("+", op("*", op("*", wide(i), Const(2, I64)), wide(d)), wide(j))
    form = linear_form(index, {I, J})
    assert same_value(form.coeff(I), op("*", i32(2), d))
    assert is_const(form.coeff(J), 1)
    assert is_const(form.rest, 0)
    assert is_unit_stride(index, J) and not is_unit_stride(index, I)


def test_hardware_indices_through_an_unsigned_to_signed_cast():
    index = Cast(I32, op("+", op("*", BX, BDX), TX))
    form = linear_form(index, {TX, BX})
    assert is_const(form.coeff(TX), 1)
    assert without_index_casts(form.coeff(BX)) == BDX
    assert is_unit_stride(index, TX)


def test_reversed_unsigned_index_has_coefficient_minus_one():
    form = linear_form(op("-", Const(31, U32), TX), {TX})
    assert form.coeff(TX).value == -1 and form.rest.value == 31


@pytest.mark.parametrize(
    "e",
    [
        op("*", i, j),
        op("/", i, i32(2)),
        op("%", i, d),
        op("&", i, i32(7)),
        Load(fresh("idx", Ptr(I32)), (i,)),
        Cast(F32, i),
        op("<<", i32(1), i),
    ],
    ids=["product", "division", "modulo", "mask", "indirect", "float", "shift-by"],
)
def test_what_is_not_affine_is_none(e):
    assert linear_form(e, {I, J}) is None


def test_division_free_of_the_symbols_is_rest():
    form = linear_form(op("+", op("/", d, i32(2)), i), {I})
    assert form.rest == op("/", d, i32(2))


def test_cancelling_terms_vanish():
    assert linear_form(op("-", op("+", i, j), i), {I, J}).coeffs.keys() == {J}


def test_knobs_stand_in_coefficients():
    index = op("+", op("*", i, Knob("V")), j)
    assert coefficient(index, I) == Knob("V")
    assert remainder(index, I) == j


def test_absent_symbol_has_coefficient_zero():
    assert is_const(coefficient(d, I), 0)


def test_multiple_of_uses_known_divisors():
    index = op("+", op("*", i, d), i32(16))
    assert multiple_of(index, 8, {d: 8})
    assert not multiple_of(index, 8)
    assert not multiple_of(op("+", index, i32(4)), 8, {d: 8})


def test_polynomials_join_like_terms_and_ignore_order():
    a = op("*", op("+", i, j), op("-", i, j))
    b = op("-", op("*", i, i), op("*", j, j))
    assert same_value(a, b)
    assert polynomial(op("-", i, i)) == {}
    assert not same_value(op("/", i, d), op("/", d, i))


LEAVES = st.sampled_from([i, j, d, n, i32(0), i32(1), i32(3), i32(-2), i32(8)])


def _grow(inner):
    pair = st.tuples(st.sampled_from("+-*"), inner, inner)
    return st.one_of(
        pair.map(lambda t: op(*t)),
        inner.map(lambda e: Unary("-", e)),
        st.tuples(inner, st.integers(0, 3)).map(lambda t: op("<<", t[0], i32(t[1]))),
    )


@settings(max_examples=300, deadline=None)
@given(e=st.recursive(LEAVES, _grow, max_leaves=8), values=st.tuples(*[st.integers(0, 40)] * 4))
def test_a_form_evaluates_to_what_the_expression_does(e, values):
    env = dict(zip(("i", "j", "d", "n"), values))
    expected = evaluate(e, env)
    form = linear_form(e, {I, J})
    if form is not None:
        assert evaluate(form.expr(), env) == expected
        for c in (*form.coeffs.values(), form.rest):
            assert not any(isinstance(x, Var) and x.sym in (I, J) for x in _walk(c))
    total = sum(v * _product(f, env) for f, v in polynomial(e).items())
    assert total == expected


def _walk(e):
    from ktc.ir.walk import walk_expr

    return walk_expr(e)


def _product(factors, env):
    out = 1
    for f in factors:
        out *= evaluate(f, env)
    return out
