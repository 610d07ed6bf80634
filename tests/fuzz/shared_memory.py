"""Random programs over a block's memory: loops over threads, one after the other and in rounds, that read and write
shared arrays, and the block's row of the output, wherever they like. Many have races; those are no cases. What the
others need is a barrier at the right places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ktc.ir.fold import binary
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Binary,
    Body,
    Call,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import I32, Array, Ptr

Pick = Callable[[Sequence[Any]], Any]

SIZE = 16
"""Elements of each shared array (and of each row that the kernel leaves)."""

ZERO = i32(0)

DEEPEST = 2
"""Serial loops around a loop over threads."""


class Maker:
    """Draws one kernel. Blocks of 4 or 8 threads on one or two axes; a row of ``SIZE`` elements a block."""

    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.a, self.out = fresh("a", Ptr(I32, const=True, restrict=True)), fresh("out0", Ptr(I32, restrict=True))
        self.n, self.m, self.row = fresh("n", I32), fresh("m", I32), fresh("r", I32)
        self.shared = [fresh(f"s{k}", Array(I32, (i32(SIZE),), "shared")) for k in range(pick((1, 1, 2)))]
        self.memories = [*self.shared, *pick(((), (), (self.out,)))]
        self.flat = pick((True, True, False))
        self.moving: list[Sym] = []
        self.stores = 0

    def kernel(self) -> Kernel:
        body: list[Stmt] = [Alloc(s) for s in self.shared]
        body += [self.filled(s) for s in self.memories]
        if self.pick((True, False)):
            off = fresh("off", I32)
            self.moving.append(off)
            body.append(Decl(off, i32(0)))
        body += self.statements((), 0)
        body += self.over_threads(SIZE, lambda t: (self.store(self.out, t, self.load(t)),))
        params = [Param(s, align=16, noalias=True) for s in (self.a, self.out)]
        params += [Param(self.m, range=(1, 4096)), Param(self.n, range=(1, 4096))]
        blocks = (Level("block", None, "x"),)
        return Kernel("fuzz", tuple(params), None, (Par(self.row, i32(0), Var(self.n), blocks, tuple(body)),))

    def of_row(self, t: Expr) -> Expr:
        return binary("+", binary("*", Var(self.row), i32(SIZE)), t)

    def load(self, at: Expr) -> Expr:
        s = self.pick(self.memories)
        return Load(s, (self.of_row(at) if s == self.out else at,))

    def store(self, s: Sym, at: Expr, value: Expr) -> Store:
        """A value that no other statement stores: what is stored once more as it was is work done twice."""
        self.stores += 1
        return Store(s, (self.of_row(at) if s == self.out else at,), Binary("+", value, i32(100 * self.stores)))

    def filled(self, s: Sym) -> Stmt:
        def store(t: Expr) -> Body:
            at = binary(
                "+", binary("*", Var(self.row), Var(self.m)), Call("min", (t, Binary("-", Var(self.m), i32(1))), I32)
            )
            return (self.store(s, t, Load(self.a, (at,))),)

        return self.over_threads(SIZE, store)[0]

    # ------------------------------------------------------------------------------------------- loops over threads

    def over_threads(self, count: int, body: Callable[[Expr], Body], lo: Expr = ZERO) -> list[Stmt]:
        """``par t in lo..lo + count``, over threads of one axis or two."""
        t = fresh("t", I32)
        if self.flat:
            threads = Level("thread", i32(8), "x")
            dist = self.pick((
                (threads, Level("unroll", i32(2))),
                (threads, Level("seq")),
                (Level("unroll", i32(2)), threads, Level("seq")),
            ))  # fmt: skip
            return [Par(t, lo, binary("+", lo, i32(count)), dist, body(Var(t)))]
        u, columns = fresh("u", I32), min(count, 4)
        x, y = (Level("thread", i32(4), "x"), Level("seq")), (Level("thread", i32(2), "y"), Level("seq"))
        at = binary("+", binary("*", Var(u), i32(columns)), Var(t))
        inner = Par(t, lo, binary("+", lo, i32(columns)), x, body(at))
        return [Par(u, i32(0), i32(count // columns), y, (inner,))]

    def statements(self, rounds: tuple[Sym, ...], depth: int) -> list[Stmt]:
        kinds = [self.loop, self.loop, self.loop]
        kinds += [self.in_rounds] * 2 if depth < DEEPEST else []
        kinds += [self.by_one] if self.flat else []
        kinds += [self.moved] if self.moving else []
        return [s for _ in range(self.pick((1, 2, 2, 3))) for s in self.pick(kinds)(rounds, depth)]

    def loop(self, rounds: tuple[Sym, ...], depth: int) -> list[Stmt]:
        places = [*rounds, *self.moving]
        lo = binary("*", Var(self.pick(places)), i32(4)) if places and self.pick((False, False, True)) else i32(0)
        count = self.pick((4, 8, 8, 16))

        def body(t: Expr) -> Body:
            return tuple(s for _ in range(self.pick((1, 1, 2))) for s in self.in_iteration(t, rounds, count))

        return self.over_threads(count, body, lo)

    def in_iteration(self, t: Expr, rounds: tuple[Sym, ...], count: int) -> list[Stmt]:
        v = fresh("v", I32)
        store: Stmt = self.store(self.pick(self.memories), self.own_place(t, rounds, count),
                            Binary(self.pick("+-"), Var(v), self.pick((i32(1), t))))  # fmt: skip
        if self.pick((False, False, True)):
            store = If(Binary("<", t, self.pick((i32(3), i32(6), Var(self.m)))), (store,))
        elif self.pick((False, False, True)):
            k = fresh("k", I32)
            store = self.store(
                self.pick(self.memories), self.own_place(t, (*rounds, k), count), Binary("+", Var(v), Var(k))
            )
            end = self.pick((i32(2), Call("min", (Var(self.m), i32(2)), I32)))
            store = For(k, i32(0), Binary("<", Var(k), end), Binary("+", Var(k), i32(1)), (store,))
        return [Decl(v, self.load(self.place(t, rounds))), store]

    def own_place(self, t: Expr, rounds: tuple[Sym, ...], count: int) -> Expr:
        """An index that no other of ``count`` iterations has."""
        one_each: list[Expr] = [t, t, t, Binary("-", i32(SIZE - 1), t), binary("+", t, self.shift(rounds))]
        twice = binary("*", t, i32(2))
        sparse: list[Expr] = [twice, binary("+", twice, i32(1))] if 2 * count <= SIZE else []
        return Binary("%", self.pick((*one_each, *sparse)), i32(SIZE))

    def place(self, t: Expr, rounds: tuple[Sym, ...]) -> Expr:
        """An index, mostly one of the iteration's own."""
        return self.pick((self.own_place(t, rounds, 1), self.own_place(t, rounds, 1), self.shift(rounds)))

    def shift(self, rounds: tuple[Sym, ...]) -> Expr:
        return self.pick((i32(0), i32(1), i32(4), i32(8), *map(Var, rounds), *map(Var, self.moving)))

    # ------------------------------------------------------------------------------------------ around and between

    def in_rounds(self, rounds: tuple[Sym, ...], depth: int) -> list[Stmt]:
        k = fresh("k", I32)
        body = tuple(self.statements((*rounds, k), depth + 1))
        end = self.pick((i32(2), i32(3), Call("min", (Var(self.m), i32(3)), I32)))
        return [For(k, i32(0), Binary("<", Var(k), end), Binary("+", Var(k), i32(1)), body)]

    def by_one(self, rounds: tuple[Sym, ...], depth: int) -> list[Stmt]:
        """What the block does once: a number that all know then."""
        v = fresh("v", I32)
        place = self.place(self.shift(rounds), rounds)
        out: list[Stmt] = [Decl(v, self.load(place))]
        return [*out, self.store(self.pick(self.memories), self.place(i32(3), rounds), Binary("+", Var(v), i32(1)))]

    def moved(self, rounds: tuple[Sym, ...], depth: int) -> list[Stmt]:
        v = self.pick(self.moving)
        return [Assign(v, Binary("%", Binary("+", Var(v), self.pick((i32(1), i32(4)))), i32(SIZE)))]


def shared_memory_kernel(pick: Pick) -> Kernel:
    """A random kernel with an input ``a`` of n x m elements and an output of n x 16."""
    return Maker(pick).kernel()
