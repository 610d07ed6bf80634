"""Which atomic update a run through a compare-and-swap loop is: the same at every attempt, and made of nothing stale.

A run on its own, with nobody between, says what the update does; that it is one for all that others do between is shown
by its retries: what an attempt writes comes from the very value that it compares with, a failed one is followed by
another that does the same, and no way leads out without one but a test that says "nothing to do". A test may look at
another load than the attempt does (a first glance before the loop), if the loop does not rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ktc.ir.atomic_ops import TAKEN
from ktc.ir.frontend.lowering.expressions.convert import bitcast
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select, Sym, Unary, Var, fresh
from ktc.ir.support.frozen import frozen
from ktc.ir.types import BF16, BOOL, F16, F32, F64, Array, Scalar, Type
from ktc.ir.walk import used

from .order_cases import CASES, EQUAL, GREATER, LESS, NEW, NEW_NAN, OLD, OLD_NAN, ORDERED, Case, core, leaves
from .symbolic_state import Attempt, Guards, Segment, Slot, Unclear, Values, as_bits, mapped

OPERATORS = {"+": "add", "*": "mul", "&": "and", "|": "or", "^": "xor", "-": "sub"}
ROUNDED = {"add_rn": "+", "mul_rn": "*", "sub_rn": "-"}
WIDER = {F16: (F32, F64), BF16: (F32, F64), F32: (F64,)}
"""In which type one operation, rounded back, is the narrower type's own: one of more than twice the digits."""

NAN_RULES = {(OLD, OLD): "", (NEW, NEW): "u", (OLD, NEW): "s", (NEW, OLD): "n"}
"""By what stays where the old value is NaN, and where the new one is: the operation's last letter."""


@frozen
class Update:
    """``buffer[index] = op(old, value)``. ``outputs``: what variables hold then, over ``old``."""

    op: str
    value: Expr
    old: Sym
    outputs: tuple[tuple[Sym, Expr], ...]


def update_of(first: Segment, elem: Scalar, wanted: Iterable[Slot], local: set[Sym]) -> Update:
    """The update that ``first`` and its retries make of an element of type ``elem``.

    ``wanted``: the variables that are used afterwards; those declared here are ``local``.

    Raises:
        Unclear: it is none, or none that has a name.
    """
    old = fresh("old", elem)
    segments = [first, *(a.retry for a in first.attempts if a.retry is not None)]
    if not all(s.attempts for s in segments):
        raise Unclear
    _check_retries(first)
    reader = _Reader(segments, elem, old)
    op, value = reader.arithmetic() or reader.compared()
    return Update(op, value, old, tuple(_outputs(reader, op, value, wanted, local)))


def _own(a: Attempt) -> Sym:
    """The observation that ``a`` compares with."""
    e = as_bits(a.compare)
    if not isinstance(e, Var) or e.sym not in a.seen:
        raise Unclear
    return e.sym


def _check_retries(first: Segment) -> None:
    """Whatever a retry asks of the past is, after the next failure, the same of the next observation."""
    for a in first.attempts:
        assert a.retry is not None
        for b in a.retry.attempts:
            later = {_own(a): Var(_own(b)), a.missed: Var(b.missed)}
            for slot in a.retry.asked:
                before, after = a.after.get(slot), b.after.get(slot)
                if (None if before is None else mapped(before, later)) != after:
                    raise Unclear


class _Reader:
    """``segments``: the first and the retries. Expressions are read over ``old``."""

    def __init__(self, segments: list[Segment], elem: Scalar, old: Sym) -> None:
        self.segments, self.elem, self.old = segments, elem, old
        attempts = [a for s in segments for a in s.attempts]
        self.met = [(a.guards, a.seen) for a in attempts] + [(x.guards, x.seen) for s in segments for x in s.exits]
        self.observed = {y for _, seen in self.met for y in seen} | {a.missed for a in attempts}

    def over_old(self, e: Expr, seen: Iterable[Sym]) -> Expr:
        """``e`` with the observations ``seen`` as the old value; it may know no other."""
        found = mapped(e, {s: Var(self.old) for s in seen})
        if used(found) & self.observed:
            raise Unclear
        return found

    def written(self, a: Attempt) -> Expr:
        return self.over_old(a.value, [_own(a)])

    # --------------------------------------------------------------------------------------------------- arithmetic

    def arithmetic(self) -> tuple[str, Expr] | None:
        """The operator and the operand, if every attempt writes ``old op operand`` and no way leads past one."""
        if any(len(s.attempts) != 1 or s.exits for s in self.segments):
            return None
        first, *others = (self.written(s.attempts[0]) for s in self.segments)
        if any(x != first for x in others):
            raise Unclear
        e = as_bits(first)
        wide: Type = self.elem
        if isinstance(e, Cast) and e.to == self.elem and e.x.type in WIDER.get(self.elem, ()):
            wide, e = e.x.type, e.x
        if isinstance(e, Call) and e.fn in ROUNDED:
            e = Binary(ROUNDED[e.fn], *e.args)
        if not isinstance(e, Binary) or e.op not in OPERATORS or core(e).type != wide:
            return None
        sides = [(e.a, e.b)] if e.op == "-" else [(e.a, e.b), (e.b, e.a)]
        for mine, operand in sides:
            if self._is_old(mine, wide) and self.old not in used(operand):
                found = self._operand(operand, wide)
                return ("add", Unary("-", found)) if e.op == "-" and self.elem.is_float else (OPERATORS[e.op], found)
        return None

    def _is_old(self, e: Expr, wide: Type) -> bool:
        if wide != self.elem and isinstance(e, Cast) and e.to == wide:
            e = e.x
        return as_bits(e) == Var(self.old)

    def _operand(self, e: Expr, wide: Type) -> Expr:
        """``e`` as an element: of a wider computation only what was an element before it was widened."""
        if wide == self.elem:
            return bitcast(e, self.elem)
        if isinstance(e, Cast) and e.style != "bit" and e.to == wide and e.x.type == self.elem:
            return e.x
        raise Unclear

    # --------------------------------------------------------------------------------------------------- comparisons

    def compared(self) -> tuple[str, Expr]:
        """The operation that takes one of the two values by how they compare, and the new value."""
        stored = [y for s in self.segments for a in s.attempts for y in leaves(self.written(a), self.old)]
        tested = [
            y for guards, seen in self.met for cond, _ in guards for y in leaves(self.over_old(cond, seen), self.old)
        ]
        if not stored or len({core(y) for y in (*stored, *tested)}) != 1:
            raise Unclear
        new = core(stored[0])
        found: dict[str, set] = {}
        for name in CASES if self.elem.is_float else ORDERED:
            case = Case(name, self.elem, self.old, new)
            whole = [self._results(s, case) for s in self.segments]
            found[name] = whole[0]
            if name in (LESS, GREATER):  # equal values, and what is none, are as a run on its own has them
                alone = [self._results(s, case, alone=True) for s in self.segments]
                if any(len(w) != 1 or w != whole[0] for w in whole) or any(not x <= whole[0] for x in alone):
                    raise Unclear
        return self._name(found), self._as_element(stored[0])

    def _results(self, s: Segment, case: Case, alone: bool = False) -> set:
        """What a segment leaves. ``alone``: the attempts without the help of tests that looked at another load."""
        out = set()
        for a in s.attempts:
            others = a.seen - {_own(a)}
            guards = [g for g in a.guards if not (alone and used(g[0]) & others)]
            if self._possible(guards, a.seen, case):
                out |= case.of(self.written(a))
        if not alone and any(self._possible(x.guards, x.seen, case) for x in s.exits):
            out.add(OLD)
        return out

    def _possible(self, guards: Guards, seen: set[Sym], case: Case) -> bool:
        return all(truth in case.of(self.over_old(cond, seen)) for cond, truth in guards)

    def _name(self, found: dict[str, set]) -> str:
        if found[LESS] == found[GREATER] == {NEW}:
            if all(NEW in x for x in found.values()):
                return "exch"
            raise Unclear
        if found[LESS] == found[GREATER]:
            raise Unclear
        smaller = found[LESS] == {OLD}
        if self.elem.is_int:
            return "min" if smaller else "max"
        if any(len(found[name]) != 1 for name in (OLD_NAN, NEW_NAN)):
            raise Unclear
        rule = NAN_RULES[next(iter(found[OLD_NAN])), next(iter(found[NEW_NAN]))]
        if len(found[EQUAL]) == 1:
            return ("l" if smaller else "g") + ("e" if found[EQUAL] == {NEW} else "t") + rule
        if rule != "n":  # zeros by their signs, as fmaxf has them, and NaN as it has not
            raise Unclear
        return "min" if smaller else "max"

    def _as_element(self, e: Expr) -> Expr:
        if isinstance(e.type, Scalar) and e.type.is_float and e.type != self.elem:
            return Cast(self.elem, e, "c")
        return bitcast(e, self.elem)


def _outputs(r: _Reader, op: str, value: Expr, wanted: Iterable[Slot], local: set[Sym]) -> Iterable[tuple[Sym, Expr]]:
    """What the wanted variables hold at the end: one expression for all ends, or two by whether the new value stays."""
    attempts = [a for s in r.segments for a in s.attempts]
    exits = [x for s in r.segments for x in s.exits]
    for slot in wanted:
        if not isinstance(slot, Sym) or isinstance(slot.type, Array):
            raise Unclear

        def held(values: Values, seen: set[Sym], slot: Sym = slot) -> Expr:
            return r.over_old(values.get(slot, Var(slot)), seen)

        done = {held(end, a.seen) for a in attempts for end in a.ends}
        left = {held(x.values, x.seen) for x in exits}
        if len(done) != 1 or len(left) > 1:
            raise Unclear
        after, instead = next(iter(done)), next(iter(left), None)
        if instead is None or instead == after or (slot in local and instead == Var(slot)):  # nobody set it
            yield slot, after
        elif op in TAKEN:
            taken = _taken(op, value, Var(r.old))
            truths = after == Const(True, BOOL) and instead == Const(False, BOOL)
            yield slot, taken if truths else Select(taken, after, instead)
        else:
            raise Unclear


def _taken(op: str, new: Expr, old: Expr) -> Expr:
    """Whether ``new`` stays, as a condition."""
    taken = TAKEN[op]
    compared: Expr = Binary(taken.op, new, old)
    compared = Unary("!", compared) if taken.negated else compared
    one = {"old": old, "new": new}.get(taken.number)
    return compared if one is None else Binary("&&", Binary("==", one, one), compared)


__all__ = ["Update", "update_of"]
