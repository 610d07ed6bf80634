"""Integer negations under maxima and minima, which ptxas loses.

Of two signed maxima (or minima) in a row ptxas makes one instruction of three operands, and takes a negation of an
inner operand for the operand itself: of ``max(max(a, -b), c)`` it makes ``VIMNMX3 a, b, c`` (ptxas 13.0 for sm_90 and
sm_100, from ``-O1`` on; the PTX reads right). What it sees as a negation are ``neg``, ``0 - b``, ``b * -1`` and
``~b + 1``, also where unrolling made a constant of the other operand, and where the value went through variables or
arrays.

    s = max(s, -a[i])      ->  s = max(s, negated(a[i]))
    s = max(s, k - a[i])   ->  s = max(s, k + negated(a[i]))              k may be 0
    s = max(s, k * a[i])   ->  s = max(s, negated((0 - k) * a[i]))        k may be -1

``negated`` takes the complement in inline PTX and adds one, which ptxas leaves as it is. Kernels in which no negation
comes to a maximum or minimum stay as they are.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from ktc.ir.arith import ANY_LAUNCH, Facts
from ktc.ir.arith.integer_casts import without_integer_casts
from ktc.ir.fold import fold_node
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    ORDERINGS,
    Assign,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Knob,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    VecGet,
    VecMake,
)
from ktc.ir.types import I32, I64, U32, U64, Scalar, Type
from ktc.ir.walk import keep, map_body, stmt_exprs, walk, walk_expr

WORDS = {
    I32: ("int", 32, "r"),
    U32: ("unsigned", 32, "r"),
    I64: ("long long", 64, "l"),
    U64: ("unsigned long long", 64, "l"),
}
"""What is negated: the name of the type, its bits, the letter of its registers."""


def negated(t: Scalar) -> str:
    """The helper for values of type ``t``."""
    name, bits, letter = WORDS[t]
    return f"""\
// -x, in a way that ptxas does not take apart: of two maxima (or minima) in a row it loses a negation.
__device__ inline {name} negated({name} x) {{
  {name} y;
  asm("{{ .reg .b{bits} t; not.b{bits} t, %1; add.s{bits} %0, t, 1; }}" : "={letter}"(y) : "{letter}"(x));
  return y;
}}"""


def negations_apart(kernel: Kernel) -> tuple[Kernel, bool]:
    """``kernel`` with what may become a negation written as one, and whether negations are to be kept from ptxas."""
    compared = list(_compared(kernel))
    flow = _Flow(kernel) if compared else None
    if flow is None or not any(flow.negates(e) for e in compared):
        return kernel, False
    return kernel.with_(body=map_body(kernel.body, keep, flow.spelled_out)), True


def _compared(kernel: Kernel) -> Iterator[Expr]:
    """Operands of signed maxima and minima: of the functions, and of what compilers make them of."""
    for s in walk(kernel.body):
        for e in (x for top in stmt_exprs(s) for x in walk_expr(top)):
            if isinstance(e, Call) and e.fn in ("min", "max") and _signed(e.ty):
                yield from e.args
            elif isinstance(e, Select) and _chooses(e.cond, e.a, e.b):
                yield from (e.a, e.b)
        if isinstance(s, If):
            for old, new in _replaced((*s.then, *s.orelse)):
                if _chooses(s.cond, old, new):
                    yield from (old, new)


def _replaced(body: Iterable[Stmt]) -> Iterator[tuple[Expr, Expr]]:
    """What the assignments of a branch replace, and by what."""
    for s in body:
        if isinstance(s, Assign):
            yield Var(s.sym), s.value
        elif isinstance(s, Store) and s.width == 1:
            yield Load(s.buffer, s.index), s.value


def _chooses(cond: Expr, a: Expr, b: Expr) -> bool:
    """Whether ``cond`` compares what is chosen from: each of ``a`` and ``b`` is compared, or a literal."""
    if not isinstance(cond, Binary) or cond.op not in ORDERINGS or not _signed(a.type):
        return False
    compared = [without_integer_casts(x) for x in (cond.a, cond.b)]
    return all(isinstance(without_integer_casts(x), Const) or without_integer_casts(x) in compared for x in (a, b))


def _integer(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int


def _signed(t: Type) -> bool:
    """Whether C compares values of ``t`` as signed integers: narrow types are ``int`` there."""
    return isinstance(t, Scalar) and t.is_int and (t.is_signed or t.bits < 32)


class _Flow:
    """Where values come from, whatever the order of statements."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sources: dict[Sym, list[Expr]] = defaultdict(list)
        for s in walk(kernel.body):
            if isinstance(s, Decl) and s.init is not None:
                self.sources[s.sym].append(s.init)
            elif isinstance(s, Assign):
                self.sources[s.sym].append(s.value)
            elif isinstance(s, Store):
                self.sources[s.buffer].append(s.value)
            elif isinstance(s, For):
                self.sources[s.var] += [s.init, s.step]
        self.counters = set(self.sources)
        while others := {s for s in self.counters if not all(map(self._counted, self.sources[s]))}:
            self.counters -= others

    @functools.cached_property
    def facts(self) -> Facts:
        return Facts(self.kernel, ANY_LAUNCH)

    def negates(self, e: Expr) -> bool:
        """Whether ``e`` may be the negative of something that is no constant."""
        return any(self._negative(x) is not None for x in self._same(e, set()))

    def _same(self, e: Expr, seen: set[Sym]) -> Iterator[Expr]:
        """Expressions whose value ``e`` may be, itself among them, once constants are known."""
        yield e
        parts: tuple[Expr, ...] = ()
        match e:
            case Var(sym) | Load(buffer=sym) if sym not in seen:
                seen.add(sym)
                parts = tuple(self.sources.get(sym, ()))
            case Cast(x=x) if e.style != "bit" or _integer(x.type):
                parts = (x,)
            case Select(a=a, b=b):
                parts = (a, b)
            case VecMake(args=args):
                parts = args
            case VecGet(x=x):
                parts = (x,)
            case Binary(op="+", a=a, b=b):
                parts = (*((b,) if self.may_be(0, a) else ()), *((a,) if self.may_be(0, b) else ()))
            case Binary(op="*", a=a, b=b):
                parts = (*((b,) if self.may_be(1, a) else ()), *((a,) if self.may_be(1, b) else ()))
            case Binary(op="-" | "<<" | ">>" | "|" | "^", a=a, b=b) if self.may_be(0, b):
                parts = (a,)
        for x in parts:
            yield from self._same(x, seen)

    def _negative(self, e: Expr) -> Expr | None:
        """``e`` with its negation written as one, if it has one or would once constants are known."""
        if not isinstance(e.type, Scalar) or not e.type.is_int:
            return None
        match e:
            case Unary(op="-", x=x) if not _literal(x):
                return e
            case Binary(op="-", a=a, b=b) if self.may_be(0, a) and not _literal(b):
                return fold_node(Binary("+", a, Unary("-", b)))
            case Binary(op="*", a=a, b=b) if not (_literal(a) and _literal(b)):
                for factor, other in ((b, a), (a, b)):
                    if self.may_be(-1, factor):
                        opposite = fold_node(Binary("-", Const(0, e.type), factor))
                        return Unary("-", fold_node(Binary("*", opposite, other)))
        return None

    def spelled_out(self, e: Expr) -> Expr:
        return self._negative(e) or e

    def may_be(self, value: int, e: Expr) -> bool:
        """Whether compilers may find that ``e`` is ``value``: what it comes from are literals, knobs and counters."""
        if not self._comes_from(value, e, set(), lambda x: True):
            return False  # which needs no facts
        return self._comes_from(value, e, set(), lambda x: value in self.facts.interval(x))

    def _comes_from(self, value: int, e: Expr, seen: set[Sym], possible: Callable[[Expr], bool]) -> bool:
        if not isinstance(e.type, Scalar) or not e.type.is_int or not possible(e):
            return False
        match e:
            case Const():
                return e.value == value
            case Cast(x=x):
                return self._comes_from(value, x, seen, possible)
            case Select(a=a, b=b):
                return any(self._comes_from(value, x, seen, possible) for x in (a, b))
            case Var(sym) | Load(buffer=sym):
                known = sym in seen
                seen.add(sym)
                return not known and any(self._comes_from(value, x, seen, possible) for x in self.sources.get(sym, ()))
            case Binary(op="*" | "&", a=a, b=b) if value == 0:
                return any(self._comes_from(0, x, seen, possible) for x in (a, b))
        return self._counted(e)

    def _counted(self, e: Expr) -> bool:
        """Whether ``e`` is made of literals, knobs and counters alone."""
        return all(
            x.sym in self.counters if isinstance(x, Var) else isinstance(x, Const | Knob | Unary | Binary | Cast)
            for x in walk_expr(e)
        )


def _literal(e: Expr) -> bool:
    """Known when the text is compiled, whatever is unrolled."""
    return all(isinstance(x, Const | Knob | Unary | Binary | Cast) for x in walk_expr(e))


__all__ = ["WORDS", "negated", "negations_apart"]
