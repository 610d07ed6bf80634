"""Places of a kernel, whose facts are learnt when they are first asked for: most questions never come to a proof.

    for s, here in visited(kernel.body, Place(kernel, lambda: facts_of(kernel, REWRITES))):
        here.truth(guard)        # None at once, if guard holds in one state that arrives here, and not in another

A place has what :class:`~.kernel_facts.Facts` have to be walked with (:mod:`.visiting`), and the states of the kernel
(:mod:`.kernel_states`) that arrive at it: what is otherwise in one of them cannot be proven, and is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Decl, Expr, For, Stmt, Var
from ktc.ir.types import BOOL
from ktc.ir.walk import walk_expr

from .comparisons import parts
from .integer_casts import without_casts
from .kernel_states import Witness, difference, witnesses_of
from .known_symbols import Loop, Symbols, symbols_of

if TYPE_CHECKING:
    from .kernel_facts import Facts


class Place:
    """Where a statement of ``kernel`` begins, by the guards and the loops around it."""

    __slots__ = ("_arrival", "_before", "_facts", "_learn", "equates", "kernel", "symbols", "witnesses")

    def __init__(self, kernel: Kernel, facts: Callable[[], Facts], witnesses: Iterable[Witness] | None = None) -> None:
        """The place before the first statement; ``facts``: how they are learnt there."""
        self.kernel = kernel
        self.symbols = symbols_of(kernel)
        self.witnesses = witnesses_of(kernel) if witnesses is None else witnesses
        self.equates = any(map(_equates, (a.expr for a in kernel.assumptions)))  # something that may be an equality
        self._learn = facts
        self._facts: Facts | None = None
        self._before: tuple[Place, str, tuple[Any, ...]] | None = None
        self._arrival: _Arrival | None = None

    @staticmethod
    def of(facts: Facts) -> Place:
        """The place of ``facts`` themselves, at which every question is a proof."""
        return Place(facts.kernel, lambda: facts, ())

    @property
    def facts(self) -> Facts:
        """What is known here."""
        ahead: list[tuple[Place, str, tuple[Any, ...]]] = []
        place = self
        while place._facts is None and place._before is not None:
            ahead.append((place, *place._before[1:]))
            place = place._before[0]
        if place._facts is None:
            place._facts = place._learn()
        facts = place._facts
        for later, step, given in reversed(ahead):
            facts = later._facts = getattr(facts, step)(*given)
        return facts

    @property
    def everywhere(self) -> Facts:
        """What is known before the first statement."""
        place = self
        while place._before is not None:
            place = place._before[0]
        return place.facts

    # --------------------------------------------------------------------------------------------------------- walking

    def under(self, condition: Expr, holds: bool = True) -> Place:
        """This place, where ``condition`` came out as ``holds``."""
        place = self._after("under", condition, holds)
        place._arrival = _Arrival(self._arrival, self.symbols, condition, holds)
        place.equates = self.equates or _equates(condition)
        return place

    def inside(self, loop: Stmt) -> Place:
        """The body of ``loop``, of whatever kind."""
        place = self._after("inside", loop)
        if isinstance(loop, Loop) and loop.var in self.symbols.loops:
            place._arrival = _Arrival(self._arrival, self.symbols, Var(loop.var), None)
            place.equates = self.equates or (isinstance(loop, For) and _equates(loop.cond))
        return place

    def naming(self, s: Decl) -> Place:
        """The place after ``s``."""
        return self._after("naming", s) if s.sym in self.symbols.values and s.init is not None else self

    def _after(self, step: str, *given: Any) -> Place:
        place = Place.__new__(Place)
        place.kernel, place.symbols, place.witnesses = self.kernel, self.symbols, self.witnesses
        place.equates, place._arrival, place._learn = self.equates, self._arrival, self._learn
        place._before, place._facts = (self, step, given), None
        return place

    # ------------------------------------------------------------------------------------------------------- questions

    def states(self) -> Iterable[Witness]:
        """States of the kernel that arrive here."""
        return self.witnesses if self._arrival is None else self._arrival.states(self.witnesses)

    def arrives(self, w: Witness) -> bool:
        """Whether the state ``w`` is one of those that arrive here."""
        return self._arrival is None or self._arrival.reached_in(w)

    def numbers(self, e: Expr) -> Iterator[int]:
        """Values of ``e`` here."""
        return (n for w in self.states() if (n := w.value(e)) is not None)

    def pairs(self, a: Expr, b: Expr) -> Iterator[tuple[int, int]]:
        """Values that ``a`` and ``b`` have at once."""
        for w in self.states():
            x, y = w.value(a), w.value(b)
            if x is not None and y is not None:
                yield x, y

    def varies(self, condition: Expr) -> bool:
        """Whether ``condition`` is seen to hold, and not to hold."""
        holds = fails = False
        for w in self.states():
            n = w.value(condition)
            if n is not None:
                holds, fails = holds or n != 0, fails or n == 0
                if holds and fails:
                    return True
        return False

    def changes(self, e: Expr) -> bool:
        """Whether ``e`` is seen to have two values here."""
        return difference(e, self.states()) is not None

    def truth(self, condition: Expr) -> bool | None:
        """As :meth:`.Facts.truth`."""
        return None if self.varies(condition) else self.facts.truth(condition)

    def enters(self, loop: For) -> bool:
        """Whether ``loop`` is seen to run a round."""
        return loop.var in self.symbols.loops and any(True for _ in self.numbers(Var(loop.var)))


class _Arrival:
    """One thing that is so where a place is arrived at: a condition came out as ``holds``, or a loop (by its counter,
    ``holds`` is None) is in one of its rounds."""

    def __init__(self, before: _Arrival | None, symbols: Symbols, condition: Expr, holds: bool | None) -> None:
        self.before = before
        self.symbols = symbols
        self.condition = condition
        self.holds = holds
        self._parts: list[Expr] | None = None
        self._reached: dict[int, bool] = {}
        self._found: list[Witness] = []
        self._ahead: Iterator[Witness] | None = None

    def states(self, witnesses: Iterable[Witness]) -> Iterator[Witness]:
        """Those of ``witnesses``, the states of the kernel, that arrive here, found as somebody asks for more."""
        if self._ahead is None:
            self._ahead = filter(self.reached_in, witnesses)
        number = 0
        while True:
            if number == len(self._found):
                w = next(self._ahead, None)
                if w is None:
                    return
                self._found.append(w)
            yield self._found[number]
            number += 1

    def reached_in(self, w: Witness) -> bool:
        """Whether the state ``w`` arrives here."""
        known = self._reached.get(w.number)
        if known is not None:
            return known
        ahead: list[_Arrival] = []
        a: _Arrival | None = self
        while a is not None and w.number not in a._reached:
            ahead.append(a)
            a = a.before
        reached = a is None or a._reached[w.number]
        for later in reversed(ahead):
            reached = later._reached[w.number] = reached and later._is_so_in(w)
        return reached

    def _is_so_in(self, w: Witness) -> bool:
        if self.holds is None:
            return w.value(self.condition) is not None
        if self._parts is None:
            said = parts(self.condition, self.holds, self.symbols.names)
            self._parts = [c for c in said if self.symbols.steady(c)]  # of others nothing is learnt either
        return all(map(w.value, self._parts))


def _equates(condition: Expr) -> bool:
    """Whether ``condition`` says, where it holds or where not, that a variable is equal to something; or stands for
    what may say so."""
    return any(
        x.op in ("==", "!=") and any(isinstance(without_casts(side), Var) for side in (x.a, x.b))
        if isinstance(x, Binary)
        else isinstance(x, Var) and x.type == BOOL
        for x in walk_expr(condition)
    )


__all__ = ["Place"]
