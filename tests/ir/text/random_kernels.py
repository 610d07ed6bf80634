# ruff: noqa: E501
"""Hypothesis strategy: random well-typed kernels that between them use every node class and every field of the IR."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from ktc.ir import nodes as n
from ktc.ir.fold import common_type
from ktc.ir.kernel import ORIGINS, Assume, Kernel, KnobDecl, Launch, Param
from ktc.ir.nodes import Expr, Sym, fresh
from ktc.ir.types import (
    BF16,
    BOOL,
    E4M3,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    VOID,
    Array,
    Opaque,
    Ptr,
    Scalar,
    Struct,
    Type,
    Vec,
)  # fmt: skip

NUMBERS = (F16, F32, F64, BF16, E4M3, I8, I32, I64, U8, U16, U32, U64)
INTS = (I8, I32, I64, U8, U32, U64)
NAMES = ("i", "j", "x", "in", "let", "par", "f32", "threadIdx", "a b", "min", "shfl", "inf_f64", "f32x4", "over", "host",
         "unroll", "step", "warp", "lane", "mask", "_NL", "as", "yield", "f", "e1", "x1f", "u32x", "raw", "origin")  # fmt: skip
ARITH, BITS = ("+", "-", "*", "/"), ("%", "&", "|", "^", "<<", ">>")
TEXTS = ("", "asm volatile", 'a "quoted" \\ text\nand a line', "#é // $x")


class Builder:
    """Draws one tree; ``scope`` holds the symbols in sight."""

    def __init__(self, draw) -> None:
        self.draw, self.scope, self.knobs = draw, [], ("V", "TM", "in")

    def pick(self, options):
        return self.draw(st.sampled_from(tuple(options)))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def some(self, make, most: int = 3) -> tuple:
        return tuple(make() for _ in range(self.draw(st.integers(0, most))))

    def declare(self, t: Type) -> Sym:
        s = fresh(self.pick(NAMES), t)
        self.scope.append(s)
        return s

    # types

    def ptr(self, depth: int = 1) -> Ptr:
        elem = self.ptr(0) if depth and self.draw(st.integers(0, 9)) == 0 else self.pick((*NUMBERS, self.vec()))
        return Ptr(elem, self.pick(("global", "shared", "const", "generic")), self.flag(), self.flag(), self.flag())

    def vec(self) -> Vec:
        return Vec(self.pick(NUMBERS), self.pick((2, 4, n.Knob("V"), n.Binary("*", n.Knob("V"), n.i32(2)), n.i32(4))))

    def array(self) -> Array:
        shape = tuple(
            self.pick((n.i32(4), n.Knob("TM"), n.Binary("+", n.Knob("V"), n.i32(1)))) for _ in range(self.pick((1, 2)))
        )
        elem = self.pick((F32, self.vec(), Array(F16, (n.i32(2),), "shared"), Ptr(F32)))
        return Array(elem, shape, self.pick(("local", "shared")))

    def odd(self) -> Type:
        return self.pick((Struct("pair", (("a", F32), ("let", Ptr(I32)))), Opaque("cuda::barrier<1>"), VOID))

    # expressions

    def const(self, t: Scalar) -> Expr:
        if t.kind == "bool":
            return n.Const(self.flag(), t)
        if t.is_float:
            any_float = st.floats(allow_nan=True, allow_infinity=True)
            return n.Const(self.draw(st.one_of(st.sampled_from((0.0, -0.0, 1e-6, math.inf, 5e-324)), any_float)), t)
        lo, hi = (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
        return n.Const(self.draw(st.integers(lo, hi)), t)

    def number(self, depth: int, t: Scalar | None = None) -> Expr:
        """A scalar expression of type ``t``."""
        t = t or self.pick((*NUMBERS, BOOL))
        if depth <= 0:
            options = [n.Var(s) for s in self.scope if s.type == t] + ([n.Knob("V")] if t == I32 else [])
            return self.pick(options) if options and self.flag() else self.const(t)
        return self.pick(self.makers(depth - 1, t))()

    def makers(self, d: int, t: Scalar):
        num = self.number
        yield lambda: num(0, t)
        yield lambda: n.Cast(t, num(d), self.pick(("c", "static", "implicit", "bit")))
        yield lambda: n.Select(num(d, BOOL), num(d, t), self.converted(d, t))
        yield lambda: n.Call(self.pick(("exp", "min", "max", "cdiv", "foo", "shfl", "isnan")), self.args(d, t), t,
                             self.pick(("pure", "read", "write", "sync")))  # fmt: skip
        yield lambda: n.WarpOp(self.pick(("shfl", "shfl_xor")), num(d, t), num(d, I32), self.pick((n.i32(32), num(d, I32))),
                               self.pick((n.Const(0xFFFFFFFF, U32), num(d, U32))))  # fmt: skip
        yield lambda: n.Raw(self.pick(TEXTS), self.some(lambda: self.pick(self.scope)), self.pick((t, Ptr(F32))))
        yield lambda: n.Member(n.Call("foo", (), Struct("pair", (("let", t),))), "let", t)
        yield lambda: n.Member(n.Call("foo", (), Opaque("x")), "y", t)
        yield lambda: n.VecGet(n.VecMake(Vec(t, 2), (self.converted(d, t), num(d, t))), num(d, I32))
        if t == U32:
            yield lambda: n.HwIndex(self.pick(("thread", "block", "block_dim", "grid_dim")), self.pick("xyz"))
            yield lambda: n.WarpOp("ballot", num(d, BOOL), None, n.i32(32), num(d, U32))
        if t == BOOL:
            both = self.pick(NUMBERS)
            yield lambda: n.Binary(self.pick(("<", "<=", ">", ">=", "==", "!=")), num(d, both), self.converted(d, both))
            yield lambda: n.Binary(self.pick(("&&", "||")), self.converted(d, BOOL), num(d, BOOL))
            yield lambda: n.Unary("!", self.converted(d, BOOL))
        else:
            yield lambda: n.Unary("-" if t.is_float else self.pick("-~"), num(d, t))
            ops = ARITH if t.is_float else ARITH + BITS
            yield lambda: n.Binary(self.pick(ops), self.converted(d, t), num(d, t))
            yield lambda: n.Binary(self.pick(ops), num(d, t), self.converted(d, t))
        buffers = [s for s in self.scope if isinstance(s.type, Ptr) and s.type.elem == t]
        if buffers:
            yield lambda: n.Load(self.pick(buffers), (num(d, I32),), cache=self.pick(("", "ldg", "cs")))
        arrays = [
            s
            for s in self.scope
            if isinstance(s.type, Array) and isinstance(s.type.elem, Vec) and s.type.elem.elem == t
        ]
        if arrays:
            a = self.pick(arrays)
            yield lambda: n.Load(a, tuple(num(d, self.pick((I32, I64))) for _ in range(len(a.type.shape) + 1)))

    def converted(self, d: int, t: Scalar) -> Expr:
        """Type ``t``, often through an implicit cast from a type that C would convert to it, or would not."""
        sources = [s for s in (*NUMBERS, BOOL) if s != t]
        likely = [s for s in sources if common_type(s, t) == t] or sources
        return (
            n.Cast(t, self.number(d, self.pick(self.pick((sources, likely)))), "implicit")
            if self.flag()
            else self.number(d, t)
        )

    def args(self, d: int, t: Scalar) -> tuple[Expr, ...]:
        plain = tuple(self.converted(d, t) for _ in range(self.pick((1, 2, 2, 3))))
        pointers = [s for s in self.scope if isinstance(s.type, Ptr | Array)]
        return (*plain, n.AddrOf(self.pick(pointers), (self.number(d, I32),))) if pointers and self.flag() else plain

    def count(self, d: int = 1) -> int | Expr:
        return self.pick((1, 0, 2, 8, n.i32(8), n.Knob("V"), n.Binary("*", n.Knob("V"), n.i32(2)), n.Const(-1, I32)))

    # statements

    def body(self, depth: int, loop: bool = False) -> tuple:
        before = len(self.scope)
        out = self.some(lambda: self.stmt(depth, loop), 4)
        del self.scope[before:]
        return out

    def stmt(self, depth: int, loop: bool):
        kinds = ["decl", "alloc", "assign", "store", "eval", "leaf", "atomic", "copy", "asm", "raw"]
        kinds += ["if", "for", "while", "par", "reduce"] if depth else []
        return getattr(self, "s_" + self.pick(kinds))(depth - 1)

    def s_decl(self, d):
        t = self.pick((*NUMBERS, BOOL, self.vec(), self.array(), self.odd()))
        init = self.pick((None, self.converted(2, t))) if isinstance(t, Scalar) else None
        return n.Decl(sym=self.declare(t), init=init, const=self.flag())

    def s_alloc(self, d):
        return n.Alloc(sym=self.declare(self.array()), dynamic=self.flag(), align=self.pick((0, 16)))

    def s_assign(self, d):
        scalars = [s for s in self.scope if isinstance(s.type, Scalar)]
        if not scalars:
            return self.s_decl(d)
        s = self.pick(scalars)
        update = n.Binary(self.pick(("+", "<", "*")), n.Var(s), self.converted(1, s.type))
        value = update if self.flag() and update.type == s.type else self.converted(2, s.type)
        return n.Assign(sym=s, value=value)

    def s_store(self, d):
        buffers = [s for s in self.scope if isinstance(s.type, Ptr | Vec) and isinstance(s.type.elem, Scalar)]
        if not buffers:
            return self.s_decl(d)
        b, index = self.pick(buffers), (self.number(1, self.pick(INTS)),)
        width, cache = self.count(), self.pick(("", "cs"))
        same = n.Load(b, index, width, cache)
        if isinstance(same.type, Scalar):
            update = n.Binary("*", same, self.converted(1, same.type))
            return n.Store(
                buffer=b, index=index, value=self.pick((update, self.converted(2, same.type))), width=width, cache=cache
            )
        return n.Store(buffer=b, index=index, value=n.Raw("v", (), same.type), width=width, cache=cache)

    def s_eval(self, d):
        return n.Eval(value=self.number(2))

    def s_leaf(self, d):
        return self.pick((
            n.Break(), n.Continue(), n.Return(), n.Barrier(), n.Barrier(scope="warp", mask=self.number(1, U32)),
            n.Barrier(scope="warp"), n.Fence(scope="block"), n.Fence(), n.GridDependency(), n.GridDependency("release"),
            n.AsyncCommit(), n.AsyncWait(pending=self.count()),
        ))  # fmt: skip

    def pointers(self):
        return [s for s in self.scope if isinstance(s.type, Ptr) and isinstance(s.type.elem, Scalar)]

    def s_atomic(self, d):
        if not self.pointers():
            return self.s_eval(d)
        b = self.pick(self.pointers())
        t = b.type.elem
        old = [s for s in self.scope if s.type == t]
        return n.Atomic(
            op=self.pick(("add", "cas", "exch", "mul", "gtu", "smax")), buffer=b, index=(self.number(1, I32),), value=self.converted(1, t),
            compare=self.pick((None, self.converted(1, t))), dst=self.pick(old) if old and self.flag() else None,
            order=self.pick(("relaxed", "acq_rel")), scope=self.pick(("device", "block", "system")),
        )  # fmt: skip

    def s_copy(self, d):
        if not self.pointers():
            return self.s_eval(d)
        a, b = self.pick(self.pointers()), self.pick(self.pointers())
        return n.AsyncCopy(dst=a, dst_index=(self.number(1, I32),), src=b, src_index=(self.number(1, I64),),
                           width=self.count(), cache=self.pick(("", "cg")),
                           valid=self.converted(1, BOOL) if self.flag() else None)  # fmt: skip

    def s_asm(self, d):
        outs = self.some(lambda: ("=r", self.pick(self.scope)), 2)
        return n.InlineAsm(
            text=self.pick(TEXTS),
            outputs=outs,
            inputs=self.some(lambda: ("f", self.number(1)), 2),
            volatile=self.flag(),
        )

    def s_raw(self, d):
        one = lambda: self.pick(self.scope)  # noqa: E731
        return n.RawStmt(text=self.pick(TEXTS), reads=self.some(one), writes=self.some(one), may_sync=self.flag())

    def s_if(self, d):
        return n.If(cond=self.converted(2, BOOL), then=self.body(d), orelse=self.body(d))

    def s_while(self, d):
        return n.While(cond=self.converted(1, BOOL), body=self.body(d, True), post=self.flag())

    def s_for(self, d):
        t = self.pick((I32, I64, U32))
        init, hi, by = self.converted(1, t), self.converted(1, t), self.pick((n.Const(1, t), self.converted(1, t)))
        unroll = self.pick((None, self.count()))
        before = len(self.scope)
        v = self.declare(t)
        plain = (n.Binary("<", n.Var(v), hi), n.Binary("+", n.Var(v), by))
        cond, step = self.pick((plain, (self.number(1, BOOL), self.number(1, t))))
        s = n.For(var=v, init=init, cond=cond, step=step, body=self.body(d, True), unroll=unroll)
        del self.scope[before:]
        return s

    def dist(self):
        axis = {"thread": "xyz", "block": "xyz", "cluster": "x"}

        def level():
            kind = self.pick(n.LEVELS)
            return n.Level(
                kind, self.pick((None, n.Knob("V"), n.i32(4), self.number(1, I32))), self.pick(axis.get(kind, ("",)))
            )

        return self.some(level)

    def s_par(self, d):
        t = self.pick((I32, U32))
        lo, hi, before = self.converted(1, t), self.converted(1, t), len(self.scope)
        dist = self.dist()
        s = n.Par(var=self.declare(t), lo=lo, hi=hi, dist=dist, body=self.body(d))
        del self.scope[before:]
        return s

    def s_reduce(self, d):
        t = self.pick((I32, U32))
        lo, hi, dist, before = self.converted(1, t), self.converted(1, t), self.dist(), len(self.scope)
        types = [self.pick(NUMBERS) for _ in range(self.pick((1, 2)))]
        inits = [self.converted(1, a) for a in types]
        v = self.declare(t)
        body = self.body(d)
        values = [self.converted(1, a) for a in types]
        del self.scope[before:]
        accs = tuple(
            n.Acc(self.declare(a), self.pick(("+", "*", "min", "max", "&", "|", "^")), i, w)
            for a, i, w in zip(types, inits, values)
        )
        return n.Reduce(accs=accs, var=v, lo=lo, hi=hi, dist=dist, body=body, strategy=self.pick(("auto", "shuffle")))

    # kernels

    def param(self) -> Param:
        return Param(
            self.declare(self.pick((*NUMBERS, BOOL, Ptr(F32), Ptr(U8), self.ptr(), Struct("s", (("a", F32),)), Opaque("T")))),
            align=self.pick((0, 16)), divisible_by=self.pick((1, 8)), range=self.pick(((None, None), (1, None), (None, 8), (-1, 9))),
            noalias=self.flag(), readonly=self.flag(), host=self.flag(),
        )  # fmt: skip

    def kernel(self) -> Kernel:
        params = tuple(self.param() for _ in range(self.draw(st.integers(1, 4))))
        e = lambda: self.pick((n.i32(1), n.Const(1, U32), self.number(1, I32)))  # noqa: E731
        three = lambda: (e(), e(), e())  # noqa: E731
        launch = Launch(three(), three(), *(self.pick((None, make())) for make in (e, three, e, e)))
        knobs = tuple(
            KnobDecl(
                k, self.pick(((), (1, 2, 4), (-1, 3))), 1, self.pick(TEXTS), self.pick(TEXTS), self.pick((None, 2))
            )
            for k in self.knobs
        )
        return Kernel(
            self.pick(("k", "kernel", "f<half>")), params, self.pick((launch, None)), self.body(3), knobs,
            self.some(lambda: self.number(2, BOOL)),
            self.some(lambda: Assume(self.number(2, BOOL), self.pick(ORIGINS))),
            self.some(lambda: self.pick(TEXTS)), frozenset(self.some(lambda: self.pick(("reassociates", "fast_math")))),
        )  # fmt: skip


@st.composite
def kernels(draw) -> Kernel:
    return Builder(draw).kernel()
