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
from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.analysis.dependence import conflict, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.analysis.touches import touches
from ktc.ir.arith.polynomial import same_value
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Acc, Body, For, Par, Reduce, Stmt, Sym, Var, bodies
from ktc.ir.walk import assigned, declared, rename, stmt_exprs, substitute_expr, used, used_in, with_bodies
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import LoopStmt, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed


@dataclass(frozen=True)
class Arguments:
    first: Loop = required("the first loop")
    second: Loop | None = option(None, "the loop right after it; by default whichever that is")


class Fuse(Pass[Arguments]):
    name = "fuse"
    summary = "join two adjacent loops over one range"
    refusals = (
        "E-PLACE", "E-FUSE-ADJACENT", "E-FUSE-RANGE", "E-FUSE-DISTRIBUTION", "E-FUSE-KIND", "E-FUSE-SYNC",
        "E-FUSE-SCALAR", "E-FUSE-DEPENDENCE",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        pairs = [(a, b) for a, b in _adjacent(kernel.body) if allowed(check, kernel, a, b)]
        doc = "what the first loop made stays in registers for the second"
        return [Site(self.step(first=place_of(kernel, a), second=place_of(kernel, b)), doc) for a, b in pairs]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        first = args.first.find(kernel)
        second = next((b for a, b in _adjacent(kernel.body) if a is first), None)
        if second is None:
            raise Refusal("E-FUSE-ADJACENT", f"no loop comes right after '{args.first}'", places(first))
        assert isinstance(first, LoopStmt)
        if args.second is not None and args.second.find(kernel) is not second:
            why = f"the loop right after '{first.var.name}' is '{second.var.name}', not '{args.second}'"
            raise Refusal("E-FUSE-ADJACENT", why, places(first, second))
        check(kernel, first, second)
        whole = joined(first, second)
        return Result(kernel.with_(body=_replaced(kernel.body, first, second, whole)))


def _adjacent(body: Body) -> Iterator[tuple[LoopStmt, LoopStmt]]:
    """Loops that directly follow each other in one list of statements."""
    for a, b in itertools.pairwise(body):
        if isinstance(a, LoopStmt) and isinstance(b, LoopStmt):
            yield a, b
    for s in body:
        for inner in bodies(s):
            yield from _adjacent(inner)


def check(kernel: Kernel, first: LoopStmt, second: LoopStmt) -> None:
    """Two adjacent loops may join, or it is refused."""
    where = places(first, second)
    kinds = (type(first), type(second))
    if kinds not in ((For, For), (Par, Par), (Reduce, Reduce), (Par, Reduce)):
        hint = "" if kinds != (Reduce, Par) else "the second needs the whole result of the first"
        raise Refusal("E-FUSE-KIND", f"a {_kind(first)} loop before a {_kind(second)} loop", where, hint)
    if not _same_range(first, second):
        raise Refusal("E-FUSE-RANGE", f"'{first.var.name}' and '{second.var.name}' run over different ranges", where)
    if not isinstance(first, For) and not isinstance(second, For):
        if first.dist != second.dist:
            hint = f"distribute{{loop={second.var.name} map=...}} as the first is"
            raise Refusal("E-FUSE-DISTRIBUTION", "the loops are spread over the threads differently", where, hint)
        if isinstance(first, Reduce) and isinstance(second, Reduce) and first.strategy != second.strategy:
            raise Refusal("E-FUSE-DISTRIBUTION", "the reductions have different strategies", where)
    bad = pinned((*first.body, *second.body)) or jump((*first.body, *second.body))
    if bad:
        raise Refusal("E-FUSE-SYNC", "a loop holds a barrier, opaque code or a jump", places(bad))
    crossing = _crossing_scalars(first, second)
    if crossing:
        raise Refusal("E-FUSE-SCALAR", f"the second loop needs the first's final '{crossing.pop().name}'", where)
    _check_dependence(kernel, first, second)


def _kind(s: LoopStmt) -> str:
    return {For: "serial", Par: "parallel", Reduce: "reduction"}[type(s)]


def _same_range(a: LoopStmt, b: LoopStmt) -> bool:
    if isinstance(a, For) or isinstance(b, For):
        if not (isinstance(a, For) and isinstance(b, For)) or (assigned(a.body) | assigned(b.body)) & _bound_syms(a, b):
            return False
        to = {b.var: Var(a.var)}
        return a.init == b.init and a.cond == substitute_expr(b.cond, to) and a.step == substitute_expr(b.step, to)
    return a.var.type == b.var.type and same_value(a.lo, b.lo) and same_value(a.hi, b.hi)


def _bound_syms(a: For, b: For) -> set[Sym]:
    return set().union(*(used(e) for s in (a, b) for e in (s.init, s.cond, s.step)))


def _crossing_scalars(first: LoopStmt, second: LoopStmt) -> set[Sym]:
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


def _check_dependence(kernel: Kernel, first: LoopStmt, second: LoopStmt) -> None:
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
            raise Refusal("E-FUSE-DEPENDENCE", why, places(a.stmt, b.stmt))


def joined(first: LoopStmt, second: LoopStmt) -> LoopStmt:
    """Two loops that :func:`check` lets join, as one."""
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
            out.append(with_bodies(s, lambda b: _replaced(b, first, second, joined)))
    return tuple(out)
