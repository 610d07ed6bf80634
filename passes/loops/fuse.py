"""fuse: join two adjacent loops over one range.

before                                          after fuse{first=i second=j}
    par i in 0..n @ [thread.x, block.x]             par i in 0..n @ [thread.x, block.x]
      b[i] = 2.0 * a[i]                               b[i] = 2.0 * a[i]
    par j in 0..n @ [thread.x, block.x]               c[i] = b[i] + 1.0
      c[j] = b[j] + 1.0

Legal when an iteration of the second loop needs of the first loop only what the same iteration made (serial loops: the
same or an earlier one), and writes nothing that another iteration of the first still reads. Two reductions become one
with both accumulators; a parallel loop before a reduction becomes part of its body.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ktc.ir.analysis.dependence import conflict, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.analysis.touches import touches
from ktc.ir.arith.polynomial import same_value
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Acc, Body, For, Par, Reduce, Stmt, Sym, Var, bodies
from ktc.ir.walk import assigned, declared, rename, stmt_exprs, substitute_expr, used, used_in
from ktc.passes.core.base import Arg, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.places import place_of, resolve_place

Loop: TypeAlias = For | Par | Reduce


class Fuse(Pass):
    name = "fuse"
    summary = "join two adjacent loops over one range"
    params = (
        ParamSpec("first", "the first loop", required=True),
        ParamSpec("second", "the loop right after it; by default whichever that is"),
    )
    refusals = (
        "E-PLACE", "E-FUSE-ADJACENT", "E-FUSE-RANGE", "E-FUSE-DISTRIBUTION", "E-FUSE-KIND", "E-FUSE-SYNC",
        "E-FUSE-SCALAR", "E-FUSE-DEPENDENCE",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        pairs = [(a, b) for a, b in _adjacent(kernel.body) if not why_not(kernel, a, b)]
        doc = "what the first loop made stays in registers for the second"
        return [Site(f"fuse{{first={place_of(kernel, a)} second={place_of(kernel, b)}}}", doc) for a, b in pairs]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        found = resolve_place(kernel, args["first"])
        if isinstance(found, Refused):
            return found
        first = found.stmt
        second = next((b for a, b in _adjacent(kernel.body) if a is first), None)
        if second is None:
            return Refused("E-FUSE-ADJACENT", f"no loop comes right after '{args['first']}'", places(first))
        assert isinstance(first, Loop)
        if "second" in args:
            named = resolve_place(kernel, args["second"])
            if isinstance(named, Refused):
                return named
            if named.stmt is not second:
                why = f"the loop right after '{first.var.name}' is '{second.var.name}', not '{args['second']}'"
                return Refused("E-FUSE-ADJACENT", why, places(first, second))
        refused = why_not(kernel, first, second)
        if refused:
            return refused
        joined = _joined(first, second)
        return Result(kernel.with_(body=_replaced(kernel.body, first, second, joined)))


def _adjacent(body: Body) -> Iterator[tuple[Loop, Loop]]:
    """Loops that directly follow each other in one list of statements."""
    for a, b in itertools.pairwise(body):
        if isinstance(a, Loop) and isinstance(b, Loop):
            yield a, b
    for s in body:
        for inner in bodies(s):
            yield from _adjacent(inner)


def why_not(kernel: Kernel, first: Loop, second: Loop) -> Refused | None:
    """Why two adjacent loops do not join; None if they do."""
    where = places(first, second)
    kinds = (type(first), type(second))
    if kinds not in ((For, For), (Par, Par), (Reduce, Reduce), (Par, Reduce)):
        hint = "" if kinds != (Reduce, Par) else "the second needs the whole result of the first"
        return Refused("E-FUSE-KIND", f"a {_kind(first)} loop before a {_kind(second)} loop", where, hint)
    if not _same_range(first, second):
        return Refused("E-FUSE-RANGE", f"'{first.var.name}' and '{second.var.name}' run over different ranges", where)
    if not isinstance(first, For) and not isinstance(second, For):
        if first.dist != second.dist:
            hint = f"distribute{{loop={second.var.name} map=...}} as the first is"
            return Refused("E-FUSE-DISTRIBUTION", "the loops are spread over the threads differently", where, hint)
        if isinstance(first, Reduce) and isinstance(second, Reduce) and first.strategy != second.strategy:
            return Refused("E-FUSE-DISTRIBUTION", "the reductions have different strategies", where)
    bad = pinned((*first.body, *second.body)) or jump((*first.body, *second.body))
    if bad:
        return Refused("E-FUSE-SYNC", "a loop holds a barrier, opaque code or a jump", places(bad))
    crossing = _crossing_scalars(first, second)
    if crossing:
        return Refused("E-FUSE-SCALAR", f"the second loop needs the first's final '{crossing.pop().name}'", where)
    return _dependence(kernel, first, second)


def _kind(s: Loop) -> str:
    return {For: "serial", Par: "parallel", Reduce: "reduction"}[type(s)]


def _same_range(a: Loop, b: Loop) -> bool:
    if isinstance(a, For) or isinstance(b, For):
        if not (isinstance(a, For) and isinstance(b, For)) or (assigned(a.body) | assigned(b.body)) & _bound_syms(a, b):
            return False
        to = {b.var: Var(a.var)}
        return a.init == b.init and a.cond == substitute_expr(b.cond, to) and a.step == substitute_expr(b.step, to)
    return a.var.type == b.var.type and same_value(a.lo, b.lo) and same_value(a.hi, b.hi)


def _bound_syms(a: For, b: For) -> set[Sym]:
    return set().union(*(used(e) for s in (a, b) for e in (s.init, s.cond, s.step)))


def _crossing_scalars(first: Loop, second: Loop) -> set[Sym]:
    """Scalars that the first loop leaves behind and the second reads (or that both change)."""
    made = assigned(first.body) - set(declared(first.body))
    if isinstance(first, Reduce):
        made |= {a.sym for a in first.accs}
    read = used_in(second.body) | assigned(second.body) | {y for e in stmt_exprs(second) for y in used(e)}
    scalars = {s for s in made & read if not _is_buffer(s)}
    changed = assigned(second.body) - set(declared(second.body))
    return scalars | {s for s in changed & used_in(first.body) if not _is_buffer(s)}


def _is_buffer(s: Sym) -> bool:
    return hasattr(s.type, "space")


def _dependence(kernel: Kernel, first: Loop, second: Loop) -> Refused | None:
    private = set(declared(first.body)) | set(declared(second.body))
    a_all = [t for t in touches((first,)) if t.buffer not in private]
    b_all = [t for t in touches((second,)) if t.buffer not in private]
    apart = noalias(kernel)
    for a in a_all:
        for b in b_all:
            d = conflict(a, b, 1, apart)
            if d is None or d == (0,) or (isinstance(first, For) and d[0] is not None and d[0] > 0):
                continue
            why = f"an iteration of '{second.var.name}' touches '{a.buffer.name}' where another of the first loop does"
            return Refused("E-FUSE-DEPENDENCE", why, places(a.stmt, b.stmt))
    return None


def _joined(first: Loop, second: Loop) -> Stmt:
    to = {second.var: first.var}
    later = rename(second.body, to)
    body = (*first.body, *later)
    if isinstance(second, Reduce):
        accs: tuple[Acc, ...] = tuple(
            dataclasses.replace(a, value=substitute_expr(a.value, {second.var: Var(first.var)})) for a in second.accs
        )
        before = first.accs if isinstance(first, Reduce) else ()
        return dataclasses.replace(
            second, var=first.var, lo=first.lo, hi=first.hi, body=body, accs=(*before, *accs),  # type: ignore[union-attr]
            comments=(*first.comments, *second.comments), loc=first.loc,
        )  # fmt: skip
    return dataclasses.replace(first, body=body, comments=(*first.comments, *second.comments))


def _replaced(body: Body, first: Stmt, second: Stmt, joined: Stmt) -> Body:
    out: list[Stmt] = []
    for s in body:
        if s is first:
            out.append(joined)
        elif s is not second:
            changes = {
                f: _replaced(getattr(s, f), first, second, joined) for f in ("body", "then", "orelse") if hasattr(s, f)
            }
            out.append(dataclasses.replace(s, **changes) if changes else s)  # type: ignore[arg-type]
    return tuple(out)
