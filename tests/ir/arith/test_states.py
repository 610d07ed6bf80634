"""States of a kernel: what is otherwise in one of them is not tried; what is shown is shown all the same."""

from __future__ import annotations

from random import Random

import pytest

from ktc.ir.arith import REWRITES, Facts, facts_of, simplified
from ktc.ir.arith.arrivals import Place
from ktc.ir.arith.kernel_states import Witnesses, witnesses_of
from ktc.ir.arith.visiting import visited
from ktc.ir.kernel import Assume, Kernel, KnobDecl, Launch, Param
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Eval,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Par,
    Select,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import F32, I32, U32, Ptr, Scalar
from ktc.ir.walk import walk_expr

from .judged import JUDGES


def size(name: str, low: int = 1, high: int | None = None, t: Scalar = I32, by: int = 1) -> Param:
    return Param(fresh(name, t), range=(low, high), divisible_by=by)


def op(o: str, a: Expr | Param, b: Expr | Param | int) -> Binary:
    x = Var(a.sym) if isinstance(a, Param) else a
    y = Const(b, x.type) if isinstance(b, int) else Var(b.sym) if isinstance(b, Param) else b  # type: ignore[arg-type]
    return Binary(o, x, y)


def made(*params: Param, body: Body = (), assumed: tuple[Expr, ...] = (), **more) -> Kernel:
    return Kernel("k", params, more.get("launch"), body, more.get("knobs", ()), (), tuple(map(Assume, assumed)))


class Asked(Exception):
    """Somebody wanted a proof."""


def unproven(k: Kernel) -> Place:
    """The place before the first statement of ``k``, of which nothing may be proven."""

    def refuse() -> Facts:
        raise Asked

    return Place(k, refuse)


def threads(n: Param) -> tuple[Launch, Expr]:
    """Blocks of 256 that cover ``n``, and a thread's number."""
    launch = Launch((Call("cdiv", (Var(n.sym), i32(256)), I32), i32(1), i32(1)), (i32(256), i32(1), i32(1)))
    block, thread = (Cast(I32, HwIndex(level, "x"), "c") for level in ("block", "thread"))
    return launch, op("+", op("*", block, 256), thread)


def test_a_guard_that_some_threads_pass_is_not_proven() -> None:
    n = size("n")
    launch, i = threads(n)
    place = unproven(made(n, launch=launch))
    assert place.truth(op("<", i, n)) is None
    assert place.under(op("<", i, n)).truth(op("<", op("+", i, 1), n)) is None
    with pytest.raises(Asked):
        place.truth(op("<", i, op("+", op("*", n, 256), 256)))


def test_digits_and_extremes_that_are_neither_are_not_proven() -> None:
    n = size("n")
    launch, i = threads(n)
    place = unproven(made(n, launch=launch))
    neither = (
        op("%", i, 512), op("/", i, 512), Call("min", (i, Var(n.sym)), I32), Call("cdiv", (Var(n.sym), i32(4)), I32),
        Select(op("<", i, n), i, i32(0)), op("+", op("%", i, 512), 1),
    )  # fmt: skip
    for e in neither:
        assert simplified(e, place) is e


def test_what_is_so_in_every_state_is_proven() -> None:
    n, i = size("n"), size("i", 0)
    k = made(n, i)
    place = Place(k, lambda: Facts(k, REWRITES)).under(op("<", Var(i.sym), n))
    assert place.truth(op("<", i, op("+", n, 5))) is True
    assert simplified(op("/", op("+", op("*", i, 8), 3), 8), place) == Var(i.sym)
    assert simplified(op("+", op("*", op("/", i, 8), 8), op("%", i, 8)), place) == Var(i.sym)


def test_a_state_keeps_to_ranges_divisors_and_assumptions() -> None:
    rows, batch, length, d = size("rows"), size("batch", 1, 64), size("length", 1, 64), size("d", 8, 4096, by=8)
    v = Knob("V")
    knobs = (KnobDecl("V", (4, 8), 8), KnobDecl("T", (32,), 32))
    assumed = (op("==", rows, op("*", batch, Var(length.sym))), op("==", op("%", op("/", d, 8), v), 0),
               op(">=", op("*", v, Knob("T")), d))  # fmt: skip
    k = made(rows, batch, length, d, assumed=assumed, knobs=knobs)
    states = list(witnesses_of(k))
    assert len({tuple(w.value(Var(p.sym)) for p in k.params) for w in states}) >= 2
    for w in states:
        at = {p.sym.name: w.value(Var(p.sym)) for p in k.params}
        assert at["rows"] == at["batch"] * at["length"]
        assert at["d"] % 64 == 0 and at["d"] <= 256


def test_there_are_no_states_of_assumptions_that_nothing_fulfils() -> None:
    n = size("n", 1, 100)
    k = made(n, assumed=(op(">", n, 200),))
    assert list(Witnesses(k)) == []
    with pytest.raises(Asked):
        unproven(k).truth(op("<", n, 50))


def test_rounds_of_loops_and_guards_are_arrived_at_as_they_are_written() -> None:
    n, i, j = size("n"), fresh("i", I32), fresh("j", I32)
    inner = Eval(Var(j))
    guarded = If(op("!=", op("%", Var(i), 3), 0), (Par(j, Var(i), Var(n.sym), (), (inner,)),), ())
    k = made(n, body=(For(i, i32(1), op("<", Var(i), n), op("*", Var(i), 2), (guarded,)),))
    (place,) = [p for s, p in visited(k.body, unproven(k)) if s is inner]
    arrived = [(w.value(Var(i)), w.value(Var(j)), w.value(Var(n.sym))) for w in place.states()]
    assert len(set(arrived)) > 4
    for a, b, c in arrived:
        assert a in (1, 2, 4, 8, 16, 32) and a <= b < c


def test_of_what_changes_or_is_read_anything_may_be_so() -> None:
    x, p = fresh("x", I32), Param(fresh("p", Ptr(I32)))
    read, last = Load(p.sym, (i32(3),)), Eval(i32(0))
    k = made(p, body=(Decl(x, i32(0)), Assign(x, read), last))
    (place,) = [p for s, p in visited(k.body, unproven(k)) if s is last]
    assert place.truth(op("==", Var(x), 0)) is None
    assert place.truth(op("<", read, 5)) is None
    with pytest.raises(Asked):
        place.truth(op("==", read, Load(p.sym, (i32(3),))))


def test_a_comparison_of_floats_holds_below_its_guard() -> None:
    x = Param(fresh("x", F32))
    guard = Binary("<", Var(x.sym), Const(0.5, F32))
    k = made(x)
    place = Place(k, lambda: Facts(k, REWRITES))
    assert unproven(k).truth(guard) is None
    assert place.under(guard).truth(guard) is True


def test_a_state_in_which_a_number_wraps_says_nothing() -> None:
    n = size("n", 1, 10, t=U32)
    less = op("-", n, 11)
    assert {w.value(less) for w in witnesses_of(made(n))} == {None}


@pytest.mark.parametrize("kind", JUDGES)
def test_no_state_keeps_from_being_shown_what_facts_show(kind: str) -> None:
    from collections import Counter

    for seed in range(6):
        JUDGES[kind](Random(f"states {seed}"), Counter())


def test_remainders_by_zero_are_no_digits() -> None:
    a, b = size("a", 0), size("b", 0)
    zero = Cast(I32, Const(0, I32), "c")
    e = op("+", op("*", op("/", op("+", a, b), zero), 4), Binary("%", Var(a.sym), zero))
    k = made(a, b)
    assert simplified(e, Place(k, lambda: Facts(k, REWRITES))) == simplified(e, Facts(k, REWRITES))


@pytest.mark.parametrize("first", [True, False])
def test_a_counter_goes_on_by_its_step(first: bool) -> None:
    n, i = size("n"), fresh("i", I32)
    step = Binary("+", Var(i), i32(3)) if first else Binary("+", i32(3), Var(i))
    k = made(n, body=(For(i, i32(2), op("<", Var(i), n), step, (Eval(Var(i)),)),))
    seen = {w.value(Var(i)) for w in witnesses_of(k)} - {None}
    assert len(seen) > 3 and all(x % 3 == 2 for x in seen)


def test_sums_that_are_cheaper_when_split_are_split() -> None:
    """And those that are not are left, without a proof."""
    n, u = size("n"), fresh("u", I32)
    thread = Cast(I32, HwIndex("thread", "x"), "c")
    launch = Launch((i32(4), i32(1), i32(1)), (i32(128), i32(1), i32(1)))
    inner = Eval(Var(u))
    k = made(n, body=(Par(u, i32(0), i32(8), (), (inner,)),), launch=launch)
    spread = op("+", thread, op("*", Var(u), 128))
    (place,) = [p for s, p in visited(k.body, Place(k, lambda: facts_of(k, REWRITES))) if s is inner]
    assert simplified(op("%", spread, 128), place).type == I32
    assert not any(isinstance(x, Var) for x in walk_expr(simplified(op("%", spread, 128), place)))
    wide = op("+", op("+", thread, op("*", Var(n.sym), 3)), op("*", Var(u), 256))
    assert simplified(op("/", wide, 128), place) == op("/", wide, 128)
    assert place._facts is not None  # for the first one
    (other,) = [p for s, p in visited(k.body, Place(k, lambda: facts_of(k, REWRITES))) if s is inner]
    assert simplified(op("/", wide, 128), other) == op("/", wide, 128)
    assert other._facts is None


def test_a_size_that_guards_narrow_to_a_number_is_that_number_in_sums() -> None:
    """``x / n * 4 + x % n`` is x where n is 4, and ``(n * y + 1) / 8`` is y where n is 8."""
    x, y, n = size("x", 0), size("y", 0), size("n")
    k = made(x, y, n)
    place = Place(k, lambda: Facts(k, REWRITES))
    four = place.under(op("<=", n, 4)).under(op(">=", n, 4))
    eight = place.under(op("<=", n, 8)).under(op(">=", n, 8))
    rejoined = op("+", op("*", op("/", x, n), 4), op("%", x, n))
    split = op("/", op("+", op("*", n, y), 1), 8)
    assert simplified(rejoined, four) == Var(x.sym)
    assert simplified(split, eight) == Var(y.sym)
    assert simplified(rejoined, eight) == rejoined
    assert simplified(split, unproven(k)) is split


def test_a_remainder_of_a_division_by_zero_is_joined_with_nothing() -> None:
    """Where no state arrives, what is found does not depend on whether states are asked."""
    n = size("n", 0)
    k = made(n)
    place = Place(k, lambda: Facts(k, REWRITES)).under(op("<=", n, 0))
    e = op("+", Const(3, I32), op("%", Const(7, I32), n))
    assert simplified(e, place) == simplified(e, place.facts) == e


def test_quotients_of_whole_groups_are_quotients_of_what_is_grouped() -> None:
    """``x / 8 * 8 / 128`` is ``x / 128``, for x from 0 on; ``x / 8 * 8`` is x where 8 divides it."""
    x, n = size("x", 0), size("n", 0)
    place = Place.of(Facts(made(x, n), REWRITES))
    groups = op("*", op("/", x, 8), 8)
    assert simplified(op("/", groups, 128), place) == op("/", x, 128)
    assert simplified(op("/", op("*", op("/", x, 2), 2), 128), place) == op("/", x, 128)
    assert simplified(op("/", groups, 12), place) == op("/", groups, 12)
    assert simplified(op("/", op("*", op("/", x, 8), 6), 12), place) == op("/", x, 16)
    assert simplified(groups, place) == groups
    whole = size("n", 0, by=8)
    assert simplified(op("*", op("/", whole, 8), 8), Place.of(Facts(made(x, whole), REWRITES))) == Var(whole.sym)
