"""Serial loops that carry one value from iteration to iteration, as scans.

A loop is a scan when it carries one value, updated once an iteration by an associative operation, and what else it does
uses the value only as it is after the update (inclusive) or only as it was before (exclusive). What the iterations
write must be their own.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Acc, Assign, Body, Decl, For, Scan, Store, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, rename, used, used_in, walk, without
from ktc.passes.core.refusals import Refusal
from ktc.passes.shared.accumulations import Accumulation, accumulation
from ktc.passes.shared.independence import independent
from ktc.passes.shared.serial_sums import counted_to


def recognised(loop: For, kernel: Kernel) -> Scan:
    """``loop``, of ``kernel``, as a scan over the variable it carries, without a distribution."""
    loop = _on_its_variable(loop)
    locs = places(loop)
    hi, t = counted_to(loop), loop.var.type
    mine = set(declared(loop.body))
    carried = assigned(loop.body) - mine - {s.buffer for s in walk(loop.body) if isinstance(s, Store)}
    if hi is None or not isinstance(t, Scalar) or len(carried) != 1:
        raise Refusal("E-SCAN-NONE", f"'{loop.var.name}' does not count up and carry one value", locs)
    (sym,) = carried
    if used(hi) & (assigned(loop.body) | mine):
        raise Refusal("E-SCAN-NONE", f"the end of '{loop.var.name}' moves", locs)
    updates = [k for k, s in enumerate(loop.body) if isinstance(s, Assign) and s.sym == sym]
    at = updates[0] if len(updates) == 1 else -1
    first = loop.body[at]
    update: Accumulation | None = accumulation(first) if at >= 0 and isinstance(first, Assign) else None
    if update is None or sym in used(update.value) or _assigns(without(loop.body, first), sym):
        raise Refusal("E-SCAN-NONE", f"'{sym.name}' is not updated once an iteration by one operation", locs)
    before, after = loop.body[:at], loop.body[at + 1 :]
    if sym in used_in(before) and sym in used_in(after):
        why = f"'{sym.name}' is used both before and after its update"
        raise Refusal("E-SCAN-ORDER", why, locs, "keep the value that was there before in a variable of its own")
    inner = tuple(s for s in before if isinstance(s, Decl) and sym not in used_in((s,)))
    changed = assigned(loop.body)
    if any(s.sym in changed for s in inner) or used(update.value) & (mine - {s.sym for s in inner}):
        raise Refusal("E-SCAN-ORDER", f"what '{sym.name}' is updated by is itself changed in the iteration", locs)
    rest = (*(s for s in before if not any(s is d for d in inner)), *after)
    if sym not in used_in(rest):
        why = f"nothing in '{loop.var.name}' uses '{sym.name}' on the way: it is a sum, not a scan"
        raise Refusal("E-SCAN-NONE", why, locs, "split-reduction spreads sums")
    plain = all(isinstance(s, Decl | Store) for s in rest) and not _loads_between(rest, inner)
    why = independent(loop.var, loop.body, facts=lambda: facts_of(kernel, REWRITES).at(loop))
    if why or not plain:
        raise Refusal("E-SCAN-WRITES", why or "the iterations do more than declare and store values", locs)
    acc = Acc(sym, update.op, Var(sym), update.value)
    exclusive = sym in used_in(before)
    return Scan(acc, loop.var, cast(loop.init, t), cast(hi, t), (), inner, rest, exclusive, loc=loop.loc,
                comments=loop.comments, tags=loop.tags)  # fmt: skip


def _on_its_variable(loop: For) -> For:
    """``loop``, which names what it carries on before it hands it on, with the carried variable in the name's place:

    let next = sum + x[i]                   sum = sum + x[i]
    y[i] = next                             y[i] = sum
    sum = next
    """
    declared_at = {s.sym: k for k, s in enumerate(loop.body) if isinstance(s, Decl) and s.init is not None}
    for k, s in enumerate(loop.body):
        at = declared_at.get(s.value.sym) if isinstance(s, Assign) and isinstance(s.value, Var) else None
        if at is None or not isinstance(s, Assign) or not isinstance(s.value, Var):
            continue
        name, others = s.value.sym, (*loop.body[:k], *loop.body[k + 1 :])
        if {name, s.sym} & assigned(others) or s.sym in used_in(loop.body[at + 1 :]) or s.sym.type != name.type:
            continue
        first = loop.body[at]
        assert isinstance(first, Decl) and first.init is not None
        update = Assign(s.sym, first.init, loc=first.loc, comments=first.comments)
        behind = rename((*loop.body[at + 1 : k], *loop.body[k + 1 :]), {name: s.sym})
        return dataclasses.replace(loop, body=(*loop.body[:at], update, *behind))
    return loop


def _assigns(body: Body, sym: Sym) -> bool:
    return sym in assigned(body)


def _loads_between(rest: Body, inner: Body) -> bool:
    """Whether a declaration of ``rest`` reads what a store before it in ``rest`` wrote."""
    written: set[Sym] = set()
    for s in rest:
        if isinstance(s, Decl) and s.init is not None and used(s.init) & written:
            return True
        written |= {s.buffer} if isinstance(s, Store) else set()
    return False
