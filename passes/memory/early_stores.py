"""A value that an early sweep of a row computes and a later one stores: stored by the early one, and read from there.

before                                              after
    reduce(+) s over i in 0..d                          reduce(+) s over i in 0..d
      x = a[r + i] + b[r + i]                             x = a[r + i] + b[r + i]; b[r + i] = x
      yield x * x                                         yield x * x
    par j in 0..d                                       par j in 0..d
      b[r + j] = a[r + j] + b[r + j]                      a[r + j] = b[r + j] * s
      a[r + j] = (a[r + j] + b[r + j]) * s

The array must hold what is stored without rounding, and overlap no other. From the early sweep to the later one it is
touched nowhere else: only that store writes to it, and it is read only to compute the value, at the place that is
stored to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from ktc.ir.arith.polynomial import same_value
from ktc.ir.nodes import Body, Break, Continue, Expr, Load, Par, Reduce, Return, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import all_exprs, assigned, declared, map_body, substitute_expr, used, walk, walk_expr
from ktc.passes.core.named_loops import Loop
from ktc.passes.shared.sweep_rewrites import replace_values, store_value
from ktc.passes.shared.sweep_views import view_of
from ktc.passes.shared.sweeps import Kept, sibling_lists


@dataclass(frozen=True)
class Early:
    """The loop over ``by`` stores ``kept.value`` to ``buffer`` at ``index`` (over the variable of the origin)."""

    kept: Kept
    by: Sym
    buffer: Sym
    index: tuple[Expr, ...]

    def at(self, var: Sym) -> tuple[Expr, ...]:
        """The place in the iteration ``var``."""
        return tuple(substitute_expr(i, {self.kept.origin: Var(var)}) for i in self.index)


def stored_early(body: Body, values: Sequence[Kept], alone: Set[Sym]) -> tuple[Body, list[Early]]:
    """``body`` with those of ``values`` stored where they are computed first for which it may be, and these. ``alone``:
    arrays that overlap no other."""
    done: list[Early] = []
    for k in values:
        for block in sibling_lists(body):
            stores = (e for e in _stores(block, k) if e.buffer in alone)
            found = next(((e, new) for e in stores if (new := _rewritten(block, e)) is not None), None)
            if found is not None:
                early, new = found
                body = _with(body, block, new)
                done.append(early)
                break
    return body, done


def _with(body: Body, block: Body, new: Body) -> Body:
    """``body`` with the statements ``new`` for the loops of ``block`` that they take the place of."""
    loops = {s.var: s for s in new if isinstance(s, Par | Reduce)}
    return map_body(body, lambda s: loops.get(s.var, s) if isinstance(s, Par | Reduce) else s)


def _stores(block: Body, k: Kept) -> Iterator[Early]:
    """The stores of the value in later sweeps of the same range, each iteration's its own, to arrays that keep it."""
    loops = {s.var: s for s in block if isinstance(s, Par | Reduce)}
    if k.ahead or not {k.origin, *k.later} <= loops.keys():
        return
    for loop in (loops[v] for v in k.later):
        view, value = view_of(loop), substitute_expr(k.value, {k.origin: Var(loop.var)})
        if not same_value(loop.hi, loops[k.origin].hi):
            continue
        for s in (s for s in loop.body if isinstance(s, Store) and s.width == 1):
            kept_whole = isinstance(s.buffer.type, Ptr) and s.buffer.type.elem == value.type == s.value.type
            if kept_whole and view.value_of(s.value, loop.var) == value:
                index = tuple(view.value_of(i, k.origin) for i in s.index)
                yield Early(k, loop.var, s.buffer, index)


def _rewritten(block: Body, early: Early) -> Body | None:
    """``block`` with the value stored early; None where anything else has to do with the array meanwhile."""
    kept, buffer = early.kept, early.buffer
    places = [n for n, s in enumerate(block) if isinstance(s, Par | Reduce) and s.var in (kept.origin, *kept.later)]
    span = block[places[0] : places[-1] + 1]
    own = [e for e in walk_expr(kept.value) if isinstance(e, Load) and e.buffer == buffer]
    moving = (assigned(span) | set(declared(span))) - {kept.origin}
    if any(used(i) & moving for i in early.index) or any(e.index != early.index for e in own):
        return None
    if any(isinstance(s, Break | Continue | Return) for s in walk(span)) or _stores_to(span, buffer) != 1:
        return None
    end = next(s.hi for s in span if isinstance(s, Par | Reduce) and s.var == kept.origin)
    row = fresh(buffer.name, Array(kept.value.type, (end,)))
    out = []
    for s in span:
        if isinstance(s, Par | Reduce) and s.var == kept.origin:
            s, allowed = store_value(s, kept.value, row, buffer.name), len(own)
        elif isinstance(s, Par | Reduce) and s.var in kept.later:
            value = substitute_expr(kept.value, {kept.origin: Var(s.var)})
            s, allowed = replace_values(s, {value: (row, end)}), 0
        else:
            allowed = 0
        if sum(isinstance(e, Load) and e.buffer == buffer for e in all_exprs((s,))) != allowed:
            return None
        out.append(_in_place(s, row, early) if isinstance(s, Par | Reduce) else s)
    return (*block[: places[0]], *out, *block[places[-1] + 1 :])


def _stores_to(body: Body, buffer: Sym) -> int:
    """Statements, without what is in them, that write to ``buffer``."""
    return sum(buffer in assigned((s,)) for s in walk(body) if not isinstance(s, Par | Reduce))


def _in_place(loop: Loop, row: Sym, early: Early) -> Stmt:
    """``loop`` with the array's places for those of ``row``, and without the late store."""
    index = early.at(loop.var)

    def on(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer == early.buffer and loop.var == early.by:
            return None
        return Store(early.buffer, index, s.value, loc=s.loc) if isinstance(s, Store) and s.buffer == row else s

    def reads(e: Expr) -> Expr:
        return Load(early.buffer, index) if isinstance(e, Load) and e.buffer == row else e

    (out,) = map_body((loop,), on, reads)
    return out


__all__ = ["Early", "stored_early"]
