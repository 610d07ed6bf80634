"""Parallel form made plainer: dead exchanges dropped, copies folded, loops over threads read as strided loops."""

from __future__ import annotations

import dataclasses
from functools import reduce

from ktc.ir.analysis.accumulators import AT, is_identity
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.fold import cast, fold_node, i32, mul, simplify
from ktc.ir.nodes import (
    Acc,
    AddrOf,
    Alloc,
    Assign,
    Atomic,
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
    Raw,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import I32, U32, Array, Scalar
from ktc.ir.walk import all_exprs, assigned, keep, map_body, refresh, stmt_exprs, used, used_in, walk, walk_expr
from ktc.passes.raising.recognise.implied import without_implied
from ktc.passes.shared.accumulations import Accumulation, accumulations, always_updated
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound
from ktc.passes.shared.serial_extremes import searches

from .block_values import with_block_values
from .fixed_rounds import over_elements
from .merge import merged, simplify_casts
from .nested_reductions import joined_reduction
from .offsets import over_offsets
from .sweeps.chunks_and_rest import shared_out_evenly
from .sweeps.constant_sums import without_constant_sums
from .sweeps.far_terms import over_far_terms
from .sweeps.joined_ways import with_joined_ways
from .sweeps.whole_scans import with_whole_scans

MOST_ADDED = 1 << 16
"""Numbers up to which a constant is an offset or a stride, not one of a hash that is to wrap."""


def tidied(body: Body, counted: frozenset[Sym] = frozenset()) -> Body:
    """``counted``: values that are never negative."""
    body = with_block_values(without_dead(body))
    body = map_body(body, _plainer, _plain_index)
    body = map_body(map_body(body, _strided), joined_reduction)
    body = signed_sums(map_body(merged(signed_sums(without_dead(body)), counted), keep, simplify_casts))
    body = without_implied(with_whole_scans(map_body(body, _strided)))  # a guard may have stood before a strided loop
    body = map_body(without_dead(map_body(body, _strided)), without_constant_sums)  # or around it
    return over_offsets(without_dead(body))


# -------------------------------------------------------------------------------------------------------- dead code


def without_dead(body: Body) -> Body:
    """Arrays that nothing reads any more, and private values that nobody uses, taken out until nothing changes."""
    while True:
        read: set[Sym] = set()
        for s in walk(body):
            for e in stmt_exprs(s):
                for x in walk_expr(e):
                    if isinstance(x, Load | AddrOf):
                        read.add(x.buffer)
                    elif isinstance(x, Raw):
                        read |= set(x.uses)
            if isinstance(s, Atomic) and s.dst is not None:
                read.add(s.buffer)
        used_now = {x.sym for e in all_exprs(body) if isinstance(e, Var) for x in (e,)}
        body = map_body(body, lambda s, known=used_now | read: _result_used(s, known))  # type: ignore[misc]
        dead = {id(s) for s in walk(body) if _dead(s, read, used_now)}
        kept = map_body(body, lambda s, dead=dead: None if id(s) in dead else s)  # type: ignore[misc]
        if kept == body:
            return body
        body = kept


def _result_used(s: Stmt, known: set[Sym]) -> Stmt:
    """An atomic without its old value, where nobody asks for that."""
    return dataclasses.replace(s, dst=None) if isinstance(s, Atomic) and s.dst and s.dst not in known else s


def _dead(s: Stmt, read: set[Sym], used_now: set[Sym]) -> bool:
    if isinstance(s, Alloc):
        return s.sym not in read
    if isinstance(s, Store | Atomic) and isinstance(s.buffer.type, Array) and s.buffer not in read:
        return not _effects(s)
    if isinstance(s, Decl):
        return s.sym not in used_now and s.sym not in read and not _effects(s)
    if isinstance(s, Assign):
        return s.sym not in used_now and s.sym not in read and not _effects(s)
    if isinstance(s, For | Par):
        return not s.body
    if isinstance(s, If):
        return not s.then and not s.orelse and not _effects(s)
    return False


def _effects(s: Stmt) -> bool:
    return any(isinstance(x, Raw) or (isinstance(x, Call) and x.effects not in ("pure", "read"))
               for e in stmt_exprs(s) for x in walk_expr(e))  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- copies


def _plain_index(e: Expr) -> Expr:
    """``x[(u32)t]`` for a 32-bit loop variable is ``x[t]``."""
    if isinstance(e, Load | AddrOf):
        index = tuple(_no_cast(i) for i in e.index)
        return e if index == e.index else dataclasses.replace(e, index=index)
    return e


def _no_cast(i: Expr) -> Expr:
    if isinstance(i, Cast) and i.style == "implicit" and isinstance(i.x, Var):
        t = i.x.sym.type
        if isinstance(t, Scalar) and t.is_int and t.bits >= 32:
            return i.x
    return i


def _plainer(s: Stmt) -> Stmt:
    if isinstance(s, Store):
        index = tuple(_no_cast(i) for i in s.index)
        s = s if index == s.index else dataclasses.replace(s, index=index)
    if isinstance(s, Par | For):
        return dataclasses.replace(s, body=joined_declarations(s.body))
    if isinstance(s, Reduce):
        return _last_copies(dataclasses.replace(s, body=joined_declarations(s.body)))
    return s


def signed_sums(body: Body) -> Body:
    """``(i32)((u32)i + 1u)`` of a loop's variable is ``i + 1``: what is unsigned there is only the thread's number."""
    counts = {s.var for s in walk(body) if isinstance(s, Par | Reduce | For)}

    def signed(e: Expr) -> Expr | None:
        if isinstance(e, Const) and e.type == U32:
            k = (int(e.value) + (1 << 31)) % (1 << 32) - (1 << 31)
            return i32(k) if abs(k) <= MOST_ADDED else None
        if isinstance(e, Cast) and e.style == "implicit" and e.x.type == I32:
            parts = [x for x in walk_expr(e.x) if not isinstance(x, Binary)]
            known = all(isinstance(x, Const) or (isinstance(x, Var) and x.sym in counts) for x in parts)
            return e.x if known else None
        if isinstance(e, Binary) and e.op in ("+", "-", "*") and e.type == U32:
            a, b = signed(e.a), signed(e.b)
            return None if a is None or b is None else fold_node(Binary(e.op, a, b))
        return None

    def on(e: Expr) -> Expr:
        sums = isinstance(e, Cast) and e.to == I32 and isinstance(e.x, Binary)
        return (signed(e.x) or e) if sums else e  # type: ignore[attr-defined]

    return map_body(body, keep, on)


def joined_declarations(body: Body) -> Body:
    """``T x; x = e;`` -> ``T x = e;``"""
    out: list[Stmt] = []
    for s in body:
        bare = next((k for k, d in enumerate(out) if isinstance(d, Decl) and d.init is None
                     and isinstance(s, Assign) and d.sym == s.sym), None)  # fmt: skip
        if bare is not None and isinstance(s, Assign):
            between = tuple(out[bare + 1 :])
            if s.sym not in used_in(between) and s.sym not in assigned(between) and s.sym not in used(s.value):
                out.pop(bare)
                out.append(Decl(s.sym, s.value, loc=s.loc, comments=s.comments))
                continue
        out.append(s)
    return tuple(out)


def _last_copies(s: Reduce) -> Reduce:
    """Accumulated values named only to be accumulated."""
    body, accs = list(s.body), list(s.accs)
    while body and isinstance(body[-1], Decl) and body[-1].init is not None:
        d = body[-1]
        uses = [k for k, a in enumerate(accs) if d.sym in used(a.value)]
        if len(uses) != 1 or accs[uses[0]].value != Var(d.sym) or d.init is None:
            break
        accs[uses[0]] = dataclasses.replace(accs[uses[0]], value=d.init)
        body.pop()
    return dataclasses.replace(s, body=tuple(body), accs=tuple(accs))


# ----------------------------------------------------------------------------------------------------- strided loops


def _strided(s: Stmt) -> Stmt | Body:
    """Threads that share out a loop: ``par t { for (i = lo + t; i < hi; i += T) B }`` is ``par i in lo..hi { B }``."""
    if isinstance(s, Par) and _over_threads(s) and len(s.body) == 1 and _chooses_alike(s, way := s.body[0]):
        assert isinstance(way, If)
        ways = ((dataclasses.replace(s, body=b),) if b else () for b in (way.then, way.orelse))
        then, orelse = (map_body(refresh(b), _strided) for b in ways)
        return dataclasses.replace(way, then=then, orelse=orelse)
    if isinstance(s, Par | Reduce) and _over_threads(s):
        s = shared_out_evenly(with_joined_ways(s) if isinstance(s, Reduce) else s)
    if isinstance(s, Par) and s.body and isinstance(s.body[-1], For) and _over_threads(s):
        before, loop = s.body[:-1], s.body[-1]
        bounds = _bounds(loop, s)
        if bounds is None or s.var in used_in(before) | used_in(loop.body) or _carries(loop):
            return s
        if not all(_settled(d, loop) for d in before):
            return s
        shared = Par(loop.var, *bounds, (*s.dist, Level("seq")), loop.body, loc=loop.loc,
                     comments=(*s.comments, *loop.comments), tags=frozenset({f"loop:{loop.var.name}"}))  # fmt: skip
        return (*before, shared)
    if isinstance(s, Reduce) and s.body and isinstance(s.body[-1], For) and _over_threads(s):
        strided = _strided_reduce(s)
        return (over_elements(s) or s) if strided is s else strided
    return (over_far_terms(s) or s) if isinstance(s, Reduce) else s


def _chooses_alike(threads: Par, s: Stmt) -> bool:
    """Whether ``s`` asks the same of all ``threads``, and what then follows is a loop."""
    if not isinstance(s, If) or threads.var in used(s.cond):
        return False
    ends = [b[-1] for b in (s.then, s.orelse) if b]
    return all(isinstance(x, For) for x in ends) and _reads_none_of(s.cond, s.then + s.orelse) and not _effects(s)


def _reads_none_of(e: Expr, body: Body) -> bool:
    """Whether ``e`` reads no buffer that ``body`` writes to."""
    read = {x.buffer for x in walk_expr(e) if isinstance(x, Load)}
    return not read & {x.buffer for x in walk(body) if isinstance(x, Store | Atomic)}


def _settled(s: Stmt, loop: For) -> bool:
    """Whether ``s``, before ``loop``, only names a value that the loop leaves alone: all threads find the same."""
    if not isinstance(s, Decl) or s.init is None or s.sym in assigned(loop.body):
        return False
    if any(isinstance(x, Raw | WarpOp | Call) for x in walk_expr(s.init)):
        return False
    return _reads_none_of(s.init, loop.body)


def _over_threads(s: Par | Reduce) -> bool:
    return bool(s.dist) and all(lv.kind == "thread" for lv in s.dist) and simplify(s.lo) == i32(0)


def _bounds(loop: For, s: Par | Reduce) -> tuple[Expr, Expr] | None:
    start, step, hi = linear_form(loop.init, {s.var}), loop_step(loop), upper_bound(loop.cond, loop.var)
    t, extents = loop.var.type, [lv.n for lv in s.dist if lv.n is not None]
    if start is None or step is None or hi is None or not isinstance(t, Scalar) or s.var in used(hi):
        return None
    if len(extents) < len(s.dist) or not same(start.coeff(s.var), i32(1)) or not same(step, reduce(mul, extents)):
        return None
    return cast(simplify(start.rest), t), hi


def _carries(loop: For) -> bool:
    mine = {d.sym for d in walk(loop.body) if isinstance(d, Decl)} | {loop.var}
    return any(not hasattr(a.type, "space") and a not in mine for a in assigned(loop.body))


def _strided_reduce(s: Reduce) -> Stmt:
    loop = s.body[-1]
    assert isinstance(loop, For)
    bounds = _bounds(loop, s)
    plain, found = searches(loop) if any(a.op == AT for a in s.accs) else (loop.body, [])
    split = accumulations(always_updated(plain), joined=True)
    if bounds is None or split is None:
        return s
    inner, sums = split
    for f in found:
        sums += [Accumulation(f.best, f.op, f.key), *(Accumulation(v, AT, e) for v, e in f.kept)]
    by_sym = {a.sym: a for a in sums}
    starts = {d.sym: d for d in s.body[:-1] if isinstance(d, Decl)}
    if len(starts) != len(s.body) - 1 or set(starts) != set(by_sym) or s.var in used_in(loop.body):
        return s
    accs: list[Acc] = []
    for a in s.accs:
        v = a.value
        if not isinstance(v, Var) or v.sym not in by_sym or by_sym[v.sym].op != a.op or a.sym.type != v.sym.type:
            return s
        init, t = starts[v.sym].init, a.sym.type
        assert isinstance(t, Scalar)
        if init is None or not (is_identity(init, a.op, t) or a.op in ("min", "max")) or used(init) & {s.var, *starts}:
            return s
        accs.append(Acc(a.sym, a.op, init, by_sym[v.sym].value))
    if len(accs) != len(sums):
        return s
    return Reduce(tuple(accs), loop.var, *bounds, (*s.dist, Level("seq")), inner, loc=loop.loc,
                  comments=(*s.comments, *loop.comments), tags=frozenset({f"loop:{loop.var.name}"}))  # fmt: skip
