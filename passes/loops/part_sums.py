"""part-sums: a loop that adds up several terms, or several sums, becomes a loop for each of them.

before                                          after part-sums{loop=k}
    for k in 0..n                                   for k in 0..n
      s += a[k] * b[k] - c[k] * d[k]                  s += a[k] * b[k]
      t += a[k] * e[k]                              for k_1 in 0..n
                                                      s -= c[k_1] * d[k_1]
                                                    for k_2 in 0..n
                                                      t += a[k_2] * e[k_2]

Each loop then sums one product, which can be tiled as products are. The order of floating-point additions to a sum of
several terms changes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Decl, Expr, For, Stmt, Var, fresh
from ktc.ir.walk import loads_in, map_body, refresh, rename, used, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.serial_sums import counted_to
from ktc.passes.shared.sum_updates import SumUpdate, sum_update, terms


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the serial loop that sums")


class PartSums(Pass[Arguments]):
    name = "part-sums"
    summary = "a loop that adds up several terms, or several sums, becomes a loop for each of them"
    refusals = ("E-PLACE", "E-PARTS-LOOP", "E-PARTS-ONE")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_parted, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "a loop a term, with its own operands") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-PARTS-LOOP", f"'{args.loop}' is no serial loop", places(loop))
        parts = _parted(loop)
        body = map_body(kernel.body, lambda s: parts if isinstance(s, For) and s.var == loop.var else s)
        sums = [s.body[-1] for s in parts]
        split = {s.sym for s in sums if isinstance(s, Assign)} if len(sums) > len(_updates(loop)) else set()
        flags = kernel.flags | ({"reassociates"} if any(getattr(v.type, "is_float", False) for v in split) else set())
        return Result(kernel.with_(body=body, flags=flags), (f"{len(parts)} sums",))


def _parted(loop: For) -> tuple[For, ...]:
    """A loop for each term that ``loop`` adds up.

    Raises:
        Refusal: it does something else, or there is one term.
    """
    if counted_to(loop) is None:
        raise Refusal("E-PARTS-LOOP", f"'{loop.var.name}' does not count up by one", places(loop))
    updates = _updates(loop)
    values = {d.sym: d.init for d in loop.body if isinstance(d, Decl) and d.init is not None}
    parts = [(found, op, e) for found in updates for op, e in terms(found.added, found.op)]
    if not all(any(loads_in(expand(e, values))) for _, _, e in parts):
        parts = [(found, found.op, found.added) for found in updates]
    if len(parts) < 2 or not all(any(loads_in(expand(e, values))) for _, _, e in parts):
        raise Refusal("E-PARTS-ONE", f"what '{loop.var.name}' adds up is no sum of terms that are read", places(loop))
    return tuple(_sum(loop, found.front, found.update, op, e, k) for k, (found, op, e) in enumerate(parts))


def _updates(loop: For) -> list[SumUpdate]:
    """The sums of ``loop``, each as if it were the only one.

    Raises:
        Refusal: it does something else.
    """
    own = {s.sym for s in loop.body if isinstance(s, Assign)}
    ends = [k for k, s in enumerate(loop.body) if isinstance(s, Assign)] or [len(loop.body)]
    found = []
    for at in ends:
        front = tuple(s for s in loop.body[:at] if not isinstance(s, Assign))
        found.append(sum_update(dataclasses.replace(loop, body=(*front, *loop.body[at : at + 1])), "E-PARTS-LOOP"))
    if isinstance(loop.body[-1], Assign) and not any(used(e) & own for u in found for e in _computed(u)):
        return found
    raise Refusal("E-PARTS-LOOP", f"what '{loop.var.name}' adds up depends on what it has added up", places(loop))


def _computed(u: SumUpdate) -> list[Expr]:
    return [u.added, *(d.init for d in u.front if isinstance(d, Decl) and d.init is not None)]


def _sum(loop: For, front: Body, update: Assign, op: str, e: Expr, k: int) -> For:
    """The loop that adds ``e`` alone; the first has the names of ``loop``."""
    add = dataclasses.replace(update, value=Binary(op, Var(update.sym), e), comments=update.comments if k == 0 else ())
    mine: list[Stmt] = []
    needed = used(e)
    for d in reversed(front):
        if isinstance(d, Decl) and d.sym in needed:
            mine.insert(0, d)
            needed |= used(d.init) if d.init is not None else set()
    part = dataclasses.replace(loop, body=(*mine, add), comments=loop.comments if k == 0 else ())
    if k == 0:
        return part
    (copy,) = rename(refresh((part,)), {loop.var: fresh(loop.var.name, loop.var.type)})
    assert isinstance(copy, For)
    return copy
