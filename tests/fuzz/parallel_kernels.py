"""Random kernels in parallel form that are right by construction: in bounds, race-free, every element written once.

One or two ``par`` loops over rows, and inside them a random sequence of phases over a row: element-wise writes,
reductions, private rows that one phase writes and a later one reads shifted, sequential inner loops, guards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ktc.ir.fold import binary, cast
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import F16, F32, I32, Array, Ptr, Scalar

Pick = Callable[[Sequence[Any]], Any]

LEAVES = (0.5, 1.0, 2.0, -3.0)
REDUCTIONS = {"+": 0.0, "max": -100.0, "min": 100.0}
THREADS = (1, 8, 32, 64)


class Maker:
    """Draws one kernel. ``n`` rows of ``m`` elements."""

    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.elem: Scalar = pick((F32, F32, F16, I32))
        self.work: Scalar = I32 if self.elem == I32 else F32
        self.threads = pick(THREADS)  # what most loops are spread over: others often have no launch in common
        self.n, self.m = fresh("n", I32), fresh("m", I32)
        self.inputs = [fresh(name, Ptr(self.elem, const=True, restrict=True)) for name in ("a", "b")]
        self.outputs: list[Sym] = []
        self.values: list[Sym] = []
        self.rows: list[Sym] = []

    def kernel(self) -> Kernel:
        row = fresh("r", I32)
        body = self.row_body(row)
        dist = self.pick(
            (
                (Level("block", None, "x"),),
                (Level("seq", i32(2)), Level("block", None, "x")),
                (Level("block", None, "y"),),
            )
        )
        params = [Param(s, align=16, noalias=True) for s in (*self.inputs, *self.outputs)]
        params += [Param(self.m, range=(1, 4096)), Param(self.n, range=(1, 4096))]
        return Kernel("fuzz", tuple(params), None, (Par(row, i32(0), Var(self.n), dist, body),))

    # ------------------------------------------------------------------------------------------------ statements

    def row_body(self, row: Sym) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for _ in range(self.pick((1, 1, 2, 3))):
            out += self.pick((self.element_phase, self.element_phase, self.reduction, self.private_row))(row)
        if not self.outputs:
            out += self.element_phase(row)
        return tuple(out)

    def dist(self) -> tuple[Level, ...]:
        threads = Level("thread", i32(self.pick((self.threads, self.threads, self.threads, self.pick(THREADS)))), "x")
        rest = Level("seq")
        return self.pick(((threads, rest), (threads, rest), (rest,), (Level("unroll", i32(2)), threads, rest)))

    def dist_of_64(self) -> tuple[Level, ...]:
        """A distribution of 64 iterations or fewer, perhaps one without a level that takes what is left."""
        threads = Level("thread", i32(self.threads), "x")
        return self.pick((self.dist(), (threads, Level("unroll", i32(64 // self.threads)))))

    def output(self, elem: Scalar) -> Sym:
        s = fresh(f"out{len(self.outputs)}", Ptr(elem, restrict=True))
        self.outputs.append(s)
        return s

    def element_phase(self, row: Sym) -> list[Stmt]:
        """``par i: out[r m + i] = f(r, i)``, in one of several layouts, perhaps guarded or accumulated in a loop."""
        i = fresh("i", I32)
        r, at = Var(row), Var(i)
        index = self.pick(
            (self.flat(r, at), binary("+", binary("*", at, Var(self.n)), r), self.flat(r, self.reversed(at)))
        )
        target = self.output(self.elem)
        inside: list[Stmt] = []
        depth = self.pick((0, 1, 2))
        value: Expr
        if self.pick((False, False, True)):
            acc, k = fresh("acc", self.work), fresh("k", I32)
            inside.append(Decl(acc, self.const(0)))
            term = self.value(r, at, 1, Var(k))
            step = Assign(acc, Binary("+", Var(acc), term))
            guarded: Stmt = If(self.condition(at, Var(k)), (step,)) if self.pick((False, True)) else step
            inside.append(For(k, i32(0), Binary("<", Var(k), self.bound()), Binary("+", Var(k), i32(1)), (guarded,)))
            value = Var(acc)
        else:
            value = self.value(r, at, depth)
        store: Stmt = Store(target, (index,), self.stored(value))
        if self.pick((False, False, False, True)):
            store = If(self.condition(r, at), (store,), (Store(target, (index,), self.stored(self.value(r, at, 1))),))
        return [Par(i, i32(0), Var(self.m), self.dist(), (*inside, store))]

    def reduction(self, row: Sym) -> list[Stmt]:
        """``reduce(op) s over i``, its result stored for the row and used by later phases."""
        i, s = fresh("i", I32), fresh("s", self.work)
        op = self.pick(tuple(REDUCTIONS))
        low = self.pick((i32(0), i32(0), i32(1)))
        body: list[Stmt] = []
        value = self.value(Var(row), Var(i), 1)
        if self.pick((False, True)):
            t = fresh("t", self.work)
            body.append(Decl(t, value, const=True))
            value = self.pick((Var(t), Binary("*", Var(t), Var(t)))) if op == "+" else Var(t)
        acc = Acc(s, op, self.const(REDUCTIONS[op]), value)
        out: list[Stmt] = [Reduce((acc,), i, low, Var(self.m), self.dist(), tuple(body))]
        self.values.append(s)
        if self.pick((True, False)):
            out.append(Store(self.output(self.elem), (Var(row),), self.stored(Var(s))))
        return out

    def private_row(self, row: Sym) -> list[Stmt]:
        """A row kept in an array of the iteration: written by one loop, read by the next, shifted or not."""
        buf = fresh("buf", Array(self.work, (i32(64),), self.pick(("shared", "shared", "local"))))
        i, j = fresh("i", I32), fresh("j", I32)
        dist = self.dist_of_64()
        write = Par(i, i32(0), i32(64), dist, (Store(buf, (Var(i),), self.value(Var(row), self.clamped(Var(i)), 1)),))
        local = isinstance(buf.type, Array) and buf.type.space == "local"
        at: Expr = (
            Var(j)
            if local
            else self.pick((Var(j), Binary("-", i32(63), Var(j)), Binary("%", Binary("+", Var(j), i32(5)), i32(64))))
        )
        target = self.output(self.elem)
        out = binary("+", binary("*", Var(row), i32(64)), Var(j))
        read = Par(j, i32(0), i32(64), dist if local else self.dist_of_64(),
                   (Store(target, (out,), self.stored(Load(buf, (at,)))),))  # fmt: skip
        return [Alloc(buf), write, *([] if local else self.updates(buf, dist)), read]

    def updates(self, buf: Sym, first: tuple[Level, ...]) -> list[Stmt]:
        """Loops of other ranges that change part of a row of 64 and read what none of them writes but themselves."""
        out: list[Stmt] = []
        for _ in range(self.pick((0, 0, 1, 2))):
            u, half = fresh("u", I32), self.pick((8, 16, 32))
            mine, other = self.pick((
                (Var(u), Binary("+", Var(u), i32(self.pick((half, 64 - half))))),
                (Binary("-", i32(63), Var(u)), Var(u)),
                (Binary("*", Var(u), i32(2)), Binary("+", Binary("*", Var(u), i32(2)), i32(1))),
            ))  # fmt: skip
            old = fresh("old", self.work)
            value = Binary(self.pick(("+", "-")), Var(old), self.pick((Load(buf, (mine,)), self.const(1))))
            store: Stmt = Store(buf, (mine,), value)
            if self.pick((False, False, True)):
                k = fresh("k", I32)
                store = For(k, i32(0), Binary("<", Var(k), self.bound()), Binary("+", Var(k), i32(1)), (store,))
            elif self.pick((False, False, True)):
                store = If(self.condition(Var(u), i32(5)), (store,))
            dist = self.pick((first, self.dist_of_64()))
            out.append(Par(u, i32(0), i32(half), dist, (Decl(old, Load(buf, (other,))), store)))
        return out

    # ----------------------------------------------------------------------------------------------- expressions

    def const(self, value: float) -> Const:
        return Const(int(value), I32) if self.work == I32 else Const(float(value), F32)

    def stored(self, e: Expr) -> Expr:
        return e if e.type == self.elem else Cast(self.elem, e, "c")

    def flat(self, r: Expr, i: Expr) -> Expr:
        return binary("+", binary("*", r, Var(self.m)), i)

    def reversed(self, i: Expr) -> Expr:
        return Binary("-", Binary("-", Var(self.m), i32(1)), i)

    def clamped(self, i: Expr) -> Expr:
        return Call("min", (i, Binary("-", Var(self.m), i32(1))), I32)

    def bound(self) -> Expr:
        return self.pick((i32(3), i32(4), Var(self.m), Call("min", (Var(self.m), i32(5)), I32)))

    def condition(self, a: Expr, b: Expr) -> Expr:
        return Binary(
            self.pick(("<", "<=", "==", ">")), self.pick((a, Binary("%", a, i32(3)))), self.pick((b, i32(1), i32(7)))
        )

    def value(self, r: Expr, i: Expr, depth: int, k: Expr | None = None) -> Expr:
        if depth <= 0:
            return self.leaf(r, i, k)
        a, b = self.value(r, i, depth - 1, k), self.value(r, i, depth - 1, k)
        op = self.pick(("+", "-", "*", "min", "max", "select", "neg", "leaf"))
        if op in "+-*":
            return Binary(op, a, b)
        if op in ("min", "max"):
            return Call(op, (a, b), self.work)
        if op == "select":
            return Select(self.condition(i, r), a, b)
        return Unary("-", a) if op == "neg" else a

    def leaf(self, r: Expr, i: Expr, k: Expr | None) -> Expr:
        options: list[Callable[[], Expr]] = [
            lambda: self.load(r, i),
            lambda: self.load(r, i),
            lambda: self.const(self.pick(LEAVES)),
        ]
        if self.values:
            options.append(lambda: Var(self.pick(self.values)))
        if k is not None:
            options += [
                lambda: self.load(r, self.clamped(k)),
                lambda: self.load(k, i, Call("min", (k, binary("-", Var(self.n), i32(1))), I32)),
            ]
        return self.pick(options)()

    def load(self, r: Expr, i: Expr, row: Expr | None = None) -> Expr:
        b = self.pick(self.inputs)
        near = self.pick((i, i, self.reversed(i), self.clamped(Binary("+", i, i32(1)))))
        index = self.pick((self.flat(row or r, near), near)) if row is None else self.flat(row, near)
        return cast(Load(b, (index,)), self.work)


def parallel_kernel(pick: Pick) -> Kernel:
    """A random kernel with inputs ``a``, ``b`` of n x m elements and outputs of at most n x max(m, 64)."""
    return Maker(pick).kernel()
