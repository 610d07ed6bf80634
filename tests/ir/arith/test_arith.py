"""What is known of integers: against brute force on random ones, and the idioms of index arithmetic one by one."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktc.ir.arith import LOWERING, REWRITES, Congruence, Facts, Interval, Trust, facts_of, simplified
from ktc.ir.arith.divisors import quotient
from ktc.ir.arith.interval import EMPTY
from ktc.ir.arith.interval_operators import BINARY
from ktc.ir.arith.loop_extents import chosen_extreme
from ktc.ir.arith.polynomial import Polynomial, constant, plus, polynomial, times
from ktc.ir.arith.symbolic_bounds import lower_bound, upper_bound
from ktc.ir.fold import INT_OPS, evaluate
from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Assume, Kernel, Launch, Param
from ktc.ir.nodes import Binary, Call, Cast, Const, Eval, Expr, For, HwIndex, If, Par, Return, Sym, Var, fresh, i32
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import I32, I64, U32, U64, Scalar

from .judged import judge_nest, judge_points, judge_tiles

FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@FEW
@given(st.integers(0, 10**9))
def test_facts_of_random_expressions_hold_at_points(seed: int) -> None:
    judge_points(Random(seed), Counter())


@settings(FEW, max_examples=4)
@given(st.integers(0, 10**9))
def test_facts_of_random_nests_hold_on_every_arrival(seed: int) -> None:
    judge_nest(Random(seed), Counter())


@settings(FEW, max_examples=40)
@given(st.integers(0, 10**9))
def test_facts_of_loops_over_tiles_hold_on_every_arrival(seed: int) -> None:
    judge_tiles(Random(seed), Counter())


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%", "&", "|", "^", "<", "<=", "==", "!="])
def test_operators_hold_all_results_and_are_tight_on_sums(op: str) -> None:
    for a in (Interval(-3, 2), Interval(0, 6), Interval(-7, -2), Interval(5, 5)):
        for b in (Interval(-2, 3), Interval(1, 4), Interval(3, 3), Interval(-5, -1)):
            found = BINARY[op](a, b)
            values = [
                int(INT_OPS[op](x, y))
                for x in range(a.low or 0, (a.high or 0) + 1)
                for y in range(b.low or 0, (b.high or 0) + 1)
                if y or op not in "/%"
            ]
            assert all(v in found for v in values)
            if op in ("+", "-", "*", "/"):
                assert found == Interval(min(values), max(values))


def test_an_interval_wraps_exactly_where_all_of_it_wraps_alike() -> None:
    assert Interval(-2, -1).wrapped(U32) == Interval(2**32 - 2, 2**32 - 1)
    assert Interval(-1, 0).wrapped(U32) == Interval(0, 2**32 - 1)
    assert Interval(1, 3).meet(Interval(4, 5)) == EMPTY


def test_congruences_join_and_meet() -> None:
    assert Congruence.point(3).join(Congruence.point(11)) == Congruence(8, 3)
    assert Congruence(4, 1).meet(Congruence(6, 3)) == Congruence(12, 9)


# ------------------------------------------------------------------------------------------------------------- idioms


def size(name: str, low: int | None = 1, high: int | None = None, t: Scalar = I32, **more: object) -> Param:
    return Param(fresh(name, t), range=(low, high), **more)  # type: ignore[arg-type]


def v(p: Param | Sym) -> Var:
    return Var(p.sym if isinstance(p, Param) else p)


def op(o: str, a: Expr, b: Expr | int) -> Binary:
    return Binary(o, a, Const(b, a.type) if isinstance(b, int) else b)  # type: ignore[arg-type]


def known(*params: Param, body: tuple = (), assumed: tuple[Expr, ...] = (), trust: Trust = REWRITES, **more) -> Facts:
    launch = more.get("launch")
    return Facts(Kernel("k", params, launch, body, assumptions=tuple(map(Assume, assumed))), trust)


def test_an_element_of_a_matrix_is_below_its_size() -> None:
    rows, cols = size("rows"), size("cols")
    r, c = fresh("r", I32), fresh("c", I32)
    index = op("+", op("*", v(r), v(cols)), v(c))
    inner = Par(c, i32(0), v(cols), (), (Eval(index),))
    facts = known(rows, cols, body=(Par(r, i32(0), v(rows), (), (inner,)),))
    assert facts.below(index, op("*", v(rows), v(cols)))
    assert not facts.below(index, v(rows))
    assert facts.never_negative(index)


def test_a_triangle_stays_in_its_square() -> None:
    n, i, j = size("n"), fresh("i", I32), fresh("j", I32)
    inner = For(j, i32(0), op("<=", v(j), v(i)), op("+", v(j), 1), (s := Eval(v(j)),))
    outer = For(i, i32(0), op("<", v(i), v(n)), op("+", v(i), 1), (inner,))
    facts = known(n, body=(outer,))
    assert facts.at(s).below(op("+", op("*", v(i), v(n)), v(j)), op("*", v(n), v(n)))
    assert facts.at(s).at_most(v(j), v(i))
    assert not facts.below(v(j), v(n))  # its condition is asked once more than it holds


def test_threads_of_the_blocks_of_a_launch() -> None:
    n = size("n", high=1 << 30)
    one = i32(1)
    launch = Launch((Call("cdiv", (v(n), i32(256)), I32), one, one), (i32(256), one, one))
    block, thread = (Cast(I32, HwIndex(level, "x"), "c") for level in ("block", "thread"))
    first, element = op("*", block, 256), op("+", op("*", block, 256), thread)
    facts = known(n, launch=launch, trust=Trust(parameters=True, launch=True))
    assert facts.below(first, v(n))  # the last block has an element
    assert not facts.below(element, v(n))
    assert facts.under(op("<", element, v(n))).truth(op("<=", v(n), element)) is False
    assert facts.interval(HwIndex("thread", "x")) == Interval(0, 255)


def test_an_assumed_product_stands_for_its_factors() -> None:
    batch, length, rows = size("batch"), size("length"), size("rows")
    facts = known(batch, length, rows, assumed=(op("==", v(rows), op("*", v(batch), v(length))),))
    assert facts.equal(v(rows), op("*", v(length), v(batch)))
    assert facts.below(op("%", v(rows), v(length)), v(length))


def test_guards_and_early_exits_hold_from_there_on() -> None:
    n, i = size("n"), size("i", low=None)
    last = Eval(v(i))
    body = (If(op(">=", v(i), v(n)), (Return(),), ()), If(op("<", v(i), 0), (Return(),), ()), last)
    facts = known(n, i, body=body)
    assert facts.truth(op("<", v(i), v(n))) is None
    assert facts.at(last).truth(op("<", v(i), v(n))) is True
    assert facts.at(last).never_negative(v(i))


def test_what_changes_is_not_known_from_a_guard() -> None:
    from ktc.ir.nodes import Assign, Decl

    x, last = fresh("x", I32), Eval(i32(0))
    body = (Decl(x, i32(0)), If(op("<", v(x), 5), (Assign(x, i32(9)), last), ()))
    assert 9 in known(body=body).at(last).interval(v(x))


def test_unsigned_arithmetic_wraps_unless_its_threads_are_counted() -> None:
    first = op("*", HwIndex("block", "x"), HwIndex("block_dim", "x"))
    number = op("+", first, HwIndex("thread", "x"))
    assert known(trust=Trust()).interval(number) == Interval.of_type(U32)
    assert known(trust=Trust(threads=2**31 - 1)).interval(number) == Interval(0, 2**31 - 2)


def test_origins_count_as_the_trust_says() -> None:
    n = size("n", 0, 9, origins=(("range", "guessed"),))
    assert known(n, trust=Trust(parameters=True)).interval(v(n)) == Interval.of_type(I32)
    assert known(n).interval(v(n)) == Interval(0, 9)
    assert known(n, trust=Trust()).interval(v(n)) == Interval.of_type(I32)


def test_a_conversion_that_may_not_fit_says_nothing() -> None:
    n = size("n", 0, 1 << 40, I64)
    assert not known(n).never_negative(Cast(I32, v(n), "c"))


def test_a_wrapped_multiple_of_three_is_none() -> None:
    n = size("n", t=U32)
    assert not known(n).multiple_of(op("*", v(n), 3), 3)
    assert known(n).multiple_of(op("*", v(n), 4), 4)


def test_a_shift_moves_bits_into_the_sign() -> None:
    b = size("b", -1, 1 << 16)
    assert (37751 << 16) - 2**32 in known(b).interval(op("<<", v(b), 16))


def test_digits_are_known() -> None:
    x, y, n = size("x", 0, 7), size("y", 0, 100), size("n", 8, 64)
    f = known(x, y, n)
    both = op("+", v(x), op("*", v(n), v(y)))
    assert simplified(op("/", both, v(n)), f) == v(y)
    assert simplified(op("%", both, v(n)), f) == v(x)
    assert simplified(op("%", v(x), v(n)), f) == v(x)
    assert simplified(op("+", op("*", op("/", v(y), v(n)), v(n)), op("%", v(y), v(n))), f) == v(y)
    assert simplified(op("/", op("/", v(y), 4), 8), f) == op("/", v(y), 32)
    assert simplified(Call("min", (v(x), v(n)), I32), f) == v(x)
    assert simplified(op("/", op("-", v(x), op("*", v(n), v(y))), v(n)), f) != v(y)


@pytest.mark.parametrize("through, shown", [("u64", True), ("u32", False)])
def test_a_step_through_a_narrower_type_may_lead_back(through: str, shown: bool) -> None:
    n, i = size("n", t=I64), fresh("i", I64)
    t = {"u64": U64, "u32": U32}[through]
    step = Cast(I64, Binary("+", Cast(t, Var(i), "c"), Const(1, t)), "c")
    inner = Eval(Var(i))
    facts = known(n, body=(For(i, Const(5, I64), op("<", Var(i), v(n)), step, (inner,)),))
    assert facts.at(inner).at_most(Const(5, I64), Var(i)) == shown


def test_a_counter_that_falls_stays_below_its_beginning() -> None:
    n, i = size("n"), fresh("i", I32)
    inner = Eval(Var(i))
    loop = For(i, op("-", v(n), 1), op(">=", Var(i), 0), op("-", Var(i), 1), (inner,))
    assert known(n, body=(loop,)).at(inner).below(Var(i), v(n))


def test_a_positive_quotient_says_how_large_the_dividend_is() -> None:
    n = size("n", None)
    for part in (Call("cdiv", (v(n), Const(4, I32)), I32), op("/", op("+", v(n), 3), 4)):
        assert known(n).under(op("<", Const(0, I32), part)).interval(v(n)).low == 1


def test_bounds_are_found_over_what_is_given() -> None:
    n, m, i, j = size("n", 0), size("m", 0), fresh("i", I32), fresh("j", I32)
    inner = Eval(op("+", op("*", Var(i), v(m)), Var(j)))
    body = (Par(i, Const(0, I32), v(n), (), (If(op("<", Var(i), 7), (Par(j, i32(0), v(m), (), (inner,)),), ()),)),)
    facts = known(n, m, body=body).at(inner)
    given = {v(n), v(m)}
    high = upper_bound(facts.polynomial(inner.value), facts, given.__contains__)
    assert high == {(v(m),): 7, (): -1}  # of a guard and of a size the one that is plainer
    assert lower_bound(facts.polynomial(inner.value), facts, given.__contains__) == {}


def test_proofs_that_ask_for_what_they_are_part_of_end() -> None:
    judge_nest(Random("7 69 7"), Counter())  # the end of a loop is a difference of unsigned numbers that depend on it


@pytest.mark.parametrize("by", [i32(16), Cast(I32, Var(fresh("n", U32)), "c")])
def test_the_operands_of_an_atom_have_one_type(by: Expr) -> None:
    digit = op("/", Cast(I32, HwIndex("thread", "x"), "c"), by)
    f = known(launch=Launch((i32(8),), (i32(32),)))
    for p in (f.polynomial(digit), polynomial(digit)):
        ((atom,),) = p
        assert isinstance(atom, Binary) and atom.a.type == atom.b.type


# -------------------------------------------------------------------------------------------------------------- sharing


def test_all_who_ask_about_a_kernel_share_its_facts() -> None:
    kernel = Kernel("k", (size("n"),), None, ())
    assert facts_of(kernel, REWRITES) is facts_of(kernel, REWRITES)
    assert facts_of(kernel, REWRITES) is not facts_of(kernel, LOWERING)


def test_what_a_place_learns_stays_there() -> None:
    """Places share answers only until one of them knows more."""
    n, i = size("n"), size("i", low=None)
    facts = known(n, i)
    inside, digit = op("<", v(i), v(n)), op("%", v(i), v(n))
    assert facts.truth(inside) is None and simplified(digit, facts) is digit
    there = facts.under(inside).under(op(">=", v(i), 0))
    assert there.truth(inside) is True and simplified(digit, there) == v(i)
    assert facts.truth(inside) is None and simplified(digit, facts) is digit
    assert not facts.never_negative(v(i)) and there.within(1).never_negative(v(i))


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_never_is_what_truth_says_is_false(sign: str) -> None:
    n, i = size("n"), size("i", low=0)
    facts = known(n, i).under(op("<", v(i), v(n)))
    for a, b in ((v(i), v(n)), (v(n), v(i)), (i32(1), i32(2)), (v(i), op("+", v(n), 1))):
        assert facts.never(op(sign, a, b)) == (facts.truth(op(sign, a, b)) is False)


def test_lists_that_nobody_asks_about_are_passed_over() -> None:
    n = size("n")
    skipped, seen = If(op("<", v(n), 4), (Eval(v(n)),), ()), If(op("<", v(n), 8), (Eval(v(n)),), ())
    facts = known(n, body=(skipped, seen))
    visited = [s for s, _ in facts.visit(facts.kernel.body, lambda body: body is seen.then)]
    assert visited == [skipped, seen, *seen.then]


def test_quotients_of_polynomials_are_exact() -> None:
    """By several terms too: what comes of a product is the other factor, and nothing that is no multiple has one."""
    rng = Random(3)
    atoms = [Var(fresh(name, I32)) for name in "abc"]

    def drawn() -> Polynomial:
        out: Polynomial = {}
        for _ in range(rng.randrange(1, 4)):
            term = constant(rng.choice((-2, -1, 1, 2, 3)))
            for atom in rng.choices(atoms, k=rng.randrange(3)):
                term = times(term, {(atom,): 1})
            out = plus(out, term)
        return out

    whole = 0
    for p, q in ((drawn(), drawn()) for _ in range(1000)):
        if q:
            assert quotient(times(p, q), q) == p
            found = quotient(p, q)
            whole += found is not None
            assert found is None or times(found, q) == p
    assert 50 < whole < 500


@pytest.mark.parametrize(
    ("cond", "a", "b", "extreme"),
    [
        (">= 3", "h - 2", "0", "max"), ("< 3", "0", "h - 2", "max"), ("< 3", "0", "h - 3", "max"),
        ("< 3", "0", "h - 4", None), ("<= 3", "0", "h - 3", "max"), ("> 3", "h", "3", "max"), ("> 3", "3", "h", "min"),
        ("< 3", "h", "3", "min"),
        ("< 3", "h", "2", "min"), ("< 3", "h", "4", None), ("< 3", "3", "h", "max"), ("< 3", "0 - h", "0 - 3", "max"),
        ("== 3", "h", "3", None), ("< 3", "0", "2 * h", None),
    ],
)  # fmt: skip
def test_a_choice_that_is_an_extreme(cond: str, a: str, b: str, extreme: str | None) -> None:
    k = parse_kernel(f"kernel k(y: i32*, h: i32)\n  y[0] = h {cond} ? {a} : {b}\n")
    chosen = k.body[0].value  # type: ignore[attr-defined]
    assert chosen_extreme(chosen) == extreme
    for h in range(-9, 9) if extreme else ():
        both = [evaluate(e, {"h": h}) for e in (chosen.a, chosen.b)]
        assert evaluate(chosen, {"h": h}) == (max(both) if extreme == "max" else min(both))


def test_facts_at_one_place_are_those_that_a_visit_has_there():
    """Found for a statement alone, with what stands before and around it, in any order."""
    kernel = load(
        """
        __global__ void k(float* y, const float* x, int n, int m) {
          int i = blockIdx.x * 128 + threadIdx.x;
          if (i >= n) return;
          for (int j = 0; j < m; ++j) {
            if (j > 3) y[i * m + j] = x[j]; else if (i > 7) y[i] = x[i];
            int half = j / 2;
            y[half] += x[half];
          }
        }
        void run(float* y, const float* x, int n, int m) { k<<<(n + 127) / 128, 128>>>(y, x, n, m); }
        """,
        name="k.cu",
    )
    visited = [(s, here.conditions) for s, here in Facts(kernel, REWRITES).visit(kernel.body)]
    facts = Facts(kernel, REWRITES)
    assert len(visited) > 6
    for s, known in (*reversed(visited), *visited):
        assert facts.at(s).conditions == known
    assert facts.at(parse_kernel(print_kernel(kernel)).body[0]) is facts
