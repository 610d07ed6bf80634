"""Random integer expressions over variables in known ranges, and random nests of loops, guards and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from ktc.ir.arith import Interval
from ktc.ir.kernel import Assume, Kernel, Param
from ktc.ir.nodes import (
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Par,
    Select,
    Stmt,
    Sym,
    Unary,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import I8, I16, I32, I64, U8, U16, U32, U64, Scalar

TYPES = (I32, I32, I32, U32, U32, I64, U64, I8, I16, U8, U16)
ARITHMETIC = ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^")
COMPARED = ("<", "<=", ">", ">=", "==", "!=")
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 255, 1024, 65535, 1 << 20, (1 << 31) - 1)


@dataclass
class Drawing:
    """Expressions over ``variables``, by what ``rng`` picks."""

    rng: Random
    variables: list[Sym] = field(default_factory=list)
    small: bool = False
    """Few types and operators, as index arithmetic has: more of it can be proven."""

    def type(self) -> Scalar:
        return self.rng.choice((I32, I32, U32, I64) if self.small else TYPES)

    def expression(self, t: Scalar, depth: int) -> Expr:
        if depth <= 0:
            return self.leaf(t)
        kind = self.rng.randrange(12)
        if kind < 6:
            op = self.rng.choice(("+", "-", "*", "/", "%", "+", "*") if self.small else ARITHMETIC)
            a = self.expression(t, depth - 1)
            if op in ("/", "%", "<<", ">>") and self.rng.randrange(4):
                return Binary(op, a, self.number(t, low=1, most=40))
            return Binary(op, a, self.expression(t, depth - 1))
        if kind < 8:
            return Cast(t, self.expression(self.type(), depth - 1), "c")
        if kind == 8:
            return Select(self.condition(depth - 1), self.expression(t, depth - 1), self.expression(t, depth - 1))
        if kind == 9:
            fn = self.rng.choice(("min", "max", "cdiv", "min", "max") + (("abs",) if t.is_signed else ()))
            if fn == "abs":
                return Call("abs", (self.expression(t, depth - 1),), t)
            second = self.number(t, low=1, most=40) if fn == "cdiv" else self.expression(t, depth - 1)
            return Call(fn, (self.expression(t, depth - 1), second), t)
        if kind == 10 and not self.small:
            return Unary(self.rng.choice("-~"), self.expression(t, depth - 1))
        return self.leaf(t)

    def condition(self, depth: int) -> Expr:
        if depth > 0 and self.rng.randrange(4) == 0:
            if self.rng.randrange(3) == 0:
                return Unary("!", self.condition(depth - 1))
            return Binary(self.rng.choice(("&&", "||")), self.condition(depth - 1), self.condition(depth - 1))
        t = self.type()
        return Binary(self.rng.choice(COMPARED), self.expression(t, depth - 1), self.expression(t, depth - 1))

    def leaf(self, t: Scalar) -> Expr:
        if self.variables and self.rng.randrange(4):
            v = Var(self.rng.choice(self.variables))
            return v if v.type == t else Cast(t, v, "c")
        return self.number(t)

    def number(self, t: Scalar, low: int = 0, most: int = 1 << 40) -> Const:
        whole = Interval.of_type(t)
        choices = [n for n in NUMBERS if n in whole and low <= n <= most]
        n = self.rng.choice(choices)
        return Const(-n if low == 0 and t.is_signed and self.rng.randrange(5) == 0 else n, t)


def parameters(rng: Random, small: bool) -> tuple[Param, ...]:
    """A few integers, in ranges and with divisors."""
    out = []
    for name in "abc":
        t = rng.choice((I32, I32, U32, I64) if small else TYPES)
        whole = Interval.of_type(t)
        assert whole.low is not None and whole.high is not None
        ends = [n for n in (-100, -5, -1, 0, 0, 1, 2, 7, 50, 1000, 1 << 20, whole.low, whole.high) if n in whole]
        low = rng.choice([n for n in ends if n <= 50])
        high = rng.choice([n for n in ends if n >= max(low, 0)])
        by = rng.choice((1, 1, 2, 4, 8, 3))
        if not any(n % by == 0 for n in range(low, min(low + by, high + 1))):
            by = 1
        out.append(Param(fresh(name, t), divisible_by=by, range=(low, high)))
    return tuple(out)


def point(rng: Random, params: tuple[Param, ...]) -> dict[Expr, int]:
    """Values that the facts of ``params`` allow: ends of ranges, and between."""
    at: dict[Expr, int] = {}
    for p in params:
        low, high = p.range
        assert low is not None and high is not None
        n = rng.choice((low, high, rng.randint(low, high), rng.randint(low, min(high, low + 40))))
        first = -(-low // p.divisible_by) * p.divisible_by
        at[Var(p.sym)] = max(n // p.divisible_by * p.divisible_by, first)
    return at


def kernel(params: tuple[Param, ...], body: Body = (), assumed: tuple[Expr, ...] = ()) -> Kernel:
    return Kernel("k", params, None, body, assumptions=tuple(Assume(e) for e in assumed))


@dataclass
class Nest:
    """A random body over ``params``: loops that count up, down and by factors, guards, early exits and names."""

    rng: Random
    params: tuple[Param, ...]

    def body(self, scope: list[Sym], depth: int) -> Body:
        out: list[Stmt] = []
        here = list(scope)
        for _ in range(self.rng.randint(1, 3)):
            out.append(self.statement(here, depth))
            if isinstance(out[-1], Decl):
                here.append(out[-1].sym)
        return tuple(out)

    def statement(self, scope: list[Sym], depth: int) -> Stmt:
        d = Drawing(self.rng, scope, small=True)
        kind = self.rng.randrange(8) if depth > 0 else self.rng.randrange(2)
        if kind == 0:
            t = d.type()
            return Decl(fresh(f"x{len(scope)}", t), d.expression(t, 2))
        if kind == 1:
            return Eval(d.expression(I32, 1))
        if kind == 2:
            return If(d.condition(1), (Continue(),), ())
        if kind < 5:
            then, other = self.body(scope, depth - 1), self.body(scope, depth - 1)
            return If(d.condition(2), then, other if self.rng.randrange(2) else ())
        return self.loop(scope, depth, d)

    def loop(self, scope: list[Sym], depth: int, d: Drawing) -> Stmt:
        t = self.rng.choice((I32, I32, U32, I64))
        v = fresh(f"i{len(scope)}", t)
        body = self.body([*scope, v], depth - 1)
        low, high = d.expression(t, self.rng.randrange(2)), d.expression(t, self.rng.randrange(3))
        if self.rng.randrange(3) == 0:
            return Par(v, low, high, (), body)
        op, cond = self.rng.choice((("+", "<"), ("+", "<="), ("+", "!="), ("-", ">"), ("-", ">="), (">>", ">"),
                                    ("*", "<"), ("/", ">")))  # fmt: skip
        if op in ("-", ">>", "/"):
            low, high = high, low
        return For(v, low, Binary(cond, Var(v), high), self.step(op, v, d), body)

    def step(self, op: str, v: Sym, d: Drawing) -> Expr:
        """``v op number``, sometimes computed in another type."""
        t = self.rng.choice((I32, U32, I64, U64, I16))
        if op not in "+-" or self.rng.randrange(3):
            return Binary(op, Var(v), d.number(v.type, low=1, most=40))  # type: ignore[arg-type]
        return Cast(v.type, Binary(op, Cast(t, Var(v), "c"), d.number(t, low=1, most=40)), "c")


@dataclass
class Tiles:
    """Loops over tiles, and what index arithmetic makes of their counters: sums of multiples and of what is left."""

    rng: Random
    params: tuple[Param, ...]

    def body(self) -> Body:
        n, rows = (Var(p.sym) for p in self.params[:2])
        size: Expr = self.rng.choice((n, Const(4, I32), Const(8, I32)))
        t, i = fresh("t", I32), fresh("i", I32)
        start = Binary("*", Var(t), size)
        whole = Binary("*", rows, size)
        limit = self.rng.choice((whole, rows, Binary("+", rows, n)))
        end = Binary("+", start, size)
        last: Expr = Call("min", (end, limit), I32)
        upper = last if limit is not whole or self.rng.randrange(2) else end
        count = Call("cdiv", (limit, size), I32)
        self.digits = Digits(self.rng, (size, n), (Var(t), Var(i), rows))
        inside: Body = (Eval(Var(i)), If(self.digits.condition(), (Eval(Var(t)),), ()), Eval(Var(i)))
        if self.rng.randrange(2):
            by = Const(self.rng.choice((1, 2, 4)), I32)
            inner: Stmt = For(i, start, Binary("<", Var(i), upper), Binary("+", Var(i), by), inside)
        else:
            inner = Par(i, start, upper, (), inside)
        left = Binary("*", Binary("/", limit, size), size)
        following = Binary("+", Var(t), size)
        rest = For(t, left, Binary("<", Var(t), limit), following, (Eval(Call("min", (following, limit), I32)),))
        return (rest,) if self.rng.randrange(5) == 0 else (Par(t, Const(0, I32), count, (), (inner,)),)


@dataclass
class Digits:
    """Expressions of quotients and remainders by ``sizes`` over ``terms``."""

    rng: Random
    sizes: tuple[Expr, ...]
    terms: tuple[Expr, ...]
    variables: list[Sym] = field(default_factory=list)

    def type(self) -> Scalar:
        return I32

    def expression(self, t: Scalar, depth: int) -> Expr:
        x, n = self.sum(), self.rng.choice(self.sizes)
        kind = self.rng.randrange(7)
        if kind < 4:
            return Binary("/%"[kind % 2], x, n)
        if kind == 4:
            return Call("cdiv", (x, n), I32)
        if kind == 5:
            return Binary("+", Binary("+", Binary("*", Binary("/", x, n), n), self.sum()), Binary("%", x, n))
        return Call(self.rng.choice(("min", "max")), (x, self.sum()), I32)

    def sum(self) -> Expr:
        out = self.rng.choice((*self.terms, Const(self.rng.randrange(9), I32)))
        for _ in range(self.rng.randrange(3)):
            term = self.rng.choice(self.terms)
            if self.rng.randrange(3):
                term = Binary("*", term, self.rng.choice((*self.sizes, Const(16, I32))))
            out = Binary(self.rng.choice("++-"), out, term)
        return out

    def condition(self, depth: int = 0) -> Expr:
        return Binary(self.rng.choice(COMPARED), self.expression(I32, 1), self.expression(I32, 1))


Point = Mapping[Expr, int]

__all__ = ["Digits", "Drawing", "Nest", "Point", "Tiles", "kernel", "parameters", "point"]
