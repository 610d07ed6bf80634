"""What is known of tiles, of products that are divided, and of the largest values over loops around."""

from __future__ import annotations

from ktc.ir.arith import LOWERED, LOWERING, REWRITES, Congruence, Facts, Interval, simplified
from ktc.ir.arith.loop_extents import length
from ktc.ir.fold import cast
from ktc.ir.kernel import Assume, Kernel, KnobDecl, Launch
from ktc.ir.nodes import Assign, Binary, Call, Decl, Eval, Expr, For, HwIndex, Knob, Par, fresh, i32
from ktc.ir.text import print_expr
from ktc.ir.types import I32

from .test_arith import known, op, size, v


def as_int(h: HwIndex) -> Expr:
    return cast(h, I32)


def minimum(a: Expr, b: Expr) -> Call:
    return Call("min", (a, b), I32)


def test_an_assumed_divisor_of_a_product_divides_its_multiples() -> None:
    batch, length_, heads = size("batch"), size("length"), size("heads")
    product = op("*", op("*", v(batch), v(length_)), v(heads))
    facts = known(batch, length_, heads, assumed=(op("==", op("%", product, 8), 0),))
    turned = op("*", v(heads), op("*", v(length_), v(batch)))
    assert facts.multiple_of(turned, 8)
    assert facts.multiple_of(op("+", op("*", turned, 3), 16), 8)
    assert not facts.multiple_of(op("*", v(batch), v(length_)), 8)
    assert not facts.multiple_of(turned, 16)
    assert facts.truth(op("==", op("%", turned, 4), 0)) is True


def test_an_unknown_divisor_divides_what_its_multiples_do() -> None:
    n, m, k = size("n"), size("m"), fresh("k", I32)
    t, u = Knob("T"), Knob("U")
    knobs = (KnobDecl("T", (2, 4), 2), KnobDecl("U", (2, 4), 2))
    loop = For(k, op("*", t, 2), op("<", v(k), v(n)), op("+", v(k), t), (Eval(v(k)),))
    whole = Assume(op("==", op("%", v(n), op("*", t, u)), 0))
    facts = Facts(Kernel("k", (n, m), None, (loop,), knobs=knobs, assumptions=(whole,)), REWRITES)
    assert facts.divides(t, op("*", v(n), v(m)))
    assert facts.divides(op("*", u, t), op("+", v(n), op("*", op("*", t, u), v(m))))
    assert facts.divides(t, v(k))
    assert not facts.divides(u, v(k))
    assert not facts.divides(t, v(m))


def test_a_known_multiple_that_contains_the_minimum_it_is_taken_off_of_is_tried_once() -> None:
    n, m, t = size("n"), size("m"), Knob("T")
    rest = op("-", v(n), minimum(v(n), t))
    whole = Assume(op("==", op("%", rest, t), i32(0)))
    facts = Facts(Kernel("k", (n, m), None, (), knobs=(KnobDecl("T", (2, 4), 2),), assumptions=(whole,)), REWRITES)
    assert not facts.divides(t, v(n))  # the minimum of T and n is n itself where n is below T
    assert facts.divides(t, op("*", rest, v(m)))


def test_what_divides_an_exact_quotient_divides_more_of_what_it_is_of() -> None:
    d = size("d", divisible_by=2)
    half = op("==", op("%", op("/", v(d), 2), 8), 0)
    assert known(d, assumed=(half,)).multiple_of(v(d), 16)
    assert not known(size("d")).multiple_of(v(d), 16)
    odd = size("odd")
    assert not known(odd, assumed=(op("==", op("%", op("/", v(odd), 2), 8), 0),)).multiple_of(v(odd), 16)


def test_a_counter_that_a_number_divides_stops_short_of_a_limit_that_it_divides() -> None:
    n, i = size("n", divisible_by=8), fresh("i", I32)
    loop = For(i, i32(0), op("<", v(i), v(n)), op("+", v(i), 16), (s := Eval(v(i)),))
    here = known(n, body=(loop,)).at(s)
    assert here.below(op("+", v(i), 7), v(n))
    assert not here.below(op("+", v(i), 8), v(n))


def test_bound_knobs_keep_their_values_for_lowering_alone() -> None:
    knob = KnobDecl("T", (2, 64), 2, value=64)
    kernel = Kernel("k", (), None, (), knobs=(knob,))
    assert Facts(kernel, REWRITES).interval(Knob("T")) == Interval(2, 64)
    assert Facts(kernel, LOWERING).interval(Knob("T")) == Interval(64, 64)
    assert Facts(kernel, LOWERING).congruence(Knob("T")) == Congruence.point(64)


def test_the_last_tile_ends_where_its_range_does() -> None:
    n, t = size("n", low=None), fresh("t", I32)
    end = minimum(op("+", v(t), 16), v(n))
    start = op("*", op("/", v(n), 16), 16)
    rest = For(t, start, op("<", v(t), v(n)), op("+", v(t), 16), (s := Eval(end),))
    assert simplified(end, known(n, body=(rest,)).at(s)) == v(n)
    from_the_start = For(t, i32(0), op("<", v(t), v(n)), op("+", v(t), 16), (s,))
    assert simplified(end, known(n, body=(from_the_start,)).at(s)) == end


def test_tiles_of_a_multiple_of_their_size_are_whole() -> None:
    batch, n, t = size("batch"), size("n"), fresh("t", I32)
    rows = op("*", v(batch), v(n))
    tiles = Call("cdiv", (rows, v(n)), I32)
    end = minimum(op("+", op("*", v(t), v(n)), v(n)), rows)
    facts = known(batch, n, body=(Par(t, i32(0), tiles, (), (s := Eval(end),)),))
    assert simplified(tiles, facts) == v(batch)
    assert simplified(end, facts.at(s)) == op("+", op("*", v(t), v(n)), v(n))
    negative = size("b", low=None)
    assert simplified(Call("cdiv", (op("*", v(negative), v(n)), v(n)), I32), known(negative, n)) != v(negative)


def test_digits_of_a_counter_that_begins_at_a_tile() -> None:
    n, rows, t, i = size("n"), size("rows"), fresh("t", I32), fresh("i", I32)
    start = op("*", v(t), v(n))
    inner = Par(i, start, op("+", start, v(n)), (), (s := Eval(v(i)),))
    here = known(n, rows, body=(Par(t, i32(0), v(rows), (), (inner,)),)).at(s)
    assert simplified(op("/", v(i), v(n)), here) == v(t)
    assert simplified(op("%", v(i), v(n)), here) == op("-", v(i), op("*", v(n), v(t)))
    longer = Par(i, start, op("+", op("+", start, v(n)), 1), (), (s,))
    here = known(n, rows, body=(Par(t, i32(0), v(rows), (), (longer,)),)).at(s)
    assert simplified(op("/", v(i), v(n)), here) == op("/", v(i), v(n))


def test_digits_of_a_counter_that_counts_by_multiples() -> None:
    """Words of eight elements of a tile of 32 terms: each begins with the tile, or so many words behind it."""
    n, tile, lane = size("n"), fresh("tile", I32), fresh("lane", I32)
    inner = Par(lane, i32(0), i32(8), (), (Eval(v(lane)),))
    loop = For(tile, i32(0), op("<", v(tile), v(n)), op("+", v(tile), 32), (inner,))
    facts = Facts(Kernel("k", (n,), None, (loop,)), REWRITES).at(inner.body[0])
    place = op("+", op("+", v(tile), 16), v(lane))
    assert print_expr(simplified(op("/", place, 8), facts)) == "2 + tile / 8"
    assert simplified(op("%", place, 8), facts) == v(lane)
    assert simplified(op("/", place, 64), facts) == op("/", place, 64)


def test_a_quotient_and_its_remainder_are_one_number_under_their_names() -> None:
    token, n, offset = size("token"), size("n"), size("offset")
    b, t = fresh("b", I32), fresh("t", I32)
    body = (Decl(b, op("/", v(token), v(n))), Decl(t, op("%", v(token), v(n))))
    facts = known(token, n, offset, body=body)
    assert simplified(op("+", op("*", v(b), v(n)), v(t)), facts) == v(token)
    beside = op("+", op("+", op("*", v(b), v(n)), v(offset)), v(t))
    assert facts.equal(simplified(beside, facts), op("+", v(token), v(offset)))
    other = op("+", op("*", v(b), v(offset)), v(t))
    assert simplified(other, facts) == other


def test_what_is_not_so_is_not_shown() -> None:
    n, y, free = size("n"), size("y"), size("free", low=None)
    x = op("%", v(free), v(n))
    facts = known(n, y, free)
    less = op("-", op("*", v(n), v(y)), op("%", Call("abs", (v(free),), I32), v(n)))
    assert facts.never_negative(less)
    assert simplified(op("/", less, v(n)), facts) == op("/", less, v(n))  # y, or one less
    whole = op("*", op("/", v(free), v(n)), v(n))
    assert not facts.at_most(whole, v(free))  # -1 / 2 * 2 is 0
    assert facts.at_most(whole, op("+", v(free), v(n)))
    assert facts.below(v(free), op("+", whole, v(n)))
    twice = op("+", op("*", whole, 2), x)
    assert simplified(twice, facts) == twice


def test_digits_of_blocks_that_a_launch_counts() -> None:
    n, rows = size("n", high=1 << 10), size("rows", high=1 << 10)
    launch = Launch((v(n), v(rows), i32(1)), (i32(1), i32(1), i32(1)))
    x, y = HwIndex("block", "x"), HwIndex("block", "y")
    token = op("+", as_int(x), op("*", v(n), as_int(y)))
    facts = known(n, rows, launch=launch, trust=LOWERED)
    assert simplified(op("/", token, v(n)), facts) == as_int(y)
    assert simplified(op("%", token, v(n)), facts) == as_int(x)
    unlaunched = known(n, rows, launch=launch, trust=LOWERING)
    assert simplified(op("%", token, v(n)), unlaunched) == op("%", as_int(x), v(n))


def test_the_length_of_a_tile_is_what_is_left_of_its_bounds() -> None:
    t, n = size("t"), size("n")
    start = op("*", v(t), 16)
    assert length(start, op("+", start, 16), known(t, n)) == i32(16)
    assert length(i32(0), v(n), known(t, n)) == v(n)
    assert isinstance(length(start, minimum(op("+", start, 16), v(n)), known(t, n)), Binary)


def test_names_that_change_are_no_names() -> None:
    token, n, b = size("token"), size("n"), fresh("b", I32)
    body = (Decl(b, op("/", v(token), v(n))), Assign(b, i32(0)))
    total = op("+", op("*", v(b), v(n)), op("%", v(token), v(n)))
    assert simplified(total, known(token, n, body=body)) == total


def test_digits_of_digits_come_together() -> None:
    i = v(n := size("n"))
    thirds = op("/", i, 3)
    upper = op("+", op("*", op("/", thirds, 3), 3), op("%", thirds, 3))
    assert simplified(op("+", op("*", upper, 3), op("%", i, 3)), known(n)) == i
