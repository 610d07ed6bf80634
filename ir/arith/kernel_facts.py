"""What is known of a kernel's integers, and proofs from it: bounds, divisors, comparisons, equality.

    facts = Facts(kernel, REWRITES)
    facts.interval(index)                       # 0..1048575
    facts.under(guard).truth(condition)         # True, False, or None: not known
    for s, here in facts.visit(kernel.body): ...

Every answer is a proof under what its :class:`~.trust.Trust` assumes, or "not known". A fact holds wherever its
variables are in scope; what a guard or a loop adds holds inside of it (:meth:`Facts.under`, :mod:`.visiting`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from math import gcd

from ktc.ir.analysis.polynomial import Polynomial, constant, minus, plus, scaled
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Binary, Body, Const, Decl, Expr, For, HwIndex, Knob, Stmt, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import walk, walk_expr

from .algebra import Memo, value
from .condition_parts import MIRRORED, parts
from .congruence import BINARY as CONGRUENT
from .congruence import Congruence
from .elimination import Elimination, atoms, interval_of, split_by
from .enclosures import Congruences, Intervals, is_integer, type_interval
from .exact_polynomials import exact_polynomial, plain, without_wrapping
from .interval import BINARY, DECIDED, Interval, truth_of
from .known_symbols import Loop, Symbols, counted_up, is_settled
from .trust import ANY_LAUNCH, Trust

_EXTENTS = {"thread": "block_dim", "block": "grid_dim"}
"""The hardware index that another one is below."""


class Facts:
    """What is known of the integers of ``kernel``, as far as ``trust`` goes."""

    def __init__(self, kernel: Kernel, trust: Trust = ANY_LAUNCH) -> None:
        self.kernel = kernel
        self.trust = trust
        self.symbols = Symbols.of(kernel)
        self.conditions: tuple[Polynomial, ...] = ()
        """Polynomials that are never positive here."""
        self.equal_to: dict[Sym, Polynomial] = {}
        self._intervals: dict[Expr, Interval] = {}
        self._residues: dict[Expr, Congruence] = {}
        self._places: dict[int, Facts] | None = None
        self._forget()
        for p in kernel.params:
            self._declare(p)
        self._count_and_name(kernel.body)
        for a in kernel.assumptions:
            if trust.parameters and a.origin in trust.origins:
                self._learn_all(a.expr, True)

    # ------------------------------------------------------------------------------------------------------ questions

    def interval(self, e: Expr, at: Stmt | None = None) -> Interval:
        """What ``e`` lies in: anywhere in the scope of its variables, or ``at`` a statement of the kernel."""
        if at is not None:
            return self.at(at).interval(e)
        return value(e, self._enclosing, self._ranges)

    def raw(self, e: Expr) -> Interval:
        """What the outermost operator of ``e`` gives, before it is brought to its type."""
        if isinstance(e, Binary):
            return self._enclosing.raw(e, self.interval(e.a), self.interval(e.b))
        return self.interval(e)

    def congruence(self, e: Expr) -> Congruence:
        """What ``e`` leaves when it is divided."""
        n = self.interval(e).constant if is_integer(e.type) else None
        return Congruence.point(n) if n is not None else value(e, self._dividing, self._left_over)

    def truth(self, condition: Expr) -> bool | None:
        """How ``condition`` comes out, if it always comes out alike."""
        found = truth_of(self.interval(condition)) if is_integer(condition.type) else None
        return found if found is not None else self._compared(condition)

    def never_negative(self, e: Expr) -> bool:
        if self.interval(e).never_negative:
            return True
        return self.whole(e) and self._shown(scaled(self.polynomial(e), -1))

    def multiple_of(self, e: Expr, n: int) -> bool:
        """Whether ``n`` divides ``e``."""
        if self.congruence(e).multiple_of(n):
            return True
        return self.whole(e) and self._residue_of(self.polynomial(e)).multiple_of(n)

    def below(self, a: Expr, b: Expr) -> bool:
        """Whether ``a < b``, as numbers, whatever their types are."""
        return self.at_most(a, b, by=1)

    def at_most(self, a: Expr, b: Expr, by: int = 0) -> bool:
        """Whether ``a + by <= b``, as numbers, whatever their types are."""
        if not self.whole(a) or not self.whole(b):
            return False
        raised = BINARY["+"](self.interval(a), Interval.point(by))
        if DECIDED["<="](raised, self.interval(b)) is not None:
            return bool(DECIDED["<="](raised, self.interval(b)))
        return self._shown(plus(minus(self.polynomial(a), self.polynomial(b)), constant(by)))

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether ``a`` and ``b`` are one number, whatever their types are."""
        if not self.whole(a) or not self.whole(b):
            return False
        n = self.interval(a).constant
        return (n is not None and n == self.interval(b).constant) or self.polynomial(a) == self.polynomial(b)

    def exact(self, e: Expr) -> bool:
        """Whether the outermost operator of ``e`` gives the number that it would without a type."""
        return without_wrapping(e, self)

    def whole(self, e: Expr) -> bool:
        """Whether ``e`` is an integer that is the same number each time it is computed in one place."""
        return is_integer(e.type) and is_settled(e)

    def plain(self, e: Expr) -> Expr:
        """``e`` without conversions that are shown to change no value, anywhere in it."""
        return plain(e, self)

    def polynomial(self, e: Expr) -> Polynomial:
        """``e`` as a polynomial over atoms that is the same number; names are replaced by what they stand for."""
        found = self._polynomials.get(id(e))
        if found is None:
            found = self._polynomials[id(e)] = (e, exact_polynomial(e, self))
        return found[1]

    # --------------------------------------------------------------------------------------------------------- places

    def under(self, condition: Expr, holds: bool = True) -> Facts:
        """These facts, and that ``condition`` comes out as ``holds``."""
        there = self._copy()
        there._learn_all(condition, holds)
        return there

    def inside(self, loop: Stmt) -> Facts:
        """These facts, and what holds in the body of ``loop``, of whatever kind."""
        there = self._copy()
        if isinstance(loop, For) and loop.var in self.symbols.loops:
            there._learn_all(loop.cond, True)
            if self.symbols.steady(loop.init) and self._rises(loop):
                there._learn_below(minus(there.polynomial(loop.init), there.polynomial(Var(loop.var))))
        return there

    def naming(self, s: Decl) -> Facts:
        """These facts, and what they say of the variable that ``s`` declares, if it never changes."""
        if s.sym not in self.symbols.values or s.init is None:
            return self
        there = self._copy()
        there._narrow(Var(s.sym), self.interval(s.init).wrapped(_scalar(s.sym)))
        return there

    def visit(self, body: Body) -> Iterator[tuple[Stmt, Facts]]:
        """Every statement of ``body`` in source order, with the facts that hold where it begins."""
        from .visiting import visited

        return visited(body, self)

    def at(self, place: Stmt) -> Facts:
        """The facts that hold where ``place``, a statement of the kernel, begins."""
        if self._places is None:
            self._places = {id(s): here for s, here in self.visit(self.kernel.body)}
        return self._places.get(id(place), self)

    # ----------------------------------------------------------------------------------------- what is known of atoms

    def bounds(self, atom: Expr, upper: bool) -> Iterator[Polynomial]:
        """Polynomials that ``atom`` is never above (below, unless ``upper``)."""
        if isinstance(atom, Var) and not isinstance(loop := self.symbols.loops.get(atom.sym), For | None):
            end = loop.hi if upper else loop.lo
            if self.symbols.steady(end):
                yield plus(self.polynomial(end), constant(-1 if upper else 0))
        if isinstance(atom, HwIndex) and upper and atom.level in _EXTENTS:
            extent = HwIndex(_EXTENTS[atom.level], atom.axis)
            yield plus(self.extent(extent) or {(extent,): 1}, constant(-1))

    def extent(self, e: HwIndex) -> Polynomial | None:
        """What the kernel's launch says that ``e``, the size of a block or a grid, is, if that is trusted."""
        said = self._launched(e)
        return None if said is None else self.polynomial(said)

    def rank(self, atom: Expr) -> tuple[int, int]:
        """How far inside an atom is: what is declared last goes first."""
        ranks = self.symbols.rank
        below = list(walk_expr(atom))
        return max((ranks.get(x.sym, 0) + 1 for x in below if isinstance(x, Var)), default=0), len(below)

    # -------------------------------------------------------------------------------------------------------- learning

    def _declare(self, p: Param) -> None:
        t, said = p.sym.type, dict(p.origins)
        if not isinstance(t, Scalar) or not t.is_int or p.sym in self.symbols.changing or not self.trust.parameters:
            return
        if said.get("range", "declared") in self.trust.origins:
            within = Interval(*p.range).meet(Interval.of_type(t))
            self._intervals[Var(p.sym)] = Interval.of_type(t) if within.is_empty else within
        if said.get("divisible_by", "declared") in self.trust.origins:
            self._residues[Var(p.sym)] = Congruence(abs(p.divisible_by), 0)

    def _count_and_name(self, body: Body) -> None:
        """Variables in the order of their declaration, which is that in which they depend on each other."""
        for s in walk(body):
            if isinstance(s, Decl) and s.sym in self.symbols.values and s.init is not None:
                v = Var(s.sym)
                self._intervals[v] = self.interval(s.init).wrapped(_scalar(s.sym))
                if self.interval(s.init).fits(_scalar(s.sym)):
                    self._residues[v] = self.congruence(s.init)
            elif isinstance(s, Loop) and s.var in self.symbols.loops:
                loop, var = s, s.var
                self._intervals[Var(var)] = self._counter(loop)
                step = counted_up(loop) if isinstance(loop, For) else None
                if isinstance(loop, For) and step is not None and step[0] == "+" and self._rises(loop):
                    first = self.congruence(loop.init)
                    self._residues[Var(var)] = first.join(CONGRUENT["+"](first, self.congruence(step[1])))
        self._forget()

    def _counter(self, loop: Loop) -> Interval:
        """What the counter of ``loop`` lies in, in its condition and its step too."""
        whole = type_interval(loop.var.type)
        if not isinstance(loop, For):
            low, high = self.interval(loop.lo).low, self.interval(loop.hi).high
            inside = whole.meet(Interval(low, None if high is None else high - 1))
            return whole if inside.is_empty else inside
        first, step = self.interval(loop.init), counted_up(loop)
        if step is None:
            return whole
        op, by = step[0], self.interval(step[1])
        if op in ("/", ">>") and first.never_negative and (by.positive or (op == ">>" and by.never_negative)):
            return Interval(0, first.high)
        inside = self._copy_with(loop.cond).interval(Var(loop.var))
        next_one = BINARY[op](inside, by) if op in ("+", "-", "*") else None
        if next_one is None:
            return whole
        if not next_one.within(whole) and not (self.trust.no_overflow and _scalar(loop.var).is_signed):
            return whole
        ever = first.join(next_one).meet(whole)
        if (op == "+" and by.never_negative) or (op == "*" and by.positive and first.never_negative):
            return ever.meet(Interval(first.low, None))
        if (op == "-" and by.never_negative) or (op == "+" and by.high is not None and by.high <= 0):
            return ever.meet(Interval(None, first.high))
        return whole.meet(Interval(0, None)) if op == "*" and by.never_negative and first.never_negative else whole

    def _rises(self, loop: For) -> bool:
        """Whether no round of ``loop`` has a smaller counter than the first: steps are not negative, and none wraps."""
        step = counted_up(loop)
        if step is None or step[0] != "+" or not self.interval(step[1]).never_negative:
            return False
        t = _scalar(loop.var)
        if t.is_signed and t.bits >= 32 and self.trust.no_overflow:
            return True
        inside = self._copy_with(loop.cond).interval(Var(loop.var))
        return BINARY["+"](inside, self.interval(step[1])).fits(t)

    def _copy_with(self, condition: Expr) -> Facts:
        there = self._copy()
        there._learn_all(condition, True)
        return there

    def _learn_all(self, condition: Expr, holds: bool) -> None:
        for c in parts(condition, holds, self.symbols.names):
            if self.symbols.steady(c):
                self._learn(c)

    def _learn(self, c: Expr) -> None:
        self._narrow(c, Interval.point(1))
        if not isinstance(c, Binary) or c.op not in MIRRORED:
            return
        for op, a, b in ((c.op, c.a, c.b), (MIRRORED[c.op], c.b, c.a)):
            self._narrow_side(op, a, b)
        p, q = self.polynomial(c.a), self.polynomial(c.b)
        if c.op in ("<", "<=", "=="):
            self._learn_below(plus(minus(p, q), constant(int(c.op == "<"))))
        if c.op in (">", ">=", "=="):
            self._learn_below(plus(minus(q, p), constant(int(c.op == ">"))))
        if c.op == "==":
            self._learn_equal(c)

    def _narrow_side(self, op: str, a: Expr, b: Expr) -> None:
        """``a op b`` as it narrows the interval of ``a``."""
        mine, other = self.interval(a), self.interval(b)
        limits = {
            "<": Interval(None, None if other.high is None else other.high - 1), "<=": Interval(None, other.high),
            ">": Interval(None if other.low is None else other.low + 1, None), ">=": Interval(other.low, None),
            "==": other,
        }  # fmt: skip
        n = other.constant
        if op == "!=" and n is not None and n in (mine.low, mine.high):
            limits["!="] = Interval(n + 1, None) if n == mine.low else Interval(None, n - 1)
        if op in limits and not isinstance(a, Const):
            self._narrow(self.plain(a), limits[op])

    def _learn_below(self, q: Polynomial) -> None:
        """``q <= 0``, and how that narrows what it is made of."""
        if not atoms(q):
            return
        self.conditions = (*self.conditions, q)
        for atom in atoms(q):
            split = split_by(q, atom)
            k = split[0].get((), 0) if split is not None and set(split[0]) == {()} else 0
            least = interval_of(split[1], self).low if split is not None and k else None
            if least is not None:  # k * atom <= -least
                self._narrow(atom, Interval(None, -least // k) if k > 0 else Interval(-(least // k), None))
        self._forget()

    def _learn_equal(self, c: Binary) -> None:
        for a, b in ((c.a, c.b), (c.b, c.a)):
            n = self.interval(b).constant
            x = self.plain(a)
            if n is not None and isinstance(x, Binary) and x.op == "%" and self.interval(x.b).constant:
                self._divides(x, n)
            elif isinstance(x, Var) and set(self.polynomial(x)) == {(x,)}:
                p = self.polynomial(b)
                if all(x not in set(walk_expr(atom)) for atom in atoms(p)):
                    self.equal_to = {**self.equal_to, x.sym: p}
                    self._forget()
                    return

    def _divides(self, x: Binary, left: int) -> None:
        """``x.a % x.b == left``."""
        n = abs(self.interval(x.b).constant or 0)
        for e in (x.a, self.plain(x.a)):
            known = self._residues.get(e, Congruence())
            self._residues = {**self._residues, e: known.meet(Congruence(n, left))}
        self._forget()

    def _narrow(self, e: Expr, to: Interval) -> None:
        met = self.interval(e).meet(to)
        if not met.is_empty and not isinstance(e, Const):  # else this place is never reached
            self._intervals = {**self._intervals, e: met}
            self._forget()

    # ------------------------------------------------------------------------------------------------------- internals

    def _known_interval(self, e: Expr) -> Interval | None:
        if isinstance(e, HwIndex):
            own = self._of_index(e)
            more = self._intervals.get(e)
            return own if more is None else own.meet(more)
        if isinstance(e, Knob):
            return self._of_knob(e)
        if not self._intervals:
            return None
        return self._intervals.get(e)

    def _of_index(self, e: HwIndex) -> Interval:
        t = self.trust
        blocks = t.grid_blocks if t.threads is None else min(t.grid_blocks, t.threads)
        limits = {
            "thread": Interval(0, t.block_threads - 1), "block_dim": Interval(1, t.block_threads),
            "block": Interval(0, blocks - 1), "grid_dim": Interval(1, blocks),
        }  # fmt: skip
        extent = self._launched(HwIndex(_EXTENTS.get(e.level, e.level), e.axis))
        found = None if extent is None else self.interval(extent)
        if found is None or e.level not in limits:
            return limits.get(e.level, type_interval(e.type))
        below = Interval(0, None if found.high is None else found.high - 1) if e.level in _EXTENTS else found
        met = limits[e.level].meet(below)
        return limits[e.level] if met.is_empty else met

    def _launched(self, e: HwIndex) -> Expr | None:
        launch = self.kernel.launch if self.trust.launch else None
        if launch is None:
            return None
        sizes = launch.block if e.level == "block_dim" else launch.grid
        return sizes["xyz".index(e.axis)]

    def _of_knob(self, e: Knob) -> Interval:
        for k in self.kernel.knobs:
            if k.name == e.name:
                values = [*k.domain, k.default, *([] if k.value is None else [k.value])]
                return Interval(min(values), max(values))
        return type_interval(e.type)

    def _known_residue(self, e: Expr) -> Congruence | None:
        if isinstance(e, Knob):
            found: Congruence | None = None
            for k in self.kernel.knobs:
                for v in (*k.domain, k.default, k.default if k.value is None else k.value) if k.name == e.name else ():
                    found = Congruence.point(v) if found is None else found.join(Congruence.point(v))
            return found
        known = self._residues.get(e) if self._residues else None
        n = self._intervals[e].constant if e in self._intervals else None
        return Congruence.point(n) if n is not None else known

    def _residue_of(self, p: Polynomial) -> Congruence:
        out = Congruence.point(0)
        for factors, k in p.items():
            term = Congruence.point(k)
            for a in factors:
                term = CONGRUENT["*"](term, self.congruence(a))
            out = CONGRUENT["+"](out, term)
        return out

    def _compared(self, e: Expr) -> bool | None:
        """A comparison that polynomials decide."""
        if not isinstance(e, Binary) or e.op not in MIRRORED or not is_integer(e.a.type):
            return None
        if e.op in ("==", "!="):
            same = True if self.equal(e.a, e.b) else False if self._differ(e.a, e.b) else None
            return same if same is None or e.op == "==" else not same
        a, b = (e.a, e.b) if e.op in ("<", "<=") else (e.b, e.a)
        strict = int(e.op in ("<", ">"))
        if self.at_most(a, b, by=strict):
            return True
        return False if self.at_most(b, a, by=1 - strict) else None

    def _differ(self, a: Expr, b: Expr) -> bool:
        x, y = self.congruence(a), self.congruence(b)
        apart = y.residue not in Congruence(gcd(x.modulus, y.modulus), x.residue)
        return apart or self.below(a, b) or self.below(b, a)

    def _shown(self, p: Polynomial) -> bool:
        return Elimination(self).never_positive(p)

    def _copy(self) -> Facts:
        there = copy.copy(self)
        there._places = None
        there._forget()
        return there

    def _forget(self) -> None:
        self._ranges: Memo = {}
        self._left_over: Memo = {}
        self._polynomials: dict[int, tuple[Expr, Polynomial]] = {}
        self._enclosing = Intervals(self.trust, self._known_interval)
        self._dividing = Congruences(self.exact, self._known_residue, lambda c: truth_of(self.interval(c)))


def _scalar(s: Sym) -> Scalar:
    assert isinstance(s.type, Scalar)
    return s.type


__all__ = ["Facts"]
