"""Loops that load ahead, as loops that load where they use: ``for u: a[u] = x[i + u]; for v: m = max(m, a[v])``.

What a private array is given in one loop and read in another one, for the same number and under the same guard, stands
for itself where it is read: nothing in between changes what it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktc.ir.nodes import Alloc, Assign, Body, Decl, Expr, For, If, Load, Stmt, Store, Sym, Var, VecGet, WarpOp
from ktc.ir.storage import is_local_array
from ktc.ir.types import Array, Vec
from ktc.ir.walk import assigned, map_stmt_exprs, stmt_exprs, substitute_expr, used, walk, walk_expr

READS = (Assign, Decl, For, If)
"""Statements between a load and its use that change no memory, beside stores to other arrays of the thread's own."""


def forwarded(s: For) -> For:
    """``s`` with the values of an array that its body first fills in place of the array; as it is, if it does not."""
    for k, made in enumerate(s.body[:-2]):
        filling = s.body[k + 1]
        if isinstance(made, Alloc) and isinstance(filling, For):
            found = _without(made.sym, filling, s.body[k + 2 :])
            if found is not None:
                return replace(s, body=(*s.body[:k], *found))
    return s


def _without(array: Sym, filling: For, rest: Body) -> Body | None:
    """``rest`` without ``array``; None where it may read what ``filling`` did not store."""
    inner, guard = filling.body, None
    only = inner[0] if len(inner) == 1 else None
    if isinstance(only, If) and not only.orelse:
        inner, guard = only.then, only.cond
    if len(inner) != 1 or not isinstance(inner[0], Store) or inner[0].buffer != array:
        return None
    store = inner[0]
    private = isinstance(array.type, Array) and array.type.space != "shared" and len(array.type.shape) == 1
    if not private or store.width != 1 or store.index != (Var(filling.var),):
        return None
    if not all(isinstance(x, READS) or _elsewhere(x, array) for x in walk(rest)):
        return None
    parts = [store.value, *([guard] if guard is not None else [])]
    if any(isinstance(x, WarpOp) or (isinstance(x, Load) and x.buffer == array) for e in parts for x in walk_expr(e)):
        return None
    counted = {x.var for x in walk(rest) if isinstance(x, For)} - {filling.var}
    if (assigned(rest) | counted) & {s for e in parts for s in used(e)}:
        return None
    out = _Forward(array, filling, guard, store.value).body(rest, {})
    return None if any(array in used(e) for s in walk(out) for e in stmt_exprs(s)) else out


def _elsewhere(s: Stmt, array: Sym) -> bool:
    """Whether ``s`` stores to another array of the thread's own."""
    return isinstance(s, Store) and s.buffer != array and is_local_array(s.buffer)


Counters = Mapping[Sym, bool]
"""Variables of the loops around a statement that count as the filling does, and whether its guard holds for them."""


class _Forward:
    """Puts values for an array's elements, where they are known to be there."""

    def __init__(self, array: Sym, filling: For, guard: Expr | None, value: Expr) -> None:
        self.array, self.filling, self.guard, self.value = array, filling, guard, value

    def body(self, body: Body, there: Counters) -> Body:
        return tuple(self._statement(s, there) for s in body)

    def _statement(self, s: Stmt, there: Counters) -> Stmt:
        def on(e: Expr) -> Expr:
            return self._element(e, there)

        if isinstance(s, For):
            inside = {c: known for c, known in there.items() if c != s.var}
            if self._counts_alike(s):
                inside[s.var] = self.guard is None
            return replace(map_stmt_exprs(s, on), body=self.body(s.body, inside))  # type: ignore[call-arg]
        if isinstance(s, If):
            holds = {c: known or s.cond == self._for(self.guard, c) for c, known in there.items()}
            arms = self.body(s.then, holds), self.body(s.orelse, there)
            return replace(map_stmt_exprs(s, on), then=arms[0], orelse=arms[1])  # type: ignore[call-arg]
        return map_stmt_exprs(s, on)

    def _counts_alike(self, s: For) -> bool:
        f = self.filling
        mine = tuple(substitute_expr(e, {s.var: Var(f.var)}) for e in (s.init, s.cond, s.step))
        return mine == (f.init, f.cond, f.step) and s.var not in assigned(s.body)

    def _for(self, e: Expr | None, counter: Sym) -> Expr | None:
        return None if e is None else substitute_expr(e, {self.filling.var: Var(counter)})

    def _element(self, e: Expr, there: Counters) -> Expr:
        if not isinstance(e, Load) or e.buffer != self.array or e.width != 1 or not e.index:
            return e
        first = e.index[0]
        if not isinstance(first, Var) or not there.get(first.sym):
            return e
        value = substitute_expr(self.value, {self.filling.var: first})
        wide = isinstance(self.array.type, Array) and isinstance(self.array.type.elem, Vec)
        if wide and len(e.index) == 2:
            return VecGet(value, e.index[1])
        return value if not wide and len(e.index) == 1 else e


__all__ = ["forwarded"]
