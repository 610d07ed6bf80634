"""The code of one block, statement by statement: strided loops become ``par``, loops with accumulators and the
communication after them become ``reduce``, thread-0 sections and broadcasts become plain statements.

Where the end of a communication region is unclear, several candidates are produced; the exact check picks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ktc.ir.analysis.accumulators import IDEMPOTENT, identity, is_identity
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import Loc
from ktc.ir.fold import cast, is_const, simplify, sub
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_shared
from ktc.ir.types import Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    commented,
    declared,
    keep,
    map_body,
    mentions,
    stmt_exprs,
    substitute,
    used,
    used_in,
    walk,
    walk_expr,
)
from ktc.passes.shared.accumulations import Accumulation, accumulations, always_updated
from ktc.passes.shared.independence import independent

from .coordinates import depends_on_thread
from .strided_loops import Strided, is_everybodys, strided

Starts = Mapping[Sym, Expr]


@dataclass
class Blocked(Exception):
    """This statement list cannot be raised: why, and where."""

    code: str
    why: str
    loc: Loc | None


def raise_block(body: Body, launch: Launch) -> Iterator[Body]:
    """Candidate parallel forms of ``body``, likeliest first.

    Raises:
        Blocked: when no candidate exists (at the first ``next``).
    """
    yield from _rest(body, launch, {})


def _rest(body: Body, launch: Launch, starts: Starts) -> Iterator[Body]:
    """Candidates for the remaining statements; ``starts`` holds the constants that variables have at this point."""
    if not body:
        yield ()
        return
    s, rest = body[0], body[1:]
    if isinstance(s, Barrier) and s.scope == "block":
        yield from _rest(rest, launch, starts)
        return
    if isinstance(s, Alloc) and is_shared(s.sym):
        for tail in _rest(rest, launch, starts):
            yield (s, *tail) if s.sym in used_in(tail) else tail
        return
    if isinstance(s, For) and (loop := strided(s, launch)) is not None:
        yield from _loop(s, loop, rest, launch, starts)
        return
    if isinstance(s, For) and is_everybodys(s) and _thread_dependent(s):
        for inner in _rest(s.body, launch, {}):
            for tail in _rest(rest, launch, _after(s, starts)):
                yield (replace(s, body=inner), *tail)
        return
    if _first_thread_only(s):
        assert isinstance(s, If)
        yield from _first_thread(s, rest, launch, starts)
        return
    if not _thread_dependent(s):
        for tail in _rest(rest, launch, _after(s, starts)):
            yield (s, *tail) if not _dead(s, tail) else commented(tail, s.comments)
        return
    if isinstance(s, If) and _whole_block_takes(s):
        for then in _rest(s.then, launch, starts):
            for orelse in _rest(s.orelse, launch, starts):
                for tail in _rest(rest, launch, _after(s, starts)):
                    yield (replace(s, then=then, orelse=orelse), *tail)
        return
    raise Blocked("E-RAISE-THREAD", "this statement depends on the thread in a way that is not understood", s.loc)


def _dead(s: Stmt, tail: Body) -> bool:
    """A declaration that nothing reads any more (an accumulator that became a reduction)."""
    return isinstance(s, Decl) and s.sym not in used_in(tail) and s.sym not in assigned(tail)


def _thread_dependent(s: Stmt) -> bool:
    return any(isinstance(x, WarpOp) or depends_on_thread(x) for x in all_exprs((s,))) or any(
        isinstance(x, Barrier) for x in walk((s,))
    )


def _whole_block_takes(s: If) -> bool:
    """Whether all threads take the same way at ``s``, and what comes after it reads nothing that each has of its own:
    no loop over threads in it sums up what was declared before."""
    if depends_on_thread(s.cond) or any(isinstance(x, WarpOp) for x in walk_expr(s.cond)):
        return False
    mine = set(declared((s,)))
    return not any(
        v not in mine and not isinstance(v.type, Ptr | Array)
        for x in walk((s,))
        if isinstance(x, For) and depends_on_thread(x.init)
        for v in assigned(x.body)
    )


# -------------------------------------------------------------------------------------------------------- thread zero


def _first_thread_only(s: Stmt) -> bool:
    """``if (threadIdx.x == 0) ...`` whose body does not depend on the thread."""
    return (
        isinstance(s, If)
        and not s.orelse
        and isinstance(s.cond, Binary)
        and s.cond.op == "=="
        and isinstance(without_casts(s.cond.a), HwIndex)
        and is_const(without_casts(s.cond.b), 0)
        and not any(_thread_dependent(t) for t in s.then)
    )


def _first_thread(s: If, rest: Body, launch: Launch, starts: Starts) -> Iterator[Body]:
    """Once per block: plain statements; ``shared = e`` that all read later is a scalar of the block."""
    if len(s.then) == 1 and isinstance(s.then[0], Store) and is_shared(s.then[0].buffer):
        store = s.then[0]
        if all(is_const(i) for i in store.index):
            value = fresh(store.buffer.name, store.value.type)
            tail_in = _replace_reads(rest, store.buffer, store.index, value)
            for tail in _rest(tail_in, launch, starts):
                yield (Decl(value, store.value, const=True, loc=s.loc), *tail)
            return
    for tail in _rest(rest, launch, _after(s, starts)):
        yield (*s.then, *tail)


def _replace_reads(body: Body, buffer: Sym, index: tuple[Expr, ...] | None, by: Sym, op: str = "") -> Body:
    """Reads of ``buffer[index]`` (any uniform element when ``index`` is None) become reads of ``by``.

    Partial results that the reader itself combines (``part[0] op part[1]``) become one read.
    """
    whole = Var(by)

    def on(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == buffer and (index is None or e.index == index):
            return e if any(depends_on_thread(i) for i in e.index) else whole
        if op and isinstance(e, Binary) and e.op == op and e.a is whole and e.b is whole:
            return whole
        if op and isinstance(e, Call) and e.fn == op and all(x is whole for x in e.args):
            return whole
        return e

    return map_body(body, keep, on)


# --------------------------------------------------------------------------------------------------------------- loops


def _loop(s: For, loop: Strided, rest: Body, launch: Launch, starts: Starts) -> Iterator[Body]:
    split = accumulations(always_updated(s.body))
    if split is None:
        raise Blocked(
            "E-RAISE-CARRIED", f"the loop over '{s.var.name}' carries a value from one iteration to the next", s.loc
        )
    inner, sums = split
    if any(depends_on_thread(e) or isinstance(e, WarpOp) for e in all_exprs(s.body)):
        raise Blocked("E-RAISE-THREAD", f"the loop over '{s.var.name}' uses the thread index in its body", s.loc)
    if any(isinstance(x, Barrier) for x in walk(s.body)):
        raise Blocked("E-RAISE-BARRIER", f"the loop over '{s.var.name}' contains a barrier", s.loc)
    why = independent(s.var, inner, sub(loop.hi, loop.lo), loop.lo)
    if why:
        raise Blocked("E-RAISE-DEPENDENCE", f"iterations over '{s.var.name}' may depend on each other: {why}", s.loc)
    tags = frozenset({f"loop:{s.var.name}"})
    if not sums:
        par = Par(s.var, loop.lo, loop.hi, loop.dist, inner, loc=s.loc, comments=s.comments, tags=tags)
        for tail in _rest(rest, launch, starts):
            yield (par, *tail)
        return
    if any(lv.kind == "block" for lv in loop.dist):
        raise Blocked("E-RAISE-GRID-REDUCTION", "a reduction across blocks stays as it is for now", s.loc)
    accs = tuple(Acc(fresh(a.sym.name, a.sym.type), a.op, _start(a, starts, s.loc), a.value) for a in sums)
    reduce = Reduce(accs, s.var, loop.lo, loop.hi, loop.dist, inner, loc=s.loc, comments=s.comments, tags=tags)
    partial = {a.sym: acc.sym for a, acc in zip(sums, accs)}
    for end in _region_ends(rest, set(partial)):
        region, after = rest[:end], rest[end:]
        replaced = _results(region, after, partial, {a.sym: a.op for a in accs})
        if replaced is None:
            continue
        try:
            for tail in _rest(replaced, launch, starts):
                yield (reduce, *tail)
        except Blocked:
            if end == 0:
                raise
            continue
    return


def _after(s: Stmt, starts: Starts) -> Starts:
    """The constants that variables have after ``s``, as they are written."""
    changed = assigned((s,))
    out = {v: c for v, c in starts.items() if v not in changed}
    value = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
    if isinstance(s, Decl | Assign) and value is not None and _is_number(known := simplify(value)):
        out[s.sym] = known
    return out


def _is_number(e: Expr) -> bool:
    return isinstance(e, Const) or (isinstance(e, Cast) and e.style != "bit" and _is_number(e.x))


def _start(a: Accumulation, starts: Starts, loc: Loc | None) -> Expr:
    """What the reduction starts from, where every thread starts from the value that ``a.sym`` has before its loop.

    Raises:
        Blocked: when combining that value once is not the same as combining it once per thread.
    """
    t, known = a.sym.type, starts.get(a.sym)
    assert isinstance(t, Scalar)
    one = identity(a.op, t)
    if known is not None and is_identity(known, a.op, t):
        return one
    if a.op in IDEMPOTENT:
        return Var(a.sym) if known is None else known
    raise Blocked("E-RAISE-CARRIED", f"every thread starts '{a.sym.name}' from a value that is not known to be "
                  f"{one.value}", loc)  # fmt: skip


def _region_ends(rest: Body, partial: set[Sym]) -> Iterator[int]:
    """Lengths of the communication region after an accumulation loop: the longest first, then shorter ones."""
    private: set[Sym] = set(partial)
    ends = [0]
    for k, s in enumerate(rest):
        if not _communicates(s, private):
            break
        private |= {d for d in declared((s,)) if not is_shared(d)}
        ends.append(k + 1)
    yield from reversed(ends)


def _communicates(s: Stmt, private: set[Sym]) -> bool:
    """Whether ``s`` only moves values between threads: shared arrays, warp operations, barriers, temporaries."""
    for x in walk((s,)):
        if isinstance(x, Store) and not is_shared(x.buffer):
            return False
        for e in stmt_exprs(x):
            for y in walk_expr(e):
                if isinstance(y, Load) and not is_shared(y.buffer):
                    return False
    if isinstance(s, Barrier | Store | Alloc) or any(isinstance(x, Barrier) for x in walk((s,))):
        return True
    if any(isinstance(y, WarpOp) for y in all_exprs((s,))):
        return True
    touched = mentions(s)
    if isinstance(s, Decl):
        return _thread_dependent(s) or bool(used_in((s,)) & private)
    return any(is_shared(b) for b in assigned((s,))) or bool(touched & private)


def _results(region: Body, after: Body, partial: dict[Sym, Sym], ops: dict[Sym, str]) -> Body | None:
    """``after`` with the places where the region's result is read replaced by the reduced scalars; None if unclear."""
    out = after
    for old, new in partial.items():
        out = substitute(out, {old: Var(new)})
    shared = {b for b in assigned(region) if is_shared(b)}
    private = {d for d in declared(region) if not is_shared(d)}
    target = next(iter(partial.values()))
    if len(partial) > 1 and (shared or private & used_in(after)):
        return None  # which result is which needs more than a guess
    if any(scalar_of(b.type) != target.type for b in shared | private & used_in(after)) or _rounds(region):
        return None  # combined in another type than that of the loop: neither its range nor its precision is the loop's
    op = ops[target]
    if any(_computes(e, op, {*partial, *shared, *private}) for e in all_exprs(region)):
        return None  # what comes out is made of the combination, and is not it
    for b in shared:
        end = next((k for k, s in enumerate(out) if b in assigned((s,))), len(out))  # the array's next use is another's
        out = (*_replace_reads(out[:end], b, None, target, op), *out[end:])
    for p in private:
        out = substitute(out, {p: cast(Var(target), p.type)})  # type: ignore[arg-type]
    return out


def _computes(e: Expr, op: str, values: set[Sym]) -> bool:
    """Whether ``e`` makes a float of ``values`` by something else than ``op``."""
    t = e.type
    if not isinstance(t, Scalar) or not t.is_float or not used(e) & values:
        return False
    if isinstance(e, Call):
        return e.fn != op
    return isinstance(e, Unary) or (isinstance(e, Binary) and e.op != op)


def _rounds(region: Body) -> bool:
    """Whether a floating-point value changes its type on the way."""
    casts = [e for e in all_exprs(region) if isinstance(e, Cast)]
    return any(scalar_of(e.x.type).is_float and e.to != e.x.type for e in casts)


__all__ = ["Blocked", "raise_block"]
