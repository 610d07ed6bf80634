"""Threads that leave before the others meet, as threads that stay and do nothing.

before                                                    after
    s[t] = 0;                                                 s[t] = 0;
    if (i >= n) return;                                       if (i < n) s[t] = x[i];
    s[t] = x[i];                                              barrier
    barrier                                                   for (k = 128; k > 0; k /= 2) {
    for (k = 128; k > 0; k /= 2) {                                if (t < k) s[t] += s[t + k];
        if (t < k) s[t] += s[t + k];                              barrier
        barrier                                               }
    }                                                         if (t == 0 && i < n) y[blockIdx.x] = s[0];
    if (t == 0) y[blockIdx.x] = s[0];

A barrier waits for none that has left (PTX: an exit releases it), so a thread that comes to the barriers and touches
nothing in between does the same. What only moves values within shared memory all threads do here: that is a guess,
which the comparison with the source confirms where cells of threads that are gone hold what changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.analysis.order import is_exit
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Body,
    Decl,
    Expr,
    For,
    If,
    Load,
    Return,
    Stmt,
    Store,
    While,
    bodies,
)
from ktc.ir.storage import is_local_array, is_shared
from ktc.ir.walk import all_exprs, assigned, loads_in, used, walk
from ktc.passes.raising.recognise.statement_kinds import has_block_barrier, has_warp_op
from ktc.passes.shared.conjuncts import negate


def idle_exits(kernel: Kernel, launch: Launch) -> Iterator[tuple[Assume | None, str, Kernel]]:
    """Nothing to assume, and ``kernel`` with its exits as conditions between barriers: under all that threads do, then
    under what touches global memory alone."""
    made: list[Body] = []
    for only_global in (True, False):
        body = _idle(kernel.body, only_global)
        if body is not None and body not in made:
            made.append(body)
            yield None, "", kernel.with_(body=body)


def _idle(body: Body, only_global: bool) -> Body | None:
    """``body`` without the exits in front of its barriers; None where there are none, or one of another kind."""
    for k, s in enumerate(body):
        if is_exit(s):
            rest = body[k + 1 :]
            if not any(map(has_block_barrier, rest)):
                continue
            if any(map(has_warp_op, rest)) or assigned(rest) & used(s.cond) or any(loads_in(s.cond)):
                return None
            masked = _masked(rest, negate(s.cond), only_global)
            if masked is None:
                return None
            done = (*body[:k], *masked)
            return _idle(done, only_global) or done
    return None


def _masked(body: Body, live: Expr, only_global: bool) -> Body | None:
    """``body``, its parts between barriers under ``live``; None if something in it does not say whom it waits for."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc | Barrier):
            out.append(s)
        elif isinstance(s, Decl):
            known = s.init is None or not _touches(s, only_global=True)
            out += (s,) if known else (Decl(s.sym, None, loc=s.loc), If(live, (Assign(s.sym, s.init, loc=s.loc),), ()))  # type: ignore[arg-type]
        elif isinstance(s, For | While | If) and has_block_barrier(s):
            inner = [_masked(b, live, only_global) for b in bodies(s)]
            if any(b is None for b in inner):
                return None
            names = ("then", "orelse") if isinstance(s, If) else ("body",)
            out.append(dataclasses.replace(s, **dict(zip(names, inner, strict=True))))  # type: ignore[arg-type]
        elif any(isinstance(x, Return) for x in walk((s,))):
            return None
        elif _touches(s, only_global):
            out.append(If(live, (s,), (), loc=s.loc))
        else:
            out.append(s)
    return tuple(out)


def _touches(s: Stmt, only_global: bool) -> bool:
    """Whether ``s`` reads or writes global memory, or memory that threads share where that counts, too."""
    read = {x.buffer for x in all_exprs((s,)) if isinstance(x, Load)}
    written = {x.buffer for x in walk((s,)) if isinstance(x, Store | Atomic)}
    return any(not is_local_array(b) and not (only_global and is_shared(b)) for b in read | written)


__all__ = ["idle_exits"]
