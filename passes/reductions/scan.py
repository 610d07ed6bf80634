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

What is a scan already (``raise`` finds those of threads) is spread anew.

With ``block.x $BLOCKS`` before the open ``seq`` so many blocks share the tiles of a row and tell each other their
totals (``lowering/look_back``): one long row by the whole device. The kernel must then do nothing beside the scan, and
nothing may use its total.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.order import places
from ktc.ir.fold import i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Body,
    Decl,
    Expr,
    For,
    Level,
    Par,
    Reduce,
    Scan,
    Stmt,
    Var,
    While,
    bodies,
    fresh,
)
from ktc.ir.text import unique_names
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, map_body, refresh, rename, stmt_exprs, used, used_in, walk, without
from ktc.passes.core.argument_kinds import KnobSpec, Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.knobs import declared_size
from ktc.passes.core.named_loops import narrowest_element
from ktc.passes.core.places import SERIAL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import DistSpec
from ktc.passes.mapping.distribute import DOMAINS, check_levels
from ktc.passes.mapping.persistent import GRIDS
from ktc.passes.shared.distribution_coverage import assume, assumptions
from ktc.passes.shared.loop_bounds import upper_bound

from .recurrences import recognised

DEFAULT = DistSpec.of("vec $V", "thread.x $T", "unroll $U", "seq")
ORDER = ("vec", "thread", "unroll", "block", "seq")
THREADS = (32, 64, 128, 256, 512, 1024)
DOCS = {"vec": "consecutive elements of a thread", "thread": "threads that share the scan",
        "unroll": "rows of vectors in a tile", "block": "blocks that share a scan"}  # fmt: skip
KNOBS = (
    KnobSpec("V", DOMAINS["vec"], DOCS["vec"]),
    KnobSpec("T", THREADS, DOCS["thread"]),
    KnobSpec("U", DOMAINS["unroll"], DOCS["unroll"]),
    KnobSpec("BLOCKS", GRIDS, DOCS["block"]),
)


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop that carries the running value")
    map: DistSpec = option(DEFAULT, "its distribution", knobs=KNOBS)


class ScanPass(Pass[Arguments]):
    name = "scan"
    summary = "running sums by all threads of a block, or of all blocks"
    refusals = ("E-PLACE", "E-SCAN-NONE", "E-SCAN-ORDER", "E-SCAN-WRITES", "E-SCAN-MAP", "E-SCAN-PLACE",
                "E-SCAN-BLOCKS", "E-DIST-LEVELS", "E-DIST-AXIS")  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        if not kernel.is_parallel:
            return []
        found: list[For | Scan] = [
            s
            for s in walk(kernel.body)
            if (isinstance(s, For) and allowed(recognised, s, kernel))
            or (isinstance(s, Scan) and allowed(_check_place, kernel, s))
        ]
        doc = "the running value by a block"
        sites = [Site(self.step(loop=place_of(kernel, s), map=DEFAULT), doc) for s in found]
        for s in found:
            free = next((a for a in "xyz" if allowed(_check_alone, kernel, s, a)), "")
            if free:
                wide = DistSpec.of("vec $V", "thread.x $T", "unroll $U", f"block.{free} $BLOCKS", "seq")
                sites.append(Site(self.step(loop=place_of(kernel, s), map=wide), "the running value by all blocks"))
        return sites

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        spec, loop = args.map, _called(kernel, args.loop.written) or args.loop.one(kernel, SERIAL)
        assert isinstance(loop, For | Scan)
        made = loop if isinstance(loop, Scan) else recognised(loop, kernel)
        check_levels(_sum(made), spec)
        _check_map(made, spec)
        _check_place(kernel, loop)
        over = next((lv for lv in spec.levels if lv.kind == "block"), None)
        if over is not None:
            _check_alone(kernel, loop, over.axis or "x")
        kernel, dist = _levels(kernel, made, spec)
        made = dataclasses.replace(made, dist=dist)
        if isinstance(loop, For):
            body = _replaced(kernel.body, loop, made)
        else:
            body = map_body(kernel.body, lambda s: made if isinstance(s, Scan) and s.var == made.var else s)
        kernel = kernel.with_(body=body)
        facts = assumptions(_sum(made), dist, False, frozenset(p.sym for p in kernel.params))
        kernel = assume(kernel, facts)
        t = made.acc.sym.type
        floating = isinstance(t, Scalar) and t.is_float and made.acc.op in "+*"
        flags = kernel.flags | ({"reassociates"} if floating else set())
        return Result(kernel.with_(flags=flags), (f"{loop.var.name}: {'ex' * made.exclusive}scan",))


def _called(kernel: Kernel, name: object) -> Scan | None:
    """The scan of ``kernel`` whose loop prints as ``name``."""
    names = unique_names(kernel)
    return next(
        (s for s in walk(kernel.body) if isinstance(s, Scan) and name in (names[s.var], f"loop:{names[s.var]}")), None
    )


def _sum(s: Scan) -> Reduce:
    """``s`` as far as its accesses and range go."""
    return Reduce((s.acc,), s.var, s.lo, s.hi, s.dist, (*s.body, *s.then), loc=s.loc)


def _check_map(s: Scan, spec: DistSpec) -> None:
    locs = places(s)
    kinds = [lv.kind for lv in spec.levels]
    last = spec.levels[-1] if kinds else None
    in_order = set(kinds) <= set(ORDER) and kinds == sorted(kinds, key=ORDER.index) and len(set(kinds)) == len(kinds)
    whole = "thread" in kinds and last is not None and last.n is None and last.kind == "seq"
    whole = whole and all(lv.n is not None for lv in spec.levels[:-1])
    if not in_order or not whole or any(lv.axis not in ("", "x") for lv in spec.levels if lv.kind != "block"):
        why = "a scan's levels are vec, thread.x, unroll, a number of blocks, and an open seq, in this order"
        raise Refusal("E-SCAN-MAP", why, locs, "map=[vec $V, thread.x $T, unroll $U, block.x $BLOCKS, seq]")
    threads = next(lv.n for lv in spec.levels if lv.kind == "thread")
    if isinstance(threads, str) or (isinstance(threads, int) and threads % 32):
        raise Refusal("E-SCAN-MAP", "the threads of a scan are whole warps: a multiple of 32", locs)


def _check_place(kernel: Kernel, loop: For | Scan) -> None:
    """The loops around it may be spread over blocks only: a whole block works on it."""
    locs = places(loop)
    if not kernel.is_parallel:
        why = "the kernel says what each thread does: threads that share the scan may not all come to it"
        raise Refusal("E-SCAN-PLACE", why, locs, "run raise first")
    around = [s for s in walk(kernel.body) if s is not loop and any(x is loop for b in bodies(s) for x in walk(b))]
    for s in around:
        if {lv.kind for lv in getattr(s, "dist", ())} - {"block", "seq"}:
            name = getattr(getattr(s, "var", None), "name", "it")
            why = f"'{name}', a loop around the scan, is spread over threads or lanes too"
            raise Refusal("E-SCAN-PLACE", why, locs, f"distribute{{loop={name} map=[block.x]}} first")


def _check_alone(kernel: Kernel, loop: For | Scan, axis: str) -> None:
    """A scan over the blocks of ``axis``: each iteration of the loops around it has blocks of its own, whose number the
    launcher can tell, and they do nothing else."""
    locs = places(loop)
    hint = "scan{loop=... map=[..., seq]} gives each row one block"
    known = {p.sym for p in kernel.params}
    carried = {loop.acc.sym} if isinstance(loop, Scan) else assigned(loop.body) - set(declared(loop.body))
    ends: list[Expr | None] = [loop.lo, loop.hi] if isinstance(loop, Scan) else [loop.init]
    ends += [] if isinstance(loop, Scan) else [upper_bound(loop.cond, loop.var)]
    body = kernel.body
    while True:
        *before, last = body
        if any(has_effect(s) for s in before) or not any(x is loop for x in walk((last,))):
            raise Refusal("E-SCAN-BLOCKS", "there is other work beside the scan, in every block", locs, hint)
        if last is loop:
            break
        single = isinstance(last, Par) and len(last.dist) == 1 and last.dist[0].kind == "block"
        if not isinstance(last, Par) or not single or last.dist[0].n is not None:
            name = getattr(getattr(last, "var", None), "name", "a condition")
            why = f"'{name}', around the scan, does not give each iteration blocks of its own"
            raise Refusal("E-SCAN-BLOCKS", why, locs, f"distribute{{loop={name} map=[block.y]}} first")
        if (last.dist[0].axis or "x") == axis:
            why = f"'{last.var.name}', around the scan, is spread over block.{axis}, too"
            raise Refusal("E-DIST-AXIS", why, locs, f"distribute{{loop={last.var.name} map=[block.y]}} first")
        ends += [last.lo, last.hi]
        body = last.body
    if any(used(e) - known for e in ends if e is not None):
        raise Refusal("E-SCAN-BLOCKS", "how many tiles there are is not known at launch", locs, hint)
    others = without(kernel.body, loop)
    if carried & used_in(others):
        raise Refusal("E-SCAN-BLOCKS", "the total is used after the scan, and one block alone has it", locs, hint)


def _levels(kernel: Kernel, s: Scan, spec: DistSpec) -> tuple[Kernel, tuple[Level, ...]]:
    widest = 16 // narrowest_element(_sum(s))
    domains = {**DOMAINS, "vec": tuple(v for v in DOMAINS["vec"] if v <= widest), "thread": THREADS, "block": GRIDS}
    wishes = {"vec": widest, "thread": 256, "unroll": 4, "block": 256}
    dist = []
    for lv in spec.levels:
        n: Expr | None = None
        if lv.n is not None:
            doc, wish = DOCS.get(lv.kind, ""), wishes.get(lv.kind)
            kernel, n = declared_size(kernel, lv.n, domains[lv.kind], doc, ScanPass.name, wish)
        dist.append(Level(lv.kind, n, (lv.axis or "x") if lv.kind in ("thread", "block") else ""))
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
    wanted = bool(others) or _comes_again(body, decl, loop)
    alone = not wanted and decl is not None and decl.init is not None and not _moves(body, decl, loop)
    if alone:
        assert decl is not None and decl.init is not None
        start = decl.init
    scan = dataclasses.replace(scan, acc=dataclasses.replace(scan.acc, init=start), loc=loop.loc,
                               comments=loop.comments, tags=loop.tags)  # fmt: skip

    def on(s: Stmt) -> Stmt | Body | None:
        if s is decl and alone:
            return None
        if isinstance(s, For) and s.var == loop.var:
            return (scan, Assign(carried, Var(scan.acc.sym))) if wanted else scan
        return s

    return map_body(body, on)


def _comes_again(body: Body, decl: Decl | None, loop: For) -> bool:
    """Whether ``loop`` may run again and go on from where it ended: some loop around it lacks ``decl``."""
    parts = [list(walk((s,))) for s in walk(body) if s is not loop and isinstance(s, For | While | Par)]
    return any(any(x is loop for x in inside) and all(x is not decl for x in inside) for inside in parts)


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
