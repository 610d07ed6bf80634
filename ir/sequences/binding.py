"""Parameters of a kernel replaced by what a launch passes for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import add
from ktc.ir.nodes import AddrOf, Alloc, Atomic, Body, Decl, Expr, Load, Stmt, Store, Sym, fresh
from ktc.ir.types import Array
from ktc.ir.walk import (
    assigned,
    map_body,
    map_expr,
    refresh,
    rename,
    substitute,
    substitute_expr,
    used,
    used_in,
    walk,
)


@dataclass
class Binding:
    """What a launch passes: a buffer for each pointer, perhaps with an offset in elements, and values for scalars."""

    buffers: dict[Sym, Sym] = field(default_factory=dict)
    offsets: dict[Sym, Expr] = field(default_factory=dict)
    scalars: dict[Sym, Expr] = field(default_factory=dict)

    def expr(self, e: Expr) -> Expr:
        """``e``, of the launch or an assumption, in terms of what is passed."""
        return substitute_expr(e, self.scalars)


def bound(body: Body, binding: Binding) -> Body:
    """``body`` with what ``binding`` passes in the place of its parameters, and new symbols for what it declares.

    A scalar that the kernel changes becomes a variable that starts with what is passed.

    Raises:
        KtcError: E-SEQUENCE-OFFSET, an offset to a buffer that more than loads, stores and atomics touch.
    """
    changed = assigned(body) & binding.scalars.keys()
    variables = {s: fresh(s.name, s.type) for s in changed}
    first = tuple(Decl(variables[s], binding.scalars[s]) for s in sorted(changed, key=lambda s: s.name))
    values = {s: e for s, e in binding.scalars.items() if s not in changed}
    body = _sized(refresh(_shifted(body, binding.offsets)), values)
    return (*first, *rename(substitute(body, values), {**variables, **binding.buffers}))


def _sized(body: Body, values: Mapping[Sym, Expr]) -> Body:
    """``body`` with ``values`` in the extents of its arrays: those of dynamic shared memory may be made of scalars."""
    new: dict[Sym, Sym] = {}
    for s in walk(body):
        t = s.sym.type if isinstance(s, Alloc) else None
        if isinstance(s, Alloc) and isinstance(t, Array) and any(used(n) & values.keys() for n in t.shape):
            shape = tuple(substitute_expr(n, values) for n in t.shape)
            new[s.sym] = fresh(s.sym.name, replace(t, shape=shape))
    return rename(body, new) if new else body


def _shifted(body: Body, offsets: Mapping[Sym, Expr]) -> Body:
    """``body`` with ``offsets`` added to the indices into these buffers."""
    if not offsets:
        return body
    moved = 0

    def further(node: Load | AddrOf | Store | Atomic) -> tuple[Expr, ...]:
        nonlocal moved
        moved += 1
        return (add(node.index[0], offsets[node.buffer]), *node.index[1:])

    def on_expr(e: Expr) -> Expr:
        return replace(e, index=further(e)) if isinstance(e, Load | AddrOf) and e.buffer in offsets else e

    def on_stmt(s: Stmt) -> Stmt:
        return replace(s, index=further(s)) if isinstance(s, Store | Atomic) and s.buffer in offsets else s

    new = map_body(body, on_stmt, on_expr)
    for b in offsets:
        if _otherwise_used(new, b):
            what = f"'{b.name}' is passed with an offset, and the kernel does more with it than load and store elements"
            raise KtcError("E-SEQUENCE-OFFSET", what, hint="pass the whole buffer, and the offset as a scalar")
    return new


def _otherwise_used(body: Body, buffer: Sym) -> bool:
    """Whether ``body`` mentions ``buffer`` in anything that takes no index."""

    def without(e: Expr) -> Expr:
        return e.index[0] if isinstance(e, Load | AddrOf) and e.buffer == buffer else e

    def on(s: Stmt) -> Stmt | None:
        return None if isinstance(s, Store | Atomic) and s.buffer == buffer else s

    return buffer in used_in(map_body(body, on, lambda e: map_expr(e, without)))


__all__ = ["Binding", "bound"]
