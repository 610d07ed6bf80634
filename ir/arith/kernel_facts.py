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
from collections.abc import Callable, Iterator

from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Binary, Body, Const, Decl, Expr, For, HwIndex, Knob, Stmt, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.support.time_limits import checkpoint
from ktc.ir.types import Scalar
from ktc.ir.walk import walk_expr

from .algebra import Memo, value
from .congruence import Congruence
from .decided_comparisons import compared, refuted
from .divisors import divides, residue
from .elimination import STEPS, Elimination
from .enclosures import Congruences, Intervals, is_integer
from .exact_polynomials import exact_polynomial, plain, without_wrapping
from .interval import Interval
from .interval_operators import BINARY, DECIDED, truth_of
from .known_symbols import is_settled, symbols_of
from .launch_values import EXTENT_OF, index_interval, knob_interval, knob_residue, launched_extent
from .learning import learn, learn_below_zero
from .loop_counters import falls, rises
from .polynomial import Polynomial, constant, minus, plus, scaled
from .trust import ANY_LAUNCH, Trust
from .variable_ranges import VariableRanges
from .visiting import Places, visited


class Facts:
    """What is known of the integers of ``kernel``, as far as ``trust`` goes."""

    def __init__(self, kernel: Kernel, trust: Trust = ANY_LAUNCH, effort: int = STEPS) -> None:
        """``effort``: polynomials that one proof looks at."""
        self.kernel = kernel
        self.effort = effort
        self.trust = trust
        self.symbols = symbols_of(kernel)
        self.conditions: tuple[Polynomial, ...] = ()
        """Polynomials that are never positive here."""
        self.residues: tuple[tuple[Polynomial, Congruence], ...] = ()
        """What polynomials leave when they are divided, here."""
        self.multiples: tuple[tuple[Polynomial, Polynomial], ...] = ()
        """Polynomials, each with one of one term that divides it, which is no number."""
        self.equal_to: dict[Sym, Polynomial] = {}
        self._intervals: dict[Expr, Interval] = {}
        self._residues: dict[Expr, Congruence] = {}
        self._kinds: frozenset[object] = frozenset({Var})
        self._places: Places[Facts] | None = None
        self._settled: dict[int, tuple[Expr, bool]] = {}
        self._ranks: dict[int, tuple[Expr, tuple[float, int]]] = {}
        self._variables = VariableRanges(self)
        self._forget()
        self._answer_for_itself()
        for p in kernel.params:
            self._declare(p)
        self._variables.facts = self._copy()
        for a in kernel.assumptions:
            if trust.parameters and a.origin in trust.origins:
                learn(a.expr, True, self)

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
        return found if found is not None else compared(condition, self)

    def never(self, condition: Expr) -> bool:
        """Whether ``condition`` is shown to be false, for less than :meth:`truth`."""
        found = truth_of(self.interval(condition)) if is_integer(condition.type) else None
        return not found if found is not None else refuted(condition, self)

    def never_negative(self, e: Expr) -> bool:
        if self.interval(e).never_negative:
            return True
        return self.whole(e) and self.never_positive(scaled(self.polynomial(e), -1))

    def never_positive(self, p: Polynomial) -> bool:
        """Whether ``p <= 0`` is shown."""
        key = frozenset(p.items())
        if key not in self._shown:
            self._shown[key] = Elimination(self, self.effort).never_positive(p)
        return self._shown[key]

    def multiple_of(self, e: Expr, n: int) -> bool:
        """Whether ``n`` divides ``e``."""
        if self.congruence(e).multiple_of(n):
            return True
        return self.whole(e) and residue(self.polynomial(e), self).multiple_of(n)

    def divides(self, by: Expr, e: Expr) -> bool:
        """Whether ``by``, which need not be a number, divides ``e``."""
        n = self.interval(by).constant if is_integer(by.type) else None
        if n is not None:
            return n != 0 and self.multiple_of(e, n)
        if not self.whole(e) or not self.whole(by):
            return False
        return divides(self.polynomial(by), self.polynomial(e), self)

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
        return self.never_positive(plus(minus(self.polynomial(a), self.polynomial(b)), constant(by)))

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
        found = self._settled.get(id(e))
        if found is None:
            found = self._settled[id(e)] = (e, is_integer(e.type) and is_settled(e))
        return found[1]

    def plain(self, e: Expr) -> Expr:
        """``e`` without conversions that are shown to change no value, anywhere in it."""
        return plain(e, self)

    def polynomial(self, e: Expr) -> Polynomial:
        """``e`` as a polynomial over atoms that is the same number; names are replaced by what they stand for."""
        found = self._polynomials.get(id(e))
        if found is None:
            self._polynomials[id(e)] = (e, {(e,): 1})  # for proofs on the way that ask for it
            found = self._polynomials[id(e)] = (e, exact_polynomial(e, self))
        return found[1]

    # --------------------------------------------------------------------------------------------------------- places

    def under(self, condition: Expr, holds: bool = True) -> Facts:
        """These facts, and that ``condition`` comes out as ``holds``."""
        there = self._copy()
        learn(condition, holds, there)
        return there

    def trusting(self, trust: Trust) -> Facts:
        """These facts, for questions that rest on ``trust``."""
        there = self._copy()
        there.trust = trust
        there._forget()
        there._answer_for_itself()
        return there

    def within(self, effort: int) -> Facts:
        """These facts, for proofs that look at ``effort`` polynomials."""
        there = self._copy()
        there.effort = effort
        there._forget_proofs()
        return there

    def inside(self, loop: Stmt) -> Facts:
        """These facts, and what holds in the body of ``loop``, of whatever kind."""
        there = self._copy()
        if isinstance(loop, For) and loop.var in self.symbols.loops:
            learn(loop.cond, True, there)
            if self.symbols.steady(loop.init):
                first, now = there.polynomial(loop.init), there.polynomial(Var(loop.var))
                if rises(loop, self):
                    learn_below_zero(minus(first, now), there)
                elif falls(loop, self):
                    learn_below_zero(minus(now, first), there)
        return there

    def naming(self, s: Decl) -> Facts:
        """These facts, and what they say of the variable that ``s`` declares, if it never changes."""
        if s.sym not in self.symbols.values or s.init is None:
            return self
        within = self.interval(s.init).wrapped(_scalar(s.sym))
        if self.interval(Var(s.sym)).within(within):
            return self
        there = self._copy()
        there.narrow(Var(s.sym), within)
        return there

    def visit(self, body: Body, asked: Callable[[Body], bool] = bool) -> Iterator[tuple[Stmt, Facts]]:
        """Every statement of ``body`` in source order, with the facts that hold where it begins; of nested lists, those
        that are ``asked`` about."""
        return visited(body, self, asked)

    def at(self, place: Stmt) -> Facts:
        """The facts that hold where ``place``, a statement of the kernel, begins."""
        if self._places is None:
            self._places = Places(self.kernel.body, self)
        return self._places.at(place)

    # ----------------------------------------------------------------------------------------- what is known of atoms

    def bounds(self, atom: Expr, upper: bool) -> Iterator[Polynomial]:
        """Polynomials that ``atom`` is never above (below, unless ``upper``)."""
        if isinstance(atom, Var) and not isinstance(loop := self.symbols.loops.get(atom.sym), For | None):
            end = loop.hi if upper else loop.lo
            if self.symbols.steady(end):
                yield plus(self.polynomial(end), constant(-1 if upper else 0))
        if isinstance(atom, HwIndex) and upper and atom.level in EXTENT_OF:
            extent = HwIndex(EXTENT_OF[atom.level], atom.axis)
            yield plus(self.extent(extent) or {(extent,): 1}, constant(-1))

    def extent(self, e: HwIndex) -> Polynomial | None:
        """What the kernel's launch says that ``e``, the size of a block or a grid, is, if that is trusted."""
        said = launched_extent(e, self)
        return None if said is None else self.polynomial(said)

    def rank(self, atom: Expr) -> tuple[float, int]:
        """How far inside an atom is: what is declared last goes first, hardware indices before parameters."""
        found = self._ranks.get(id(atom))
        if found is None:
            ranks, below = self.symbols.rank, list(walk_expr(atom))
            own = [float(ranks.get(x.sym, -1)) for x in below if isinstance(x, Var)]
            own += [len(self.kernel.params) - 0.5 for x in below if isinstance(x, HwIndex)]
            found = self._ranks[id(atom)] = (atom, (max(own, default=-1.0), len(below)))
        return found[1]

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

    def narrow(self, e: Expr, to: Interval) -> None:
        """Learn that ``e`` lies in ``to``."""
        before = self.interval(e)
        met = before.meet(to)
        if met.is_empty or isinstance(e, Const):  # this place is never reached
            return
        is_new = met != before or (met.constant is not None and self._own_interval(e) != met)
        self._intervals = {**self._intervals, e: met}
        self._kinds |= {_kind(e)}
        if is_new:
            self._forget()

    def divide(self, e: Expr, left: Congruence) -> None:
        """Learn what ``e`` leaves when it is divided."""
        self._residues = {**self._residues, e: (self._own_residue(e) or Congruence()).meet(left)}
        self.residues = (*self.residues, (self.polynomial(e), left))
        self._kinds |= {_kind(e)}
        self._forget_proofs()

    def divide_by(self, e: Expr, by: Expr) -> None:
        """Learn that ``by``, which is no number, divides ``e``."""
        self.multiples = (*self.multiples, (self.polynomial(e), self.polynomial(by)))
        self._forget_proofs()

    def replace(self, s: Sym, p: Polynomial) -> None:
        """Learn that ``s`` is ``p``, which does not mention it."""
        self.equal_to = {**self.equal_to, s: p}
        self._forget_proofs()

    def never_above_zero(self, p: Polynomial) -> None:
        """Learn that ``p <= 0``."""
        self.conditions = (*self.conditions, p)
        self._forget_proofs()

    # ------------------------------------------------------------------------------------------------------- internals

    def _known_interval(self, e: Expr) -> Interval | None:
        if isinstance(e, HwIndex):
            own = index_interval(e, self)
            more = self._intervals.get(e)
            return own if more is None else own.meet(more)
        if isinstance(e, Knob):
            return knob_interval(e, self)
        return self._own_interval(e) if _kind(e) in self._kinds else None

    def _own_interval(self, e: Expr) -> Interval | None:
        found = self._intervals.get(e)
        return self._variables.interval(e.sym) if found is None and isinstance(e, Var) else found

    def _known_residue(self, e: Expr) -> Congruence | None:
        if isinstance(e, Knob):
            return knob_residue(e, self)
        if _kind(e) not in self._kinds:
            return None
        within = self._own_interval(e)
        n = None if within is None else within.constant
        return Congruence.point(n) if n is not None else self._own_residue(e)

    def _own_residue(self, e: Expr) -> Congruence | None:
        found = self._residues.get(e)
        return self._variables.residue(e.sym) if found is None and isinstance(e, Var) else found

    def _copy(self) -> Facts:
        checkpoint()
        there = copy.copy(self)
        there._places = None
        if self._variables.is_asked:  # what ``there`` says of a variable is not all that becomes known of it
            there._ranges = dict(self._ranges)
            there._forget_proofs()
        there._answer_for_itself()
        return there

    def _forget(self) -> None:
        """No answers from before count; of those there are, :meth:`_copy` shares them until one side learns more."""
        self._ranges: Memo = {}
        self._forget_proofs()

    def _forget_proofs(self) -> None:
        """No answers from before count but intervals, which rest on no conditions."""
        self._left_over: Memo = {}
        self.smallest: set[Expr] = set()
        """Expressions that these facts make no smaller."""
        self._shown: dict[frozenset[tuple[tuple[Expr, ...], int]], bool] = {}
        self._polynomials: dict[int, tuple[Expr, Polynomial]] = {}

    def _answer_for_itself(self) -> None:
        self._enclosing = Intervals(self.trust, self._known_interval)
        self._dividing = Congruences(self.exact, self._known_residue, lambda c: truth_of(self.interval(c)))


@by_identity(8)
def facts_of(kernel: Kernel, trust: Trust) -> Facts:
    """The facts of ``kernel``, for all who ask about it."""
    return Facts(kernel, trust)


def _kind(e: Expr) -> object:
    """What is to be equal before two expressions are compared."""
    return e.op if isinstance(e, Binary) else type(e)


def _scalar(s: Sym) -> Scalar:
    assert isinstance(s.type, Scalar)
    return s.type


__all__ = ["Facts", "facts_of"]
