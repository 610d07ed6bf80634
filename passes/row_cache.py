"""row-cache: a value computed in one sweep of a row is kept for the next sweep instead of being loaded again.

before                                              after row-cache{loop=i where=registers}
    reduce(+) s over i in 0..d                          array x_row[d]
      x = f32(a[r + i]) + f32(b[r + i])                 reduce(+) s over i in 0..d
      yield x * x                                         x = f32(a[r + i]) + f32(b[r + i]); x_row[i] = x
    par i in 0..d                                         yield x * x
      x = f32(a[r + i]) + f32(b[r + i])                 par i in 0..d
      b[r + i] = f16(x)                                   x = x_row[i]; b[r + i] = f16(x)

In registers each thread keeps the elements it owns, so the loops need one common distribution without a run-time
``seq`` level. In shared memory any distribution will do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.affine import same_value
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Decl, Expr, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import assigned, map_body, substitute_expr, used_in, walk_expr

from .base import Arg, ParamSpec, Pass, Refused, Result, Site
from .loops import Loop, find_loops, loops, required


@dataclasses.dataclass(frozen=True)
class Reuse:
    """``again`` in loop ``later`` recomputes what ``first`` in loop ``earlier`` computed at the same iteration."""

    earlier: Loop
    later: Loop
    first: Decl
    again: Decl


class RowCache(Pass):
    name = "row-cache"
    summary = "keep a row's values in registers or shared memory between sweeps"
    params = (
        ParamSpec("loop", "the name of the sweeps' loop", required=True),
        ParamSpec("where", "registers | shared", default="registers"),
    )
    refusals = ("E-PLACE", "E-ROWCACHE-NONE", "E-ROWCACHE-SEQ", "E-ROWCACHE-OWNER", "E-ROWCACHE-WHERE")

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for name in dict.fromkeys(s.var.name for s in loops(kernel)):
            found = [s for s in loops(kernel) if s.var.name == name]
            if _reuses(kernel.body, found):
                out += [
                    Site(f"row-cache{{loop={name} where={w}}}", "one read of the row instead of two")
                    for w in ("registers", "shared")
                ]
        return out

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        bad = required(args, "loop")
        if bad:
            return bad
        where = args.get("where", "registers")
        if where not in ("registers", "shared"):
            return Refused("E-ROWCACHE-WHERE", f"where is registers or shared, not {where!r}")
        found = find_loops(kernel, args["loop"])
        if isinstance(found, Refused):
            return found
        locs = tuple(s.loc for s in found if s.loc)
        reuses = _reuses(kernel.body, found)
        if not reuses:
            return Refused("E-ROWCACHE-NONE", "no value of one sweep is computed again in a later one", locs)
        if where == "registers":
            if any(lv.kind == "seq" for r in reuses for s in (r.earlier, r.later) for lv in s.dist):
                return Refused(
                    "E-ROWCACHE-SEQ", "registers cannot be indexed by a run-time loop", locs,
                    hint="distribute with unroll instead of seq, or where=shared",
                )  # fmt: skip
            if any(r.earlier.dist != r.later.dist for r in reuses):
                return Refused("E-ROWCACHE-OWNER", "the sweeps are distributed differently", locs, "give both one map")
        body = kernel.body
        for r in reuses:
            body = _keep_row(body, r, str(where))
        names = ", ".join(dict.fromkeys(r.first.sym.name for r in reuses))
        return Result(kernel.with_(body=body), (f"kept in {where}: {names}",))


def _reuses(body: Body, found: list[Loop]) -> list[Reuse]:
    """Values to keep, for each pair of sibling sweeps, largest first in source order."""
    out: list[Reuse] = []
    for block in _lists(body):
        sweeps = [s for s in block if any(s is f for f in found)]
        taken: set[Sym] = set()
        for a, earlier in enumerate(sweeps):
            for later in sweeps[a + 1 :]:
                between = block[block.index(earlier) + 1 : block.index(later)]
                for r in _pair(earlier, later, between):  # type: ignore[arg-type]
                    if r.again.sym not in taken:
                        taken.add(r.again.sym)
                        out.append(r)
    return out


def _lists(body: Body):
    from ktc.ir.nodes import bodies

    yield body
    for s in body:
        for b in bodies(s):
            yield from _lists(b)


def _pair(earlier: Loop, later: Loop, between: Body) -> list[Reuse]:
    if not (is_const(earlier.lo, 0) and is_const(later.lo, 0) and same_value(earlier.hi, later.hi)):
        return []
    written = assigned(earlier.body) | assigned(between)
    known = {_resolved(s, earlier): s for s in earlier.body if isinstance(s, Decl) and s.init is not None}
    out = []
    stored: set[Sym] = set()
    for s in later.body:
        if isinstance(s, Decl) and s.init is not None:
            value = substitute_expr(_resolved(s, later), {later.var: Var(earlier.var)})
            buffers = {x.buffer for x in walk_expr(value) if isinstance(x, Load)}
            first = known.get(value)
            if first is not None and buffers and not buffers & (written | stored) and isinstance(s.sym.type, Scalar):
                out.append(Reuse(earlier, later, first, s))
        stored |= assigned((s,))
    return _outermost(out)


def _resolved(s: Decl, loop: Loop) -> Expr:
    """The initialiser with the loop's own constants substituted, so that temporaries do not hide equality."""
    assert s.init is not None
    env: dict[Sym, Expr] = {}
    changed = assigned(loop.body)
    for d in loop.body:
        if d is s:
            break
        if isinstance(d, Decl) and d.init is not None and d.sym not in changed:
            env[d.sym] = substitute_expr(d.init, env)
    return substitute_expr(s.init, env)


def _outermost(reuses: list[Reuse]) -> list[Reuse]:
    """Drop values that only feed another kept value."""
    kept = []
    for r in reuses:
        readers = [s for s in r.later.body if s is not r.again and r.again.sym in used_in((s,))]
        others = [o.again for o in reuses if o is not r]
        if not (readers and all(any(s is o for o in others) for s in readers)):
            kept.append(r)
    return kept


def _keep_row(body: Body, r: Reuse, where: str) -> Body:
    space = "local" if where == "registers" else "shared"
    t = r.first.sym.type
    row = fresh(f"{r.first.sym.name}_row", Array(t, (r.earlier.hi,), space))

    def on(s: Stmt) -> Stmt | Body:
        if getattr(s, "var", None) == r.earlier.var:
            return (Alloc(row, dynamic=where == "shared", align=16), dataclasses.replace(s, body=_insert(s.body)))  # type: ignore[attr-defined, call-arg]
        if isinstance(s, Decl) and s.sym == r.again.sym:
            return dataclasses.replace(s, init=Load(row, (Var(r.later.var),)))
        return s

    def _insert(inner: Body) -> Body:
        k = next(i for i, s in enumerate(inner) if isinstance(s, Decl) and s.sym == r.first.sym)
        return (*inner[: k + 1], Store(row, (Var(r.earlier.var),), Var(r.first.sym)), *inner[k + 1 :])

    return map_body(body, on)
