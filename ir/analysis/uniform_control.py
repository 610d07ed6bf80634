"""Which statements all threads of a block reach together, followed from statement to statement of one launch.

Finer than :mod:`.uniformity` in five ways:

* A variable is thread-dependent from one assignment to the next, not everywhere: ``i`` may hold an index of the thread
  first and count the rounds of a reduction later.
* Of a launch with known blocks, an axis of one thread has one index, and a condition on indices and numbers alone is
  tried for every thread: ``threadIdx.x < 256`` is true for all of 256.
* A loop that counts up or down goes round as often for all threads if its limit is as far away for all of them:
  ``for (t = first + i; t < first + n + i; t += step)``.
* Where whole blocks end at a size (``blockIdx.x * 32 + threadIdx.x < n`` of an ``n`` that is known to be divisible by
  32), all threads of a block are on one side of it.
* In a block of one warp, votes, reductions and broadcasts over a uniform mask give all threads one value.

The verifier asks this of barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ktc.ir.arith.counted_loops import distance, loop_step
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fields import children
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import MAX_BLOCK_THREADS, WARP
from ktc.ir.nodes import (
    LOGICAL,
    MATCHES,
    VOTES,
    WARP_REDUCTIONS,
    Binary,
    Break,
    Cast,
    Const,
    Continue,
    Expr,
    For,
    HwIndex,
    If,
    Return,
    Stmt,
    Sym,
    Unary,
    Var,
    WarpOp,
    While,
)
from ktc.ir.types import Scalar, Type
from ktc.ir.walk import assigned

from .defs import definitions, expand
from .uniformity import Flow, Uniformity, varies_itself


def control_of(kernel: Kernel) -> Uniformity:
    """The facts of ``kernel`` for its own launch. A symbol is in ``varying`` if it is anywhere."""
    block: tuple[int | None, ...] = (None, None, None)
    if kernel.launch is not None:
        values = [evaluate(e, kernel.knob_values) for e in kernel.launch.block]
        block = tuple(None if v is None else int(v) for v in values)
    control = _Control(kernel, block)
    return replace(control.facts(kernel.body), under=control.under)


@dataclass
class _Loop:
    """States that leave a round of a loop by a jump."""

    exits: list[set[Sym]] = field(default_factory=list)
    backs: list[set[Sym]] = field(default_factory=list)


def _summands(e: Expr) -> Iterator[Expr]:
    """What ``e`` is a sum of."""
    e = _converted(e)
    if isinstance(e, Binary) and e.op == "+":
        yield from _summands(e.a)
        yield from _summands(e.b)
    else:
        yield e


def _converted(e: Expr) -> Expr:
    """What ``e`` converts to an integer of at least 32 bits, if it does."""
    while isinstance(e, Cast) and e.style != "bit" and all(_is_word(t) for t in (e.to, e.x.type)):
        e = e.x
    return e


def _is_word(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int and t.bits >= 32


class _Control(Flow):
    """``now``: what is thread-dependent at the statement that is being visited."""

    def __init__(self, kernel: Kernel, block: tuple[int | None, ...]) -> None:
        from .thread_values import ThreadValues  # brings numpy, which most commands do without

        super().__init__()
        self.block = dict(zip("xyz", block))
        self.named = definitions(kernel.body)
        changed = assigned(kernel.body)
        self.multiples = {p.sym: p.divisible_by for p in kernel.params if p.sym not in changed}
        known = [n for n in block if n is not None]
        threads = known[0] * known[1] * known[2] if len(known) == 3 else 0
        self.one_warp = 0 < threads <= WARP
        block_fits = 0 < threads <= MAX_BLOCK_THREADS and min(known) > 0
        self.values = ThreadValues(kernel, (known[0], known[1], known[2])) if block_fits else None
        self.now: set[Sym] = set()
        self.reachable = True
        self.loops: list[_Loop] = []
        self.heads: dict[int, set[Sym]] = {}  # what holds at the head of a loop, by the loop
        self.under: dict[int, frozenset[Sym]] = {}

    def start(self) -> None:
        self.now, self.reachable = set(), True

    def define(self, s: Sym, condition: bool) -> None:
        if condition:
            self.mark(s, True)
        else:
            self.now.discard(s)

    def mark(self, s: Sym | None, condition: bool) -> None:
        super().mark(s, condition)
        if condition and s is not None:
            self.now.add(s)

    # ------------------------------------------------------------------------------------------------ expressions

    def varies(self, *es: Expr) -> bool:
        return any(self._varies(e) for e in es)

    def _varies(self, e: Expr) -> bool:
        if isinstance(e, HwIndex) and e.level == "thread" and self.block[e.axis] == 1:
            return False
        if isinstance(e, WarpOp) and self.one_warp and not self._differs_in_warp(e):
            return False
        return varies_itself(e, self.now) or any(map(self._varies, children(e)))

    def diverges(self, cond: Expr) -> bool:
        if isinstance(cond, Binary) and cond.op in LOGICAL:
            return self.diverges(cond.a) or self.diverges(cond.b)
        if isinstance(cond, Unary) and cond.op == "!":
            return self.diverges(cond.x)
        if not self.varies(cond) or (self.values is not None and self.values.same(cond)):
            return False
        return not self._splits_no_block(expand(cond, self.named))

    def _splits_no_block(self, cond: Expr) -> bool:
        """Whether ``cond`` compares the place of a thread, counted from a multiple of its block's size, with a multiple
        of it. That size is a power of two, so that neither a conversion nor a sum that wraps around takes the thread
        to another multiple."""
        match cond:
            case Binary("<" | ">=", a, b) | Binary(">" | "<=", b, a):
                parts = [_converted(x) for x in _summands(a)]
                axes = [x.axis for x in parts if isinstance(x, HwIndex) and x.level == "thread"]
                size = self.block[axes[0]] if len(axes) == 1 else None
                rest = [x for x in parts if not (isinstance(x, HwIndex) and x.level == "thread")] + [*_summands(b)]
                whole = size is not None and size & (size - 1) == 0
                return whole and not self.varies(*rest) and all(self._is_multiple(x, size or 1) for x in rest)
        return False

    def _is_multiple(self, e: Expr, size: int) -> bool:
        """Whether ``size``, a power of two, is known to divide ``e``."""
        match _converted(e):
            case Const(int(value)):
                return value % size == 0
            case HwIndex("block_dim", axis):
                return (self.block[axis] or 1) % size == 0
            case Var(s):
                return self.multiples.get(s, 1) % size == 0
            case Binary("*", a, b):
                return self._is_multiple(a, size) or self._is_multiple(b, size)
        return False

    def _rounds_differ(self, s: For | While, cond: Expr) -> bool:
        """Whether threads may go round ``s``, which none of them leaves early, a different number of times."""
        ahead, by = (distance(s), loop_step(s)) if isinstance(s, For) else (None, None)
        if ahead is not None and by is not None:
            parts = {f for factors in polynomial(expand(ahead, self.named)) for f in factors}
            if not self.varies(by, *parts):
                return False
        return self.diverges(cond)

    def _differs_in_warp(self, e: WarpOp) -> bool:
        """Whether lanes of one warp, all of them in the mask, may get different values."""
        if self._varies(e.mask):
            return True
        if e.kind == "shfl":
            whole = isinstance(e.width, Const) and e.width.value == WARP
            return e.arg is None or not whole or self._varies(e.arg)
        return e.kind not in ({*VOTES} - {"active"}) | ({*MATCHES} - {"match_any"}) | {*WARP_REDUCTIONS}

    # ------------------------------------------------------------------------------------------------- statements

    def stmt(self, s: Stmt, divergent: bool) -> tuple[bool, bool]:
        out = super().stmt(s, divergent)
        if isinstance(s, Break | Continue) and self.loops:
            jumps = self.loops[-1].exits if isinstance(s, Break) else self.loops[-1].backs
            jumps.append(set(self.now))
        if isinstance(s, Break | Continue | Return):
            self.reachable = False
        return out

    def branch(self, s: If, inside: bool) -> tuple[bool, bool]:
        before, was_reachable = set(self.now), self.reachable
        self.under[id(s)] = frozenset(before)
        a = self.body(s.then, inside)
        then, then_reachable = self.now, self.reachable
        self.now, self.reachable = before, was_reachable
        b = self.body(s.orelse, inside)
        if then_reachable:
            self.now = self.now | then if self.reachable else then
        self.reachable = self.reachable or then_reachable
        return a[0] or b[0], a[1] or b[1]

    def loop(self, s: For | While, cond: Expr, divergent: bool) -> None:
        """``Flow.stmt`` has defined the variable of a ``for`` with the facts of its start and step as they are here."""
        post = isinstance(s, While) and s.post
        head = self.heads.setdefault(id(s), set())
        self.now |= head
        jumps = _Loop()
        entry = set(self.now)
        inside = divergent or id(s) in self.left_early or (not post and self._rounds_differ(s, cond))
        self.loops.append(jumps)
        _, breaks = self.body(s.body, inside)
        self.loops.pop()
        ends = [*jumps.backs, *([self.now] if self.reachable else [])]
        self.now = set().union(*ends) if ends else set(entry)
        if isinstance(s, For):
            self.define(s.var, s.var in self.now or self.varies(s.step))
        breaks = breaks or (post and self.diverges(cond))
        if breaks and id(s) not in self.left_early:
            self.left_early.add(id(s))
            self.changed = True
        if not self.now <= head:
            head |= self.now
            self.changed = True
        self.now = (self.now if post else entry | self.now).union(*jumps.exits)
        self.reachable = True
