"""Expressions of the IR as Python text for numba.

One :class:`ExprPrinter` serves a whole module, with the names that the module uses (:class:`.numba_names.Names`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ktc.ir.arith import Facts, Interval
from ktc.ir.nodes import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    HwIndex,
    Knob,
    Load,
    Member,
    Raw,
    Select,
    Sym,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import BOOL, I32, U32, U64, Array, Ptr, Scalar, Vec

from .local_arrays import constant
from .numba_calls import print_call
from .numba_names import Names
from .numba_types import NARROW_FLOATS, unsupported

PRECEDENCE = {
    "or": 1, "and": 2, "not": 3, "<": 5, "<=": 5, ">": 5, ">=": 5, "==": 5, "!=": 5, "|": 6, "^": 7, "&": 8,
    "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "//": 11, "%": 11, "unary": 12, "atom": 15,
}  # fmt: skip
"""Python's, loosest first. The conditional expression is 0."""

EXACT_IN_F32 = Interval(-(1 << 24), 1 << 24)
"""Integers that f32 holds."""

_PYTHON = {"&&": "and", "||": "or"}
Text = tuple[str, int]
"""Printed text and the precedence of its outermost operator."""


def _is_either_of_names(e: Expr) -> bool:
    """Whether ``e`` is true if one of several truths is that have names, and so are known: without a branch, the loop
    around becomes vectors."""
    sides = (e.a, e.b) if isinstance(e, Binary) and e.op == "||" else ()
    return bool(sides) and all(_is_either_of_names(x) or (isinstance(x, Var) and x.type == BOOL) for x in sides)


class ExprPrinter(Names):
    """Prints expressions. ``helpers`` collects the prelude functions that the text uses; ``knobs``: their values."""

    def __init__(self, facts: Facts, knobs: Mapping[str, int]) -> None:
        super().__init__()
        self.facts = facts
        self.knobs = knobs

    # ------------------------------------------------------------------------------------------------- expressions

    def text(self, e: Expr, above: int = 0) -> str:
        """``e`` as Python, in parentheses if the context binds tighter than ``above``."""
        s, p = self._print(e)
        return f"({s})" if p < above else s

    def _print(self, e: Expr) -> Text:
        method = _METHODS.get(type(e))
        if method is None:
            raise unsupported(f"{type(e).__name__} expressions")
        return method(self, e)

    def _const(self, e: Const) -> Text:
        t = e.ty
        if t.is_float:
            v = float(e.value)
            body = (
                "np.nan"
                if v != v
                else ("np.inf" if v > 0 else "-np.inf")
                if v in (float("inf"), float("-inf"))
                else repr(v)
            )
            return (body, 15 if v >= 0 else 12) if t.name == "f64" else (f"f32({body})", 15)
        if t.kind == "bool":
            return (str(bool(e.value)), 15)
        if t.name == "u64":
            return (f"u64({int(e.value)})", 15)
        v = int(e.value)
        return (hex(v) if e.spelling.lower().startswith("0x") else str(v), 15 if v >= 0 else 12)

    def _var(self, e: Var) -> Text:
        return (self.ref(e.sym), 15)

    def _knob(self, e: Knob) -> Text:
        return (e.name, 15)

    def _hw(self, e: HwIndex) -> Text:
        return (hw_name(e), 15)

    def _unary(self, e: Unary) -> Text:
        if e.op == "!":
            return (f"not {self.text(e.x, 3)}", 3)
        if e.op == "-" and e.x.type == U64:
            return (f"u64(0) - {self.text(e.x, 11)}", 10)  # what numba negates is signed
        inner = f"{e.op}{self.text(e.x, 12)}"
        t = e.x.type
        return self.wrap(inner, 12, t) if isinstance(t, Scalar) and t.kind == "uint" else (inner, 12)

    def _binary(self, e: Binary) -> Text:
        t = e.a.type
        if not isinstance(t, Scalar):
            raise unsupported(f"'{e.op}' on vectors as a scalar value")
        if e.op in COMPARISONS or e.op in _PYTHON:
            op = "|" if _is_either_of_names(e) else _PYTHON.get(e.op, e.op)
            p = PRECEDENCE[op]
            # Python chains comparisons: a < b == c must keep its parentheses on both sides.
            return (f"{self.text(e.a, p + (p == 5))} {op} {self.text(e.b, p + 1)}", p)
        if t.is_float:
            p = PRECEDENCE[e.op]
            return self.round(f"{self.text(e.a, p)} {e.op} {self.text(e.b, p + 1)}", p, t)
        return self._int_binary(e, t)

    def _int_binary(self, e: Binary, t: Scalar) -> Text:
        if e.op in "/%":
            a, b = self.facts.interval(e.a), self.facts.interval(e.b)
            if t.kind == "uint" or (a.never_negative and b.positive):
                op = "//" if e.op == "/" else "%"
                return (f"{self.text(e.a, 11)} {op} {self.text(e.b, 12)}", 11)
            return (f"{self.need('trunc_div' if e.op == '/' else 'trunc_mod')}({self.text(e.a)}, {self.text(e.b)})", 15)
        p = PRECEDENCE[e.op]
        if e.op in ("<<", ">>"):
            if not self._small_shift(e.b, t):
                return self._long_shift(e, t)
            amount = self.text(e.b, p + 1)
            if (t.name == "u64") != (e.b.type == U64):
                amount = f"{'u64' if t.name == 'u64' else 'i64'}({amount})"
            s = f"{self.text(e.a, p)} {e.op} {amount}"
            return self.wrap(s, p, t) if e.op == "<<" and t.bits < 64 else (s, p)
        s = f"{self.text(e.a, p)} {e.op} {self.text(e.b, p + 1)}"
        if e.op in "+-*" and t.kind == "uint" and t.bits < 64 and not self.facts.raw(e).fits(t):
            return self.wrap(s, p, t)
        return (s, p)

    def _small_shift(self, e: Expr, t: Scalar) -> bool:
        return self.facts.interval(e).within(Interval(0, t.bits - 1))

    def _long_shift(self, e: Binary, t: Scalar) -> Text:
        """A shift whose amount may be the width or more, or negative: then everything is shifted out."""
        p = PRECEDENCE[e.op]
        kind = "u64" if t.name == "u64" else "i64"
        fine = f"0 <= {self.text(e.b, 7)} < {t.bits}"
        amount = f"{kind}({self.text(e.b, 0)} if {fine} else {t.bits - 1})"
        s = f"{self.text(e.a, p)} {e.op} {amount}"
        if e.op == ">>" and t.is_signed:
            return (s, p)
        s = self.wrap(s, p, t)[0] if e.op == "<<" and t.bits < 64 else s
        return (f"({s} if {fine} else {kind}(0))", 15)

    def _select(self, e: Select) -> Text:
        return (f"{self.text(e.a, 1)} if {self.text(e.cond, 1)} else {self.text(e.b, 0)}", 0)

    def _cast(self, e: Cast) -> Text:
        to, frm = e.to, e.x.type
        if not isinstance(to, Scalar) or not isinstance(frm, Scalar):
            raise unsupported(f"a cast to {to}")
        if e.style == "bit":
            return self._bit_cast(e.x, frm, to)
        if to == frm:
            return self._print(e.x)
        if to.is_float:
            if frm.is_float and frm.name in NARROW_FLOATS | {"f32"} and to.name == "f32":
                return self._print(e.x)
            if to.name == "f64":
                return (f"np.float64({self.text(e.x)})", 15)
            return self.round(self._as_f32(e.x, frm, to), 15, to)
        if to.kind == "bool":
            return (f"{self.text(e.x, 6)} != 0", 5)
        if frm.is_float:
            if to.name == "u64":
                return (f"{self.need('to_u64')}({self.text(e.x)})", 15)
            through = (I32 if to.is_signed else U32) if to.bits < 32 <= frm.bits else to
            all_of = Interval.of_type(through)
            if through == I32:
                whole = (f"{self.need('to_i32')}({self.text(e.x)})", 15)
            else:
                whole = (f"{self.need('to_int')}({self.text(e.x)}, {all_of.low}, {all_of.high})", 15)
            return whole if through == to else self.wrap(*whole, to)
        if to.name == "u64":
            return (f"u64({self.text(e.x)})", 15)
        if frm.name == "u64" or frm.kind == "bool":
            inner = f"i64({self.text(e.x)})"
            return (inner, 15) if to.bits == 64 or frm.kind == "bool" else self.wrap(inner, 15, to)
        return self._print(e.x) if self.facts.interval(e.x).fits(to) else self.wrap(*self._print(e.x), to)

    def _as_f32(self, x: Expr, frm: Scalar, to: Scalar) -> str:
        """``x`` as a float, from which it is rounded to ``to``: as if there were one rounding."""
        text = self.text(x)
        if frm.is_float:
            if frm.name != "f64":
                return text
            return f"{self.need('odd_f32')}({text})" if to.name in NARROW_FLOATS else f"f32({text})"
        if to.name == "bf16" and not self.facts.interval(x).within(EXACT_IN_F32):
            return f"{self.need('odd_f32_of_int')}({text})"  # what f32 rounds is infinite in the other narrow types
        return f"f32({text})"

    def _bit_cast(self, x: Expr, frm: Scalar, to: Scalar) -> Text:
        bits = self.to_bits(self.text(x), frm) if frm.is_float else self.text(x)
        if to.is_float:
            if to.name in NARROW_FLOATS:
                return (f"{self.need(f'{to.name}_to_f32')}({bits})", 15)
            return (f"{self.need(f'{to.name}_from_bits')}({bits})", 15)
        if to.bits == 64:
            return (f"{'i64' if to.is_signed else 'u64'}({bits})", 15)
        return self.wrap(bits, 0, to)

    def to_bits(self, text: str, t: Scalar) -> str:
        """The storage bits of a float value."""
        return f"{self.need(f'f32_to_{t.name}' if t.name in NARROW_FLOATS else f'{t.name}_bits')}({text})"

    def as_integer(self, text: str, t: Scalar, signed: bool) -> str:
        """The bits of a value of type ``t`` as a signed or an unsigned integer."""
        bits = self.to_bits(text, t) if t.is_float else text
        if t.bits == 64:
            return f"{'i64' if signed else 'u64'}({bits})"
        return f"({self.wrap(bits, 0, Scalar('int' if signed else 'uint', t.bits))[0]})"

    def wrap(self, s: str, p: int, t: Scalar) -> Text:
        """``s`` reduced modulo 2**bits into the range of the integer type ``t``."""
        if t.bits >= 64:
            return (s, p)
        if t.kind == "uint":
            return (f"{s if p >= 8 else f'({s})'} & 0x{(1 << t.bits) - 1:X}", 8)
        return (f"i64(np.int{t.bits}({s}))", 15)

    def round(self, s: str, p: int, t: Scalar) -> Text:
        """``s`` (computed in f32) rounded to the narrow float type ``t``; unchanged for f32 and f64."""
        return (f"{self.need(f'round_{t.name}')}({s})", 15) if t.name in NARROW_FLOATS else (s, p)

    def _call(self, e: Call) -> Text:
        return print_call(self, e)

    def _vec_get(self, e: VecGet) -> Text:
        return (self.lane(e.x, self.text(e.lane, 11)), 15)

    def _load(self, e: Load) -> Text:
        if isinstance(e.type, Vec):
            raise unsupported("a vector load inside a scalar expression")
        return (self.read(e.buffer, e.index), 15)

    def _refuse(self, e: Expr) -> Text:
        raise unsupported(_REFUSED[type(e)])

    # ------------------------------------------------------------------------------------------------------ memory

    def subscript(self, e: Expr, above: int = 0) -> str:
        """An index, which is signed: the numbers of lanes and extents that it is added to are."""
        return f"i64({self.text(e)})" if e.type == U64 else self.text(e, above)

    def place(self, buffer: Sym, index: tuple[Expr, ...], lane: str | None = None) -> str:
        """``buffer[index...]`` as a subscript; ``lane`` is added to the last index (or picks a vector's lane)."""
        t = buffer.type
        parts = [self.subscript(i) for i in index]
        if isinstance(t, Ptr):
            if isinstance(t.elem, Vec):
                n = self.count(t.elem.n)
                picked = parts[1] if len(parts) > 1 else (lane or "0")
                parts = [f"({self.subscript(index[0])}) * {n} + {picked}"]
            elif lane is not None:
                parts = [f"{self.subscript(index[0], 10)} + {lane}"]
        elif lane is not None:
            whole = isinstance(t, Array) and isinstance(t.elem, Vec) and len(index) == len(t.shape)
            if whole:
                parts.append(lane)
            else:
                parts[-1] = f"{self.subscript(index[-1], 10)} + {lane}"
        ref = self.ref(buffer)
        parts = [unsigned(p) for p in parts]
        if ref.endswith("]"):  # a per-thread array: x_t[t] becomes x_t[t, i]
            return f"{ref[:-1]}, {', '.join(parts)}]"
        return f"{ref}[{', '.join(parts)}]"

    def read(self, buffer: Sym, index: tuple[Expr, ...], lane: str | None = None) -> str:
        """Text of a scalar read, converted to the value representation."""
        place = self.place(buffer, index, lane)
        t = scalar_type(buffer)
        if isinstance(buffer.type, Ptr) and t.name in NARROW_FLOATS:
            return f"{self.need(f'{t.name}_to_f32')}({place})"
        return f"i64({place})" if t.is_int and t.name not in ("i64", "u64") else place

    def stored(self, buffer: Sym, value: str, narrow_source: str | None) -> str:
        """Text of ``value`` as it is stored; ``narrow_source`` is the f32 text when the value is a cast of it."""
        t = scalar_type(buffer)
        if isinstance(buffer.type, Ptr) and t.name in NARROW_FLOATS:
            return f"{self.need(f'f32_to_{t.name}')}({narrow_source or value})"
        return value

    def lane(self, e: Expr, lane: str) -> str:
        """One lane of a vector-typed expression."""
        if not isinstance(e.type, Vec):
            return self.text(e)
        if isinstance(e, Var):
            ref = self.ref(e.sym)
            return f"{ref[:-1]}, {lane}]" if ref.endswith("]") else f"{ref}[{lane}]"
        if isinstance(e, Load):
            return self.read(e.buffer, e.index, lane)
        if isinstance(e, VecMake) and lane.isdigit():
            return self.text(e.args[int(lane)])
        raise unsupported(f"{type(e).__name__} of vectors")

    def constant(self, n: int | Expr) -> int | None:
        """The value of ``n`` where its text is plain arithmetic on numbers and knobs."""
        return constant(n, self.knobs)

    def count(self, n: int | Expr) -> str:
        return str(n) if isinstance(n, int) else self.text(n, 12)


def unsigned(index: str) -> str:
    """An index as numba takes it as it is: for a signed one it asks whether it counts from the end, which no kernel
    means, and LLVM does not vectorise what is behind the question."""
    return index if index.isdigit() else f"u64({index})"


def scalar_type(buffer: Sym) -> Scalar:
    from ktc.ir.types import scalar_of

    return scalar_of(buffer.type)


def hw_name(e: HwIndex) -> str:
    """``thread_x``, ``block_y``, ``dim_x`` (blockDim), ``grid_z``."""
    return {"thread": "thread", "block": "block", "block_dim": "dim", "grid_dim": "grid"}[e.level] + "_" + e.axis


_REFUSED = {Raw: "carried-through source text", Member: "struct members", WarpOp: "a warp operation here"}

_METHODS: dict[type[Expr], Callable[..., Text]] = {
    Const: ExprPrinter._const, Var: ExprPrinter._var, Knob: ExprPrinter._knob, HwIndex: ExprPrinter._hw,
    Unary: ExprPrinter._unary, Binary: ExprPrinter._binary, Select: ExprPrinter._select, Cast: ExprPrinter._cast,
    Load: ExprPrinter._load, Call: ExprPrinter._call, VecGet: ExprPrinter._vec_get, Raw: ExprPrinter._refuse,
    Member: ExprPrinter._refuse, WarpOp: ExprPrinter._refuse,
}  # fmt: skip
