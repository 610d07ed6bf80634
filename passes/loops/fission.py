"""fission: split a loop in two, between two statements of its body.

before                                          after fission{loop=i at=1}
    par i in 0..n @ [thread.x, block.x]             par i in 0..n @ [thread.x, block.x]
      b[i] = 2.0 * a[i]                               b[i] = 2.0 * a[i]
      c[i] = b[i] + 1.0                             par i in 0..n @ [thread.x, block.x]
                                                      c[i] = b[i] + 1.0

Legal when no iteration's first part needs what an earlier iteration's second part made. Values that the second part
needs are computed again where that gives the same (pure expressions, loads that nothing overwrites in between), or
read from where the first part has stored them; other scalars that cross the cut refuse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

from ktc.ir.analysis.dependence import carried_scalars, conflict, may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.analysis.touches import touches
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Body, Decl, Expr, For, Load, Par, Stmt, Store, Sym, Var, fresh
from ktc.ir.purity import is_removable
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import assigned, declared, map_body, refresh, rename, used, used_in, walk, walk_expr
from ktc.passes.core.argument_kinds import Loop, Place
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of, resolve_place
from ktc.passes.core.refusals import Refusal, Result, accepted, allowed


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the loop")
    at: int | Place = required(
        "how many statements stay in the first loop, or a place such as stmt:12", code="E-FISSION-AT"
    )


class Fission(Pass[Arguments]):
    name = "fission"
    summary = "split a loop between two statements of its body"
    refusals = (
        "E-PLACE",
        "E-FISSION-AT",
        "E-FISSION-KIND",
        "E-FISSION-SYNC",
        "E-FISSION-SCALAR",
        "E-FISSION-DEPENDENCE",
    )

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if isinstance(s, For | Par):
                for at in range(1, len(s.body)):
                    both = all(_stores(part) for part in (s.body[:at], s.body[at:]))
                    if both and allowed(_cut, kernel, s, at):
                        step = self.step(loop=place_of(kernel, s), at=at)
                        out.append(Site(step, "fewer live values, own mapping"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For | Par):
            hint = "a reduction's body stays with it" if loop is not None else ""
            raise Refusal("E-FISSION-KIND", f"'{args.loop}' is not a serial or parallel loop", places(loop), hint)
        return Result(cut(kernel, loop, _position(kernel, loop, args.at))[0])


def cut(kernel: Kernel, loop: For | Par, at: int) -> tuple[Kernel, For | Par, For | Par]:
    """``kernel`` with ``loop`` as two, of which the first has ``at`` statements; and the two.

    Raises:
        Refusal: E-FISSION-SYNC, E-FISSION-SCALAR, E-FISSION-DEPENDENCE.
    """
    first, second = _cut(kernel, loop, at)

    def on(s: Stmt) -> Stmt | Body:
        return (first, second) if isinstance(s, type(loop)) and s.var == loop.var else s

    return kernel.with_(body=map_body(kernel.body, on)), first, second


def _position(kernel: Kernel, loop: For | Par, at: int | Place) -> int:
    n = len(loop.body)
    if isinstance(at, Place):
        found = accepted(resolve_place(kernel, at.written)).stmt
        at = next((k for k, s in enumerate(loop.body) if found is s or found in list(walk((s,)))), 0)
    if not 0 < at < n:
        why = f"'{loop.var.name}' has {n} statement{'s' if n != 1 else ''}: a cut is after 1 to {n - 1} of them"
        raise Refusal("E-FISSION-AT", why if n > 1 else f"'{loop.var.name}' has one statement", places(loop))
    return at


def _cut(kernel: Kernel, loop: For | Par, at: int) -> tuple[For | Par, For | Par]:
    """The two loops, or why not."""
    first, second = loop.body[:at], loop.body[at:]
    bad = pinned(loop.body) or jump(loop.body)
    if bad:
        raise Refusal("E-FISSION-SYNC", "the loop holds a barrier, opaque code or a jump", places(bad))
    if isinstance(loop, For):
        carried = carried_scalars(loop.body)
        if {s for s in carried if s in _touched(first) and s in _touched(second)}:
            name = min(s.name for s in carried)
            raise Refusal("E-FISSION-SCALAR", f"both parts change or read '{name}'", places(loop))
    again = _recomputed(first, second, noalias(kernel))
    if isinstance(again, Sym):
        hint = "cut elsewhere, or store it"
        raise Refusal("E-FISSION-SCALAR", f"the second part needs '{again.name}' of the first", places(loop), hint)
    if isinstance(loop, For):
        _check_order(kernel, loop, first, (*again, *second))
    var = fresh(loop.var.name, loop.var.type)
    later = rename(refresh((*again, *second)), {loop.var: var})
    changes: dict = {"var": var, "body": later, "comments": ()}
    if isinstance(loop, For):
        probe = rename((loop,), {loop.var: var})[0]
        assert isinstance(probe, For)
        changes |= {"init": probe.init, "cond": probe.cond, "step": probe.step}
    return dataclasses.replace(loop, body=first), dataclasses.replace(loop, **changes)


def _stores(body: Body) -> bool:
    return any(isinstance(s, Store | Atomic) for s in walk(body))


def _touched(body: Body) -> set[Sym]:
    return used_in(body) | assigned(body)


def _recomputed(first: Body, second: Body, apart: Collection[Sym]) -> tuple[Decl, ...] | Sym:
    """Declarations of ``first`` that ``second`` can compute again, or read from where ``first`` stores them; the first
    symbol for which that is not so.

    ``apart``: buffers that overlap no other one.
    """
    own = {s.sym: s for s in first if isinstance(s, Decl)}
    inside = set(declared(first))
    written = assigned(first)
    needed = (used_in(second) | assigned(second)) & inside
    out: list[Decl] = []
    done: set[Sym] = set()
    while needed - done:
        sym = min(needed - done, key=lambda s: s.id)
        d = own.get(sym)
        if d is None or d.init is None or isinstance(sym.type, Array) or sym in written or sym in assigned(second):
            return sym
        if not _gives_the_same(d.init, written, apart):
            stored = _stored(d, first, apart)
            if stored is None:
                return sym
            d = dataclasses.replace(d, init=stored)
        assert d.init is not None
        needed |= used(d.init) & inside
        done.add(sym)
        out.append(d)
    places = {s.sym: at for at, s in enumerate(first) if isinstance(s, Decl)}
    return tuple(sorted(out, key=lambda d: places[d.sym]))


def _gives_the_same(e: Expr, written: set[Sym], apart: Collection[Sym]) -> bool:
    """Whether ``e`` has the value that it had before ``written`` changed."""
    loads = {x.buffer for x in walk_expr(e) if isinstance(x, Load)}
    return is_removable(e) and not _overwritten(loads, written, apart) and not (used(e) - loads) & written


def _stored(d: Decl, first: Body, apart: Collection[Sym]) -> Load | None:
    """Where the variable of ``d`` is after ``first``: the element that it was stored in, as it is, and that nothing in
    ``first`` overwrites then."""
    for at, s in enumerate(first):
        if not isinstance(s, Store) or s.width != 1 or s.value != Var(d.sym):
            continue
        found, later = Load(s.buffer, s.index), assigned(first[at + 1 :])
        if scalar_of(s.buffer.type) == d.sym.type and _gives_the_same(found, later, apart):
            return found
    return None


def _overwritten(loads: set[Sym], written: set[Sym], apart: Collection[Sym]) -> bool:
    buffers = {w for w in written if hasattr(w.type, "space") or hasattr(w.type, "elem")}
    return any(may_alias(x, w, apart) for x in loads for w in buffers)


def _check_order(kernel: Kernel, loop: For, first: Body, second: Body) -> None:
    """Nothing in the first part of a later iteration depends on the second part, or it is refused."""
    private = set(declared(loop.body))
    apart = noalias(kernel)
    a_all = [t for t in touches(second, (loop,)) if t.buffer not in private]
    b_all = [t for t in touches(first, (loop,)) if t.buffer not in private]
    for a in a_all:
        for b in b_all:
            d = conflict(a, b, 1, apart)
            if d is not None and (d[0] is None or d[0] > 0):
                why = f"'{a.buffer.name}' is needed by a later iteration's first part"
                raise Refusal("E-FISSION-DEPENDENCE", why, places(a.stmt, b.stmt))
