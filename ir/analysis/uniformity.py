"""Which values all threads of a block agree on, and which statements they reach together.

A forward data-flow analysis, iterated to its least fixed point. Thread-dependent are: ``threadIdx``, variables of loops
spread over threads, lane-level results (shuffles, votes, old values of atomics), anything computed from those, and
anything assigned where only some threads pass. A load at a uniform index of memory that the block shares gives all
threads one value; of an array private to the thread it depends on what was stored.

Control is divergent under a thread-dependent condition, in the rest of a loop body after a divergent ``continue``, and
in the whole of a loop that threads leave at different times. A thread that returned takes no further part in barriers
(CUDA, Volta and later), so a divergent ``return`` does not make what follows divergent.

The facts here hold for a symbol wherever it stands. :mod:`.uniform_control` follows values from statement to statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ktc.ir.analysis.accumulators import together
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Body,
    Break,
    Call,
    Continue,
    Decl,
    Dist,
    Expr,
    For,
    GroupCopy,
    HwIndex,
    If,
    InlineAsm,
    Load,
    MatrixLoad,
    Mma,
    Par,
    Produce,
    Raw,
    RawStmt,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    TileMma,
    Var,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Ptr, Type
from ktc.ir.walk import walk_expr

THREAD_LEVELS = frozenset({"thread", "lane", "warp"})
"""Levels of a distribution that different threads of one block hold different parts of."""


@dataclass(frozen=True)
class Uniformity:
    """The facts. ``varying`` symbols are thread-dependent; ``divergent`` holds ``id`` of statements that only some
    threads of a block may reach."""

    varying: frozenset[Sym]
    divergent: frozenset[int]
    under: Mapping[int, frozenset[Sym]] = field(default_factory=dict)
    """By ``id`` of a branch, what is thread-dependent where its condition has been asked, if that has been followed
    from statement to statement (:mod:`.uniform_control`)."""

    def is_uniform(self, e: Expr, under: If | None = None) -> bool:
        """Whether all threads of a block compute one value for ``e``, anywhere or as the first thing ``under`` a
        branch."""
        return not _varies(e, self.varying if under is None else self.under.get(id(under), self.varying))

    def is_divergent(self, s: Stmt) -> bool:
        """Whether some threads may reach ``s``, an object of the kernel's tree, without the rest of their block."""
        return id(s) in self.divergent


def uniformity(kernel: Kernel) -> Uniformity:
    """The facts for ``kernel``; its parameters are uniform."""
    return uniformity_of(kernel.body)


def uniformity_of(body: Body, varying: Iterable[Sym] = ()) -> Uniformity:
    """The facts for ``body``, taking every symbol that it does not assign and that is not in ``varying`` as uniform."""
    flow = Flow()
    flow.varying.update(varying)
    return flow.facts(body)


class Flow:
    """One monotone pass over the tree at a time: the sets only grow."""

    def __init__(self) -> None:
        self.varying: set[Sym] = set()
        self.divergent: set[int] = set()
        self.left_early: set[int] = set()  # loops that threads break out of at different times
        self.changed = True

    def facts(self, body: Body) -> Uniformity:
        """The least fixed point for ``body``."""
        while self.changed:
            self.changed = False
            self.start()
            self.body(body, divergent=False)
        return Uniformity(frozenset(self.varying), frozenset(self.divergent))

    def start(self) -> None:
        """A pass begins."""

    def define(self, s: Sym, condition: bool) -> None:
        """``s`` gets a new value, thread-dependent or not."""
        self.mark(s, condition)

    def mark(self, s: Sym | None, condition: bool) -> None:
        if condition and s is not None and s not in self.varying:
            self.varying.add(s)
            self.changed = True

    def varies(self, *es: Expr) -> bool:
        return any(_varies(e, self.varying) for e in es)

    def diverges(self, cond: Expr) -> bool:
        """Whether threads may decide ``cond`` differently."""
        return self.varies(cond)

    def body(self, body: Body, divergent: bool) -> tuple[bool, bool]:
        """Visit in order; returns whether a divergent continue or break may leave ``body``."""
        continues = breaks = False
        for s in body:
            if divergent and id(s) not in self.divergent:
                self.divergent.add(id(s))
                self.changed = True
            c, b = self.stmt(s, divergent)
            continues, breaks = continues or c, breaks or b
            divergent = divergent or c or b
        return continues, breaks

    def stmt(self, s: Stmt, divergent: bool) -> tuple[bool, bool]:
        match s:
            case Continue():
                return divergent, False
            case Break():
                return False, divergent
            case If():
                return self.branch(s, divergent or self.diverges(s.cond))
            case For():
                self.define(s.var, self.varies(s.init, s.step))
                self.loop(s, s.cond, divergent)
            case While():
                self.loop(s, s.cond, divergent)
            case Produce():
                self.body(s.body, divergent)
            case Par():
                self.mark(s.var, _over_threads(s.dist) or self.varies(s.lo))
                self.body(s.body, divergent or _over_threads(s.dist) or self.varies(s.lo, s.hi))
            case Reduce():
                self.reduce(s, divergent)
            case Scan():
                spread = _over_threads(s.dist)
                own = divergent or spread or self.varies(s.lo, s.hi, s.acc.init)
                self.mark(s.var, spread or self.varies(s.lo))
                self.body(s.body, own)
                self.mark(s.acc.sym, own or self.varies(s.acc.value))
                self.body(s.then, own)
            case Decl():
                self.define(s.sym, s.init is not None and self.varies(s.init))
            case Assign():
                self.define(s.sym, divergent or self.varies(s.value))
            case Store():
                private = not shared_by_block(s.buffer.type)
                self.mark(s.buffer, private and (divergent or self.varies(s.value, *s.index)))
            case Atomic():
                self.mark(s.dst, True)
            case GroupCopy():
                self.mark(s.event, divergent)
            case InlineAsm():
                for _, out in s.outputs:
                    self.mark(out, True)
            case MatrixLoad():
                self.mark(s.dst, True)
            case Mma() | TileMma():
                for x in s.acc:
                    self.mark(x.sym if isinstance(x, Var) else getattr(x, "buffer", None), True)
            case RawStmt():
                for out in s.writes:
                    self.mark(out, not shared_by_block(out.type))
        return False, False

    def branch(self, s: If, inside: bool) -> tuple[bool, bool]:
        a, b = self.body(s.then, inside), self.body(s.orelse, inside)
        return a[0] or b[0], a[1] or b[1]

    def loop(self, s: For | While, cond: Expr, divergent: bool) -> None:
        inside = divergent or self.diverges(cond) or id(s) in self.left_early
        _, breaks = self.body(s.body, inside)
        if breaks and id(s) not in self.left_early:
            self.left_early.add(id(s))
            self.changed = True

    def reduce(self, s: Reduce, divergent: bool) -> None:
        """A reduction over threads gives every thread the whole result; a private one gives each its own."""
        spread = _over_threads(s.dist)
        self.mark(s.var, spread or self.varies(s.lo))
        self.body(s.body, divergent or spread or self.varies(s.lo, s.hi))
        for group in together(s.accs):
            own = self.varies(*(a.init for a in group), s.lo, s.hi) or divergent
            for a in group:
                self.mark(a.sym, own or (not spread and self.varies(*(x.value for x in group))))


def _over_threads(dist: Dist) -> bool:
    return any(lv.kind in THREAD_LEVELS for lv in dist)


def shared_by_block(t: Type) -> bool:
    """Whether all threads of a block see one object: memory other than registers and private arrays."""
    if isinstance(t, Ptr):
        return t.space != "local"
    return getattr(t, "space", "local") in ("shared", "global", "const")


def _varies(e: Expr, varying: frozenset[Sym] | set[Sym]) -> bool:
    return any(varies_itself(x, varying) for x in walk_expr(e))


def varies_itself(x: Expr, varying: frozenset[Sym] | set[Sym]) -> bool:
    """Whether ``x`` may differ from thread to thread where its operands do not."""
    match x:
        case Var():
            return x.sym in varying
        case HwIndex():
            return x.level == "thread"
        case Load():
            return x.buffer in varying
        case WarpOp():
            return True
        case Raw():
            return "threadIdx" in x.text or any(u in varying for u in x.uses)
        case Call():
            return x.effects in ("write", "sync")
    return False
