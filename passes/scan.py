"""scan: running sums by all threads of a block, whatever loop they were written as.

before                                              after scan{loop=i map=[vec $V, thread.x $T, unroll $U, seq]}
    par r in 0..rows @ [block.x]                        par r in 0..rows @ [block.x]
      var sum: f32 = 0.0                                  scan(+) sum: f32 = 0.0 over i in 0..cols
      for i in 0..cols                                        @ [vec $V, thread.x $T, unroll $U, seq]
        sum += x[r * cols + i]                              yield x[r * cols + i]
        out[r * cols + i] = sum                             out[r * cols + i] = sum

A loop is a scan when it carries one value, updated once an iteration by an associative operation, and what else it does
uses the value only as it is after the update (inclusive) or only as it was before (exclusive). What the iterations
write must be their own. A block takes tiles of V * T * U elements one after another; see ``lowering/scans``.
Floating-point sums change their order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.affine import linear_form, same_value
from ktc.ir.fold import cast, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Acc, Assign, Body, Decl, Expr, For, Level, Reduce, Scan, Stmt, Store, Sym, Var, bodies, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, map_body, refresh, rename, stmt_exprs, used, used_in, walk, without

from .base import Arg, DistSpec, KnobRef, LevelSpec, ParamSpec, Pass, Refused, Result, Site
from .distribute import DOMAINS, assume, assumptions, check_levels
from .knobs import size_argument
from .loops import narrowest_element, required
from .raising.loops import Accumulation, accumulation, independent, upper_bound

DEFAULT = DistSpec(
    (LevelSpec("vec", KnobRef("V")), LevelSpec("thread", KnobRef("T"), "x"), LevelSpec("unroll", KnobRef("U")),
     LevelSpec("seq"))
)  # fmt: skip
ORDER = ("vec", "thread", "unroll", "seq")
THREADS = (32, 64, 128, 256, 512, 1024)
DOCS = {"vec": "consecutive elements of a thread", "thread": "threads that share the scan",
        "unroll": "rows of vectors in a tile"}  # fmt: skip


class ScanPass(Pass):
    name = "scan"
    summary = "running sums by all threads of a block"
    params = (
        ParamSpec("loop", "the loop that carries the running value", required=True),
        ParamSpec("map", "its distribution", default="[vec $V, thread.x $T, unroll $U, seq]"),
    )
    knobs = ("V: 1,2,4,8: lanes", "T: 32..1024: threads", "U: 1,2,4,8: vectors a thread keeps of a tile")
    refusals = ("E-PLACE", "E-SCAN-NONE", "E-SCAN-ORDER", "E-SCAN-WRITES", "E-SCAN-MAP", "E-SCAN-PLACE",
                "E-DIST-LEVELS", "E-DIST-AXIS")  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        if not kernel.is_parallel:
            return []
        found = [s for s in walk(kernel.body) if isinstance(s, For) and isinstance(recognised(s), Scan)]
        text = "map=[vec $V, thread.x $T, unroll $U, seq]"
        return [Site(f"scan{{loop={s.var.name} {text}}}", "the running value by a block of threads") for s in found]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        bad = required(args, "loop")
        if bad:
            return bad
        name = str(args["loop"]).removeprefix("loop:")
        loop = next((s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == name), None)
        if loop is None:
            return Refused("E-PLACE", f"no serial loop named '{name}'")
        made = recognised(loop)
        if isinstance(made, Refused):
            return made
        spec = args.get("map", DEFAULT)
        if not isinstance(spec, DistSpec):
            return Refused("E-DIST-LEVELS", "map wants a list of levels, as in [vec $V, thread.x $T, unroll $U, seq]")
        refused = check_levels(_sum(made), spec) or _check_map(made, spec) or _check_place(kernel, loop)
        if refused:
            return refused
        sized = _levels(kernel, made, spec)
        if isinstance(sized, Refused):
            return sized
        kernel, dist = sized
        made = dataclasses.replace(made, dist=dist)
        kernel = kernel.with_(body=_replaced(kernel.body, loop, made))
        facts = assumptions(_sum(made), dist, False, frozenset(p.sym for p in kernel.params))
        settled = assume(kernel, facts, self.name)
        if isinstance(settled, Refused):
            return settled
        t = made.acc.sym.type
        floating = isinstance(t, Scalar) and t.is_float and made.acc.op in "+*"
        flags = settled.flags | ({"reassociates"} if floating else set())
        return Result(settled.with_(flags=flags), (f"{loop.var.name}: {'ex' * made.exclusive}scan",))


def recognised(loop: For) -> Scan | Refused:
    """``loop`` as a scan over the variable it carries, without a distribution."""
    locs = (loop.loc,) if loop.loc else ()
    hi, step, t = upper_bound(loop.cond, loop.var), linear_form(loop.step, {loop.var}), loop.var.type
    unit = step is not None and same_value(step.coeffs.get(loop.var, i32(0)), i32(1)) and same_value(step.rest, i32(1))
    mine = set(declared(loop.body))
    carried = assigned(loop.body) - mine - {s.buffer for s in walk(loop.body) if isinstance(s, Store)}
    if hi is None or not unit or not isinstance(t, Scalar) or len(carried) != 1:
        return Refused("E-SCAN-NONE", f"'{loop.var.name}' does not count up and carry one value", locs)
    (sym,) = carried
    if used(hi) & (assigned(loop.body) | mine):
        return Refused("E-SCAN-NONE", f"the end of '{loop.var.name}' moves", locs)
    updates = [k for k, s in enumerate(loop.body) if isinstance(s, Assign) and s.sym == sym]
    at = updates[0] if len(updates) == 1 else -1
    first = loop.body[at]
    update: Accumulation | None = accumulation(first) if at >= 0 and isinstance(first, Assign) else None
    if update is None or sym in used(update.value) or _assigns(without(loop.body, first), sym):
        return Refused("E-SCAN-NONE", f"'{sym.name}' is not updated once an iteration by one operation", locs)
    before, after = loop.body[:at], loop.body[at + 1 :]
    if sym in used_in(before) and sym in used_in(after):
        why = f"'{sym.name}' is used both before and after its update"
        return Refused("E-SCAN-ORDER", why, locs, "keep the value that was there before in a variable of its own")
    inner = tuple(s for s in before if isinstance(s, Decl) and sym not in used_in((s,)))
    changed = assigned(loop.body)
    if any(s.sym in changed for s in inner) or used(update.value) & (mine - {s.sym for s in inner}):
        return Refused("E-SCAN-ORDER", f"what '{sym.name}' is updated by is itself changed in the iteration", locs)
    rest = (*(s for s in before if not any(s is d for d in inner)), *after)
    if sym not in used_in(rest):
        why = f"nothing in '{loop.var.name}' uses '{sym.name}' on the way: it is a sum, not a scan"
        return Refused("E-SCAN-NONE", why, locs, "split-reduction spreads sums")
    plain = all(isinstance(s, Decl | Store) for s in rest) and not _loads_between(rest, inner)
    why = independent(loop.var, loop.body)
    if why or not plain:
        return Refused("E-SCAN-WRITES", why or "the iterations do more than declare and store values", locs)
    acc = Acc(sym, update.op, Var(sym), update.value)
    exclusive = sym in used_in(before)
    return Scan(acc, loop.var, cast(loop.init, t), cast(hi, t), (), inner, rest, exclusive, loc=loop.loc,
                comments=loop.comments, tags=loop.tags)  # fmt: skip


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


def _sum(s: Scan) -> Reduce:
    """``s`` as far as its accesses and range go."""
    return Reduce((s.acc,), s.var, s.lo, s.hi, s.dist, (*s.body, *s.then), loc=s.loc)


def _check_map(s: Scan, spec: DistSpec) -> Refused | None:
    locs = (s.loc,) if s.loc else ()
    kinds = [lv.kind for lv in spec.levels]
    last = spec.levels[-1] if kinds else None
    in_order = set(kinds) <= set(ORDER) and kinds == sorted(kinds, key=ORDER.index) and len(set(kinds)) == len(kinds)
    whole = "thread" in kinds and last is not None and last.n is None and last.kind == "seq"
    if not in_order or not whole or any(lv.axis not in ("", "x") for lv in spec.levels):
        why = "a scan's levels are vec, thread.x, unroll and an open seq, in this order"
        return Refused("E-SCAN-MAP", why, locs)
    threads = next(lv.n for lv in spec.levels if lv.kind == "thread")
    if isinstance(threads, str) or (isinstance(threads, int) and threads % 32):
        return Refused("E-SCAN-MAP", "the threads of a scan are whole warps: a multiple of 32", locs)
    return None


def _check_place(kernel: Kernel, loop: For) -> Refused | None:
    """The loops around it may be spread over blocks only: a whole block works on it."""
    locs = (loop.loc,) if loop.loc else ()
    around = [s for s in walk(kernel.body) if s is not loop and any(x is loop for b in bodies(s) for x in walk(b))]
    for s in around:
        if {lv.kind for lv in getattr(s, "dist", ())} - {"block", "seq"}:
            name = getattr(getattr(s, "var", None), "name", "it")
            why = f"'{name}', a loop around the scan, is spread over threads or lanes too"
            return Refused("E-SCAN-PLACE", why, locs, f"distribute{{loop={name} map=[block.x]}} first")
    return None


def _levels(kernel: Kernel, s: Scan, spec: DistSpec) -> tuple[Kernel, tuple[Level, ...]] | Refused:
    widest = 16 // narrowest_element(_sum(s))
    domains = {**DOMAINS, "vec": tuple(v for v in DOMAINS["vec"] if v <= widest), "thread": THREADS}
    wishes = {"vec": widest, "thread": 256, "unroll": 4}
    dist = []
    for lv in spec.levels:
        sized = size_argument(kernel, lv.n, domains[lv.kind], DOCS.get(lv.kind, ""), ScanPass.name, wishes.get(lv.kind))
        if isinstance(sized, Refused):
            return sized
        kernel, n = sized
        dist.append(Level(lv.kind, n, "x" if lv.kind in ("thread", "block") else ""))
    return kernel, tuple(dist)


def _replaced(body: Body, loop: For, made: Scan) -> Body:
    """``body`` with the scan for the loop; the variable that it carried starts it and takes its total, where wanted."""
    carried = made.acc.sym
    total = fresh(carried.name, carried.type)
    inner = rename((dataclasses.replace(made, acc=dataclasses.replace(made.acc, init=i32(0))),), {carried: total})
    scan = refresh(inner)[0]
    assert isinstance(scan, Scan)
    start: Expr = Var(carried)

    def reads_elsewhere(s: Stmt) -> bool:
        return any(carried in used(e) for e in stmt_exprs(s))

    others = [
        s for s in walk(without(body, loop)) if reads_elsewhere(s) or (isinstance(s, Assign) and s.sym == carried)
    ]
    decl = next((s for s in walk(body) if isinstance(s, Decl) and s.sym == carried), None)
    alone = not others and decl is not None and decl.init is not None and not _moves(body, decl, loop)
    if alone:
        assert decl is not None and decl.init is not None
        start = decl.init
    scan = dataclasses.replace(scan, acc=dataclasses.replace(scan.acc, init=start), loc=loop.loc,
                               comments=loop.comments, tags=loop.tags)  # fmt: skip

    def on(s: Stmt) -> Stmt | Body | None:
        if s is decl and alone:
            return None
        if isinstance(s, For) and s.var == loop.var:
            return scan if alone or not others else (scan, Assign(carried, Var(scan.acc.sym)))
        return s

    return map_body(body, on)


def _moves(body: Body, decl: Decl, loop: For) -> bool:
    """Whether the start value could be another one at the loop than at its declaration."""
    for block in _lists(body):
        at = next((k for k, s in enumerate(block) if s is decl), None)
        to = next((k for k, s in enumerate(block) if s is loop), None)
        if at is not None and to is not None:
            assert decl.init is not None
            return bool(used(decl.init) & assigned(block[at + 1 : to]))
    return True


def _lists(body: Body):
    yield body
    for s in body:
        for b in bodies(s):
            yield from _lists(b)
