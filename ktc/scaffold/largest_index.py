"""The largest index into a buffer, put together from the source: guards and loops say how far its parts go.

``a[(z + i) * (ny + 6) * (nx + 6) + ...]`` with ``z < nz`` and ``i < 7`` goes up to ``nz + 6`` planes. What comes out is
a conjecture (a guard may be met by nobody, an index may depend on data): shapes use it where all probes reach exactly
as far. :class:`ktc.ir.arith.Facts` are of another kind: they bound what an index may be and would be right with a bound
that is never reached, where a shape has to be as large as what is reached; and of a source without a workload, whose
sizes are not even known to be positive, they show little. The sums are those of :mod:`.size_polynomials`, which are
written into the draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    MIRRORED,
    NEGATED,
    ORDERINGS,
    Atomic,
    Binary,
    Body,
    Break,
    Call,
    Const,
    Continue,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Return,
    Select,
    Store,
    Sym,
    Unary,
    Var,
    While,
)
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import all_exprs, assigned, stmt_exprs, walk, walk_expr

from .inner_strides import moved
from .size_polynomials import Polynomial, divided, named, number, plus, polynomial, text_of, times

DEEPEST = 40


def _moving(s: For | While) -> set[Sym]:
    """What changes from one iteration of ``s`` to the next."""
    return assigned(s.body) | ({s.var} if isinstance(s, For) else set())


@dataclass(frozen=True)
class Bounds:
    """What is known at one place of the body: ``most`` and ``least`` of variables, by guards and loops."""

    most: Mapping[Sym, Expr] = field(default_factory=dict)
    least: Mapping[Sym, Expr] = field(default_factory=dict)


class Largest:
    """The largest indices of one kernel. ``meanings``: what parameters are that are no sizes of their own."""

    def __init__(self, k: Kernel, meanings: Mapping[str, str | int]) -> None:
        self.kernel, self.meanings = k, meanings
        self.sources = moved(k)
        self.params = {p.sym for p in k.params}
        self.counted = {v for s in walk(k.body) if isinstance(s, For | While) for v in _moving(s)}
        self.extents: dict[tuple[str, str], Expr] = {}
        if k.launch is not None:
            for level, dims in (("block", k.launch.grid), ("grid", k.launch.grid), ("thread", k.launch.block)):
                self.extents |= {(level, a): e for a, e in zip("xyz", dims)}

    def accesses(self) -> Iterator[tuple[Sym, Expr, Bounds]]:
        """Buffer, index and what is known there, of every access."""
        return self._accesses(self.kernel.body, Bounds())

    def extents_of(self) -> dict[str, list[Polynomial]]:
        """For each buffer, one more than the largest index of each access whose index is followed."""
        out: dict[str, list[Polynomial]] = {}
        for buffer, index, bounds in self.accesses():
            most = self.most(index, bounds)
            if most is not None and (whole := plus(most, number(1))) not in out.setdefault(buffer.name, []):
                out[buffer.name].append(whole)
        return out

    def factors(self) -> list[Polynomial]:
        """Sums that something is multiplied by, as they are written: rows of ``nx + 6``."""
        found: list[Polynomial] = []
        for e in all_exprs(self.kernel.body):
            for side in (e.a, e.b) if isinstance(e, Binary) and e.op == "*" else ():
                p = self.most(side, Bounds()) if self.of_sizes(side) else None
                if p is not None and len(p) > 1 and p not in found:
                    found.append(p)
        return found

    def of_sizes(self, e: Expr) -> bool:
        """Whether ``e`` is made of parameters and numbers alone."""
        return all(x.sym in self.params for x in walk_expr(e) if isinstance(x, Var)) and not any(
            isinstance(x, HwIndex | Load) for x in walk_expr(e)
        )

    def most(self, e: Expr, b: Bounds, up: bool = True, depth: int = 0) -> Polynomial | None:
        """The largest value of ``e`` (the least, if not ``up``) where ``b`` holds; None if nothing says."""
        if depth > DEEPEST:
            return None

        def of(x: Expr, way: bool = up) -> Polynomial | None:
            return self.most(x, b, way, depth + 1)

        match without_casts(e):
            case Const(int() as v, _):
                return number(int(v))
            case Var(s):
                return self._variable(s, b, up, depth)
            case HwIndex(level=level, axis=axis):
                return self._hardware(level, axis, up, depth)
            case Unary("-", x):
                value = of(x, not up)
                return None if value is None else plus({}, value, -1)
            case Binary("+" | "-" | "*" | "/" | "%" | "<<" | ">>" as op, x, y):
                return self._arithmetic(op, of(x), of(y, not up if op in "-/" else up), up)
            case Call(fn="min" | "max" as fn, args=(x, y)):
                known = [a for a in (x, y) if self.of_sizes(a)]
                return of(known[0]) if len(known) == 1 and (fn == "min") == up else of(x if known[:1] == [y] else y)
            case Call(fn="cdiv", args=(x, y)):
                top, below = of(x), of(y, not up)
                return None if top is None or below is None else named(f"cdiv({text_of(top)}, {text_of(below)})")
            case Select(_, x, y):
                one, other = of(x), of(y)
                return one if one == other or other is None else other if one is None else one
        return None

    def _meaning(self, name: str) -> Polynomial:
        meaning = self.meanings.get(name, name)
        return number(meaning) if isinstance(meaning, int) else polynomial(meaning)

    def _variable(self, s: Sym, b: Bounds, up: bool, depth: int) -> Polynomial | None:
        if s in self.params:
            return None if isinstance(s.type, Scalar) and s.type.is_float else self._meaning(s.name)
        known = (b.most if up else b.least).get(s)
        inside = Bounds({v: x for v, x in b.most.items() if v != s}, {v: x for v, x in b.least.items() if v != s})
        if known is not None:
            return self.most(known, inside, up, depth + 1)
        if s in self.sources:  # what is moved on from itself begins at 0
            zero = Const(0, I32)
            itself = Bounds({**inside.most, s: zero}, {**inside.least, s: zero})
            return self.most(self.sources[s], itself, up, depth + 1)
        return None if up else {}

    def _hardware(self, level: str, axis: str, up: bool, depth: int) -> Polynomial | None:
        e = self.extents.get((level.removesuffix("_dim") if level != "block_dim" else "thread", axis))
        counted = level in ("block", "thread")
        if e is None or (counted and not up):
            return {} if counted and not up else None
        value = self.most(e, Bounds(), True, depth + 1)
        return value if value is None or not counted else plus(value, number(-1))

    @staticmethod
    def _arithmetic(op: str, a: Polynomial | None, b: Polynomial | None, up: bool) -> Polynomial | None:
        if op == "%" and b is not None and up:
            return plus(b, number(-1))
        if op == "%" and not up:
            return {}
        if a is None or b is None:
            return None
        if op in "+-":
            return plus(a, b, 1 if op == "+" else -1)
        if op == "*":
            return times(a, b)
        n = b.get((), 0)
        if {*b} - {()}:
            return divided(a, f"({text_of(b)})") if op == "/" else None
        if op in ("<<", ">>"):
            n = 1 << n if 0 <= n < 31 else 0
        if op == "<<" or n in (0, 1):
            return times(a, number(n)) if n else None
        return divided(a, str(n)) if {*a} - {()} else number(a.get((), 0) // n)

    def _accesses(self, body: Body, b: Bounds) -> Iterator[tuple[Sym, Expr, Bounds]]:
        for s in body:
            for e in stmt_exprs(s):
                yield from self._loads(e, b)
            if isinstance(s, Store | Atomic):
                yield s.buffer, s.index[0], b
            if isinstance(s, If):
                yield from self._accesses(s.then, _told(s.cond, True, b))
                yield from self._accesses(s.orelse, _told(s.cond, False, b))
                if any(isinstance(x, Return | Continue | Break) for x in s.then):
                    b = _told(s.cond, False, b)
            elif isinstance(s, For):
                inside = _told(s.cond, True, b)
                yield from self._accesses(s.body, Bounds(inside.most, {**inside.least, s.var: s.init}))
            elif isinstance(s, While):
                yield from self._accesses(s.body, _told(s.cond, True, b))
            else:
                for inner in (getattr(s, "body", ()), getattr(s, "then", ())):
                    yield from self._accesses(inner, b)

    def _loads(self, e: Expr, b: Bounds) -> Iterator[tuple[Sym, Expr, Bounds]]:
        if isinstance(e, Load):
            yield e.buffer, e.index[0], b
        if isinstance(e, Select):
            yield from self._loads(e.cond, b)
            yield from self._loads(e.a, _told(e.cond, True, b))
            yield from self._loads(e.b, _told(e.cond, False, b))
            return
        for x in children(e):
            yield from self._loads(x, b)


def _told(cond: Expr, truth: bool, b: Bounds) -> Bounds:
    """``b`` and what a condition says where it is ``truth``."""
    cond = without_casts(cond)
    if isinstance(cond, Unary) and cond.op == "!":
        return _told(cond.x, not truth, b)
    if isinstance(cond, Binary) and cond.op == ("&&" if truth else "||"):
        return _told(cond.b, truth, _told(cond.a, truth, b))
    if not isinstance(cond, Binary) or cond.op not in ORDERINGS:
        return b
    op = cond.op if truth else NEGATED[cond.op]
    for x, y, way in ((cond.a, cond.b, op), (cond.b, cond.a, MIRRORED[op])):
        x = without_casts(x)
        if isinstance(x, Var) and way in ("<", "<="):
            end = Binary("-", y, Const(1, y.type)) if way == "<" else y  # type: ignore[arg-type]
            b = Bounds({**b.most, x.sym: end}, b.least)
        elif isinstance(x, Var) and way == ">=":
            b = Bounds(b.most, {**b.least, x.sym: y})
    return b


__all__ = ["Largest"]
