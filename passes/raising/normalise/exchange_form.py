"""A normal form for statement lists in which threads exchange values.

* ``if (t == 0) { x = f(part); out[b] = x; }`` is split in two, so that the exchange ends before the effect;
* shared cells that only their own thread touches from one exchange to the next are variables of the thread;
* what is computed and put into shared memory in one statement gets a name, and so do shared cells that are added up
  (or multiplied, ..) in the midst of an expression;
* private computation moves up past the exchange it does not depend on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence, Set

from ktc.ir.analysis.accumulators import combining, operands
from ktc.ir.fields import children
from ktc.ir.fold import is_const
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Barrier,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    Fence,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_shared
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Array
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    loads_in,
    map_body,
    mentions,
    rename,
    stmt_exprs,
    used,
    used_in,
    walk,
)
from ktc.passes.raising.recognise.exchange_regions import moves_only
from ktc.passes.raising.recognise.statement_kinds import has_block_barrier, has_warp_op


def _global_effect(s: Stmt) -> bool:
    return any(
        isinstance(x, Store | Atomic) and getattr(x.buffer.type, "space", "local") not in ("shared", "local")
        for x in walk((s,))
    )


def _touches_shared(s: Stmt) -> bool:
    return any(is_shared(b) for b in mentions(s))


def split_effects(body: Body) -> tuple[Body, set[Sym]]:
    """Conditionals that combine exchanged values and then write them out, as two conditionals."""
    out: list[Stmt] = []
    made: set[Sym] = set()
    for s in body:
        if isinstance(s, If) and not s.orelse and _touches_shared(s) and _global_effect(s):
            first, rest = _exchange_and_effect(s.then)
            head = rest[0]
            whole = any(map(has_block_barrier, first))  # all threads go there: the exchange in it stands by itself
            if whole or any(map(_waits, rest)):
                out.append(s)
                continue
            if isinstance(head, Store | Atomic) and _combines(head.value):
                value = fresh(head.buffer.name, head.value.type)
                first = (*first, Decl(value, head.value, loc=head.loc))
                rest = (dataclasses.replace(head, value=Var(value)), *rest[1:])
            if first and not assigned(first) & used(s.cond):
                crossing = [d for d in first if isinstance(d, Decl) and d.sym in used_in(rest) | assigned(rest)]
                on = {d.sym: fresh(d.sym.name, d.sym.type) for d in crossing if d.sym in assigned(rest)}
                rest = (*(Decl(new, Var(v)) for v, new in on.items()), *rename(rest, on))
                made |= {d.sym for d in crossing}
                out += [Decl(d.sym, None, loc=d.loc) for d in crossing]
                instead = (_assigned_instead(t, {d.sym for d in crossing}) for t in first)
                lead = tuple(t for t in instead if t is not None)
                out += [dataclasses.replace(s, then=lead), If(s.cond, rest, loc=s.loc)]
                continue
        out.append(s)
    return tuple(out), made


def _exchange_and_effect(body: Body) -> tuple[Body, Body]:
    """``body`` up to its first effect, less what reads global memory with no part in the exchange; and the others."""
    at = next(k for k, t in enumerate(body) if _global_effect(t))
    before = body[:at]
    reading = [t for t in before if not moves_only(t)]
    if not reading:
        return before, body[at:]
    ends = 1 + max((k for k, t in enumerate(before) if _touches_shared(t)), default=-1)
    later = tuple(t for t in before[:ends] if isinstance(t, Decl) and not moves_only(t) and not _touches_shared(t))
    kept = tuple(t for t in before[:ends] if t not in later)
    if set(declared(later)) & (used_in(kept) | assigned(kept)) or used_in(later) & assigned(kept):
        return before, body[at:]
    return kept, (*later, *body[ends:])


def _combines(e: Expr) -> bool:
    """Whether ``e`` does something with values of the exchange alone."""
    return not isinstance(e, Var | Load) and all(is_shared(x.buffer) for x in loads_in(e))


def rejoined(body: Body, made: set[Sym]) -> Body:
    """Conditionals that :func:`split_effects` took apart, together again where no exchange came between."""
    out: list[Stmt] = []
    for s in body:
        last = out[-1] if out else None
        if isinstance(s, If) and isinstance(last, If) and s.cond == last.cond and not s.orelse and not last.orelse:
            mine = {a.sym for a in last.then if isinstance(a, Assign) and a.sym in made}
            bare = [k for k, d in enumerate(out) if isinstance(d, Decl) and d.init is None and d.sym in mine]
            if mine and len(bare) == len(mine) and not assigned(last.then) & used(s.cond):
                out[-1] = dataclasses.replace(last, then=(*_declared(last.then, mine), *s.then))
                out = [d for k, d in enumerate(out) if k not in bare]
                continue
        out.append(s)
    return tuple(out)


def _declared(body: Body, syms: set[Sym]) -> Iterator[Stmt]:
    """``body`` with a declaration of each of ``syms`` in the place of its first assignment, or in front."""
    left = set(syms)
    for s in body:
        new = mentions(s) & left
        left -= new
        named = s if isinstance(s, Assign) and s.sym in new and s.sym not in used(s.value) else None
        yield from (Decl(v) for v in sorted(new, key=lambda v: v.id) if named is None or v != named.sym)
        yield s if named is None else Decl(named.sym, named.value, loc=s.loc)


def _assigned_instead(s: Stmt, syms: set[Sym]) -> Stmt | None:
    if isinstance(s, Decl) and s.sym in syms:
        return None if s.init is None else Assign(s.sym, s.init, loc=s.loc)
    return s


def own_cells(
    body: Body, injective: Callable[[Sequence[Expr]], bool], filled: Collection[Sym] = ()
) -> tuple[Body, set[Sym]]:
    """Cells of shared arrays that each thread has for itself from one exchange to the next, as variables.

    Arrays of ``filled`` hold something when ``body`` begins, and those that ``body`` has touched before an exchange do
    after it: their cells are a thread's own from its first store on.
    """
    made: set[Sym] = set()
    known = set(filled)
    start = 0
    while (at := next((k for k in range(start, len(body)) if _waits(body[k])), None)) is not None:
        segment, stores = _own_until(body[start:at], injective, known)
        made |= {s.value.sym for s in stores if isinstance(s.value, Var)}
        known |= {b for s in body[start : at + 1] for b in mentions(s) if is_shared(b)}
        body = (*body[:start], *segment, *stores, *body[at:])
        start += len(segment) + len(stores) + 1
    return body, made


def _own_until(
    segment: Body, injective: Callable[[Sequence[Expr]], bool], filled: Collection[Sym]
) -> tuple[Body, tuple[Store, ...]]:
    """``segment``, in which no thread waits, with variables for a thread's own cells, and the stores that these end up
    in."""
    places: dict[Sym, set[tuple[Expr, ...]]] = {}
    for s in walk(segment):
        if isinstance(s, Store | Atomic) and is_shared(s.buffer):
            places.setdefault(s.buffer, set()).add(s.index if isinstance(s, Store) and s.width == 1 else ())
    for e in all_exprs(segment):
        if isinstance(e, Load) and is_shared(e.buffer):
            places.setdefault(e.buffer, set()).add(e.index if e.width == 1 else ())
    resolve = {s.sym: s.init for s in segment if isinstance(s, Decl) and s.init is not None}
    stores: list[Store] = []
    for b, indices in places.items():
        if len(indices) != 1:
            continue
        (index,) = indices
        if _handed_over(segment, b) or (b in filled and not _stored_first(segment, b)):
            continue
        assert isinstance(b.type, Array)
        if not index or len(index) != len(b.type.shape) or not injective(tuple(_resolved(i, resolve) for i in index)):
            continue
        own = fresh(f"{b.name}_own", b.type.elem)
        first = next(k for k, s in enumerate(segment) if b in mentions(s))
        segment = (*segment[:first], Decl(own), *_own(segment[first:], b, own))
        stores.insert(0, Store(b, index, Var(own)))
    return segment, tuple(stores)


def _stored_first(prefix: Body, b: Sym) -> bool:
    s = next(s for s in prefix if b in mentions(s))
    return (
        isinstance(s, Store)
        and s.buffer == b
        and not any(isinstance(e, Load) and e.buffer == b for e in all_exprs((s,)))
    )


def _handed_over(prefix: Body, b: Sym) -> bool:
    """Whether the one access of ``b`` is a store of a variable: it has a name already."""
    touching = [s for s in prefix if b in mentions(s)]
    return len(touching) == 1 and isinstance(touching[0], Store) and isinstance(touching[0].value, Var)


def _resolved(e: Expr, env: dict[Sym, Expr]) -> Expr:
    from ktc.ir.walk import substitute_expr

    for _ in range(8):
        if not used(e) & env.keys():
            break
        e = substitute_expr(e, env)
    return e


def _own(body: Body, b: Sym, own: Sym) -> Body:
    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer == b:
            return Assign(own, s.value, loc=s.loc, comments=s.comments)
        return s

    return map_body(body, on_stmt, lambda e: Var(own) if isinstance(e, Load) and e.buffer == b else e)


def temporaries(body: Body) -> tuple[Body, set[Sym]]:
    """Names for values that a statement both computes and puts into shared memory."""
    out: list[Stmt] = []
    made: set[Sym] = set()
    for s in body:
        if (
            isinstance(s, Store | Atomic)
            and is_shared(s.buffer)
            and not isinstance(s.value, Var)
            and not has_warp_op(s)
        ):
            reads = {x.buffer for x in all_exprs((s,)) if isinstance(x, Load)}
            if any(not is_shared(r) for r in reads):
                value = fresh(f"{s.buffer.name}_own", s.value.type)
                made.add(value)
                out.append(Decl(value, s.value, loc=s.loc))
                s = dataclasses.replace(s, value=Var(value))
        out.append(s)
    return tuple(out), made


def named_totals(body: Body) -> Body:
    """Names for what shared cells at fixed places come to by one operation: ``f((part[0] + part[1]) / n)``."""
    out: list[Stmt] = []
    for s in body:
        if not _exchange(s) and not (isinstance(s, Decl | Assign) and _is_total(_value_of(s))):
            inside = {*declared((s,))} | assigned((s,))  # what is not there yet in front of it
            every = (t for x in walk((s,)) for e in stmt_exprs(x) for t in _totals(e))
            found = dict.fromkeys(t for t in every if not used(t) & inside)
            names = {e: fresh(next(loads_in(e)).buffer.name, e.type) for e in found}
            if names:
                out += [Decl(v, e, loc=s.loc) for e, v in names.items()]
                (s,) = map_body((s,), keep, lambda e, names=names: Var(names[e]) if e in names else e)  # type: ignore[misc]
        out.append(s)
    return tuple(out)


def _value_of(s: Decl | Assign) -> Expr | None:
    return s.init if isinstance(s, Decl) else s.value


def _totals(e: Expr) -> Iterator[Expr]:
    """The largest parts of ``e`` that are such totals."""
    if _is_total(e):
        yield e
    else:
        for x in children(e):
            yield from _totals(x)


def _is_total(e: Expr | None) -> bool:
    op = combining(e)
    cells = operands(e, op) if e is not None and op else []
    of_one = all(isinstance(x, Load) and x.width == 1 and all(map(is_const, x.index)) for x in cells)
    return bool(cells) and of_one and len({x.buffer for x in cells if isinstance(x, Load) and is_shared(x.buffer)}) == 1


def _waits(s: Stmt) -> bool:
    return any(isinstance(x, Barrier) for x in walk((s,))) or has_warp_op(s)


def bubbled(body: Body) -> Body:
    """Private statements moved up past exchanges that they do not depend on."""
    out: list[Stmt] = []
    for s in body:
        k = len(out)
        if _private(s):
            needs, makes = mentions(s), set(declared((s,))) | assigned((s,))
            j = k
            while j and not _ties(out[j - 1], needs, makes, s):
                j -= 1
                if _exchange(out[j]):
                    k = j
        out.insert(k, s)
    return tuple(out)


def concluded(region: Body) -> tuple[Body, Body]:
    """``region`` without the values that it names and does not go on with, and those: ``mean = total / n``.

    Another name for something of the region stays: results are called as the source calls them.
    """
    out: list[Stmt] = []
    needed: set[Sym] = set()
    changed: set[Sym] = set()
    for s in reversed(region):
        named = isinstance(s, Decl) and s.init is not None and _private(s)
        if named and not {*declared((s,))} & (needed | changed) and not used_in((s,)) & changed:
            out.insert(0, s)
        else:
            needed |= used_in((s,))
            changed |= assigned((s,))
    made = set(declared(tuple(out)))
    moved = [s for s in out if not (isinstance(s, Decl) and isinstance(s.init, Var) and s.init.sym not in made)]
    return tuple(s for s in region if not any(s is m for m in moved)), tuple(moved)


def _exchange(s: Stmt) -> bool:
    return _waits(s) or any(is_shared(b) for b in assigned((s,)))


@by_identity(4096)
def _private(s: Stmt) -> bool:
    if _waits(s) or _touches_shared(s) or _global_effect(s):
        return False
    if any(isinstance(x, Fence | Return) for x in walk((s,))) or isinstance(s, Break | Continue):
        return False
    return not any(getattr(e, "effects", "pure") not in ("pure", "read") for e in all_exprs((s,)))


def _ties(before: Stmt, needs: Set[Sym], makes: set[Sym], s: Stmt) -> bool:
    """Whether ``s`` must stay behind ``before``."""
    if isinstance(before, Break | Continue | Return) or any(isinstance(x, Return | Break) for x in walk((before,))):
        return True
    if (set(declared((before,))) | assigned((before,))) & needs or used_in((before,)) & makes:
        return True
    return _global_effect(before) and any(isinstance(e, Load) for e in all_exprs((s,)))
