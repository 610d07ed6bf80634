"""Copies of whole tiles in code of their own, which asks nothing about edges.

before                                              after
    par a in 0..128 @ [seq]                             if K - k_tile >= 128 && N - C >= 64
      par b in 0..64 @ [seq]                              par a in 0..128 @ [seq]
        w_s[a, b] = a < K - k_tile && b < N - C             par b in 0..64 @ [seq]
          ? w[(k_tile + a) * N + C + b] : 0.0                 w_s[a, b] = w[(k_tile + a) * N + C + b]
                                                        else
                                                          (as it was)

or ``if a < K - k_tile && b < N - C`` around the store. For targets whose loops are printed as loops: a condition an
element takes several times as long as the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktc.ir.fold import both, evaluate, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Expr, If, Par, Select, Stmt, Store, Sym, Var
from ktc.ir.storage import is_shared
from ktc.ir.walk import loads_in, refresh, used, with_bodies
from ktc.passes.shared.conjuncts import conjuncts_of


def with_whole_copies(kernel: Kernel) -> Kernel:
    """``kernel`` with code of their own for copies of whole tiles into arrays of a block; at the values that its knobs
    have."""
    body = _in(kernel.body, kernel.knob_values)
    return kernel if body is kernel.body else kernel.with_(body=body)


def _in(body: Body, knobs: Mapping[str, int]) -> Body:
    out = tuple(_split(s, knobs) or with_bodies(s, lambda b: _in(b, knobs)) for s in body)
    return body if all(a is b for a, b in zip(out, body)) else out


def _split(s: Stmt, knobs: Mapping[str, int]) -> If | None:
    """The copy ``s`` behind the condition that its tile is whole, and as it is; None for anything else."""
    ends: dict[Sym, Expr] = {}
    at = s
    while isinstance(at, Par) and is_const(at.lo, 0) and evaluate(at.hi, knobs) is not None and len(at.body) == 1:
        ends[at.var], at = at.hi, at.body[0]
    found = _guarded(at)
    if found is None:
        return None
    condition, store = found
    whole: Expr | None = None
    for c in conjuncts_of(condition):
        if not (isinstance(c, Binary) and c.op == "<" and isinstance(c.a, Var) and c.a.sym in ends):
            return None
        if used(c.b) & ends.keys() or any(loads_in(c.b)):
            return None
        whole = both(whole, Binary(">=", c.b, ends[c.a.sym]))
    assert whole is not None
    return If(whole, (_with(s, store),), refresh((s,)))


def _guarded(s: Stmt) -> tuple[Expr, Store] | None:
    """The condition on which ``s`` stores an element to an array of a block, and that store without it."""
    if isinstance(s, If) and len(s.then) == 1 and not s.orelse:
        inner = s.then[0]
        return (s.cond, inner) if isinstance(inner, Store) and is_shared(inner.buffer) else None
    if isinstance(s, Store) and is_shared(s.buffer) and isinstance(s.value, Select):
        return s.value.cond, replace(s, value=s.value.a)
    return None


def _with(s: Stmt, inside: Store) -> Stmt:
    """The loops ``s`` around ``inside``."""
    return replace(s, body=(_with(s.body[0], inside),)) if isinstance(s, Par) else inside


__all__ = ["with_whole_copies"]
