"""Reductions of floats in several partial results, each of which is a lane of a vector.

before                                              after
    reduce(+) s: f32 = 0 over i in lo..hi @ [seq]       var total: f64 = 0
      yield f(i)                                        let whole = hi - lo >= 64 ? (hi - lo) / 32 * 32 : 0
                                                        if whole > 0
                                                          array part: local f64[32] = 0, 0, ...
                                                          for first in lo..lo + whole step 32
                                                            for lane in 0..32
                                                              part[lane] += f(first + lane)
                                                          for n in 16, 8, 4, 2, 1
                                                            for lane in 0..n
                                                              part[lane] += part[lane + n]
                                                          total += part[0]
                                                        for i in lo + whole..hi
                                                          total += f(i)
                                                        var s: f32 = total

A reduction has no order, but its text has one, and a compiler of C keeps to it. So the text says which element goes to
which partial result, and the bits are the same in every call. Sums and products are in double and rounded once: what a
device combines as a tree, and so with an error that hardly grows, is a few long chains here.
"""

from __future__ import annotations

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.fold import add, cast, i32, lt, simplify, sub
from ktc.ir.nodes import (
    LOOPS_AND_EXITS,
    Acc,
    Alloc,
    Assign,
    Binary,
    Body,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import F64, I32, U64, Array, Scalar, scalar_of
from ktc.ir.walk import declared, rename, substitute, walk

LANES = 32
"""Partial results of one accumulator: as many doubles fill half of the vector registers of a core with 256 bits."""

COMBINED = frozenset({"+", "*", "min", "max"})
"""Operations that have partial results, of floats: any order of integers is the compiler's own choice already."""


def in_lanes(s: Reduce) -> Body:
    """``s``, which one thread runs, as loops; itself, if it has no accumulator of floats."""
    if not any(_is_float(a) for a in s.accs) or any(a.op not in COMBINED and _is_float(a) for a in s.accs):
        return (s,)
    if any(a.op == "at" for a in s.accs):
        return (s,)
    totals = {a.sym: fresh(f"{a.sym.name}_total", F64 if _rounded(a) else a.sym.type) for a in s.accs}
    out: list[Stmt] = [Decl(totals[a.sym], _as(a.init, totals[a.sym]), loc=s.loc) for a in s.accs]
    lo: Expr = s.lo
    if _pays(s):
        whole, lanes = _whole_lanes(s, totals)
        out += [*lanes]
        lo = simplify(add(s.lo, Var(whole)))
    out.append(_serial(s, totals, lo))
    out += [Decl(a.sym, Cast(a.sym.type, Var(totals[a.sym]), "implicit")) for a in s.accs]  # type: ignore[arg-type]
    return tuple(out)


def _serial(s: Reduce, totals: dict[Sym, Sym], lo: Expr) -> Stmt:
    """The iterations from ``lo`` on, one after the other."""
    step = add(Var(s.var), cast(i32(1), s.var.type))  # type: ignore[arg-type]
    return For(s.var, lo, lt(Var(s.var), s.hi), step, (*s.body, *(_added(a, totals[a.sym]) for a in s.accs)),
               loc=s.loc, comments=s.comments)  # fmt: skip


def _added(a: Acc, total: Sym) -> Stmt:
    return Assign(total, combine(a.op, Var(total), _as(a.value, total)))


def _whole_lanes(s: Reduce, totals: dict[Sym, Sym]) -> tuple[Sym, Body]:
    """(how many iterations fill all partial results, the statements that run these)."""
    t = s.var.type
    assert isinstance(t, Scalar)
    count = simplify(sub(s.hi, cast(s.lo, t)))
    n = cast(i32(LANES), t)
    whole = fresh("whole", t)
    many = Binary(">=", count, cast(i32(2 * LANES), t))
    fills = simplify(Select(many, simplify(Binary("*", Binary("/", count, n), n)), cast(i32(0), t)))
    first, lane, v = fresh("first", t), fresh("lane", I32), fresh(s.var.name, t)
    copy = rename(s.body, names := {x: fresh(x.name, x.type) for x in declared(s.body)})
    parts = {a.sym: fresh(f"{a.sym.name}_part", Array(totals[a.sym].type, (i32(LANES),), "local"))  # type: ignore[arg-type]
             for a in s.accs if _is_float(a)}  # fmt: skip

    def to_part(a: Acc) -> Stmt:
        value = substitute((Assign(a.sym, a.value),), {s.var: Var(v), **{x: Var(y) for x, y in names.items()}})[0].value  # type: ignore[attr-defined]
        total = totals[a.sym]
        if a.sym not in parts:
            return Assign(total, combine(a.op, Var(total), _as(value, total)))
        part = Load(parts[a.sym], (Var(lane),))
        return Store(parts[a.sym], (Var(lane),), combine(a.op, part, _as(value, total)))

    body = (
        Decl(v, simplify(add(Var(first), cast(Var(lane), t))), const=True),
        *substitute(copy, {s.var: Var(v)}),
        *map(to_part, s.accs),
    )
    held = [a for a in s.accs if a.sym in parts]
    rounds = For(first, s.lo, lt(Var(first), simplify(add(s.lo, Var(whole)))), add(Var(first), n),
                 (_counted(lane, i32(LANES), body),), loc=s.loc)  # fmt: skip
    run = (
        *(Alloc(parts[a.sym], align=64) for a in held),
        _begun(held, parts),
        rounds,
        _tree(held, parts),
        *(Assign(totals[a.sym], combine(a.op, Var(totals[a.sym]), Load(parts[a.sym], (i32(0),)))) for a in held),
    )
    return whole, (Decl(whole, fills, const=True), If(Binary(">", Var(whole), cast(i32(0), t)), run))


def _begun(held: list[Acc], parts: dict[Sym, Sym]) -> Stmt:
    """Every partial result of ``held`` neutral: of sums a zero that leaves the sign of another as it is."""
    lane = fresh("lane", I32)

    def neutral(a: Acc) -> Expr:
        t = scalar_of(parts[a.sym].type)
        return Const(-0.0, t) if a.op == "+" else identity(a.op, t)

    return _counted(lane, i32(LANES), tuple(Store(parts[a.sym], (Var(lane),), neutral(a)) for a in held))


def _tree(held: list[Acc], parts: dict[Sym, Sym]) -> Stmt:
    """One half of the partial results with the other, until one is left."""
    n, lane = fresh("n", I32), fresh("lane", I32)

    def joined(a: Acc) -> Stmt:
        low, high = (Load(parts[a.sym], (i,)) for i in (Var(lane), add(Var(lane), Var(n))))
        return Store(parts[a.sym], (Var(lane),), combine(a.op, low, high))

    halves = _counted(lane, Var(n), tuple(map(joined, held)))
    return For(n, i32(LANES // 2), Binary(">", Var(n), i32(0)), Binary("/", Var(n), i32(2)), (halves,))


def _counted(var: Sym, end: Expr, body: Body) -> For:
    return For(var, i32(0), lt(Var(var), end), add(Var(var), i32(1)), body)


def _pays(s: Reduce) -> bool:
    """Whether ``s`` gets partial results: an innermost loop, not known to be short."""
    count = simplify(sub(s.hi, cast(s.lo, s.var.type)))  # type: ignore[arg-type]
    short = isinstance(count, Const) and count.value < 2 * LANES
    return not short and s.var.type != U64 and not any(isinstance(x, LOOPS_AND_EXITS) for x in walk(s.body))


def _as(e: Expr, of: Sym) -> Expr:
    t = of.type
    assert isinstance(t, Scalar)
    return e if e.type == t else Cast(t, e, "implicit")


def _is_float(a: Acc) -> bool:
    return isinstance(a.sym.type, Scalar) and a.sym.type.is_float


def _rounded(a: Acc) -> bool:
    return _is_float(a) and a.op in "+*"


__all__ = ["in_lanes"]
