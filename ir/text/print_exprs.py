"""Types and expressions to ``.ktir`` text. Every node class has one method, named after it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from ktc.ir import nodes as n
from ktc.ir.nodes import Expr, Sym
from ktc.ir.types import BOOL, F32, I32, Array, Opaque, Ptr, Scalar, Struct, Type, Vec, Void

from .syntax import (
    ATOM,
    EFFECTS,
    FULL_MASK,
    FULL_WARP,
    HW_LEVELS,
    POSTFIX,
    PRECEDENCE,
    SPACE_WORDS,
    UNARY,
    result_type,
    round_to_f32,
    spell_call,
    spell_name,
    uncoerce,
    written_args,
    written_operands,
)  # fmt: skip


class ExprPrinter:
    """Prints with the given names; a symbol that has none prints its own."""

    def __init__(self, names: Mapping[Sym, str]) -> None:
        self.names = names

    def name(self, s: Sym) -> str:
        return spell_name(self.names.get(s, s.name))

    # ------------------------------------------------------------------------------------------------------- types

    def type(self, t: Type) -> str:
        """A type: ``f32``, ``f16x8``, ``f16 const* restrict``, ``shared f32[16, $V]``."""
        if isinstance(t, Scalar):
            return t.name
        if isinstance(t, Void):
            return "void"
        if isinstance(t, Vec):
            return f"{t.elem.name}x{t.n}" if isinstance(t.n, int) else f"{t.elem.name}x({self.expr(t.n)})"
        if isinstance(t, Struct):
            return (
                f"struct {spell_name(t.name)} {{"
                + ", ".join(f"{spell_name(f)}: {self.type(ft)}" for f, ft in t.fields)
                + "}"
            )
        if isinstance(t, Opaque):
            return f"opaque {quote(t.spelling)}"
        if isinstance(t, Ptr):
            space = "" if t.space == "global" else SPACE_WORDS[t.space] + " "
            quals = (" const" if t.const else "") + (" volatile" if t.volatile else "")
            return f"{space}{self._elem(t.elem)}{quals}*" + (" restrict" if t.restrict else "")
        assert isinstance(t, Array), t
        space = "" if t.space == "local" else SPACE_WORDS[t.space] + " "
        return f"{space}{self._elem(t.elem)}[{self.exprs(t.shape)}]"

    def _elem(self, t: Type) -> str:
        return f"({self.type(t)})" if isinstance(t, Ptr | Array) else self.type(t)

    def atomic_type(self, t: Type) -> str:
        """A type where more expression may follow: parenthesised unless it is one word."""
        return self.type(t) if isinstance(t, Scalar | Vec | Void) else f"({self.type(t)})"

    # ------------------------------------------------------------------------------------------------- expressions

    def expr(self, e: Expr, least: int = 0) -> str:
        """``e``, parenthesised when it binds weaker than ``least``."""
        text, strength = getattr(self, "e_" + type(e).__name__)(e)
        return f"({text})" if strength < least else text

    def exprs(self, es: Iterable[Expr]) -> str:
        return ", ".join(self.expr(e) for e in es)

    def value(self, e: Expr, to: Type) -> str:
        """``e`` where type ``to`` is expected."""
        return self.expr(uncoerce(e, to))

    def count(self, c: int | Expr) -> str:
        """A field that holds an int or an expression; a literal expression is told apart by parentheses."""
        return str(c) if isinstance(c, int) else self.expr(c, ATOM + 1 if isinstance(c, n.Const) else UNARY)

    def e_Const(self, e: n.Const) -> tuple[str, int]:
        text = literal(e)
        return text, UNARY if text.startswith("-") else ATOM

    def e_Var(self, e: n.Var) -> tuple[str, int]:
        return self.name(e.sym), ATOM

    def e_Knob(self, e: n.Knob) -> tuple[str, int]:
        return f"${e.name}", ATOM

    def e_HwIndex(self, e: n.HwIndex) -> tuple[str, int]:
        return f"{HW_LEVELS[e.level]}.{e.axis}", ATOM

    def e_Unary(self, e: n.Unary) -> tuple[str, int]:
        x = uncoerce(e.x, BOOL) if e.op == "!" else e.x
        if isinstance(x, n.Const):  # -(1) is an operation, -1 a literal
            return f"{e.op}({literal(x)})", UNARY
        return e.op + self.expr(x, POSTFIX if isinstance(x, n.Unary) and x.op == e.op else UNARY), UNARY

    def e_Binary(self, e: n.Binary) -> tuple[str, int]:
        p = PRECEDENCE[e.op]
        a, b = written_operands(e)
        return f"{self.expr(a, p)} {e.op} {self.expr(b, p + 1)}", p

    def e_Select(self, e: n.Select) -> tuple[str, int]:
        a, b = written_operands(n.Binary("+", e.a, e.b))
        return f"{self.expr(uncoerce(e.cond, BOOL), 2)} ? {self.expr(a)} : {self.expr(b, 1)}", 1

    def e_Cast(self, e: n.Cast) -> tuple[str, int]:
        if e.style == "c" and isinstance(e.to, Scalar | Vec):
            return f"{self.type(e.to)}({self.expr(e.x)})", ATOM
        style = "" if e.style == "implicit" else f".{e.style}"
        return f"{self.expr(e.x, POSTFIX)} as{style} {self.atomic_type(e.to)}", POSTFIX

    def access(self, buffer: Sym, index: tuple[Expr, ...], width: int | Expr = 1, cache: str = "") -> str:
        wide = "" if isinstance(width, int) and width == 1 else f" +: {self.count(width)}"
        return f"{self.name(buffer)}{'.' + cache if cache else ''}[{self.exprs(index)}{wide}]"

    def e_Load(self, e: n.Load) -> tuple[str, int]:
        return self.access(e.buffer, e.index, e.width, e.cache), ATOM

    def e_AddrOf(self, e: n.AddrOf) -> tuple[str, int]:
        return "&" + self.access(e.buffer, e.index), UNARY

    def e_Member(self, e: n.Member) -> tuple[str, int]:
        if isinstance(e.x.type, Struct) and dict(e.x.type.fields).get(e.name) == e.ty:
            return f"{self.expr(e.x, POSTFIX)}.{spell_name(e.name)}", POSTFIX
        return f"member({self.expr(e.x)}, {spell_name(e.name)}, {self.type(e.ty)})", ATOM

    def e_VecMake(self, e: n.VecMake) -> tuple[str, int]:
        return f"{self.type(e.ty)}{{" + ", ".join(self.value(a, e.ty.elem) for a in e.args) + "}", ATOM

    def e_VecGet(self, e: n.VecGet) -> tuple[str, int]:
        return f"lane({self.expr(e.x)}, {self.expr(e.lane)})", ATOM

    def e_Call(self, e: n.Call) -> tuple[str, int]:
        assert e.effects in EFFECTS, e
        effects = "" if e.effects == "pure" else f" !{e.effects}"
        result = "" if e.ty == result_type(e.fn, e.args) else f" -> {self.atomic_type(e.ty)}"
        return f"{spell_call(e.fn)}({self.exprs(written_args(e.fn, e.args))}){effects}{result}", POSTFIX

    def e_WarpOp(self, e: n.WarpOp) -> tuple[str, int]:
        args = [self.expr(e.value)] + ([self.expr(e.arg)] if e.arg is not None else [])
        args += [f"width={self.expr(e.width)}"] if e.width != FULL_WARP else []
        args += [f"mask={self.expr(e.mask)}"] if e.mask != FULL_MASK else []
        return f"{e.kind}({', '.join(args)})", POSTFIX

    def e_Str(self, e: n.Str) -> tuple[str, int]:
        return f'"{e.text}"', ATOM

    def e_Raw(self, e: n.Raw) -> tuple[str, int]:
        return f"raw {self.atomic_type(e.ty)} {quote(e.text)} ({', '.join(map(self.name, e.uses))})", POSTFIX


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def literal(c: n.Const) -> str:
    """Shortest spelling that reads back to the same value and type."""
    if c.ty.kind == "bool":
        return "true" if c.value else "false"
    if not c.ty.is_float:
        v = int(c.value)
        text = hex(v) if abs(v) > 0xFFFF and c.ty.kind == "uint" else str(v)
        return text if c.ty == I32 else f"{text}_{c.ty.name}"
    real = float(c.value)
    if c.ty == F32 and round_to_f32(real) == real:
        digits = next(s for p in range(1, 18) if round_to_f32(float(s := f"{real:.{p}g}")) == real)
        return repr(float(digits))  # 'inf', '-inf' and '1e-06' included
    text = "nan" if math.isnan(real) else repr(real)
    return text if c.ty == F32 and math.isnan(real) else f"{text}_{c.ty.name}"
