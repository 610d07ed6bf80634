"""Serial searches for an extreme and where it is, for ``serial_sums``.

    if (x[i] > best) { best = x[i]; at = i; }

One iteration after another replaces what it keeps where its key is strictly better, so what is left is the best key and
what goes with the first iteration that had it, or what was there before where no key is better than that. Keys that are
no numbers (NaN) are never better; a start that is none is never replaced. All of this holds of

    reduce(max) best_1: f32 = -inf, (at) i_at: i32 = 2147483647 over i in 0..n     # the first place of the best key
      yield x[i], i
    if best_1 > best
      best = best_1
      at = i_at

whatever the data are: the same comparison decides, once for all iterations. Zeros of both signs compare equal; threads
keep the first, as the source does, so that lowered programs leave its bits.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from ktc.ir.analysis.accumulators import AT, BETTER, identity
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import both, is_const, simplify
from ktc.ir.nodes import (
    MIRRORED,
    ORDERINGS,
    Acc,
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Select,
    Stmt,
    Sym,
    Var,
    fresh,
)
from ktc.ir.purity import is_removable
from ktc.ir.types import I64, U64, Scalar
from ktc.ir.walk import assigned, declared, map_expr, stmt_exprs, substitute_expr, used, walk

from .conditional_updates import with_conditionals

OPERATION = {sign: op for op, sign in BETTER.items()}


@dataclass(frozen=True)
class Search:
    """``best`` and what is kept with it: ``kept[sym]`` is a function of the loop variable alone."""

    best: Sym
    op: str  # min | max
    key: Expr
    kept: tuple[tuple[Sym, Expr], ...]

    @property
    def syms(self) -> set[Sym]:
        return {self.best, *(s for s, _ in self.kept)}


def searches(loop: For, first: Container[Sym] = frozenset()) -> tuple[Body, list[Search]]:
    """The body of ``loop`` without its searches, and those. ``first``: places that searches begin with, where no
    iteration has a lower one: what they do about equal keys says nothing then."""
    rest: list[Stmt] = []
    found: list[Search] = []
    loop = replace(loop, body=with_conditionals(loop.body))
    for k, s in enumerate(loop.body):
        search = _search(loop, _without_ties(s, first), k)
        if search is None:
            rest.append(s)
        else:
            found.append(search)
    return tuple(rest), found


def extreme_update(s: Stmt) -> Assign | None:
    """``if (e > m) m = e``, or ``m = e > m ? e : m``, as ``m = max(m, e)``, which is the same for an ``m`` that is a
    number (not NaN)."""
    if isinstance(s, Assign) and isinstance(s.value, Select) and s.value.b == Var(s.sym):
        s = If(s.value.cond, (replace(s, value=s.value.a),), comments=s.comments)
    if not isinstance(s, If) or s.orelse or len(s.then) != 1 or not isinstance(s.cond, Binary):
        return None
    taken = s.then[0]
    if not isinstance(taken, Assign) or taken.value.type != taken.sym.type:
        return None
    for m, sign, e, _ in _comparisons(s.cond):
        if m == taken.sym and e == taken.value and sign[0] in OPERATION:
            return replace(taken, value=Call(OPERATION[sign[0]], (Var(m), e), m.type), comments=s.comments)  # type: ignore[arg-type]
    return None


def as_reduction(loop: For, search: Search) -> tuple[tuple[Acc, ...], Stmt]:
    """The accumulators of ``search``, and what takes their results."""
    t = search.best.type
    assert isinstance(t, Scalar) and isinstance(loop.var.type, Scalar)
    whole = fresh(search.best.name, t)
    accs: tuple[Acc, ...] = (Acc(whole, search.op, identity(search.op, t), search.key),)
    taken = [Assign(search.best, Var(whole), loc=loop.loc)]
    if search.kept:
        place = fresh(f"{loop.var.name}_at", loop.var.type)
        accs = (*accs, Acc(place, AT, identity(AT, loop.var.type), Var(loop.var)))
        taken += [Assign(s, substitute_expr(e, {loop.var: Var(place)}), loc=loop.loc) for s, e in search.kept]
    return accs, If(Binary(BETTER[search.op], Var(whole), Var(search.best)), tuple(taken), loc=loop.loc)


def earlier(loop: For, before: Body, accs: Sequence[Acc], found: Sequence[Search]) -> Expr | None:
    """Zero, where ``loop`` begins at one because each extreme starts as what iteration zero would compare with it.

    ``accs`` are the loop's other accumulators, ``before`` what comes before it.

    That iteration then changes nothing (nothing is better than itself), and whole rows are easier to split.
    """
    t = loop.var.type
    if not isinstance(t, Scalar) or not is_const(loop.init, 1) or any(a.op not in BETTER for a in accs):
        return None
    pairs = [(_last_value(before, a.init.sym) if isinstance(a.init, Var) else a.init, a.value) for a in accs]
    pairs += [(_last_value(before, f.best), f.key) for f in found]
    same = (start is not None and _is_first(start, _of_the_place(key, loop), loop.var) for start, key in pairs)
    return Const(0, t) if all(same) else None


def _is_first(start: Expr, key: Expr | None, var: Sym) -> bool:
    """Whether ``start`` is what ``key`` is at zero."""
    zero = Const(0, var.type)  # type: ignore[arg-type]
    return key is not None and same_element(start, substitute_expr(key, {var: zero}))


def _last_value(before: Body, sym: Sym) -> Expr | None:
    """What ``sym`` holds at the end of ``before``, as far as its declaration says."""
    for k in range(len(before) - 1, -1, -1):
        s = before[k]
        if isinstance(s, Decl) and s.sym == sym:
            later = before[k + 1 :]
            moved = s.init is None or used(s.init) & assigned(later) or sym in assigned(later)
            return None if moved else s.init
    return None


def same_element(a: Expr, b: Expr) -> bool:
    """Whether two expressions read the same element of one buffer, in the same type."""
    if isinstance(a, Cast) and isinstance(b, Cast) and a.to == b.to:
        return same_element(a.x, b.x)
    if not (isinstance(a, Load) and isinstance(b, Load)) or a.buffer != b.buffer or len(a.index) != len(b.index):
        return False
    return a.type == b.type and all(same_value(_signed(x), _signed(y)) for x, y in zip(a.index, b.index))


def _signed(e: Expr) -> Expr:
    """``e`` without changes of sign between numbers of 64 bits: an address is the same either way."""

    def on(x: Expr) -> Expr:
        return x.x if isinstance(x, Cast) and {x.to, x.x.type} <= {I64, U64} else x

    return simplify(map_expr(e, on))


def _search(loop: For, s: Stmt, at: int) -> Search | None:
    if not isinstance(s, If) or s.orelse or not all(isinstance(x, Assign) for x in s.then):
        return None
    sets = {x.sym: x.value for x in s.then if isinstance(x, Assign)}
    compared = next((c for c in _comparisons(s.cond) if c[0] in sets), None)
    if compared is None or len(sets) != len(s.then):
        return None
    best, sign, key, guard = compared
    kept = {sym: _of_the_place(e, loop) for sym, e in sets.items() if sym != best}
    strict = sign in OPERATION or not kept  # of equal keys the last would count
    op = OPERATION.get(sign[0])
    if not strict or op is None or sets[best] != key or key.type != best.type or not _is_number(best):
        return None
    if any(e is None for e in kept.values()) or _is_seen(loop, s, set(sets), at):
        return None
    reads = used(key) | (used(guard) if guard is not None else set())
    safe = is_removable(key) and (guard is None or is_removable(guard))
    if not safe or reads & set(sets) or reads & assigned(loop.body[at + 1 :]):
        return None
    value = key if guard is None else Select(guard, key, identity(op, best.type))  # type: ignore[arg-type]
    return Search(best, op, value, tuple((sym, e) for sym, e in kept.items() if e is not None))


def _without_ties(s: Stmt, first: Container[Sym]) -> Stmt:
    """``s`` without what it says of equal keys: that the lower place counts, which is the one that is kept."""
    if isinstance(s, If) and isinstance(s.cond, Binary) and s.cond.op == "||":
        match s.cond.b:
            case Binary("&&", Binary("==", a, b), Binary("<", place, Var(at))) if at in first:
                strict = any(s.cond.a == Binary(sign, x, y) for sign in OPERATION for x, y in ((a, b), (b, a)))
                taken = any(isinstance(x, Assign) and x.sym == at and x.value == place for x in s.then)
                return replace(s, cond=s.cond.a) if strict and taken else s
    return s


def _comparisons(cond: Expr) -> Iterator[tuple[Sym, str, Expr, Expr | None]]:
    """(what is compared, the comparison, with what, what else must hold), each way ``cond`` may be read."""
    if not isinstance(cond, Binary):
        return
    if cond.op == "&&":
        for one, other in ((cond.a, cond.b), (cond.b, cond.a)):
            yield from ((m, sign, e, both(other, guard)) for m, sign, e, guard in _comparisons(one))
    if cond.op in ORDERINGS:
        if isinstance(cond.b, Var):
            yield cond.b.sym, cond.op, cond.a, None
        if isinstance(cond.a, Var):
            yield cond.a.sym, MIRRORED[cond.op], cond.b, None


def _of_the_place(e: Expr, loop: For) -> Expr | None:
    """``e`` as a function of the loop variable and of what stands still in ``loop``; None if it is none."""
    inits = {s.sym: s.init for s in loop.body if isinstance(s, Decl) and s.init is not None}
    moving = assigned(loop.body)
    while used(e) & inits.keys() - moving:
        e = substitute_expr(e, {s: inits[s] for s in used(e) & inits.keys() - moving})  # type: ignore[misc]
    own = set(declared(loop.body)) | moving
    return e if is_removable(e) and not used(e) & own else None


def _is_seen(loop: For, search: If, syms: set[Sym], at: int) -> bool:
    """Whether the loop has to do with ``syms`` elsewhere, or they are its iterations' own."""
    others = (*loop.body[:at], *loop.body[at + 1 :])
    outside = {y for e in (loop.init, loop.cond, loop.step) for y in used(e)} | assigned(others)
    inside = {y for s in walk(others) for e in stmt_exprs(s) for y in used(e)}
    return bool(syms & (outside | inside | set(declared(loop.body)) | {loop.var}))


def _is_number(sym: Sym) -> bool:
    return isinstance(sym.type, Scalar) and (sym.type.is_float or sym.type.is_int)


__all__ = ["Search", "as_reduction", "earlier", "extreme_update", "same_element", "searches"]
