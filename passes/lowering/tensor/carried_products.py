"""The last step of a round's products, multiplied in the next round: behind the loads of its first step.

before                                          after
    for k_tile ...                                  a[1, ..] = 0; b[1, ..] = 0
      wait for the round's tiles                    for k_tile ...
      a[0], b[0] = matrix_load of step 0              wait for the round's tiles
      for k in 0..4 unroll                            a[0], b[0] = matrix_load of step 0
        if k + 1 < 4                                  mma acc, a[1], b[1]
          a[(k + 1) % 2], b[..] = step k + 1          for k in 0..3 unroll
        mma acc, a[k % 2], b[k % 2]                     a[(k + 1) % 2], b[..] = matrix_load of step k + 1
                                                        mma acc, a[k % 2], b[k % 2]
                                                    mma acc, a[1], b[1]

The tensor cores would be idle from the end of a round until the first operands of the next are there: the wait for its
tiles, and the loads. What is left over at the end of a round lies in registers, so it needs no tile any more; the first
round has nothing left over and adds zeros. Products that need anything else of their round stay in it.
(5 % of a product of 4096 by ``mma``, H200.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.arith.counted_loops import counting
from ktc.ir.fold import add, fold_node, i32, lt, zero
from ktc.ir.nodes import Alloc, Body, Decl, For, If, Load, MatrixLoad, Mma, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array
from ktc.ir.walk import assigned, declared, keep, map_body, refresh, substitute, used_in, walk
from ktc.passes.lowering.decider import Decider

PRODUCTS = {For, Decl, Mma}
"""What products are made of: anything else might read what the next round has changed, such as its tile."""


def carried(body: Body, decide: Decider) -> Body:
    """``body`` with the last products of each round of its pipelines in the next round."""

    def on(s: Stmt) -> Stmt | Body:
        rounds = _rounds(s, decide) if isinstance(s, For) else None
        return s if rounds is None else _moved(s, rounds)  # type: ignore[arg-type]

    return map_body(body, on)


@dataclass(frozen=True)
class _Rounds:
    """A round: ``before``, the registers, the first ``loads``, the loop over ``steps``, ``after``."""

    before: Body
    registers: tuple[Alloc, ...]
    loads: Body
    steps: For
    trips: int
    after: Body


def _rounds(s: For, decide: Decider) -> _Rounds | None:
    """The parts of ``s`` if it is a loop over rounds as ``fragments_ahead`` leaves them, and only its products sum."""
    k = next((k for k, x in enumerate(s.body) if isinstance(x, For) and _steps_ahead(x)), None)
    if k is None:
        return None
    steps = s.body[k]
    assert isinstance(steps, For)
    products = [x for x in walk(steps.body) if isinstance(x, Mma)]
    held = {x.dst for x in walk(steps.body) if isinstance(x, MatrixLoad)}
    first = next((n for n, x in enumerate(s.body) if isinstance(x, Alloc) and x.sym in held), k)
    front, after = s.body[first:k], s.body[k + 1 :]
    registers = tuple(x for x in front if isinstance(x, Alloc) and x.sym in held)
    loads = tuple(x for x in front if not isinstance(x, Alloc))
    trips = decide.rounds(steps)
    sums = {e.buffer if isinstance(e, Load) else e.sym for x in products for e in x.acc if isinstance(e, Load | Var)}
    others = (*s.body[:first], *loads, *after)
    if trips is None or trips % 2 or len(registers) != len(held) or len(front) != len(registers) + len(loads):
        return None
    if (used_in(others) | assigned(others)) & sums or (used_in(after) | assigned(after)) & held:
        return None
    if any(not isinstance(e, Load | Var) for x in products for e in x.acc):
        return None
    if not {type(x) for x in walk(steps.body[1:])} <= PRODUCTS or s.var in used_in(steps.body[1:]):
        return None
    own = (assigned(s.body) | set(declared(s.body))) - assigned((steps,)) - set(declared((steps,))) - held
    if used_in(steps.body[1:]) & own:
        return None
    return _Rounds(s.body[:first], registers, loads, steps, trips, after)


def _steps_ahead(s: For) -> bool:
    """Whether ``s`` counts steps from zero and each loads the operands of the next one first."""
    load = s.body[0] if s.body else None
    form = counting(s)
    if form is None or not form.from_zero_by_one or not isinstance(load, If) or load.orelse:
        return False
    following = lt(add(Var(s.var), i32(1)), form.hi)
    return load.cond == following and {type(x) for x in walk(load.then)} <= {For, MatrixLoad}


def _moved(s: For, r: _Rounds) -> Body:
    load = r.steps.body[0]
    assert isinstance(load, If)
    last = i32(r.trips - 1)
    products = r.steps.body[1:]

    def left_over() -> Body:
        return map_body(substitute(refresh(products), {r.steps.var: last}), keep, fold_node)

    ahead = dataclasses.replace(r.steps, cond=lt(Var(r.steps.var), last), body=(*load.then, *products))
    around = dataclasses.replace(s, body=(*r.before, *r.loads, *left_over(), ahead, *r.after))
    nothing = tuple(z for a in r.registers for z in _zeros(a.sym, (r.trips - 1) % 2))
    return (*r.registers, *nothing, around, *left_over())


def _zeros(registers: Sym, number: int) -> Body:
    """Zeros in set ``number`` of ``registers``."""
    t = registers.type
    assert isinstance(t, Array)
    variables = [fresh("z", i32(0).type) for _ in t.shape[1:]]
    at = (i32(number), *map(Var, variables))
    body: Body = (Store(registers, at, zero(t.elem)),)  # type: ignore[arg-type]
    for v, n in reversed(list(zip(variables, t.shape[1:]))):
        body = (For(v, i32(0), lt(Var(v), n), add(Var(v), i32(1)), body, unroll=0),)
    return body


__all__ = ["carried"]
