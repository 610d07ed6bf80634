"""Nested parallel loops that the body only uses together become the one loop they stand for.

before                                                      after
    par b in 0..grid @ [block.x]                                par i in 0..n @ [thread.x 256, block.x]
      par t in 0..256 @ [thread.x 256]                            y[i] = x[i]
        let i = b * 256 + t
        if i < n: y[i] = x[i]

Any two loops of a perfect nest will do, on whatever axes: ``w = fast + extent(fast) * slow``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.fold import add, cast, cdiv, evaluate, i32, is_const, mul, simplify
from ktc.ir.nodes import (
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Stmt,
    Sym,
    Var,
    WarpOp,
    fresh,
)
from ktc.ir.types import I32, U32, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    map_body,
    map_expr,
    stmt_exprs,
    substitute,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
    with_bodies,
)
from ktc.passes.raising.recognise.guards import stripped
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.joined_index import digit_of, digits_over_both, over_both, together
from ktc.passes.shared.loop_bounds import upper_bound


def merged(body: Body, outer: frozenset[Sym] = frozenset()) -> Body:
    """Every perfect nest of ``body`` merged as far as its uses allow; ``outer``: loop variables around it, and sizes of
    the launch."""
    return tuple(_nest(s, outer) if isinstance(s, Par) else with_bodies(s, lambda b: merged(b, outer)) for s in body)


def _nest(s: Par, outer: frozenset[Sym]) -> Stmt:
    loops, inner = perfect_nest(s)
    loops, inner = _merged_loops(loops, _without_flat_number(loops, inner))
    spread = _rounds_as_loop(inner)
    if spread is not None:
        more, body = _merged_loops([*loops, spread[0]], spread[1])
        if len(more) <= len(loops):  # the rounds are part of an index
            loops, inner = more, body
    bounds = {p.var: [p.lo, p.hi] for p in loops}
    inner = stripped(inner, bounds, outer)
    loops = [dataclasses.replace(p, lo=bounds[p.var][0], hi=bounds[p.var][1]) for p in loops]
    inner = merged(inner, outer | {p.var for p in loops})
    for p in reversed(loops):
        inner = (dataclasses.replace(p, body=inner),)
    out = inner[0]
    return out


def _merged_loops(loops: list[Par], body: Body) -> tuple[list[Par], Body]:
    while True:
        found = _merge_once(loops, body)
        if found is None:
            return loops, body
        loops, body = found


def _without_flat_number(loops: Sequence[Par], body: Body) -> Body:
    """``body`` without a number of both of two loops, ``w = fast + extent * slow``, that is asked for its digits alone:
    ``w / extent`` is the slow loop's own number."""
    for fast, slow in _pairs(list(loops)):
        extent = evaluate(fast.hi, {})
        if extent is None or not (is_const(fast.lo, 0) and is_const(slow.lo, 0)):
            continue
        changed = assigned(body)
        named = next((d for d in body if _is_coordinate(d, fast.var, slow.var, i32(int(extent)), changed)), None)
        if not isinstance(named, Decl):
            continue
        own = {"/": slow.var, "%": fast.var}

        def on(e: Expr, w: Sym = named.sym, n: int = int(extent), own: Mapping[str, Sym] = own) -> Expr:
            found = next((op for op, by in digit_of(e, w) if by == n), None)
            return e if found is None or not isinstance(e.type, Scalar) else cast(Var(own[found]), e.type)

        apart = map_body(tuple(d for d in body if d is not named), keep, on)
        body = body if named.sym in used_in(apart) else apart
    return body


def _rounds_as_loop(body: Body) -> tuple[Par, Body] | None:
    """A final counted loop of constant trip count as one more parallel loop of the nest (a guess that gets checked)."""
    if not body or not isinstance(body[-1], For) or not all(_sinkable(d, body) for d in body[:-1]):
        return None
    s = body[-1]
    rounds = counted_rounds(s)
    if rounds is None:
        return None
    v, n, put = rounds
    inner = put(s.body)
    loop = Par(v, i32(0), i32(n), (Level("seq", i32(n)),), (), loc=s.loc, tags=frozenset({f"loop:{v.name}"}))
    return loop, (*body[:-1], *inner)


def counted_rounds(s: For) -> tuple[Sym, int, Callable[[Body], Body]] | None:
    """For a loop whose number of rounds is known: a variable that counts them from 0, how many there are, and what puts
    it into a body in the place of the loop's own."""
    hi, by, lo = upper_bound(s.cond, s.var), loop_step(s), evaluate(s.init, {})
    if hi is None or by is None or lo is None:
        return None
    end, step = evaluate(hi, {}), evaluate(by, {})
    if end is None or step is None or step <= 0 or end <= lo or s.var in assigned(s.body):
        return None
    t = s.var.type
    assert isinstance(t, Scalar)
    v = fresh(s.var.name, I32)
    value = add(Const(int(lo), t), mul(cast(Var(v), t), Const(int(step), t)))
    return v, -(-(int(end) - int(lo)) // int(step)), lambda body: substitute(body, {s.var: value})


def perfect_nest(s: Par) -> tuple[list[Par], Body]:
    """The loops from ``s`` inwards, index declarations between them sunk into the body."""
    loops: list[Par] = [s]
    sunk: Body = ()
    body: Body = s.body
    while body and isinstance(body[-1], Par) and all(_sinkable(d, body) for d in body[:-1]):
        sunk += body[:-1]
        inner = body[-1]
        if (used(inner.lo) | used(inner.hi)) & (set(declared(sunk)) | {p.var for p in loops}):
            sunk = sunk[: len(sunk) - len(body[:-1])]
            break
        loops.append(inner)
        body = inner.body
    return loops, sunk + body


def _sinkable(s: Stmt, body: Body) -> bool:
    if not isinstance(s, Decl) or s.init is None or s.sym in assigned(body):
        return False
    t = s.sym.type
    return (
        isinstance(t, Scalar) and t.is_int and not any(isinstance(x, Load | WarpOp | Call) for x in walk_expr(s.init))
    )


def _merge_once(loops: list[Par], body: Body) -> tuple[list[Par], Body] | None:
    for fast, slow in _pairs(loops):
        n = fast.dist[-1].n if fast.dist else None
        sized = [lv.n for lv in fast.dist]
        if n is None or any(x is None for x in sized) or not (is_const(fast.lo, 0) and is_const(slow.lo, 0)):
            continue
        extent: Expr = i32(1)
        for x in sized:
            extent = mul(extent, x)  # type: ignore[arg-type]
        if not same(extent, fast.hi):
            continue
        for candidate, name in ((body, _plain_name(fast.var.name)), inlined(body, fast.var, slow.var)):
            new = rewritten(candidate, fast.var, slow.var, extent, name, slow.hi)
            if new is not None:
                w, inner = new
                wt = w.type
                assert isinstance(wt, Scalar)
                dist = (*fast.dist, *(_open(lv, slow) for lv in slow.dist))
                hi = mul(cast(extent, wt), cast(slow.hi, wt)) if wt.bits > 32 else cast(mul(extent, slow.hi), wt)
                one = Par(w, cast(i32(0), wt), hi, dist, (), loc=slow.loc,
                          comments=(*slow.comments, *fast.comments), tags=frozenset({f"loop:{w.name}"}))  # fmt: skip
                return [one if p is slow else p for p in loops if p.var != fast.var], inner
    return None


def _open(lv: Level, slow: Par) -> Level:
    """A block level that takes the whole range stays open: the grid follows from the range."""
    return lv


def _pairs(loops: list[Par]) -> Iterator[tuple[Par, Par]]:
    """Likely partners first: an inner loop over threads with an outer one over blocks of the same axis."""
    pairs = [(a, b) for a in loops for b in loops if a is not b and a.dist and b.dist]
    ranks = {"vec": 0, "unroll": 1, "lane": 1, "thread": 2, "warp": 3, "seq": 4, "block": 5}
    pairs = [
        (a, b)
        for a, b in pairs
        if (ranks.get(a.dist[-1].kind, 9), a.dist[-1].axis) < (ranks.get(b.dist[0].kind, 9), b.dist[0].axis)
    ]
    pairs.sort(key=lambda p: p[0].dist[-1].axis != p[1].dist[0].axis)
    yield from pairs
    for a in loops:
        if len(a.dist) == 1 and a.dist[0].kind == "seq" and a.dist[0].n is not None:
            side = dataclasses.replace(a, dist=(Level("unroll", a.dist[0].n),))  # elements of a thread side by side
            yield from ((side, b) for b in loops if b is not a and b.dist and b.dist[0].kind == "thread")


def rewritten(
    body: Body, fast: Sym, slow: Sym, extent: Expr, name: str = "i", rounds: Expr | None = None, *, digits: bool = False
) -> tuple[Sym, Body] | None:
    """``body`` over ``w = fast + extent * slow`` alone; None if it uses the two in any other way.

    ``rounds``: how many values ``slow`` has. Where that comes from sizes of 64 bits, and ``body`` adds in 64 bits, so
    does ``w``. ``digits``: quotients and remainders of ``fast`` may become those of ``w``.
    """
    if not digits and any(_uses_one(s, fast, slow) for s in walk(body)):
        return None
    changed = assigned(body)
    named = next((s for s in walk(body) if _is_coordinate(s, fast, slow, extent, changed)), None)
    wide = _wide_type(body, fast, slow, extent, rounds)
    w = fresh(named.sym.name, named.sym.type) if isinstance(named, Decl) else fresh(name, wide or fast.type)
    wt = w.type
    assert isinstance(wt, Scalar)

    on = over_both(fast, slow, extent, w)
    if named is not None:
        assert isinstance(named, Decl)
        body = map_body(body, lambda s: None if s is named else s)
        body = substitute(body, {named.sym: Var(w)})
    body = digits_over_both(body, fast, slow, extent, w) if digits else body
    body = map_body(body, keep, lambda e: simplify_casts(on(e)))
    if {fast, slow} & used_in(body):
        return None
    return (w, body) if w in used_in(body) else None


def _uses_one(s: Stmt, fast: Sym, slow: Sym) -> bool:
    """Whether an expression of ``s`` has one of the two and not the other: then a place of both is not all there is."""
    return any(len({fast, slow} & used(e)) == 1 for e in stmt_exprs(s))


def _wide_type(body: Body, fast: Sym, slow: Sym, extent: Expr, rounds: Expr | None) -> Scalar | None:
    """The type of 64 bits that ``body`` needs for the two together, if it does."""
    sizes = [s.type for s in used(rounds)] if rounds is not None else []
    if not any(isinstance(t, Scalar) and t.is_int and t.bits > 32 for t in sizes):
        return None
    found = {e.type for e in all_exprs(body) for e in walk_expr(e) if together(e, fast, slow, extent) is not None}
    wide = [t for t in found if isinstance(t, Scalar) and t.bits > 32]
    return min(wide, key=lambda t: not t.is_signed, default=None)


def simplify_casts(e: Expr) -> Expr:
    """``(i32)(u32)x`` is ``x``; ``(i32)(0u - 2u)`` is ``-2``."""
    if isinstance(e, Cast) and isinstance(e.x, Binary) and e.to == I32 and e.x.type == U32:
        v = evaluate(e.x, {})
        if v is not None and all(isinstance(x, Const) for x in (e.x.a, e.x.b)):
            return Const((int(v) + (1 << 31)) % (1 << 32) - (1 << 31), I32)
    if isinstance(e, Cast) and isinstance(e.x, Cast) and e.x.x.type == e.to:
        t = e.to
        if (
            isinstance(t, Scalar)
            and t.is_int
            and isinstance(e.x.to, Scalar)
            and e.x.to.is_int
            and e.x.to.bits >= t.bits
        ):
            return e.x.x
    return e


def _is_coordinate(s: Stmt, fast: Sym, slow: Sym, extent: Expr, changed: Container[Sym]) -> bool:
    if not isinstance(s, Decl) or s.init is None or s.sym in changed:
        return False
    t = s.sym.type
    if not (isinstance(t, Scalar) and t.is_int):
        return False
    form = linear_form(s.init, {fast, slow})
    return (
        form is not None
        and set(form.coeffs) == {fast, slow}
        and same(form.coeff(fast), i32(1))
        and same(form.coeff(slow), extent)
        and is_const(simplify(form.rest), 0)
    )


def _plain_name(name: str) -> str:
    """A name for an index of the whole range: not one that says "thread"."""
    return "i" if name in ("tx", "ty", "tz", "tid", "t") or "thread" in name.lower() else name


def inlined(body: Body, fast: Sym, slow: Sym) -> tuple[Body, str]:
    """Index constants that depend on the two put in place of their names; the likeliest name for both together."""
    changed, over, name = assigned(body), {fast, slow}, _plain_name(fast.name)
    values: dict[Sym, Expr] = {}
    for d in walk(body):
        if not isinstance(d, Decl) or d.init is None or d.sym in changed or not used(d.init) & (over | values.keys()):
            continue
        t = d.sym.type
        if not isinstance(t, Scalar) or not t.is_int or any(isinstance(x, Load | WarpOp) for x in walk_expr(d.init)):
            continue
        value = values[d.sym] = substitute_expr(d.init, values)
        form = linear_form(value, over)
        if form is not None and is_const(form.coeff(fast), 1):
            name = d.sym.name
    if not values:
        return body, name
    return substitute(map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in values else s), values), name


__all__ = ["If", "cdiv", "inlined", "map_expr", "merged", "perfect_nest", "stmt_exprs"]
