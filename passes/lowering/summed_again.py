"""Sums that came out as no number are summed again in one loop over all of a thread's, after the fast way.

    #pragma unroll                              float odd = 0.f;
    for (int u = 0; u < 32; ++u) {              #pragma unroll
      if (isnan(a[u])) {                        for (int u = 0; u < 32; ++u) {
        a[u] = 0.f;                               odd = isnan(a[u]) ? a[u] : odd;
        for (..) a[u] += ..;                      y[.. u ..] = a[u];
      }                                         }
      y[.. u ..] = a[u];                        if (isnan(odd)) {
    }                                             #pragma unroll 1
                                                  for (int u = 0; u < 32; ++u) {
                                                    float again = 0.f;
                                                    for (..) again += ..;
                                                    y[.. u ..] = again;
                                                  }
                                                }

Accumulators live in registers, which no index that is known late can name: the loops around them are unrolled, and the
sum that ``zero-terms`` has for such data would be written out once for each of them. A thread one of whose sums is no
number sums all of its own again, in the source's order, and stores over what it has stored. Only where doing the rest
of the loop twice is doing it once: it stores to buffers that it does not read, and nothing asks for the sums later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    VecGet,
    asks_for_nan,
    fresh,
)
from ktc.ir.purity import is_removable, is_volatile
from ktc.ir.types import BOOL, Array, Ptr, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    map_expr,
    map_stmt_exprs,
    mentions,
    refresh,
    used,
    walk,
    with_bodies,
)

REPEATABLE = (For, If, Decl, Assign, Store)
"""Statements that may be done twice, where what they store is not read."""


def summed_again_together(kernel: Kernel, body: Body) -> Body:
    """``body`` of ``kernel``, in SPMD form, with sums that are summed again in loops that stay loops; see above."""
    if not any(isinstance(s, If) and asks_for_nan(s.cond) for s in walk(body)):
        return body
    return _Rolling(frozenset(noalias(kernel))).within(body, frozenset(), frozenset())


@dataclasses.dataclass(frozen=True)
class _Rolling:
    """``apart``: buffers that overlap no other."""

    apart: frozenset[Sym]

    def within(self, body: Body, arrays: frozenset[Sym], later: frozenset[Sym]) -> Body:
        """``body``, where ``arrays`` are new each time it is come to, and ``later`` is named behind it."""
        arrays |= {x for s in body if not isinstance(s, For | If) for x in declared((s,))}
        out: list[Stmt] = []
        for k, s in enumerate(body):
            after = later.union(*(mentions(x) for x in body[k + 1 :]))
            if isinstance(s, If):
                out.append(with_bodies(s, lambda inner, after=after: self.within(inner, arrays, after)))  # type: ignore[misc]
            elif isinstance(s, For) and self._may_repeat(s, arrays - after):
                out += _apart(s)
            else:
                out.append(with_bodies(s, lambda inner: self.within(inner, frozenset(), frozenset())))
        return tuple(out)

    def _may_repeat(self, nest: For, arrays: Collection[Sym]) -> bool:
        """Whether ``nest`` sums again elements of some of ``arrays``, in loops that are unrolled for these, and may be
        done twice."""
        again = list(_again((nest,)))
        sums = [x for s, _ in again if (x := _summed(s)) is not None]
        totals = {x.buffer for x in sums}
        if not sums or len(sums) < len(again) or nest.unroll != 0 or not totals <= set(arrays):
            return False
        statements = list(walk((nest,)))
        alone = all(isinstance(s, REPEATABLE) and not is_volatile(s) for s in statements)
        if not alone or not all(map(is_removable, all_exprs((nest,)))):
            return False
        inside = {id(s) for again_, rest in again for s in walk((again_, *rest))}
        others = {x for s in statements if id(s) not in inside for x in _mine(s)}
        own = set(declared((nest,)))
        stored = assigned((nest,)) - own - totals
        read = {x.buffer for x in all_exprs((nest,)) if isinstance(x, Load)}
        return (
            not totals & others
            and all(_only(x, s, rest) for (s, rest), x in zip(again, sums, strict=True))
            and all(isinstance(x.type, Ptr) for x in stored)
            and not any(may_alias(x, y, self.apart) for x in stored for y in read if isinstance(y.type, Ptr))
        )


def _again(body: Body) -> Iterator[tuple[If, Body]]:
    """Each sum in ``body`` that is summed again where it is no number, with what follows it in its list."""
    for k, s in enumerate(body):
        if isinstance(s, If) and asks_for_nan(s.cond):
            yield s, body[k + 1 :]
        elif isinstance(s, If):
            yield from (*_again(s.then), *_again(s.orelse))
        elif isinstance(s, For):
            yield from _again(s.body)


def _summed(s: If) -> Load | None:
    """The element that ``s`` sums again, from the beginning."""
    match s:
        case If(
            cond=Call(args=(Load(buffer=Sym(type=Array()), width=1) as x,)),
            then=(Store(buffer=to, index=at, value=start, width=1), *_),
            orelse=(),
        ) if (to, at) == (x.buffer, x.index) and to not in used(start):
            return x
    return None


def _mine(s: Stmt) -> set[Sym]:
    """What ``s`` itself mentions, without what is nested in it."""
    return set(mentions(with_bodies(s, lambda _: ())))


def _only(total: Load, again: If, rest: Body) -> bool:
    """Whether ``again`` and the ``rest`` of its list touch no other element of the array of ``total``, nor change what
    names this one."""
    found = [(x.buffer, x.index, x.width) for x in all_exprs((again, *rest)) if isinstance(x, Load)]
    found += [(s.buffer, s.index, s.width) for s in walk((again, *rest)) if isinstance(s, Store)]
    names = {x for e in total.index for x in used(e)}
    one = all(f == (total.buffer, total.index, total.width) for f in found if f[0] == total.buffer)
    return one and not names & assigned((again, *rest)) and total.buffer not in assigned(rest)


def _apart(nest: For) -> Body:
    """``nest`` without sums that are summed again, and then, if one of them was no number, all of it with these."""
    first = next(x for s, _ in _again((nest,)) if (x := _summed(s)) is not None)
    assert isinstance(first.type, Scalar)
    odd = fresh("odd", first.type)

    def noted(s: Stmt) -> Stmt:
        if isinstance(s, If) and (x := _summed(s)) is not None and asks_for_nan(s.cond):
            value = x
            return Assign(odd, Select(s.cond, value, Var(odd)))
        return s

    once = map_body((nest,), noted)
    slowly = refresh(_rolled(_summed_anew((nest,))))
    return (Decl(odd, Const(0.0, first.type)), *once, If(Call("isnan", (Var(odd),), BOOL), slowly))


def _summed_anew(body: Body) -> Body:
    """``body`` with each sum that was asked about summed in a variable of its own, whatever it was."""
    out: list[Stmt] = []
    for k, s in enumerate(body):
        if isinstance(s, If) and asks_for_nan(s.cond) and (x := _summed(s)) is not None:
            total = fresh("again", x.type)
            start = s.then[0]
            assert isinstance(start, Store)
            rest = _renamed((*s.then[1:], *body[k + 1 :]), x, total)
            return (*out, Decl(total, start.value), *_summed_anew(rest))
        out.append(with_bodies(s, _summed_anew))
    return tuple(out)


def _renamed(body: Body, total: Load, name: Sym) -> Body:
    """``body`` with ``name`` for the element ``total``."""

    def value(e: Expr) -> Expr:
        return Var(name) if isinstance(e, Load) and (e.buffer, e.index) == (total.buffer, total.index) else e

    def on(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer == total.buffer:
            s = Assign(name, s.value)
        return map_stmt_exprs(s, lambda e: map_expr(e, value))

    return map_body(body, on)


def _rolled(body: Body) -> Body:
    """``body`` with loops that stay loops, but for those that number registers."""
    registers = {x for s in walk(body) for e in _places(s) for x in used(e)}

    def on(s: Stmt) -> Stmt:
        return dataclasses.replace(s, unroll=1) if isinstance(s, For) and s.var not in registers else s

    return map_body(body, on)


def _places(s: Stmt) -> Iterator[Expr]:
    """Indices in ``s`` itself into what is in registers."""
    if isinstance(s, Store) and not _in_memory(s.buffer):
        yield from s.index
    for x in all_exprs((with_bodies(s, lambda _: ()),)):
        if isinstance(x, Load) and not _in_memory(x.buffer):
            yield from x.index
        elif isinstance(x, VecGet):
            yield x.lane


def _in_memory(buffer: Sym) -> bool:
    return isinstance(buffer.type, Ptr) or (isinstance(buffer.type, Array) and buffer.type.space != "local")
