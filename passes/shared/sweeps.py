"""Values that one sweep over a range computes and a later sweep over the same range, or one that goes further and asks
first (``i < end ? x[i] : 0.0``), computes again.

Two expressions are the same value when they are equal after the constants of their own loop body are substituted and
the loop variables identified, and nothing they read is written from the first to the second. Only expressions that
read memory at the iteration's place are worth keeping, and the largest ones are kept: ``exp(f32(x[r + i]) - m)`` rather
than the load inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import is_const
from ktc.ir.nodes import Acc, Body, Expr, Load, Par, Reduce, Stmt, Sym, Var, bodies, fresh, has_bodies
from ktc.ir.purity import is_removable
from ktc.ir.types import Array, Ptr, Scalar
from ktc.ir.walk import assigned, declared, substitute_expr, used, used_in, walk_expr
from ktc.passes.core.named_loops import Loop

from .sweep_rewrites import replace_values
from .sweep_views import View, reached, unconditional, view_of


@dataclass(frozen=True)
class Kept:
    """``value``, over the variable of loop ``origin``, is computed there and again in the loops ``later``.

    ``ahead``: only the later loops compute it so far, but ``origin`` can as well.
    """

    value: Expr
    origin: Sym
    later: tuple[Sym, ...]
    ahead: bool = False


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
            for value, end in _again(block, views[:b], later, loads_only).items():
                first = _origin(block, views[:b], later, value, loads_only, end)
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


def _again(block: Body, earlier: list[View], later: View, loads_only: bool) -> dict[Expr, Expr]:
    """The largest values (over ``later``'s variable) that some loop of ``earlier`` computes too, each with the end of
    that loop: ``later`` may go further if it asks first."""
    found: dict[Expr, Expr] = {}

    def visit(e: Expr, written: set[Sym], end: Expr) -> None:
        value = later.value_of(e, later.loop.var)
        same = worth_keeping(e, value, later, loads_only) and not used(value) & written and not used(end) & written
        if same and any(_computes(block, v, later, value, loads_only, end) for v in earlier):
            found.setdefault(value, end)
            return
        for x, below in reached(e, later.loop.var, end):
            visit(x, written, below)

    written: set[Sym] = set()
    for s in later.loop.body:
        for e in _top(s):
            visit(e, written, later.loop.hi)
        written |= assigned((s,))
    for a in _accs(later.loop):
        visit(a.value, written, later.loop.hi)
    if len(found) < 2:
        return found
    live = used_values(later, found)
    return {v: end for v, end in found.items() if v in live}


def used_values(view: View, values: Mapping[Expr, Expr]) -> set[Expr]:
    """Those of ``values`` (to the ends of their rows) still read once each is replaced by a row element and unread
    constants are dropped."""
    rows = {v: (fresh("row", Array(v.type, (end,))), end) for v, end in values.items()}
    left = used_in((replace_values(view.loop, rows),))
    return {v for v, (row, _) in rows.items() if row in left}


def _computes(block: Body, v: View, later: View, value: Expr, loads_only: bool, end: Expr | None = None) -> bool:
    """Whether ``v`` computes ``value`` (over ``later``'s variable), up to ``end`` (by default that of ``later``), and
    both stay what they are until ``later`` starts."""
    end = later.loop.hi if end is None else end
    if not (is_const(v.loop.lo, 0) and is_const(later.loop.lo, 0) and same_value(v.loop.hi, end)):
        return False
    between = assigned(block[v.at + 1 : later.at]) | set(declared(block[v.at + 1 : later.at]))
    if used(value) & (assigned(v.loop.body) | between | v.private):
        return False
    if end is not later.loop.hi and used(end) & (assigned(v.loop.body) | between):
        return False
    return any(v.value_of(e, later.loop.var) == value for e in _candidates(v, loads_only))


def _origin(block: Body, earlier: list[View], later: View, value: Expr, loads_only: bool, end: Expr) -> int:
    return next(k for k, v in enumerate(earlier) if _computes(block, v, later, value, loads_only, end))


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


def _top(s: Stmt) -> Iterator[Expr]:
    """Expressions that a simple statement evaluates; a nested body may not run."""
    for name in ("init", "value"):
        e = getattr(s, name, None)
        if isinstance(e, Expr) and not has_bodies(s):
            yield e


def _accs(loop: Loop) -> tuple[Acc, ...]:
    return loop.accs if isinstance(loop, Reduce) else ()


__all__ = ["Kept", "kept_values", "sibling_lists", "values_ahead"]
