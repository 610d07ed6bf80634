"""Index arithmetic and guards as formulas: equal for every size, or not. z3 answers.

Integers are unbounded here: of signed ones a program may not rely on more, and that unsigned arithmetic stays within
its type is proved first. What is not integer arithmetic (a value that was loaded, a variable that changes) is an
unknown, the same one for the same expression.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import (
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Launched,
    Load,
    Return,
    Select,
    Stmt,
    Sym,
    Unary,
    Var,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import BOOL, Array, Scalar
from ktc.ir.walk import assigned, substitute_expr, walk_expr

from .formulas import ARITHMETIC, BITS, CALLS, COMPARE, SHIFTS, divisor, increment, widens
from .intervals import Scope, is_whole
from .ranges import Interval, everywhere, values

WORK, TIMEOUT_MS = 30_000_000, 60_000
"""What a question may cost: in the solver's own count, some three seconds of an idle core, so that an answer does not
hang on how busy the machine is; and a time after which something is wrong with it."""
WRAPPING = ("+", "-", "*", "<<")
"""Operators of which the result may be beyond the type of the operands."""

INDEX = {"thread": "block_dim", "block": "grid_dim"}


@dataclass
class Context:
    """What holds where: facts about parameters and launch, then definitions and guards on the way to a statement."""

    kernel: Kernel
    facts: list[Any] = field(default_factory=list)
    unknown: dict[Any, Any] = field(default_factory=dict)
    changed: set[Sym] = field(default_factory=set)
    elements: dict[Sym, Interval] = field(default_factory=dict)
    """Between which values every element of a kernel's own array is."""
    extents: Mapping[Sym, Expr] = field(default_factory=dict)
    """How many elements buffers have that are read alone, where that is promised."""
    plain: Scope = field(init=False)
    """What intervals know at every place."""

    def __post_init__(self) -> None:
        self.changed = {s for s in assigned(self.kernel.body) if isinstance(s.type, Scalar)}
        promised = {p.sym.name: p.range for p in self.kernel.params if None not in p.range}
        self.plain = everywhere(self.kernel, promised)  # type: ignore[arg-type]
        for p in self.kernel.params:
            if isinstance(p.sym.type, Scalar) and p.sym.type.is_int:
                v, (low, high) = self.of(Var(p.sym)), p.range
                self.facts += [v >= low] if low is not None else []
                self.facts += [v <= high] if high is not None else []
                self.facts += [v % p.divisible_by == 0] if p.divisible_by > 1 else []
        if self.kernel.launch is not None:
            self._launched(self.kernel.launch)
        for a in self.kernel.assumptions:
            self.facts.append(self.truth(a.expr))
        for sym, (low, high) in values(self.kernel, promised).items():  # type: ignore[arg-type]
            if isinstance(sym.type, Array):
                self.elements[sym] = (low, high)
            else:
                self.facts += [self.of(Var(sym)) >= low, self.of(Var(sym)) <= high]

    def of(self, e: Expr) -> Any:
        """An integer expression as a term."""
        import z3

        if isinstance(e, Const) and not isinstance(e.value, float):
            return z3.IntVal(int(e.value))
        if isinstance(e, Knob):
            return z3.IntVal(self.kernel.knob_values[e.name])
        if isinstance(e, Cast) and is_whole(e.to) and is_whole(e.x.type):
            return self.of(e.x) if widens(e) or self.fits(e.x, e.to) else self._fresh(e)
        if isinstance(e, Binary) and e.op in SHIFTS and isinstance(e.b, Const) and is_whole(e.type):
            return self._unwrapped(e, SHIFTS[e.op](self.of(e.a), 1 << int(e.b.value)))
        if isinstance(e, Binary) and e.op in ARITHMETIC and is_whole(e.type):
            return self._unwrapped(e, ARITHMETIC[e.op](self.of(e.a), self.of(e.b)))
        if isinstance(e, Binary) and e.op in BITS and is_whole(e.type):
            return self._bits(e)
        if isinstance(e, Unary) and e.op == "-":
            return self._unwrapped(e, -self.of(e.x))
        if isinstance(e, Select):
            return z3.If(self.truth(e.cond), self.of(e.a), self.of(e.b))
        if isinstance(e, Call) and e.fn in CALLS and is_whole(e.type):
            return CALLS[e.fn](*map(self.of, e.args))
        if isinstance(e, HwIndex):
            return self._index(e)
        return self._fresh(e)

    def _unwrapped(self, e: Binary | Unary, v: Any) -> Any:
        """``v``, the value of ``e`` among unbounded integers; an unknown where it may be another one: ``x - 1`` of an
        unsigned zero is the largest there is."""
        t = e.type
        if not isinstance(t, Scalar) or t.is_signed or e.op not in WRAPPING or self.plain.of(e) is not None:
            return v
        return v if self.proves(_and(v >= 0, v < 1 << t.bits)) else self._fresh(e)

    def truth(self, e: Expr) -> Any:
        """A condition as a formula."""
        import z3

        if isinstance(e, Const):
            return z3.BoolVal(bool(e.value))
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            return (z3.And if e.op == "&&" else z3.Or)(self.truth(e.a), self.truth(e.b))
        if isinstance(e, Unary) and e.op == "!":
            return z3.Not(self.truth(e.x))
        if isinstance(e, Binary) and e.op in COMPARE and is_whole(e.a.type):
            return COMPARE[e.op](self.of(e.a), self.of(e.b))
        return self._fresh(e) != 0

    def enter(self, s: Stmt, branch: str) -> None:
        """Facts inside a branch or loop body of ``s``, or inside the launch that it is."""
        import z3

        if isinstance(s, Launched):
            self._launched(s)
        if isinstance(s, If) and self.lasting(s.cond):
            self.facts.append(self.truth(s.cond) if branch == "then" else z3.Not(self.truth(s.cond)))
        if isinstance(s, For) and branch == "body":
            steady = all(self.lasting(substitute_expr(e, {s.var: s.init})) for e in (s.init, s.cond, s.step))
            once = steady and not isinstance(increment(s), Const) and self.at_most_once(s)
            self.count(s)
            if once:  # of unknown strides no solver would find that
                self.facts.append(self.of(Var(s.var)) == self.of(s.init))
            if self.lasting(s.cond):
                self.facts.append(self.truth(s.cond))

    def _launched(self, launch: Launch | Launched) -> None:
        """How many threads and blocks there are."""
        for level, extents in (("block_dim", launch.block), ("grid_dim", launch.grid)):
            for axis, e in zip("xyz", extents):
                self.facts.append(self.of(HwIndex(level, axis)) == self.of(e))

    def lasting(self, e: Expr) -> bool:
        """Whether what ``e`` says now is still so later: it reads no memory and no variable that changes."""
        return not any(
            (isinstance(x, Var) and x.sym in self.changed) or isinstance(x, Load | WarpOp) or _effect(x)
            for x in walk_expr(e)
        )

    def count(self, s: For) -> None:
        """The loop variable is its first value and some strides, as when the condition of ``s`` is asked."""
        import z3

        by = increment(s)
        if s.var in self.changed or not is_whole(s.var.type) or not self.lasting(s.init):
            return
        if divisor(s):  # it shrinks towards zero
            first = self.of(s.init)
            self.facts += [z3.Implies(first >= 0, z3.And(self.of(Var(s.var)) >= 0, self.of(Var(s.var)) <= first))]
        if by is None or not self.lasting(by):
            return
        if self.proves(self.of(by) > 0):
            rounds, first, stride = z3.FreshInt("rounds"), self.of(s.init), self.of(by)
            self.facts += [rounds >= 0, self.of(Var(s.var)) == first + rounds * stride]

    def after(self, s: Stmt) -> None:
        """Facts in the statements that follow ``s``."""
        import z3

        if isinstance(s, Decl) and s.init is not None and s.sym not in self.changed:
            if is_whole(s.sym.type) and self.lasting(s.init):
                self.facts.append(self.of(Var(s.sym)) == self.of(s.init))
            if s.sym.type == BOOL and self.lasting(s.init):
                self.facts.append(self.truth(Var(s.sym)) == self.truth(s.init))
            return
        if (
            isinstance(s, If)
            and not s.orelse
            and len(s.then) == 1
            and isinstance(s.then[0], Return)
            and self.lasting(s.cond)
        ):
            self.facts.append(z3.Not(self.truth(s.cond)))

    def _index(self, e: HwIndex) -> Any:
        v, extent = self._fresh(e), INDEX.get(e.level)
        bound = self._fresh(HwIndex(extent, e.axis)) if extent else None
        for fact in [v >= 0, *([v < bound] if extent else [])]:
            if not any(fact.eq(f) for f in self.facts):
                self.facts.append(fact)
        return v

    def _bits(self, e: Binary) -> Any:
        v = self._fresh(e)
        fact = BITS[e.op](v, self.of(e.a), self.of(e.b))
        if not any(fact.eq(f) for f in self.facts):
            self.facts.append(fact)
        return v

    def _fresh(self, e: Expr) -> Any:
        import z3

        if e not in self.unknown:
            v = self.unknown[e] = z3.Int(f"u{len(self.unknown)}")
            if isinstance(e, Load) and e.buffer in self.elements:
                low, high = self.elements[e.buffer]
                self.facts += [v >= low, v <= high]
        return self.unknown[e]

    def learn_ranges(self, names: Mapping[str, Interval]) -> None:
        """Adds what ``names`` says of the integers among the kernel's parameters."""
        for p in self.kernel.params:
            if p.sym.name in names and isinstance(p.sym.type, Scalar) and p.sym.type.is_int:
                v, (low, high) = self.of(Var(p.sym)), names[p.sym.name]
                self.facts += [v >= low, v <= high]

    def proves(self, goal: Any) -> bool:
        import z3

        solver = z3.Solver()
        solver.set("rlimit", WORK)
        solver.set("timeout", TIMEOUT_MS)
        solver.add(*self.facts, z3.Not(goal))
        return solver.check() == z3.unsat

    def always(self, e: Expr, holds: bool) -> bool:
        """Whether a condition always holds here (or never does); of ``min max``: whether the first operand (or the
        second one) is chosen; of ``% &``: whether it is left as it is; of ``/ >>``: whether nothing is."""
        import z3

        if isinstance(e, Call) and is_whole(e.type):
            return self.proves(self.of(e) == self.of(e.args[0 if holds else 1]))
        if isinstance(e, Binary) and e.op == "%":
            claim = self.of(e) == self.of(e.a)
        elif isinstance(e, Binary) and e.op in ("/", ">>"):
            claim = self.of(e) == 0
        elif isinstance(e, Binary) and e.op == "&":
            return False
        else:
            claim = self.truth(e)
        return self.proves(claim if holds else z3.Not(claim))

    def branch(self) -> Context:
        """A context that may learn more without this one knowing."""
        other = copy.copy(self)
        other.facts = list(self.facts)
        return other

    def impossible(self) -> bool:
        """Whether nothing satisfies the facts: this place is never reached."""
        import z3

        return self.proves(z3.BoolVal(False))

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two integer or boolean expressions have one value here."""
        if a.type != b.type:
            return False
        mine = set(walk_expr(a))
        new = [x for x in walk_expr(b) if x not in mine and isinstance(x, Binary) and is_whole(x.type)]
        if not all(self.fits(x, x.type) and self.divides(x) for x in new):
            return False
        if is_whole(a.type):
            return self.proves(self.of(a) == self.of(b))
        is_bool = isinstance(a.type, Scalar) and a.type.kind == "bool"
        return is_bool and self.proves(self.truth(a) == self.truth(b))

    def divides(self, e: Binary) -> bool:
        """Whether ``e`` has a value as far as division is concerned: nothing is divided by zero."""
        return e.op not in ("/", "%") or self.proves(self.of(e.b) != 0)

    def fits(self, e: Expr, t: Any) -> bool:
        """Whether the value of ``e`` is one of the type ``t`` here."""
        low, high = t.extremes
        v = self.of(e)
        return self.proves(_and(v >= low, v <= high))

    def at_most_once(self, s: For) -> bool:
        """Whether the body of ``s`` runs at most once: after its first round the condition fails."""
        import z3

        if s.var in self.changed and any(x == s.var for x in assigned(s.body)):
            return False
        first = substitute_expr(s.cond, {s.var: s.init})
        second = substitute_expr(s.cond, {s.var: substitute_expr(s.step, {s.var: s.init})})
        return self.proves(z3.Implies(self.truth(first), z3.Not(self.truth(second))))


def _effect(e: Expr) -> bool:
    return isinstance(e, Call) and e.effects != "pure"


def _and(*formulas: Any) -> Any:
    import z3

    return z3.And(*formulas)


__all__ = ["Context"]
