"""What a nested loop or branch adds up, as a part of its iteration's own.

before                                  after
    for c in 0..n                           for c in 0..n
      for r in 0..3                           var s_part: f32 = 0.0
        if inside(r)                          for r in 0..3
          s += x[c * 3 + r]                     if inside(r)
                                                  s_part += x[c * 3 + r]
                                              s += s_part

The iterations of the outer loop then add one value each. Floating-point sums change their order.
"""

from __future__ import annotations

from collections import Counter

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.analysis.order import jump
from ktc.ir.nodes import Assign, Body, Decl, For, If, Stmt, Sym, Var, While, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, declared, rename, used, walk

from .accumulations import Accumulation, accumulation


def own_parts(body: Body) -> Body:
    """``body`` with the sums of variables from outside, wherever loops and branches nest, as sums of its own."""
    mine = set(declared(body))
    out: list[Stmt] = []
    for s in body:
        sums = _sums(s, mine) if isinstance(s, For | While | If) else {}
        parts = {v: fresh(f"{v.name}_part", v.type) for v in sums}
        out += [Decl(part, identity(sums[v], v.type)) for v, part in parts.items()]  # type: ignore[arg-type]
        out += rename((s,), parts) if parts else (s,)
        out += [Assign(v, combine(sums[v], Var(v), Var(part)), loc=s.loc) for v, part in parts.items()]
    return tuple(out)


def _sums(s: Stmt, mine: set[Sym]) -> dict[Sym, str]:
    """Variables from outside that ``s`` adds to, each by one operation, and has nothing else to do with; or none."""
    updates: dict[Sym, list[Accumulation | None]] = {}
    for x in walk((s,)):
        if isinstance(x, Assign) and x.sym not in mine:
            updates.setdefault(x.sym, []).append(accumulation(x))
    if jump((s,)) is not None:  # what follows it might not be reached
        return {}
    reads = Counter(e.sym for e in all_exprs((s,)) if isinstance(e, Var))
    ops = {v: {"" if a is None or v in used(a.value) else a.op for a in found} for v, found in updates.items()}
    sums = all(len(ops[v]) == 1 and "" not in ops[v] and reads[v] == len(updates[v]) for v in updates)
    return {v: ops[v].pop() for v in updates} if sums and all(isinstance(v.type, Scalar) for v in updates) else {}


__all__ = ["own_parts"]
