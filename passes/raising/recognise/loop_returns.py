"""Returns out of a thread's own loops, as breaks and what is only done where none was met.

before                                        after
    for (k = 0; k < m; ++k)                       found = false
      if (keys[k] == mine) {                      for (k = 0; k < m; ++k)
        place[i] = k;                               if (keys[k] == mine) {
        return;                                       place[i] = k;
      }                                               found = true;
    place[i] = -1;                                    break;
                                                    }
                                                  if (!found) place[i] = -1;

A return ends the thread, and with it all iterations that it has of a loop that threads share out: such loops are left.
So are kernels whose threads wait for each other, for there it matters which of them are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.nodes import (
    Assign,
    Body,
    Break,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Return,
    Stmt,
    Sym,
    Unary,
    Var,
    While,
    fresh,
)
from ktc.ir.types import BOOL
from ktc.ir.walk import assigned, map_body, used, used_in, walk, walk_expr

from .statement_kinds import has_block_barrier, has_warp_op


def returns_to_breaks(body: Body) -> Body:
    """``body`` of a kernel without returns in loops that a thread has to itself."""
    loops = [s for s in walk(body) if isinstance(s, For | While)]
    if not any(isinstance(x, Return) for s in loops for x in walk(s.body)):
        return body
    if any(has_block_barrier(s) or has_warp_op(s) for s in body):
        return body
    return _Leaving(body).rewritten(body)


def only_iteration_left(body: Body) -> Body:
    """``body`` of a loop of which a thread has one iteration, without returns in the loops inside: all of these are its
    own."""
    if any(has_block_barrier(s) or has_warp_op(s) for s in body):
        return body
    return _Leaving(body, alone=True).rewritten(body)


class _Leaving:
    """Rewrites one kernel; ``done`` says whether its thread has left. ``alone``: no loop is shared out."""

    def __init__(self, body: Body, *, alone: bool = False) -> None:
        self.named: Mapping[Sym, Expr] = definitions(body)
        self.changed = assigned(body)
        self.done = fresh("done", BOOL)
        self.alone = alone

    def rewritten(self, body: Body) -> Body:
        out, leaves = self._list(body, inside=False)
        if not leaves:
            return body
        if self.done not in used_in(out):  # nothing comes after the loops
            return map_body(out, lambda s: None if isinstance(s, Assign) and s.sym == self.done else s)
        return (Decl(self.done, Const(0, BOOL)), *out)

    def _list(self, body: Body, *, inside: bool) -> tuple[Body, bool]:
        """``body``, and whether a thread may have left behind it; ``inside`` one of its own loops."""
        out: list[Stmt] = []
        for k, s in enumerate(body):
            if inside and isinstance(s, Return):
                return (*out, Assign(self.done, Const(1, BOOL)), Break(loc=s.loc)), True
            leaves = False
            if isinstance(s, If):
                then, first = self._list(s.then, inside=inside)
                orelse, second = self._list(s.orelse, inside=inside)
                s, leaves = dataclasses.replace(s, then=then, orelse=orelse), first or second
            elif isinstance(s, While) or (isinstance(s, For) and self._is_own(s)):
                inner, leaves = self._list(s.body, inside=True)
                s = dataclasses.replace(s, body=inner)
            out.append(s)
            if not leaves:
                continue
            rest, _ = self._list(body[k + 1 :], inside=inside)
            if inside:
                gone = (If(Var(self.done), (Break(),)),) if isinstance(s, For | While) or _has_loop(s) else ()
                return (*out, *gone, *rest), True
            return (*out, *((If(Unary("!", Var(self.done)), rest),) if rest else ())), True
        return tuple(out), False

    def _is_own(self, s: For) -> bool:
        """Whether each thread begins ``s`` where all others do, so that none has a part of its iterations."""
        first = expand(s.init, self.named)
        return self.alone or (
            not used(first) & self.changed and not any(isinstance(e, HwIndex) for e in walk_expr(first))
        )


def _has_loop(s: Stmt) -> bool:
    return any(isinstance(x, For | While) for x in walk((s,)))


__all__ = ["only_iteration_left", "returns_to_breaks"]
