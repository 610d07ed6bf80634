"""A thread program as loops over its threads: split where threads wait for each other, keep uniform control outside.

before                                                 after
    a[tid] = f(tid)                                        par t in 0..256 @ [thread.x 256]: a[t] = f(t)
    for k: barrier; v += a[tid ^ k]; barrier; ...          for k: par t: v[t] += a[t ^ k]  ...
    if (tid == 0) out = ...                                out = ...

Whatever more is understood (a reduction, one global index, a staged tile) is improved afterwards or on the way; what
stays a loop over threads has the meaning of the source, keeps the block shape fixed, and lowers to the same code.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import reduce

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.uniformity import Uniformity, uniformity_of
from ktc.ir.fold import cast, evaluate, i32, simplify, sub
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Assign,
    Barrier,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    Fence,
    For,
    HwIndex,
    If,
    Load,
    Reduce,
    Return,
    Scan,
    Stmt,
    Sym,
    Var,
    While,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32
from ktc.ir.walk import all_exprs, assigned, declared, map_body, substitute, used, used_in, walk, walk_expr
from ktc.passes.raising.normalise.straight import sunk
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.independence import independent

from .coordinates import AXES
from .items import Control, Item, Plain, Segment, Team
from .split_programs import Emitter
from .statement_kinds import (
    Left,
    expr_with_hardware,
    has_block_barrier,
    has_warp_op,
    is_local_array,
    loads,
    made_of_threads,
    plain,
    reads_own,
    stores,
    threads_in,
    unsupported,
    with_hardware,
)  # fmt: skip
from .strided_loops import strided

MEETINGS = ((has_block_barrier, "a barrier"), (has_warp_op, "a warp operation"))
"""What threads come together at, and how it is called."""

LARGEST = 1024
"""Threads of the largest block."""


@dataclass
class ThreadLoops:
    """Splits one body for one team."""

    team: Team
    launch: Launch

    def raised(self, body: Body) -> Body:
        """``body`` as loops over the team.

        Raises:
            Left: where it cannot be split.
        """
        bad = unsupported(body)
        if bad is not None:
            raise Left("E-RAISE-OPAQUE", "this statement has a meaning for a thread program only", bad.loc)
        self.facts = self._facts(body)
        named = definitions(body)
        self.numbers = made_of_threads(named)
        body = sunk(body, self._waits)
        items = self._split(body)
        return Emitter(self.team, self.facts.varying).emit(items, body)

    # -------------------------------------------------------------------------------------------------- splitting

    def _facts(self, body: Body) -> Uniformity:
        """Uniformity, with uniform variables that a thread loop would have to assign taken as each thread's own."""
        own = {d.sym for s in walk(body) if isinstance(s, Scan) for d in s.then if isinstance(d, Decl)}
        body = map_body(body, _total_apart)
        while True:
            facts = uniformity_of(body, own)
            more = {s for s in self._assigned_in_segments(body, facts) if s not in facts.varying}
            more |= {s.sym for s in walk(body) if isinstance(s, Decl | Assign) and reads_own(s)} - facts.varying
            if not more:
                return facts
            own |= more

    def _assigned_in_segments(self, body: Body, facts: Uniformity) -> set[Sym]:
        out: set[Sym] = set()
        for s in body:
            if self._waits(s) or _goes_one_way(s, facts, self.launch):
                if isinstance(s, If | For | While):
                    inner = (s.then + s.orelse) if isinstance(s, If) else s.body
                    out |= self._assigned_in_segments(inner, facts)
            elif not plain(s, facts):
                out |= {a for a in assigned((s,)) if not hasattr(a.type, "space")} - set(declared((s,)))
        return out

    @staticmethod
    def _waits(s: Stmt) -> bool:
        return any(isinstance(x, Barrier | Fence | Reduce | Scan) for x in walk((s,))) or has_warp_op(s)

    def _split(self, body: Body) -> list[Item]:
        items: list[Item] = []
        seg: list[Stmt] = []

        running: list[Segment] = []  # the scan whose ``after`` is being collected

        def flush() -> None:
            if running:
                running.pop().after.extend(seg)
            elif seg:
                items.append(Segment(list(seg)))
            seg.clear()

        for s in body:
            if isinstance(s, Reduce):
                if running:
                    flush()
                before = None if seg else _reduced_before(items, s)
                if before is not None:
                    before.accs += s.accs
                    continue
                items.append(Segment(list(seg), s.accs))
                seg.clear()
                continue
            if isinstance(s, Scan):
                if running:
                    flush()
                running.append(Segment(list(seg), scan=s, after=list(s.then)))
                items.append(running[0])
                seg.clear()
                continue
            once = None if self._waits(s) else self._once(s)
            if running and once is not None and _pure(once, running[0], seg):
                items[-1:-1] = [Plain(t) for t in once]
                continue
            if running and (once is not None or _total(running[0]) in used_in((s,))):
                flush()
            if isinstance(s, Barrier | Fence):
                flush()
            elif once is not None:
                if isinstance(s, Break | Continue | Return) or _clash(seg, once):
                    flush()
                items += [Plain(t) for t in once]
            elif not self._waits(s) and not _goes_one_way(s, self.facts, self.launch):
                seg.append(s)
            elif isinstance(s, If | For | While):
                self._must_agree(s)
                flush()
                parts = [s.then, s.orelse] if isinstance(s, If) else [s.body]
                items.append(Control(s, [self._split(b) for b in parts]))
            else:
                raise Left("E-RAISE-WARP", "values move between the lanes of a warp in a way that is not understood",
                           s.loc)  # fmt: skip
        flush()
        return items

    def _must_agree(self, s: If | For | While) -> None:
        control = (s.init, s.cond, s.step) if isinstance(s, For) else (s.cond,)
        if (isinstance(s, For) and s.var in self.facts.varying) or not all(self.facts.is_uniform(e) for e in control):
            what = next((name for has, name in MEETINGS if has(s)), "a memory fence")
            raise Left("E-RAISE-DIVERGENT", f"{what} stands under control that differs between threads", s.loc)

    def _once(self, s: Stmt) -> Body | None:
        """``s`` as statements for the whole team, if all threads do the same or only one does anything."""
        if plain(s, self.facts):
            return (s,)
        if not isinstance(s, If) or s.orelse:
            return None
        cond, then = _nested(s)
        found = self._one_thread(expand(cond, self.numbers))
        if found is None:
            return None
        only, also = found
        inner = with_hardware(then, only)
        if also is not None:
            inner = (dataclasses.replace(s, cond=also, then=inner),)
        outer = {a for a in assigned(inner) if not hasattr(a.type, "space")} - set(declared(inner))
        if outer or any(is_local_array(a) for a in assigned(inner)):
            return None
        if any(threads_in(e) for e in all_exprs(inner)) or used_in(inner) & (self.facts.varying - set(declared(inner))):
            return None
        if any(isinstance(x, Break | Continue | Return) for x in walk(inner)):
            return None
        return inner

    def _one_thread(self, cond: Expr) -> tuple[dict[HwIndex, Expr], Expr | None] | None:
        """The one thread that passes the parts of ``cond`` that ask for the thread, and the other parts."""
        parts = conjuncts_of(cond)
        mine, other = [p for p in parts if threads_in(p)], [p for p in parts if not threads_in(p)]
        if not mine or not all(self.facts.is_uniform(p) for p in other):
            return None
        only = self._only_thread(_all(mine))
        return None if only is None else (only, _all(other) if other else None)

    def _only_thread(self, cond: Expr) -> dict[HwIndex, Expr] | None:
        """The one thread of the team for which ``cond`` holds, if that depends on nothing else; the first one where
        the size of the team is not known, for that there always is."""
        sizes = [evaluate(n, {}) for _, _, n in self.team.axes]
        if not threads_in(cond) or used_in((If(cond, ()),)):
            return None
        if sizes.count(None) > 1:
            return None
        if None in sizes:
            first = self._only(cond, [1 if n is None else int(n) for n in sizes])
            return first if self._only(cond, [LARGEST if n is None else int(n) for n in sizes]) == first else None
        return self._only(cond, [int(n) for n in sizes if n is not None])

    def _only(self, cond: Expr, sizes: list[int]) -> dict[HwIndex, Expr] | None:
        """The one thread of a team of these sizes for which ``cond`` holds."""
        hits: list[dict[HwIndex, Expr]] = []
        total = 1
        for n in sizes:
            total *= n
        for t in range(total):
            env: dict[HwIndex, Expr] = {}
            left = t
            for (axis, _, _), n in zip(self.team.axes, sizes):
                env[HwIndex("thread", axis)] = i32(left % n)
                left //= n
            v = evaluate(simplify(expr_with_hardware(cond, env)), {})
            if v is None:
                return None
            if v:
                hits.append(env)
                if len(hits) > 1:
                    return None
        return hits[0] if hits else None


def _total_apart(s: Stmt) -> Stmt | Body:
    """A scan as the reduction that all know the total of, and what each thread does with a value of its own."""
    if not isinstance(s, Scan):
        return s
    running = fresh(s.acc.sym.name, s.acc.sym.type)
    total = Reduce((s.acc,), s.var, s.lo, s.hi, s.dist, s.body, loc=s.loc)
    return (total, Decl(running, cast(HwIndex("thread", "x"), I32)), *substitute(s.then, {s.acc.sym: Var(running)}))


def _goes_one_way(s: Stmt, facts: Uniformity, launch: Launch) -> bool:
    """Whether ``s`` is a condition under which the whole team sets what it goes on with, and no thread anything of its
    own: a row's beginning moved past the part that was copied. The iterations that threads share out in it have nothing
    to do with each other."""
    if not isinstance(s, If) or not facts.is_uniform(s.cond):
        return False
    for x in (x for x in walk((s,)) if isinstance(x, For)):
        dealt = strided(x, launch)
        if dealt is not None and independent(x.var, x.body, sub(dealt.hi, dealt.lo), dealt.lo):
            return False
    kept = {a for a in assigned((s,)) if not hasattr(a.type, "space") or is_local_array(a)} - set(declared((s,)))
    return bool(kept) and not kept & facts.varying and not any(map(is_local_array, kept))


def _nested(s: If) -> tuple[Expr, Body]:
    """What must hold for the innermost of conditions right inside each other, and what is done then."""
    cond, then = s.cond, s.then
    while len(then) == 1 and isinstance(inner := then[0], If) and not inner.orelse:
        cond, then = Binary("&&", cond, inner.cond), inner.then
    return cond, then


def _all(parts: list[Expr]) -> Expr:
    return reduce(lambda a, b: Binary("&&", a, b), parts)


def _reduced_before(items: list[Item], s: Reduce) -> Segment | None:
    """The last loop, if what ``s`` reduces is known at its end: it reduces that too."""
    last = next((k for k in range(len(items) - 1, -1, -1) if not isinstance(items[k], Plain)), None)
    seg = items[last] if last is not None else None
    if not isinstance(seg, Segment) or seg.scan is not None or last is None:
        return None
    since = tuple(i.stmt for i in items[last + 1 :] if isinstance(i, Plain))
    made = set(declared(since)) | assigned(since) | {a.sym for a in seg.accs}
    later = any(isinstance(e, Load) for a in s.accs for e in walk_expr(a.value)) or s.body
    return None if later or any(used(a.value) & made for a in s.accs) else seg


def _clash(seg: list[Stmt], once: Body) -> bool:
    """Whether ``once``, put in front of ``seg``, would see or do something else."""
    before = tuple(seg)
    wrote, read = set().union(*map(stores, before), set()), set().union(*map(loads, before), set())
    w, r = set().union(*map(stores, once), set()), set().union(*map(loads, once), set())
    if r & wrote or w & (wrote | read):
        return True
    return bool(assigned(once) & used_in(before) or used_in(once) & (set(declared(before)) | assigned(before)))


def _total(seg: Segment) -> Sym:
    assert seg.scan is not None
    return seg.scan.acc.sym


def _pure(once: Body, seg: Segment, later: list[Stmt]) -> bool:
    """Whether ``once`` only names values that can be had before ``seg`` too."""
    made = set(declared(tuple(seg.all))) | assigned((*seg.all, *later)) | {_total(seg)}
    named = all(isinstance(s, Decl) and s.init is not None and not loads(s) for s in once)
    return named and not used_in(once) & made


def thread_sizes(launch: Launch) -> dict[str, Expr]:
    """Extents of the thread axes with more than one thread, as loops over them count."""
    return {a: cast(n, I32) for a, n in zip(AXES, launch.block) if simplify(n) != i32(1)}


__all__ = ["Team", "ThreadLoops", "thread_sizes"]
