"""Values that one sweep over a range computes and a later sweep over the same range computes again.

Two expressions are the same value when they are equal after the constants of their own loop body are substituted and
the loop variables identified, and nothing they read is written from the first to the second. Only expressions that
read memory at the iteration's place are worth keeping, and the largest ones are kept: ``exp(f32(x[r + i]) - m)`` rather
than the load inside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ktc.ir.analysis.polynomial import same_value
from ktc.ir.fold import is_const
from ktc.ir.nodes import Acc, Binary, Body, Decl, Expr, Load, Par, Reduce, Select, Stmt, Store, Sym, Var, bodies, fresh
from ktc.ir.types import Array, Ptr, Scalar
from ktc.ir.walk import assigned, declared, substitute_expr, used, used_in, walk_expr

from .loops import Loop
from .purity import is_removable


@dataclass(frozen=True)
class Kept:
    """``value``, over the variable of loop ``origin``, is computed there and again in the loops ``later``.

    ``ahead``: only the later loops compute it so far, but ``origin`` can as well.
    """

    value: Expr
    origin: Sym
    later: tuple[Sym, ...]
    ahead: bool = False


@dataclass(frozen=True)
class View:
    """A sweep with what is needed to compare its expressions with another's."""

    loop: Loop
    at: int  # position among its siblings
    constants: dict[Sym, Expr]
    private: frozenset[Sym]

    def value_of(self, e: Expr, var: Sym) -> Expr:
        """``e`` without the body's own constants, over ``var``."""
        for _ in range(len(self.constants)):
            if not used(e) & self.constants.keys():
                break
            e = substitute_expr(e, self.constants)
        return substitute_expr(e, {self.loop.var: Var(var)})


def sibling_lists(body: Body) -> Iterator[Body]:
    yield body
    for s in body:
        for b in bodies(s):
            yield from sibling_lists(b)


def kept_values(body: Body, found: list[Loop], loads_only: bool = False) -> list[Kept]:
    """What the loops ``found`` compute more than once; ``loads_only``: what they load more than once."""
    out: list[Kept] = []
    for block in sibling_lists(body):
        views = [
            view_of(s, k) for k, s in enumerate(block) if isinstance(s, Par | Reduce) and any(s is f for f in found)
        ]
        origins: dict[Expr, tuple[int, list[Sym]]] = {}
        for b, later in enumerate(views):
            for value in _again(block, views[:b], later, loads_only):
                first = _origin(block, views[:b], later, value, loads_only)
                at = substitute_expr(value, {later.loop.var: Var(views[first].loop.var)})
                origins.setdefault(at, (first, []))[1].append(later.loop.var)
        out += [Kept(value, views[k].loop.var, tuple(where)) for value, (k, where) in origins.items()]
    return out


def values_ahead(body: Body, found: list[Loop]) -> list[Kept]:
    """What only a later one of the loops ``found`` loads, and the first one may load already.

    Every iteration of the first has its counterpart in the later one, which loads the value in any case; nothing that
    the value depends on is written or declared from the first loop on.
    """
    out: list[Kept] = []
    for block in sibling_lists(body):
        views = [
            view_of(s, k) for k, s in enumerate(block) if isinstance(s, Par | Reduce) and any(s is f for f in found)
        ]
        for k, later in enumerate(views[1:], 1):
            first = views[0]
            between = block[first.at : later.at]
            fixed = (assigned((*between, later.loop)) | set(declared(between))) - {first.loop.var}
            if not (_from_zero(first) and _from_zero(later) and same_value(first.loop.hi, later.loop.hi)):
                continue
            for e in _candidates(later, loads_only=True):
                value = later.value_of(e, first.loop.var)
                known = any(_computes(block, v, later, later.value_of(e, later.loop.var), True) for v in views[:k])
                if not known and not used(value) & fixed and all(value != x.value for x in out):
                    out.append(Kept(value, first.loop.var, (later.loop.var,), ahead=True))
    return out


def _from_zero(v: View) -> bool:
    return is_const(v.loop.lo, 0)


def view_of(loop: Loop, at: int = 0) -> View:
    changed = assigned(loop.body)
    constants = {
        s.sym: s.init for s in loop.body if isinstance(s, Decl) and s.init is not None and s.sym not in changed
    }
    return View(loop, at, constants, frozenset(declared(loop.body)) - constants.keys())


def _again(block: Body, earlier: list[View], later: View, loads_only: bool) -> list[Expr]:
    """The largest values (over ``later``'s variable) that some loop of ``earlier`` computes too."""
    found: dict[Expr, None] = {}

    def visit(e: Expr, written: set[Sym]) -> None:
        value = later.value_of(e, later.loop.var)
        same = worth_keeping(e, value, later, loads_only) and not used(value) & written
        if same and any(_computes(block, v, later, value, loads_only) for v in earlier):
            found.setdefault(value)
            return
        for x in unconditional(e):
            visit(x, written)

    written: set[Sym] = set()
    for s in later.loop.body:
        for e in _top(s):
            visit(e, written)
        written |= assigned((s,))
    for a in _accs(later.loop):
        visit(a.value, written)
    if len(found) < 2:
        return list(found)
    live = used_values(later, set(found))
    return [v for v in found if v in live]


def used_values(view: View, values: set[Expr]) -> set[Expr]:
    """Those of ``values`` still read once each is replaced by a row element and unread constants are dropped."""
    rows = {v: fresh("row", Array(v.type, (view.loop.hi,))) for v in values}
    left = replace_values(view.loop, rows)
    return {v for v, row in rows.items() if row in used_in((left,))}


def _computes(block: Body, v: View, later: View, value: Expr, loads_only: bool) -> bool:
    """Whether ``v`` computes ``value`` (over ``later``'s variable), which stays what it is until ``later`` starts."""
    if not (is_const(v.loop.lo, 0) and is_const(later.loop.lo, 0) and same_value(v.loop.hi, later.loop.hi)):
        return False
    between = assigned(block[v.at + 1 : later.at]) | set(declared(block[v.at + 1 : later.at]))
    if used(value) & (assigned(v.loop.body) | between | v.private):
        return False
    return any(v.value_of(e, later.loop.var) == value for e in _candidates(v, loads_only))


def _origin(block: Body, earlier: list[View], later: View, value: Expr, loads_only: bool) -> int:
    return next(k for k, v in enumerate(earlier) if _computes(block, v, later, value, loads_only))


def _candidates(v: View, loads_only: bool) -> Iterator[Expr]:
    def visit(e: Expr) -> Iterator[Expr]:
        if worth_keeping(e, v.value_of(e, v.loop.var), v, loads_only):
            yield e
        for x in unconditional(e):
            yield from visit(x)

    for s in v.loop.body:
        for e in _top(s):
            yield from visit(e)
    for a in _accs(v.loop):
        yield from visit(a.value)


def worth_keeping(e: Expr, value: Expr, v: View, loads_only: bool) -> bool:
    """Whether ``e``, meaning ``value``, is a scalar read from memory at the iteration's place, without effects."""
    if isinstance(e, Var) or not isinstance(e.type, Scalar) or used(value) & v.private:
        return False
    if loads_only and not isinstance(e, Load):
        return False
    loads = [x for x in walk_expr(value) if isinstance(x, Load)]
    here = [x for x in loads if isinstance(x.buffer.type, Ptr) and any(v.loop.var in used(i) for i in x.index)]
    return bool(here) and is_removable(value)


def unconditional(e: Expr) -> Iterator[Expr]:
    """Operands that are evaluated whenever ``e`` is; indices are left out."""
    if isinstance(e, Select):
        yield e.cond
    elif isinstance(e, Binary) and e.op in ("&&", "||"):
        yield e.a
    elif not isinstance(e, Load):
        for f in dataclasses.fields(e):
            v = getattr(e, f.name)
            yield from (x for x in (v if isinstance(v, tuple) else (v,)) if isinstance(x, Expr))


def _top(s: Stmt) -> Iterator[Expr]:
    """Expressions that a simple statement evaluates; a nested body may not run."""
    for name in ("init", "value"):
        e = getattr(s, name, None)
        if isinstance(e, Expr) and not any(True for _ in bodies(s)):
            yield e


def _accs(loop: Loop) -> tuple[Acc, ...]:
    return loop.accs if isinstance(loop, Reduce) else ()


# ------------------------------------------------------------------------------------------------------------ rewriting


def replace_values(loop: Loop, rows: dict[Expr, Sym]) -> Loop:
    """``loop`` reading ``rows[value][i]`` where it computes a value (over its own variable); unread constants go."""
    view = view_of(loop, 0)

    def swap(e: Expr) -> Expr | None:
        row = rows.get(view.value_of(e, loop.var))
        return None if row is None or isinstance(e, Var) else Load(row, (Var(loop.var),))

    return _without_dead(_mapped(loop, swap))


def load_ahead(loop: Loop, value: Expr, row: Sym, name: str) -> Loop:
    """``loop`` that also loads ``value`` (over its variable) into ``row[i]``."""
    sym = fresh(name, value.type)
    front = (Decl(sym, value, const=True, loc=loop.loc), Store(row, (Var(loop.var),), Var(sym)))
    return dataclasses.replace(loop, body=(*loop.body, *front))


def store_value(loop: Loop, value: Expr, row: Sym, name: str) -> Loop:
    """``loop`` storing ``value`` (over its variable) to ``row[i]`` where it first computes it, under a name."""
    view = view_of(loop, 0)
    body = list(loop.body)
    for k, s in enumerate(body):
        if isinstance(s, Decl) and s.init is not None and view.value_of(s.init, loop.var) == value:
            kept = Store(row, (Var(loop.var),), Var(s.sym))
            return dataclasses.replace(loop, body=(*body[: k + 1], kept, *body[k + 1 :]))
    sym = fresh(name, value.type)
    spelled: list[Expr] = []

    def swap(e: Expr) -> Expr | None:
        if isinstance(e, Var) or view.value_of(e, loop.var) != value:
            return None
        spelled.append(e)
        return Var(sym)

    for k, s in enumerate(body):
        new = _mapped_stmt(s, swap)
        if spelled:
            front = (Decl(sym, spelled[0], const=True, loc=s.loc), Store(row, (Var(loop.var),), Var(sym)))
            rest = tuple(_mapped_stmt(t, swap) for t in body[k + 1 :])
            done = dataclasses.replace(loop, body=(*body[:k], *front, new, *rest))
            return _map_accs(done, swap)
    done = _map_accs(loop, swap)
    front = (Decl(sym, spelled[0], const=True, loc=loop.loc), Store(row, (Var(loop.var),), Var(sym)))
    return dataclasses.replace(done, body=(*done.body, *front))


Swap = Callable[[Expr], Expr | None]


def _mapped(loop: Loop, swap: Swap) -> Loop:
    return _map_accs(dataclasses.replace(loop, body=tuple(_mapped_stmt(s, swap) for s in loop.body)), swap)


def _map_accs(loop: Loop, swap: Swap) -> Loop:
    if not isinstance(loop, Reduce):
        return loop
    accs = tuple(dataclasses.replace(a, value=_map_down(a.value, swap)) for a in loop.accs)
    return dataclasses.replace(loop, accs=accs)


def _mapped_stmt(s: Stmt, swap: Swap) -> Stmt:
    if any(True for _ in bodies(s)):
        return s
    own = ((n, getattr(s, n, None)) for n in ("init", "value"))
    changes: dict[str, Any] = {n: _map_down(e, swap) for n, e in own if isinstance(e, Expr)}
    return dataclasses.replace(s, **changes) if changes else s


def _map_down(e: Expr, swap: Swap) -> Expr:
    """``e`` with the outermost nodes that ``swap`` answers for replaced, in unconditional positions."""
    new = swap(e)
    if new is not None:
        return new
    allowed = {id(x) for x in unconditional(e)}
    changes: dict[str, Any] = {}
    for f in dataclasses.fields(e):
        v = getattr(e, f.name)
        if isinstance(v, Expr) and id(v) in allowed:
            changes[f.name] = _map_down(v, swap)
        elif isinstance(v, tuple) and any(id(x) in allowed for x in v):
            changes[f.name] = tuple(_map_down(x, swap) if id(x) in allowed else x for x in v)
    return dataclasses.replace(e, **changes) if changes else e


def _without_dead(loop: Loop) -> Loop:
    """``loop`` without declarations that nothing reads any more."""
    while True:
        read = used_in((loop,)) | assigned(loop.body)
        body = tuple(
            s
            for s in loop.body
            if not (isinstance(s, Decl) and s.sym not in read and (s.init is None or is_removable(s.init)))
        )
        if len(body) == len(loop.body):
            return loop
        loop = dataclasses.replace(loop, body=body)


__all__ = [
    "Kept",
    "View",
    "kept_values",
    "load_ahead",
    "replace_values",
    "sibling_lists",
    "store_value",
    "values_ahead",
    "view_of",
]
