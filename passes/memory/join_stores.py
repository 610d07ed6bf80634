"""join-stores: elements that both sides of a branch store are stored once, behind it.

before                                          after join-stores{loop=i}
    par i in 0..n @ [vec 4, thread.x 256]           par i in 0..n @ [vec 4, thread.x 256]
      if x[i] > 0.0                                   var y_i: f32
        y[i] = x[i]                                   if x[i] > 0.0
      else                                              y_i = x[i]
        y[i] = 0.0                                    else
                                                        y_i = 0.0
                                                      y[i] = y_i

Threads of a warp take one side after the other, and each side stores a part of what lies side by side. One store of all
of it may be a wide access.

Legal where each side stores the same elements last, one after another, and nothing behind a store reads what it may
have changed: all that runs between a store and the end of the branch works with variables, and what says where the
element is stays as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Body, Decl, Expr, For, If, Par, Reduce, Stmt, Store, Sym, Var, fresh
from ktc.ir.purity import is_movable
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import assigned, declared, map_body, used, walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import places_of
from ktc.passes.core.refusals import Refusal, Result


@dataclasses.dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loops whose branches are meant")


class JoinStores(Pass[Arguments]):
    name = "join-stores"
    summary = "elements that both sides of a branch store are stored once, behind it"
    refusals = ("E-PLACE", "E-JOIN-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each loop with such a branch in its body, outside of the loops in it."""
        found = [s for s in walk(kernel.body) if isinstance(s, For | Par | Reduce) and _joined(s.body) is not s.body]
        return [Site(self.step(loop=name), "one store of what lies side by side") for name in places_of(kernel, found)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.find(kernel)
        if all(_joined(s.body) is s.body for s in found):
            raise Refusal("E-JOIN-NONE", f"no branch in '{args.loop}' stores the same on both sides", places(*found))
        named = {(type(s), s.var) for s in found}

        def on(s: Stmt) -> Stmt:
            if isinstance(s, For | Par | Reduce) and (type(s), s.var) in named:
                return dataclasses.replace(s, body=_joined(s.body))
            return s

        return Result(kernel.with_(body=map_body(kernel.body, on)))


def _joined(body: Body) -> Body:
    """``body`` with the stores of its own branches behind them; itself if nothing changes."""
    out: list[Stmt] = []
    for s in body:
        out += _behind(s) if isinstance(s, If) else [s]
    return body if len(out) == len(body) and all(a is b for a, b in zip(out, body)) else tuple(out)


def _behind(s: If) -> list[Stmt]:
    """``s`` with what both of its sides store last behind it."""
    then, orelse = _joined(s.then), _joined(s.orelse)
    if then is not s.then or orelse is not s.orelse:
        s = dataclasses.replace(s, then=then, orelse=orelse)
    stored = {x.buffer for x in walk((s,)) if isinstance(x, Store)}
    inside = {*declared(then), *declared(orelse), *assigned(then), *assigned(orelse)} - stored
    pairs: list[tuple[Store, Store]] = []
    for a, b in zip(_last_stores(then, inside), _last_stores(orelse, inside)):
        if (a.buffer, a.index) != (b.buffer, b.index):
            break
        pairs.append((a, b))
    if not pairs:
        return [s]
    values = [fresh(f"{a.buffer.name}_value", scalar_of(a.buffer.type)) for a, _ in pairs]
    sides = tuple(_kept(side, dict(zip(map(id, stores), values))) for side, stores in zip((then, orelse), zip(*pairs)))
    branch = dataclasses.replace(s, then=sides[0], orelse=sides[1])
    behind = [dataclasses.replace(a, value=Var(v)) for (a, _), v in zip(pairs, values)]
    return [*(Decl(v, None) for v in values), branch, *reversed(behind)]


def _last_stores(body: Body, inside: Set[Sym]) -> list[Store]:
    """Stores that may be made at the end of ``body``, the last first: of what follows a store, only other such stores
    touch memory. ``inside``: variables that the branch changes."""
    out: list[Store] = []
    for s in reversed(body):
        if isinstance(s, Store):
            if not _is_plain(s) or s.buffer in inside:
                break
            if any(not is_movable(e) or used(e) & inside for e in s.index):
                break
            out.append(s)
            if not is_movable(s.value):
                break
        elif not (isinstance(s, Decl | Assign) and _is_of_variables(s)):
            break
    return out


def _is_plain(s: Store) -> bool:
    """Whether ``s`` stores one number to memory that a pointer names."""
    t = s.buffer.type
    return s.width == 1 and not s.cache and isinstance(t, Ptr) and not t.volatile and s.value.type == scalar_of(t)


def _is_of_variables(s: Decl | Assign) -> bool:
    value = s.init if isinstance(s, Decl) else s.value
    return value is None or (isinstance(value, Expr) and is_movable(value))


def _kept(side: Body, values: dict[int, Sym]) -> Body:
    """``side`` with assignments to ``values`` in the place of stores."""
    return tuple(Assign(values[id(s)], s.value) if id(s) in values and isinstance(s, Store) else s for s in side)
