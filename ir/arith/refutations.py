"""Which rules of :mod:`.simplification` are not to be tried on an expression: a state of the kernel contradicts them.

    i % n                    is not i where i is 70 and n is 64, and not 0 either
    min(i, n)                is not one of them where it is the other one
    x / n * n + x % n        is put together of a remainder and a quotient, of which there have to be such

Each function says of an expression at a place that the rule cannot apply; it never says so of one that can be shown to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from ktc.ir.fields import children
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, For, HwIndex, Knob, Select, Unary, Var
from ktc.ir.operation_costs import cost
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar

from .arrivals import Place
from .counted_loops import counting
from .enclosures import is_integer
from .integer_casts import factors_of, without_index_casts
from .kernel_states import Witness, difference, witnesses_of
from .known_symbols import symbols_of
from .launch_values import EXTENT_OF
from .polynomial import from_polynomial

FEW = 4
"""States that are asked where a proof may well be found."""


def undecided(e: Binary | Unary, place: Place) -> bool:
    """A condition that holds here, and that does not; or what is none of integers."""
    no_condition = e.op != "!" or not is_integer(e.x.type) if isinstance(e, Unary) else not is_integer(e.a.type)
    return no_condition or place.varies(e)


def chosen_of_both(e: Select, place: Place) -> bool:
    """A choice that takes one operand here, and then the other."""
    return place.varies(e.cond)


def either_extreme(e: Call, place: Place) -> bool:
    """``min`` and ``max`` of two, the first of which is the smaller one here, and the larger one."""
    if e.fn not in ("min", "max") or len(e.args) != 2 or not is_integer(e.type):
        return True
    smaller = larger = False
    for a, b in place.pairs(*e.args):
        smaller, larger = smaller or a < b, larger or a > b
        if smaller and larger:
            return True
    return False


def no_digit(e: Binary, place: Place) -> bool:
    """A quotient that is not 0 here; a remainder that is neither 0 nor what is divided."""
    if not is_integer(e.type):
        return True
    divides = e.op == "%"
    below = True
    for x, n in place.pairs(e.a, e.b):
        if n <= 0:
            return True
        below = below and 0 <= x < n
        divides = divides and x % n == 0
        if not below and not divides:
            return True
    return False


def not_split(e: Binary, place: Place) -> bool:
    """What is divided is negative here, or no sum with a multiple of the divisor in it."""
    if not is_integer(e.type):
        return True
    n = _number(e.b, place)
    if n not in (None, 0, 1) and not place.equates:
        known = _terms_of(place.kernel)
        terms = known.terms(e.a)
        if terms is not None and not any(known.are_at_multiple(x, n) for x in terms):
            whole = {x: k for x, k in terms.items() if k % n == 0}
            hopeless = known.no_cheaper(e, n, terms, whole, place) if whole else place.changes(e.a)
            if hopeless and not known.is_narrowed(e.a, place):
                return True
    return any(x < 0 or n <= 0 for x, n in islice(place.pairs(e.a, e.b), FEW))


def not_nested(e: Binary, place: Place) -> bool:
    """A quotient of no quotient, a remainder of no remainder."""
    return not isinstance(e.a, Binary) or e.a.op != e.op


def not_reduced(e: Binary, place: Place) -> bool:
    """A quotient by no number, or of what is no multiple of a quotient by one; or a remainder."""
    if e.op != "/" or not isinstance(e.b, Const) or not is_integer(e.type):
        return True
    return not any(isinstance(x, Binary) and x.op == "/" and is_const(x.b) for x in factors_of(e.a))


def not_restored(e: Binary, place: Place) -> bool:
    """No product of a quotient and what it is divided by; or what is divided is no multiple here."""
    if not is_integer(e.type):
        return True
    for a, b in ((e.a, e.b), (e.b, e.a)):
        if isinstance(a, Binary) and a.op == "/" and isinstance(b, Const) and a.b == b:
            return any(n == 0 or x % n for x, n in place.pairs(a.a, a.b))
    return True


def not_rounded(e: Call, place: Place) -> bool:
    """``cdiv`` of what is no multiple here, and not always one number."""
    if e.fn != "cdiv":
        return True
    return any(n <= 0 or x % n for x, n in place.pairs(*e.args)) and place.changes(e)


def not_rejoined(e: Binary, place: Place) -> bool:
    """A sum without a remainder in it, or in which no quotient is as often as its divisor says."""
    if not is_integer(e.type):
        return True
    if place.equates or place.witnesses == ():
        return False
    known = _terms_of(place.kernel)
    if not known.has_remainder(e):
        return True
    terms = known.terms(e)
    if terms is None or any(
        isinstance(x, Binary) and x.op == "/" and known.may_divide(x.b, atoms, k)
        for atoms, k in terms.items()
        for x in (known.atoms[a] for a in atoms)
    ):
        return False
    return not known.is_narrowed(e, place)


def _number(e: Expr, place: Place) -> int | None:
    """What ``e`` is, if it is a number or a knob."""
    e = without_index_casts(e)
    return next(place.numbers(e), None) if isinstance(e, Const | Knob) else None


# -------------------------------------------------------------------------------------------------------------- terms


Terms = dict[tuple[int, ...], int]
"""Numbers by what they are multiplied by: atoms, which have numbers of their own, in order."""

MOST_TERMS = 24

Parts = Mapping[tuple[Witness, Witness], tuple[Expr, ...]]
"""Parts of an expression, by two states in which each of them has two values."""

_ONE_TO_ONE = frozenset({"+", "-", "*", "<<"})
"""Operators whose result differs for different operands, the other operand being a number (other than 0)."""


class _Terms:
    """Sums of ``kernel`` as if nothing could wrap, every knob were bound, and every name replaced by what it stands
    for: where the polynomial that facts make of one has a multiple of a number in it, so have the terms."""

    def __init__(self, kernel: Kernel) -> None:
        self.symbols = symbols_of(kernel)
        self.witnesses = witnesses_of(kernel)
        self.atoms: list[Expr] = []
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[Expr, Terms | None]] = {}
        self._remainders: dict[int, tuple[Expr, bool]] = {}
        self._changing: dict[int, bool] = {}
        self._varying: dict[int, tuple[Expr, Parts]] = {}

    def terms(self, e: Expr) -> Terms | None:
        """The terms of ``e``; None where there are too many, or some may be joined."""
        found = self._known.get(id(e))
        if found is None:
            self._known[id(e)] = e, None
            found = self._known[id(e)] = e, self._of(e)
        return found[1]

    def has_remainder(self, e: Expr) -> bool:
        """Whether there is a remainder in ``e``, or in what its variables stand for."""
        found = self._remainders.get(id(e))
        if found is None:
            inner = children(e)
            if isinstance(e, Var) and e.sym in self.symbols.names:
                inner = [self.symbols.names[e.sym]]
            own = isinstance(e, Binary) and e.op == "%"
            launch = isinstance(e, HwIndex) and e.level not in EXTENT_OF  # which may say anything
            found = self._remainders[id(e)] = e, own or launch or any(map(self.has_remainder, inner))
        return found[1]

    def is_narrowed(self, e: Expr, place: Place) -> bool:
        """Whether a part of ``e`` is one number at ``place``, and not one everywhere: facts that know the number find
        other terms than those of the whole kernel."""
        return any(
            not (place.arrives(v) and place.arrives(w)) and not all(map(place.changes, parts))
            for (v, w), parts in self._parts(e).items()
        )

    def _parts(self, e: Expr) -> Parts:
        """Parts of ``e``, and of what its variables stand for, that are not one number in all states, by two states in
        which they differ. Of those that can only be one number together (``i``, ``i64(i)``, ``i + 1``), the
        innermost."""
        found = self._varying.get(id(e))
        if found is None:
            inner = children(e)
            if isinstance(e, Var) and e.sym in self.symbols.names:
                inner = [self.symbols.names[e.sym]]
            below = [parts for x in inner if (parts := self._parts(x))]
            one_to_one = len(below) == 1 and (isinstance(e, Cast | Var) or getattr(e, "op", "") in _ONE_TO_ONE)
            may_change = bool(below) if inner else not isinstance(e, Const | Knob)
            pair = difference(e, self.witnesses) if may_change and not one_to_one else None
            if pair is not None:
                below.append({pair: (e,)})
            found = self._varying[id(e)] = e, below[0] if len(below) == 1 else _joined(below)
        return found[1]

    def are_at_multiple(self, atoms: tuple[int, ...], n: int) -> bool:
        """Whether ``atoms`` are the counter of a loop that may begin at a multiple of ``n``, other than 0, or of a
        serial one that counts by multiples."""
        x = self.atoms[atoms[0]] if len(atoms) == 1 else None
        loop = self.symbols.loops.get(x.sym) if isinstance(x, Var) else None
        if isinstance(loop, For):
            form = counting(loop)
            return form is not None and isinstance(form.by, Const) and form.by.value % n == 0
        if loop is None or is_const(loop.lo, 0):
            return False
        terms = self.terms(loop.lo)
        return terms is None or all(k % n == 0 for k in terms.values())

    def _of(self, e: Expr) -> Terms | None:
        match e:
            case Const(value=v):
                return None if isinstance(v, float) else {(): int(v)}
            case Cast(x=x) | Unary(op="-", x=x):
                return self.terms(x)
            case Binary(op="+" | "-", a=a, b=b):
                p, q = self.terms(a), self.terms(b)
                return None if p is None or q is None or p.keys() & q.keys() else {**p, **q}
            case Binary(op="*", a=a, b=b):
                p, q = self.terms(a), self.terms(b)
                return None if p is None or q is None else _product(p, q)
            case Binary(op="<<", a=a, b=Const(value=n)) if 0 <= n < 63:
                p = self.terms(a)
                return None if p is None else {x: k << int(n) for x, k in p.items()}
            case Var(sym=s) if s in self.symbols.names:
                return self.terms(self.symbols.names[s])
            case HwIndex(level="block_dim" | "grid_dim"):
                return None  # as a launch says
            case Binary(op="/", a=a, b=b) | Call(fn="cdiv", args=(a, b)):
                if not self._is_broken(a, b):
                    return None
        return self._atom_or_number(e)

    def _atom_or_number(self, e: Expr) -> Terms | None:
        seen = (n for w in self.witnesses if (n := w.value(e)) is not None)
        first = next(seen, None)
        if first is None:
            return None
        if isinstance(e, Knob):
            return {(): first}
        return self._atom(e) if any(n != first for n in seen) or first == 0 else None

    def _atom(self, e: Expr) -> Terms:
        number = self._numbers.setdefault(_key(e), len(self.atoms))
        if number == len(self.atoms):
            self.atoms.append(e)
        return {(number,): 1}

    def _changes(self, atom: int) -> bool:
        """Whether the atom of this number is not one number in all states."""
        found = self._changing.get(atom)
        if found is None:
            found = self._changing[atom] = difference(self.atoms[atom], self.witnesses) is not None
        return found

    def may_divide(self, divisor: Expr, atoms: tuple[int, ...], k: int) -> bool:
        """Whether ``divisor`` may divide ``k`` times ``atoms``, as one term divides another."""
        terms = self.terms(divisor)
        if terms is None or len(terms) != 1:
            return True
        ((factors, n),) = terms.items()
        return n != 0 and k % n == 0 and not Counter(factors) - Counter(atoms)

    def _is_broken(self, a: Expr, b: Expr) -> bool:
        """Whether ``b`` does not divide all terms of ``a``."""
        terms = self.terms(a)
        return terms is not None and not all(self.may_divide(b, x, k) for x, k in terms.items())

    def no_cheaper(self, e: Binary, n: int, terms: Terms, whole: Terms, place: Place) -> bool:
        """Whether a quotient or remainder of ``terms`` by ``n`` takes no less when ``whole``, the multiples of n among
        them, are divided by themselves. Facts find these very terms, if those of the whole kernel do."""
        found = place.everywhere.polynomial(e.a)
        if sorted(found.values()) != sorted(terms.values()) or any(
            not self._changes(a) for atoms in terms for a in atoms
        ):
            return False
        t = e.type
        assert isinstance(t, Scalar)
        turns = from_polynomial({x: k // n for x, k in found.items() if k % n == 0}, t)
        rest = from_polynomial({x: k for x, k in found.items() if k % n}, t)
        digit = Binary(e.op, rest, e.b)
        least = [cost(Binary("+", turns, digit) if e.op == "/" else digit)]
        if not any(not 0 <= x < n for x in place.numbers(rest)):
            least.append(cost(turns if e.op == "/" else rest))
        return min(least) >= cost(e)


@by_identity(8)
def _terms_of(kernel: Kernel) -> _Terms:
    return _Terms(kernel)


def _joined(several: list[Parts]) -> Parts:
    """All parts of ``several``, each once."""
    out: dict[tuple[Witness, Witness], dict[Expr, None]] = {}
    for one in several:
        for pair, parts in one.items():
            out.setdefault(pair, {}).update(dict.fromkeys(parts))
    return {pair: tuple(parts) for pair, parts in out.items()}


def _product(p: Terms, q: Terms) -> Terms | None:
    if len(p) * len(q) > MOST_TERMS:
        return None
    found = {tuple(sorted(x + y)): k * n for x, k in p.items() for y, n in q.items()}
    return found if len(found) == len(p) * len(q) else None


def _key(e: Expr) -> object:
    """The same for what facts may take for one atom."""
    if isinstance(e, Cast):
        return _key(e.x)
    if isinstance(e, Var | Const):
        return e.sym if isinstance(e, Var) else e.value
    inner = children(e)
    return (getattr(e, "op", None) or getattr(e, "fn", type(e)), *map(_key, inner)) if inner else e


__all__ = [
    "chosen_of_both", "either_extreme", "no_digit", "not_nested", "not_rejoined", "not_rounded", "not_split",
    "undecided",
]  # fmt: skip
