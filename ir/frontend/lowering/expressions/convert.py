"""Conversions and arithmetic on scalars, with C++'s rules made explicit as casts."""

from __future__ import annotations

from typing import Any

from ktc.ir.fold import common_type, fold_node, is_const
from ktc.ir.frontend.dialects.dialect import OPENCL
from ktc.ir.frontend.meaning.constants import const_as, of_bits
from ktc.ir.frontend.meaning.cxx_types import CArray, show
from ktc.ir.frontend.meaning.enums import Enumerations
from ktc.ir.frontend.meaning.name_meanings import OpaqueVal
from ktc.ir.frontend.meaning.values import ChoicePtr, NullVal, PtrToPlace, PtrVal, RVal
from ktc.ir.nodes import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    HwIndex,
    Load,
    Select,
    Unary,
    Var,
    VecGet,
    VecMake,
    i32,
)
from ktc.ir.types import BOOL, EVENT, F32, F64, I32, I64, U32, U64, Scalar, Type, Vec


class Converter(Enumerations):
    """Scalar and vector arithmetic."""

    def convert(self, v: RVal, to: Type, style: str = "implicit", node: Any = None) -> RVal:
        """``v`` as a ``to``; literals are converted in place."""
        e = v.expr
        t = e.type
        if t is to or t == to:
            return v
        if (t is EVENT or to is EVENT) and not (isinstance(e, Const) and e.value == 0):
            self.fail("E-SEMA-CONVERT", f"cannot convert '{show(t)}' to '{show(to)}'", node)
        if to == EVENT:
            return RVal(Const(0, EVENT))
        if isinstance(t, Scalar) and isinstance(to, Scalar):
            if t.bits == 64 and to.is_int and to.bits == 32 and self.program.dialect is OPENCL:
                short = narrowed(e)
                if short is not None:
                    return RVal(short if to == U32 else Cast(to, short, "implicit"))
            if isinstance(e, Const):
                c = const_as(e, to)
                if c is not None:
                    return RVal(c)
            return RVal(Cast(to, e, style))
        spreads = style != "implicit" or self.program.dialect is OPENCL
        if isinstance(to, Vec) and isinstance(t, Scalar) and spreads and isinstance(to.n, int):
            lane = self.convert(v, to.elem, style, node).expr
            return RVal(VecMake(to, (self.reuse(lane),) * to.n))
        self.fail("E-SEMA-CONVERT", f"cannot convert '{show(t)}' to '{show(to)}'", node)

    def reuse(self, e: Expr) -> Expr:
        """``e``, or a temporary holding it if using it twice would compute it twice."""
        return (
            e
            if isinstance(e, Const | Var) or (isinstance(e, Load) and e.buffer.type.__class__ is Vec)
            else self.temp(e)
        )

    def condition(self, node: Any) -> Expr:
        """An expression in a boolean context."""
        return self.truth_of(self.load(self.eval(node), node), node)

    def truth_of(self, v: Any, node: Any = None) -> Expr:
        """A loaded value as a condition: a number is not zero, a pointer is not ``nullptr``."""
        if isinstance(v, PtrVal | PtrToPlace | ChoicePtr | NullVal):
            return self.unary("!", RVal(self.is_null(v, node)), node).expr
        if isinstance(v, OpaqueVal) and isinstance(v.type, CArray):
            return Const(True, BOOL)  # a string, as in assert(n > 0 && "there are none")
        return self.truth(self.rvalue(v, node), node)

    def truth(self, v: RVal, node: Any = None) -> Expr:
        if v.type == BOOL:
            return v.expr
        if not isinstance(v.type, Scalar) or v.type == EVENT:
            self.fail("E-SEMA-CONVERT", f"'{show(v.type)}' is not a condition", node)
        if isinstance(v.expr, Cast) and v.expr.style == "implicit" and v.type.is_int and v.expr.x.type == BOOL:
            return v.expr.x
        return self.convert(v, BOOL, "implicit", node).expr

    def promote(self, v: RVal) -> RVal:
        """Integer promotion."""
        t = v.type
        small = isinstance(t, Scalar) and (t == BOOL or (t.is_int and t.bits < 32))
        return self.convert(v, I32) if small else v

    def arithmetic(self, op: str, a: RVal, b: RVal, node: Any) -> RVal:
        """``a op b`` after the usual arithmetic conversions."""
        ta, tb = a.type, b.type
        if ta is tb and ta in NATIVE and op in ANY_NUMBERS:
            return RVal(fold_const(Binary(op, a.expr, b.expr)))
        if isinstance(ta, Vec) or isinstance(tb, Vec):
            return self._lanewise(op, a, b, node)
        if not (isinstance(ta, Scalar) and isinstance(tb, Scalar)):
            self.fail("E-SEMA-OPERATOR", f"no operator '{op}' for '{show(ta)}' and '{show(tb)}'", node)
        if EVENT in (ta, tb):
            self.fail("E-SEMA-OPERATOR", f"no operator '{op}' for an event", node)
        if op in ("<<", ">>"):
            a, b = self.promote(a), self.promote(b)
            self._need_int(op, a, b, node)
            by = self.convert(b, a.type).expr
            if self.program.dialect is OPENCL and isinstance(a.type, Scalar) and not is_const(by):
                by = fold_const(Binary("&", by, Const(a.type.bits - 1, a.type)))  # OpenCL C 6.3: modulo the width
            return RVal(fold_const(Binary(op, a.expr, by)))
        if op in ("%", "&", "|", "^"):
            self._need_int(op, a, b, node)
        wide = self.common(ta, tb, op, node)
        return RVal(fold_const(Binary(op, self.convert(a, wide).expr, self.convert(b, wide).expr)))

    def common(self, a: Scalar, b: Scalar, op: str, node: Any) -> Scalar:
        """The type both operands are converted to."""
        small = [t for t in (a, b) if t.is_float and t.bits < 32] if a.bits < 32 or b.bits < 32 else []
        if small and a != b:
            other = b if a is small[0] else a
            if other.is_float and other.bits >= 32:
                return other
            self.fail("E-SEMA-AMBIGUOUS", f"operator '{op}' on '{show(a)}' and '{show(b)}' is ambiguous", node,
                      hint="convert one side explicitly")  # fmt: skip
        return common_type(a, b)

    def _need_int(self, op: str, a: RVal, b: RVal, node: Any) -> None:
        for v in (a, b):
            if isinstance(v.type, Scalar) and v.type.is_float:
                self.fail("E-SEMA-OPERATOR", f"operator '{op}' needs integers, not '{show(v.type)}'", node)

    def _lanewise(self, op: str, a: RVal, b: RVal, node: Any) -> RVal:
        """Vector operators work lane by lane. CUDA has them for half2 and bfloat162 only."""
        if self.program.dialect.vector_operators:
            return self._vector_operator(op, a, b, node)
        if a.type != b.type or op in COMPARISONS or not isinstance(a.type, Vec) or a.type.elem.bits != 16:
            self.fail("E-SEMA-OPERATOR", f"no operator '{op}' for '{show(a.type)}' and '{show(b.type)}'", node,
                      hint="write it for each component")  # fmt: skip
        lanes = []
        x, y = self.vector(a), self.vector(b)
        for i in range(lanes_of(a.type)):
            lanes.append(self.arithmetic(op, RVal(lane_of(x, i)), RVal(lane_of(y, i)), node).expr)
        return RVal(VecMake(a.type, tuple(lanes)))

    def _vector_operator(self, op: str, a: RVal, b: RVal, node: Any) -> RVal:
        """HIP's and OpenCL's operators: a scalar operand is spread; OpenCL's comparisons give -1 or 0 in each lane."""
        t = a.type if isinstance(a.type, Vec) else b.type
        assert isinstance(t, Vec)
        if isinstance(a.type, Vec) and isinstance(b.type, Vec) and lanes_of(a.type) != lanes_of(b.type):
            self.fail("E-SEMA-OPERATOR", f"no operator '{op}' for '{show(a.type)}' and '{show(b.type)}'", node)
        compares = op in COMPARISONS
        if compares and self.program.dialect is not OPENCL:
            self.fail("E-SEMA-OPERATOR", f"no operator '{op}' for '{show(a.type)}'", node, hint="compare components")
        x, y = (self.vector(v) if isinstance(v.type, Vec) else self.reuse(self.convert(v, t.elem).expr) for v in (a, b))
        lanes = []
        for i in range(lanes_of(t)):
            p, q = (RVal(lane_of(e, i) if isinstance(e.type, Vec) else e) for e in (x, y))
            lane = self.arithmetic(op, p, q, node)
            whole = Scalar("int", t.elem.bits)
            truth = Select(lane.expr, Const(-1, whole), Const(0, whole))
            lanes.append(truth if compares else self.convert(lane, t.elem).expr)
        return RVal(VecMake(Vec(Scalar("int", t.elem.bits), t.n) if compares else t, tuple(lanes)))

    def vector(self, v: RVal) -> Expr:
        """A vector value whose lanes can be read several times."""
        e = v.expr
        return e if isinstance(e, Var | VecMake | Const) else self.temp(e, "v")

    def unary(self, op: str, v: RVal, node: Any) -> RVal:
        if op == "!":
            e = self.truth(v, node)
            return RVal(fold_node(Unary("!", e)))
        if isinstance(v.type, Vec):
            x = self.vector(v)
            return RVal(
                VecMake(v.type, tuple(self.unary(op, RVal(lane_of(x, i)), node).expr for i in range(lanes_of(v.type))))
            )  # type: ignore[arg-type]
        if not isinstance(v.type, Scalar):
            self.fail("E-SEMA-OPERATOR", f"no operator '{op}' for '{show(v.type)}'", node)
        v = self.promote(v)
        t = v.type
        assert isinstance(t, Scalar)
        if op == "+":
            return v
        if op == "~" and t.is_float:
            self.fail("E-SEMA-OPERATOR", f"operator '~' needs an integer, not '{show(v.type)}'", node)
        e = v.expr
        if isinstance(e, Const) and not isinstance(e.value, float) and t.is_signed:
            return RVal(Const(-e.value if op == "-" else ~e.value, t))
        return RVal(Unary(op, e))

    def select(self, cond: Expr, a: RVal, b: RVal, node: Any) -> RVal:
        if a.type != b.type:
            if not (isinstance(a.type, Scalar) and isinstance(b.type, Scalar)):
                self.fail("E-SEMA-CONVERT", f"'?:' has branches of types '{show(a.type)}' and '{show(b.type)}'", node)
            wide = self.common(a.type, b.type, "?:", node)
            a, b = self.convert(a, wide), self.convert(b, wide)
        if self.program.dialect is OPENCL and is_const(a.expr, 0) and _is_integer_of(b.expr, cond):
            return b
        return RVal(Select(cond, a.expr, b.expr))

    # ------------------------------------------------------------------ 64-bit offsets
    def add_offset(self, a: Expr | None, b: Expr) -> Expr:
        """Pointer arithmetic: the sum in 64 bits. One conversion stays explicit unless an operand is 64-bit already."""
        if a is None or (type(a) is Const and a.value == 0):
            return b
        if isinstance(b, Const) and b.value == 0:
            return a
        if isinstance(a, Const) and isinstance(b, Const):
            return Const(a.value + b.value, I64)
        if isinstance(a, Binary) and a.op == "+" and isinstance(a.b, Const) and a.type == I64 and isinstance(b, Const):
            return Binary("+", a.a, Const(a.b.value + b.value, I64))
        wide = any(isinstance(x.type, Scalar) and x.type.bits == 64 and not isinstance(x, Const) for x in (a, b))
        first = Cast(I64, a, "implicit" if wide else "static") if a.type != I64 else a
        if isinstance(a, Const):
            first, second = Const(a.value, I64), Cast(I64, b, "implicit" if wide else "static") if b.type != I64 else b
        else:
            second = Const(b.value, I64) if isinstance(b, Const) else (Cast(I64, b, "implicit") if b.type != I64 else b)
        return Binary("+", first, second)

    def scale_offset(self, e: Expr, n: int) -> Expr:
        if n == 1:
            return e
        if isinstance(e, Const):
            return Const(int(e.value) * n, I64)
        return Binary("*", Cast(I64, e, "static") if e.type != I64 else e, Const(n, I64))


NATIVE = frozenset({F32, F64, I32, I64, U32, U64})
"""Types that no operand of which is converted when both have it."""

ANY_NUMBERS = frozenset({"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="})
"""Operators on integers and floating-point numbers alike."""


def fold_const(e: Expr) -> Expr:
    """Fold integer arithmetic on literals only."""
    if type(e) is Binary and type(e.b) is Const and type(e.a) is Const and not _is_floaty(e.a):
        return fold_node(e)
    return e


def _is_floaty(c: Const) -> bool:
    return isinstance(c.value, float)


def lanes_of(t: Vec) -> int:
    """Lane count of a source vector type, which is always a number."""
    assert isinstance(t.n, int)
    return t.n


def lane_of(v: Expr, i: int) -> Expr:
    """Lane ``i`` of a vector expression."""
    if isinstance(v, VecMake):
        return v.args[i]
    if isinstance(v, Var):
        return Load(v.sym, (i32(i),))
    return VecGet(v, i32(i))


def narrowed(e: Expr) -> Expr | None:
    """A 64-bit sum or product of widened indices, computed in 32 bits: equal modulo 2**32. None if it is not one."""
    if isinstance(e, Cast) and e.to == U64 and isinstance(e.x, HwIndex):
        return e.x
    if isinstance(e, Const) and e.type in (U64, I64):
        return Const(int(e.value) & 0xFFFFFFFF, U32)
    if isinstance(e, Binary) and e.op in ("+", "-", "*"):
        a, b = narrowed(e.a), narrowed(e.b)
        return Binary(e.op, a, b) if a is not None and b is not None else None
    return None


def bitcast(e: Expr, to: Type) -> Expr:
    """The bits of ``e`` as a ``to``; a cast of a cast collapses."""
    t = e.type
    if t is to or t == to:
        return e
    if isinstance(e, Cast) and e.style == "bit":
        return bitcast(e.x, to)
    if isinstance(e, Const) and e.ty.is_int and isinstance(to, Scalar) and to.is_int and to.bits == e.ty.bits:
        return const_as(e, to) or Cast(to, e, "bit")
    if isinstance(e, Const) and e.ty.is_int and isinstance(to, Scalar) and (x := of_bits(e, to)) is not None:
        return x
    if BOOL in (e.type, to):
        return Cast(to, e, "c")  # one byte that is 0 or 1
    return Cast(to, e, "bit")


def _is_integer_of(e: Expr, cond: Expr) -> bool:
    """``isnan(x)`` as ``cond`` and x as an integer, which NaN is 0 as: ``_sat`` of OpenCL C only should do so."""
    nan = cond.a if isinstance(cond, Binary) and cond.op == "!=" and is_const(cond.b, 0) else cond
    of = nan.args if isinstance(nan, Call) and nan.fn == "isnan" else ()
    return isinstance(e, Cast) and e.style != "bit" and e.to != BOOL and of == (e.x,)
