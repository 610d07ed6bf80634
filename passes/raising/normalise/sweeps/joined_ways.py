"""A sum whose terms all threads choose alike, each way with a loop of its own over the same iterations, as one loop.

before                                             after
    reduce(+) s over tid in 0..128                     reduce(+) s over tid in 0..128
      var p: f32 = 0.0                                   var p: f32 = 0.0
      if transposed                                      for k in tid..n step 128
        for k in tid..n step 128                           if transposed
          p += x[k] * y[k]                                   p += x[k] * y[k]
      else                                                 else
        for j in tid..n step 128                             p += x[k] * y[k * m]
          p += x[j] * y[j * m]                           yield p
      yield p

The loop is a sum over its elements then (:mod:`.tidy`), like one without a branch.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.nodes import Body, Decl, For, If, Reduce, Var
from ktc.ir.purity import is_movable
from ktc.ir.walk import assigned, loads_in, substitute, used


def with_joined_ways(s: Reduce) -> Reduce:
    """``s`` with the branch that it ends in inside of one loop; itself where its ways have no such loops."""
    if not s.body or not isinstance(way := s.body[-1], If) or s.var in used(way.cond):
        return s
    loop = _one_loop(way)
    return s if loop is None else dataclasses.replace(s, body=(*s.body[:-1], loop))


def _one_loop(way: If) -> For | None:
    """The loop over the iterations that both ways of ``way`` go through, and in it the choice between what they do."""
    ways = [_named_loop(b) for b in (way.then, way.orelse)]
    if None in ways or not is_movable(way.cond) or any(loads_in(way.cond)) or used(way.cond) & assigned((way,)):
        return None
    (named, first), (also, second) = (w for w in ways if w is not None)
    (there,) = substitute((second,), {second.var: Var(first.var)})
    assert isinstance(there, For)
    if first.var.type != second.var.type or (first.init, first.cond, first.step) != (
        second.init,
        there.cond,
        there.step,
    ):
        return None
    choice = dataclasses.replace(way, then=(*named, *first.body), orelse=(*also, *there.body))
    return dataclasses.replace(first, body=(choice,))


def _named_loop(body: Body) -> tuple[Body, For] | None:
    """A list that ends in a loop, as the values that it names first, which the loop leaves alone, and the loop."""
    if not body:
        return None
    *named, last = body
    loop = _one_loop(last) if isinstance(last, If) else last
    if not isinstance(loop, For) or not all(isinstance(d, Decl) and d.init is not None for d in named):
        return None
    values = [d for d in named if isinstance(d, Decl) and d.init is not None]
    fixed = all(is_movable(d.init) and not any(loads_in(d.init)) for d in values if d.init is not None)
    read = {v for d in values if d.init is not None for v in used(d.init) | {d.sym}}
    header = used(loop.init) | used(loop.cond) | used(loop.step)
    if not fixed or read & assigned(loop.body) or header & {d.sym for d in values}:
        return None
    return tuple(named), loop


__all__ = ["with_joined_ways"]
