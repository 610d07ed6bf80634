"""Integer expressions in intervals, without wrapping.

Parameters take their declared ranges, hardware indices what the launch gives them, loop variables what their bounds
give them (:mod:`.narrowing`). What leaves its type is noted on the way and is not known from there on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Select,
    Stmt,
    Sym,
    Unary,
    Var,
    VecGet,
)  # fmt: skip
from ktc.ir.types import BOOL, Ptr, Scalar, scalar_of
from ktc.ir.walk import assigned, stmt_exprs, used, walk_expr

from .formulas import increment
from .interval_arithmetic import BINARY, BIT_COUNTS, BOUNDING, CALLS, DECIDE, Interval

if TYPE_CHECKING:
    from .steps import Growth


@dataclass
class Scope:
    """What is known of each symbol; ``wraps`` collects what leaves its type on the way."""

    kernel: Kernel
    known: dict[Sym, Interval]
    names: Mapping[str, Interval]
    launch: dict[tuple[str, str], Interval] = field(default_factory=dict)
    wraps: list[tuple[Expr, Interval]] = field(default_factory=list)
    narrowed: list[Cast] = field(default_factory=list)
    """Conversions to a narrower type of values that are not known, and to a wider one of sums and products of them."""
    dead: list[Stmt] = field(default_factory=list)
    """First statements of bodies that are never entered."""
    single: list[For] = field(default_factory=list)
    """Loops that go round once at most."""
    outcomes: dict[int, bool | None] = field(default_factory=dict)
    """By ``id`` of a condition or of an integer choice, how it always comes out; None if not always the same."""
    changing: dict[Sym, Interval | None] = field(default_factory=dict)
    """Variables that are assigned: all values they are given, None where that is not known."""
    growing: dict[Sym, Growth] = field(default_factory=dict)
    """Variables that grow by a step in every round of a loop."""
    given: dict[Sym, Expr] = field(default_factory=dict)
    """Definitions of variables that are never assigned, of which an interval is known."""
    limits: dict[Sym, tuple[tuple[Expr, int], ...]] = field(default_factory=dict)
    """What variables are below here: an expression and a number that is added to it."""
    guarded: dict[Expr, tuple[tuple[Expr, int], ...]] = field(default_factory=dict)
    """The same of sums and products, as guards compare them."""
    positive: frozenset[Expr] = frozenset()
    """Sums, products and quotients that are above 0 here, and have one value while they are looked at."""
    begins: dict[Sym, Expr] = field(default_factory=dict)
    """What variables of loops that count up begin with."""

    def __post_init__(self) -> None:
        self.changed = assigned(self.kernel.body)
        self.parameters = {p.sym for p in self.kernel.params}
        self.changing.update((s, None) for s in self.parameters & self.changed if isinstance(s.type, Scalar))

    def of(self, e: Expr) -> Interval | None:
        if isinstance(e, Const):
            return (int(e.value), int(e.value)) if not isinstance(e.value, float) else None
        if isinstance(e, Var):
            return self._of_variable(e.sym)
        if isinstance(e, Knob):
            v = self.kernel.knob_values[e.name]
            return v, v
        if isinstance(e, HwIndex):
            return self.launch.get((e.level, e.axis))
        if isinstance(e, Cast):
            return self._cast(e) if is_whole(e.to) else None
        if isinstance(e, Load):
            return self._of_element(e.buffer)
        if isinstance(e, VecGet):
            return self.of(e.x)
        if isinstance(e, Binary):
            return self._binary(e)
        if isinstance(e, Select):
            a, b = self.of(e.a), self.of(e.b)
            return (min(a[0], b[0]), max(a[1], b[1])) if a and b else None
        if isinstance(e, Unary) and e.op == "-":
            x = self.of(e.x)
            return self._fitting(e, (-x[1], -x[0])) if x else None
        if isinstance(e, Call) and e.fn in BIT_COUNTS and is_whole(e.args[0].type):
            return 0, scalar_of(e.args[0].type).bits
        if isinstance(e, Call) and e.fn in CALLS:
            args = [self.of(a) for a in e.args]
            return CALLS[e.fn](*args) if all(args) else None  # type: ignore[arg-type]
        return None

    def _of_element(self, buffer: Sym) -> Interval | None:
        """Any element of a buffer, or lane of a vector."""
        if buffer in self.known:
            return self.known[buffer]
        promised = isinstance(buffer.type, Ptr) and buffer not in self.changed
        return self.names.get(elements_of(buffer.name)) if promised else self.changing.get(buffer)

    def _of_variable(self, sym: Sym) -> Interval | None:
        if sym in self.known:
            return self.known[sym]
        if sym in self.changed:
            return self.changing.get(sym)
        return self.names.get(sym.name) if sym in self.parameters else None

    def _cast(self, e: Cast) -> Interval | None:
        if e.x.type == BOOL:
            holds = self.truth(e.x)
            return (0, 1) if holds is None else (int(holds), int(holds))
        told = len(self.wraps)
        v = self.of(e.x)
        if v is None and len(self.wraps) == told and _loses(e):
            self.narrowed.append(e)
        return self._fitting(e, v)

    def _binary(self, e: Binary) -> Interval | None:
        a, b = self.of(e.a), self.of(e.b)
        if not is_whole(e.type):
            return None
        if a is None or b is None:
            return self._bounded(e, a, b)
        if e.op not in BINARY:
            return None
        plain = BINARY[e.op](a, b)
        whole = self._of_quotient(e) if e.op == "*" else None
        if whole is not None and _fits(whole, e.type):
            return _both(whole, plain)
        if e.op == "-":
            for rest in (self._of_remainder(e), self._of_distance(e)):
                if rest is not None:
                    return _both(rest, plain)
        return self._fitting(e, plain)

    def _bounded(self, e: Binary, a: Interval | None, b: Interval | None) -> Interval | None:
        """What an operator leaves of operands that may be anything."""
        if e.op not in BOUNDING or not is_whole(e.a.type) or not is_whole(e.b.type):
            return None
        v = BINARY[e.op](a or e.a.type.extremes, b or e.b.type.extremes)  # type: ignore[attr-defined]
        return v if v is not None and _fits(v, e.type) else None

    def truth(self, e: Expr) -> bool | None:
        """A condition that has one value for everything that is known."""
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            sides, decides = (self.truth(e.a), self.truth(e.b)), e.op == "||"
            return decides if decides in sides else None if None in sides else not decides
        if isinstance(e, Unary) and e.op == "!":
            x = self.truth(e.x)
            return None if x is None else not x
        if isinstance(e, Binary) and e.op in DECIDE and is_whole(e.a.type):
            a, b = self.of(e.a), self.of(e.b)
            return DECIDE[e.op](a, b) if a and b else None
        if isinstance(e, Cast) and e.to == BOOL and is_whole(e.x.type):
            v = self.of(e.x)
            return None if v is None else False if v == (0, 0) else True if v[0] > 0 or v[1] < 0 else None
        if isinstance(e, Var) and e.type == BOOL:
            given = self._of_variable(e.sym)
            return bool(given[0]) if given is not None and given[0] == given[1] else None
        return bool(e.value) if isinstance(e, Const) else None

    def note_outcomes(self, s: Stmt) -> None:
        """How conditions and choices in the expressions of ``s`` itself come out; of a loop, those that its variable
        has no part in."""
        told, lost = list(self.wraps), list(self.narrowed)
        own = {s.var} if isinstance(s, For) else set()
        for top in stmt_exprs(s):
            for e in (x for x in walk_expr(top) if not own or not own & used(x)):
                holds = self._outcome(e)
                if holds is not None or e.type == BOOL or id(e) in self.outcomes:
                    same = self.outcomes.get(id(e), holds) == holds
                    self.outcomes[id(e)] = holds if same else None
        self.wraps, self.narrowed = told, lost

    def _outcome(self, e: Expr) -> bool | None:
        if e.type == BOOL:
            return self.truth(e)
        operands = e.args if isinstance(e, Call) else (e.a, e.b) if isinstance(e, Binary) else ()
        if len(operands) != 2 or not is_whole(e.type):
            return None
        a, b = self.of(operands[0]), self.of(operands[1])
        if a is None or b is None:
            return None
        if isinstance(e, Call):
            return DECIDE["<=" if e.fn == "min" else ">="](a, b) if e.fn in ("min", "max") else None
        if isinstance(e, Binary) and e.op in ("%", "/"):
            return True if a[0] >= 0 and a[1] < b[0] else None
        if isinstance(e, Binary) and e.op == ">>":
            return True if a[0] >= 0 and 0 <= b[0] < 64 and a[1] >> b[0] == 0 else None
        if isinstance(e, Binary) and e.op == "&" and b[0] == b[1] and (b[0] + 1) & b[0] == 0:
            return True if a[0] >= 0 and a[1] <= b[0] else None
        return None

    def note_dead(self, s: If | For) -> None:
        """Which bodies of ``s`` are never entered; the variable of a loop has the values of all its rounds here."""
        before, told = dict(self.known), list(self.wraps)
        if isinstance(s, For):
            first = self.of(s.init)
            if first is not None:
                self.known[s.var] = first
        holds = self.truth(s.cond)
        self.known, self.wraps = before, told
        entered, other = (s.then, s.orelse) if isinstance(s, If) else (s.body, ())
        never: Body = () if holds is None else other if holds else entered
        self.dead += never[:1]

    def note_single(self, s: For, values: Interval) -> None:
        """Whether ``s`` steps beyond all the ``values`` that its variable has, and so goes round once at most."""
        told, by = list(self.wraps), increment(s)
        step = self.of(by) if by is not None else None
        self.wraps = told
        if step is not None and step[0] > values[1] - values[0]:
            self.single.append(s)

    def _of_quotient(self, e: Binary) -> Interval | None:
        """``x / (a b) * a``, times b perhaps: at most x, if all of it is at least 0."""
        factors = factors_of(e)
        for k, f in enumerate(factors):
            if not (isinstance(f, Binary) and f.op == "/"):
                continue
            divisor, others = factors_of(f.b), factors[:k] + factors[k + 1 :]
            x = self.of(f.a)
            positive = all((v := self.of(d)) is not None and v[0] > 0 for d in divisor)
            if x is not None and x[0] >= 0 and positive and not Counter(others) - Counter(divisor):
                return 0, x[1]
        return None

    def _of_remainder(self, e: Binary) -> Interval | None:
        """``x - x / d * d`` is ``x % d``, of an x that is at least 0."""
        factors, x = factors_of(e.b), uncast(e.a)
        for k, f in enumerate(factors):
            if isinstance(f, Binary) and f.op == "/" and uncast(f.a) == x:
                divisor = factors[:k] + factors[k + 1 :]
                v, by = self.of(e.a), self.of(f.b)
                if v is not None and by is not None and Counter(divisor) == Counter(factors_of(f.b)):
                    return BINARY["%"](v, by)
        return None

    def _of_distance(self, e: Binary) -> Interval | None:
        """How far a loop's variable is from where the loop begins: less than ``n``, if it ends at ``begin + n``."""
        v, begin = uncast(e.a), uncast(e.b)
        if not isinstance(v, Var) or v.sym in self.changed or used(begin) & self.changed:
            return None
        if v.sym not in self.begins or uncast(self.begins[v.sym]) != begin:
            return None
        ends = []
        for limit, more in self.limits.get(v.sym, ()):
            bound = uncast(limit)
            for part in bound.args if isinstance(bound, Call) and bound.fn == "min" else (bound,):
                part = uncast(part)
                if isinstance(part, Binary) and part.op == "+" and uncast(part.a) == begin:
                    n = self.of(part.b)
                    ends += [n[1] - 1 + more] if n is not None else []
        return (0, max(min(ends), 0)) if ends else None

    def gains(self, sym: Sym, value: Expr) -> None:
        """``sym`` is assigned ``value``, or an element of it is."""
        told = list(self.wraps)
        own = any(sym in (getattr(x, "sym", None), getattr(x, "buffer", None)) for x in walk_expr(value))
        v = self.of(value)
        if own and not _settles(value):  # what it is made of is looked at; how often it grows is not known
            self.wraps, v = told, None
        self.gains_between(sym, v)

    def gains_between(self, sym: Sym, v: Interval | None) -> None:
        """``sym`` is given something in ``v``; None: anything."""
        v = v if v is not None and _fits(v, scalar_of(sym.type)) else None
        old = self.changing.get(sym, v)
        self.changing[sym] = (min(old[0], v[0]), max(old[1], v[1])) if old is not None and v is not None else None

    def _fitting(self, e: Expr, v: Interval | None) -> Interval | None:
        """``v`` if it fits the type of ``e``; noted and unknown where it does not."""
        if v is None or _fits(v, e.type):
            return v
        self.wraps.append((e, v))
        return None


def _both(a: Interval, b: Interval | None) -> Interval:
    """What is known in two ways; ``a`` where they leave nothing, as of what is never reached."""
    low, high = (max(a[0], b[0]), min(a[1], b[1])) if b is not None else a
    return (low, high) if low <= high else a


def elements_of(buffer: str) -> str:
    """The name under which the range of a buffer's elements is given."""
    return f"{buffer}[]"


def factors_of(e: Expr) -> list[Expr]:
    """What a product is made of, conversions between integers aside."""
    e = uncast(e)
    return [*factors_of(e.a), *factors_of(e.b)] if isinstance(e, Binary) and e.op == "*" else [e]


def uncast(e: Expr) -> Expr:
    """``e`` without conversions between integers."""
    while isinstance(e, Cast) and is_whole(e.to) and is_whole(e.x.type):
        e = e.x
    return e


def _loses(e: Cast) -> bool:
    """Whether a conversion of something unknown, or what it converts, may have lost bits: upper ones, or, of a whole
    number that went through a float, lower ones."""
    if e.style == "bit":
        return False
    if not is_whole(e.x.type):
        return any(isinstance(x, Cast) and is_whole(x.x.type) and not is_whole(x.to) for x in walk_expr(e.x))
    before, after = scalar_of(e.x.type).bits, scalar_of(e.to).bits
    inner = e.x
    while isinstance(inner, Cast) and is_whole(inner.x.type):
        inner = inner.x
    return scalar_of(inner.type).bits > after < before or (after > before and isinstance(e.x, Binary))


def is_whole(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int


def _settles(e: Expr) -> bool:
    """Whether no repetition of ``x = e`` leads away from the first values of x."""
    e = uncast(e)
    return (isinstance(e, Call) and e.fn in ("min", "max")) or (isinstance(e, Binary) and e.op in BOUNDING)


def _fits(v: Interval, t: object) -> bool:
    assert isinstance(t, Scalar)
    low, high = t.extremes
    return low <= v[0] and v[1] <= high


__all__ = ["Interval", "Scope", "elements_of", "factors_of", "is_whole", "uncast"]
