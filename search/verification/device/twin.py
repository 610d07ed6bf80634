"""The twin of a kernel: the same program with every float replaced by a word of exact modular arithmetic.

The rewrite keeps loops, indices, barriers, vectors, shared memory and lane exchanges, and turns arithmetic on floats
into calls of ``field_*`` functions (:mod:`ktc.ir.interp.domains.field_calls`), which every backend prints. So two
programs can be compared *to the bit, on a device, at production size*: reassociation is invisible, a dropped, doubled
or misplaced term is not. Blind spots are those of the exact domains: rounding, NaN, signed zeros.

    y[i] = a * x[i] + 1.0f      ->      y[i] = field_add(field_mul(a, x[i]), 4294967297ull)      (u64 buffers)
"""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.group_copies import by_threads
from ktc.ir.interp.domains.realmath import MIXED, OPERATORS, plain_name
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    AddrOf,
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    BulkCopy,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    InlineAsm,
    Load,
    MatrixLoad,
    Member,
    Mma,
    Produce,
    Raw,
    RawStmt,
    Select,
    Stmt,
    Store,
    Sym,
    TileMma,
    Unary,
    Var,
    VecGet,
    VecMake,
    While,
    fresh,
    i32,
)
from ktc.ir.sequences import launches
from ktc.ir.types import BOOL, I64, U64, Array, Ptr, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import declared, walk
from ktc.passes.lowering import materialise
from ktc.passes.lowering.decider import Decider
from ktc.passes.lowering.dynamic import beyond_static, dynamic_bytes

from .twin_meanings import COMBINED, FIELD, MEANINGS, floats_as, from_integer, hashed, is_word, to_integer, word

REFUSED = (BulkCopy, InlineAsm, MatrixLoad, Mma, Produce, RawStmt, TileMma)
"""Statements whose arithmetic is fixed in hardware or in text, and copies of whole matrices as they lie in memory."""

_ARITHMETIC = {"+": "field_add", "-": "field_sub", "*": "field_mul", "/": "field_div"}


def twin(kernel: Kernel) -> Kernel:
    """The twin of ``kernel``, lowered first if it is in parallel form. Its float parameters are words (u64).

    Raises:
        KtcError: E-TWIN-UNSUPPORTED with the place of what has no exact meaning; E-LOWER-* from lowering.
    """
    return retyped(kernel, Retyping)


def retyped(kernel: Kernel, types: type[Retyping]) -> Kernel:
    """``kernel``, lowered first if it is in parallel form, with floats as what ``types`` makes of them."""
    kernel = by_threads(materialise(kernel))
    t = types(kernel)
    params = tuple(t.param(p) for p in kernel.params)
    if kernel.is_sequence:
        if any(s.dynamic_shared is not None for s in launches(kernel)):
            t.refuse("a sequence of launches with dynamic shared memory")
        return kernel.with_(params=params, body=t.body(kernel.body))
    body = beyond_static(t.body(kernel.body), Decider(kernel))
    launch = kernel.launch
    if launch is not None:
        launch = dataclasses.replace(launch, dynamic_shared=t.dynamic_shared(body))
    return kernel.with_(params=params, body=body, launch=launch)


class Retyping:
    """A kernel with floats of another type, and what becomes of its expressions: a twin's words by default."""

    new_float = U64

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        syms = [*(p.sym for p in kernel.params), *declared(kernel.body)]
        self.syms = {s: fresh(s.name, new) for s in syms if (new := self.new_type(s.type)) != s.type}
        self.loc: Loc | None = kernel.loc

    def new_type(self, t: Any) -> Any:
        return floats_as(self.new_float, t)

    def refuse(self, what: str) -> NoReturn:
        raise KtcError(
            "E-TWIN-UNSUPPORTED", f"{what} has no exact meaning on a device", self.loc,
            hint="the other rungs of the ladder still apply",
        )  # fmt: skip

    def param(self, p):
        grows = 8 // scalar_of(p.sym.type).bytes if p.sym in self.syms and isinstance(p.sym.type, Ptr) else 1
        return dataclasses.replace(p, sym=self.syms.get(p.sym, p.sym), align=p.align * grows, init=self.initial(p))

    def initial(self, p):
        """The values that a parameter for constants has from the start."""
        elem = scalar_of(p.sym.type)
        return tuple(int(FIELD.const(v, elem)) for v in p.init) if p.init and is_word(elem) else p.init

    def dynamic_shared(self, body: Body) -> Expr | None:
        """Bytes of dynamic shared memory: of the shaped arrays, or what the launch gave, in words."""
        assert self.kernel.launch is not None
        given = self.kernel.launch.dynamic_shared
        arrays = [s.sym for s in walk(body) if isinstance(s, Alloc) and s.dynamic]
        if not arrays:
            return given
        if all(isinstance(a.type, Array) and a.type.shape for a in arrays):
            return dynamic_bytes(body)
        old = [s.sym for s in walk(self.kernel.body) if isinstance(s, Alloc) and s.dynamic]
        grows = {8 // scalar_of(a.type).bytes if a in self.syms else 1 for a in old}
        if len(grows) > 1 or given is None:
            self.refuse("dynamic shared memory of several element types")
        return Binary("*", given, i32(grows.pop())) if given.type != U64 else given

    # ------------------------------------------------------------------------------------------------- statements

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            self.loc = s.loc or self.loc
            new = self.stmt(s)
            out.extend(new) if isinstance(new, tuple) else out.append(new)
        return tuple(out)

    def stmt(self, s: Stmt) -> Stmt | Body:
        if isinstance(s, REFUSED):
            self.refuse(f"a {type(s).__name__}")
        if isinstance(s, Atomic) and is_word(scalar_of(s.buffer.type)) and s.op not in ("exch", "cas"):
            return self.atomic(s)
        if isinstance(s, AsyncCopy) and is_word(scalar_of(s.src.type)):
            return self.copy(s)
        if isinstance(s, For) and s.unroll is not None:
            s = dataclasses.replace(s, unroll=1)  # a hint to the compiler: copies of long bodies take it minutes
        if isinstance(s, If) or hasattr(s, "cond"):
            s = self._with_bool_condition(s)
        return self._rebuilt(s)

    def _with_bool_condition(self, s: Any) -> Any:
        return dataclasses.replace(s, cond=Cast(BOOL, s.cond)) if is_word(s.cond.type) else s

    def atomic(self, s: Atomic) -> Body:
        """Compare and swap until nobody came between."""
        meaning = COMBINED.get(s.op)
        if meaning is None:
            self.refuse(f"an atomic {s.op} on floats")
        buffer, index = self.syms.get(s.buffer, s.buffer), tuple(map(self.expr, s.index))
        term, old, assumed = fresh("term", U64), fresh("old", U64), fresh("assumed", U64)
        zero = Const(0, U64)
        read = Atomic("cas", buffer, index, zero, zero, old, s.order, s.scope, loc=s.loc)
        swap = dataclasses.replace(read, value=meaning(Var(assumed), Var(term)), compare=Var(assumed))
        out: list[Stmt] = [
            Decl(term, self.expr(s.value), loc=s.loc),
            Decl(old, None, loc=s.loc),
            Decl(assumed, None, loc=s.loc),
            read,
            While(
                Binary("!=", Var(old), Var(assumed)), (Assign(assumed, Var(old), loc=s.loc), swap), post=True, loc=s.loc
            ),
        ]
        if s.dst is not None:
            out.append(Assign(self.syms.get(s.dst, s.dst), Var(old), loc=s.loc))
        return tuple(out)

    def copy(self, s: AsyncCopy) -> Stmt:
        """A copy that is done at once: words are wider than the instruction's units."""
        dst, src = self.syms.get(s.dst, s.dst), self.syms.get(s.src, s.src)
        to, at = tuple(map(self.expr, s.dst_index)), tuple(map(self.expr, s.src_index))
        width = s.width
        moved = Store(dst, to, Load(src, at, width), width, loc=s.loc)
        if s.valid is None:
            return moved
        if width == 1:
            zero: Expr = Const(0, U64)
        elif isinstance(width, int):
            zero = VecMake(Vec(U64, width), (Const(0, U64),) * width)
        else:
            self.refuse("a conditional copy of an open width")
        return If(self.expr(s.valid), (moved,), (Store(dst, to, zero, width, loc=s.loc),), loc=s.loc)

    def _rebuilt(self, node: Any) -> Any:
        """``node`` with its parts rewritten, whatever it is."""
        changes = {}
        for f in dataclasses.fields(node):
            if f.name in ("loc", "comments", "tags"):
                continue
            old = getattr(node, f.name)
            new = self._value(old)
            if new is not old:
                changes[f.name] = new
        return dataclasses.replace(node, **changes) if changes else node

    def _value(self, v: Any) -> Any:
        if isinstance(v, Expr):
            return self.expr(v)
        if isinstance(v, Sym):
            return self.syms.get(v, v)
        if isinstance(v, Type):
            return self.new_type(v)
        if isinstance(v, tuple) and v:
            return self.body(v) if isinstance(v[0], Stmt) else tuple(self._value(x) for x in v)
        return v

    # ------------------------------------------------------------------------------------------------ expressions

    def expr(self, e: Expr) -> Expr:
        match e:
            case Const() if e.ty.is_float:
                return word(float(e.value), e.ty)
            case Unary("-", x) if is_word(x.type):
                return self._each(e.type, lambda a: Call("field_neg", (a,), U64), x)
            case Unary("!", x) if is_word(x.type):
                return Unary("!", self._truth(x))
            case Binary(op, a, b) if is_word(a.type):
                return self._binary(op, a, b)
            case Select() if is_word(e.cond.type):
                return self._rebuilt(dataclasses.replace(e, cond=Cast(BOOL, e.cond)))
            case Cast():
                return self._cast(e)
            case Call() if is_word(e.ty) or any(is_word(a.type) for a in e.args):
                return self._call(e)
            case Raw() | AddrOf() | Member():
                self.refuse(f"a {type(e).__name__}")
        return self._rebuilt(e)

    def _each(self, t: Type, f: Any, *operands: Expr) -> Expr:
        """``f`` of the rewritten operands, lane by lane where they are vectors."""
        new = [self.expr(x) for x in operands]
        if not isinstance(t, Vec):
            return f(*new)
        if not isinstance(t.n, int):
            self.refuse("arithmetic on vectors of an open width")
        lanes = [[VecGet(x, i32(k)) if isinstance(x.type, Vec) else x for x in new] for k in range(t.n)]
        made = tuple(f(*lane) for lane in lanes)
        return VecMake(Vec(made[0].type, t.n), made)  # type: ignore[arg-type]

    def _binary(self, op: str, a: Expr, b: Expr) -> Expr:
        if op in COMPARISONS:
            return Binary(op, self._order(a), self._order(b))
        if op in ("&&", "||"):
            return Binary(op, self._truth(a), self._truth(b))
        if op == "%":
            return hashed("fmod", self.expr(a), self.expr(b))
        if op not in _ARITHMETIC:
            self.refuse(f"operator '{op}' on floats")
        return self._each(a.type, lambda x, y: Call(_ARITHMETIC[op], (x, y), U64), a, b)

    def _order(self, x: Expr) -> Expr:
        if isinstance(x.type, Vec):
            self.refuse("a comparison of vectors")
        return Call("field_order", (self.expr(x),), I64)

    def _truth(self, x: Expr) -> Expr:
        if not is_word(x.type):
            return self.expr(x)
        return Binary("!=", self._order(x), Const(0, I64))

    def _cast(self, e: Cast) -> Expr:
        here, there = is_word(e.x.type), is_word(e.to)
        if not (here or there):
            return self._rebuilt(e)
        if e.style == "bit" and scalar_of(e.x.type) != scalar_of(e.to):
            self.refuse("looking at a float's bits")
        if here and there:
            return self.expr(e.x)
        if here:
            return self._each(e.to, lambda x: to_integer(x, scalar_of(e.to)), e.x)
        source = scalar_of(e.x.type)
        return self._each(e.to, lambda x: from_integer(x, source), e.x)

    def _call(self, e: Call) -> Expr:
        fn = plain_name(e.fn)
        if fn in OPERATORS:
            return self._binary(OPERATORS[fn], *e.args)
        if fn in MIXED or e.effects != "pure" or not all(isinstance(a.type, Scalar | Vec) for a in e.args):
            self.refuse(f"the function '{e.fn}'")
        if fn in MEANINGS:
            return self._each(e.ty, MEANINGS[fn], *e.args)
        if not 1 <= len(e.args) <= 3 or not is_word(e.ty):
            self.refuse(f"the function '{e.fn}'")
        return self._each(e.ty, lambda *args: hashed(fn, *args), *e.args)


__all__ = ["is_word", "twin"]
