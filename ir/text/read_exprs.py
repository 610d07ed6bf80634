"""Parse trees of expressions to nodes: names resolved, implicit casts put back."""

from __future__ import annotations

from lark import Tree

from ktc.ir import nodes as n
from ktc.ir.nodes import Expr, Sym
from ktc.ir.types import BOOL, F32, I32, I64, SCALARS, U32, U64, Array, Scalar, Struct, Type, Vec

from .read_types import Node, TypeReader, plain, unquote
from .syntax import (
    CACHES,
    FULL_MASK,
    FULL_WARP,
    HW_LEVELS,
    WARP_OPS,
    coerce,
    convert_args,
    convert_operands,
    result_type,
    round_to_f32,
)  # fmt: skip

_HW = {word: level for level, word in HW_LEVELS.items()}
_C_SUFFIX = {"": I32, "u": U32, "l": I64, "ll": I64, "ul": U64, "ull": U64}
_CAST_STYLES = ("c", "static", "implicit", "bit")


class ExprReader(TypeReader):
    """Reads expressions."""

    def expr(self, t: Node) -> Expr:
        return getattr(self, "x_" + t.data)(t)

    def exprs(self, t: Node | None) -> tuple[Expr, ...]:
        return () if t is None else tuple(self.expr(c) for c in t.children)

    def value(self, t: Node, to: Type) -> Expr:
        """An expression where type ``to`` is expected."""
        return coerce(self.expr(t), to)

    def count(self, t: Node | None) -> int | Expr:
        """A field that is an int, or an expression when it is not a bare integer."""
        e = self.expr(t)
        return int(e.value) if _bare_int(t) and isinstance(e, n.Const) else e

    def x_start_expr(self, t: Node) -> Expr:
        return self.expr(t.children[0])

    def x_paren(self, t: Node) -> Expr:
        return self.expr(t.children[0])

    def x_int(self, t: Node) -> Expr:
        text, ty = _split_suffix(str(t.children[0]).lower())
        if ty is None:
            digits = text.rstrip("ul")
            ty, text = _C_SUFFIX.get(text[len(digits) :]), digits
            if ty is None:
                self.fail(t, f"'{t.children[0]}' is not an integer literal")
        return n.Const(int(text, 0 if text.startswith("0x") else 10), ty)

    def x_float(self, t: Node) -> Expr:
        text, ty = _split_suffix(str(t.children[0]))
        value = float(text if text in ("inf", "nan") else text.rstrip("f"))
        return n.Const(round_to_f32(value), F32) if ty is None else n.Const(value, ty)

    def x_truth(self, t: Node) -> Expr:
        return n.Const(t.children[0] == "true", BOOL)

    def x_name(self, t: Node) -> Expr:
        s = self.lookup(t.children[0])
        return s if isinstance(s, n.Knob) else n.Var(s)

    def x_knob(self, t: Node) -> Expr:
        return n.Knob(str(t.children[0])[1:])

    def x_unary(self, t: Node) -> Expr:
        op, inner = str(t.children[0]), t.children[1]
        x = self.expr(inner)
        if op == "-" and inner.data in ("int", "float") and isinstance(x, n.Const):
            return n.Const(-x.value, x.ty)
        return n.Unary(op, coerce(x, BOOL) if op == "!" else x)

    def x_binary(self, t: Node) -> Expr:
        a, op, b = t.children
        return self.binary(str(op), self.expr(a), self.expr(b), op)

    def binary(self, op: str, a: Expr, b: Expr, at: Node) -> Expr:
        for e in (a, b):
            if isinstance(e.type, Array):
                self.fail(at, f"'{op}' cannot be applied to an array", code="E-TEXT-TYPE")
        return n.Binary(op, *convert_operands(op, a, b))

    def x_select(self, t: Node) -> Expr:
        cond, a, b = t.children
        return n.Select(self.value(cond, BOOL), *convert_operands("+", self.expr(a), self.expr(b)))

    def x_cast(self, t: Node) -> Expr:
        return n.Cast(self.type(t.children[0]), self.expr(t.children[1]), "c")

    def x_as_(self, t: Node) -> Expr:
        x, style, to = t.children
        word = "implicit" if style is None else plain(style.children[0])
        if word not in _CAST_STYLES:
            self.fail(style, f"'{word}' is not a cast style", f"one of: {', '.join(_CAST_STYLES)}")
        return n.Cast(self.type(to), self.expr(x), word)

    def x_vec_make(self, t: Node) -> Expr:
        ty = self.type(t.children[0])
        if not isinstance(ty, Vec):
            self.fail(t, "lanes in braces need a vector type", code="E-TEXT-TYPE")
        lanes = t.children[1]
        return n.VecMake(ty, tuple(self.value(c, ty.elem) for c in (lanes.children if lanes is not None else ())))

    def x_lane(self, t: Node) -> Expr:
        return self.typed(t, n.VecGet(self.expr(t.children[0]), self.expr(t.children[1])))

    def x_member_as(self, t: Node) -> Expr:
        x, name, ty = t.children
        return n.Member(self.expr(x), plain(name), self.type(ty))

    def x_member(self, t: Node) -> Expr:
        base, name = t.children
        if base.data == "name" and str(base.children[0]) in _HW and name in ("x", "y", "z"):
            return n.HwIndex(_HW[str(base.children[0])], str(name))
        x = self.expr(base)
        fields = dict(x.type.fields) if isinstance(x.type, Struct) else {}
        if plain(name) not in fields:
            self.fail(name, f"no field '{plain(name)}' here", "fields of unknown structs: member(x, name, type)")
        return n.Member(x, plain(name), fields[plain(name)])

    def access(self, t: Node) -> tuple[Sym, tuple[Expr, ...], int | Expr, str]:
        """(buffer, indices, width, cache hint) of ``buf[i]``, ``buf.cs[i +: 8]``."""
        if not isinstance(t, Tree) or t.data != "index":
            self.fail(t, "expected an element, such as 'out[i]'")
        base, index, width = t.children
        cache = ""
        if base.data == "member":
            base, hint = base.children
            cache = str(hint)
            if cache not in CACHES:
                self.fail(hint, f"'{cache}' is not a cache hint", f"one of: {', '.join(CACHES)}")
        if base.data != "name":
            self.fail(base, "only a named buffer can be subscripted")
        buffer, indices = self.buffer(base.children[0]), self.exprs(index)
        count = 1 if width is None else self.count(width)
        self.typed(t, n.Load(buffer, indices, count))
        return buffer, indices, count, cache

    def typed(self, at: Node, e: Expr) -> Expr:
        """``e``, whose parts must have a scalar at the bottom where its type asks for one."""
        try:
            _ = e.type
        except TypeError as err:
            self.fail(at, str(err), code="E-TEXT-TYPE")
        return e

    def x_index(self, t: Node) -> Expr:
        return n.Load(*self.access(t))

    def x_address(self, t: Node) -> Expr:
        buffer, index, width, cache = self.access(t.children[1])
        if cache or width != 1:
            self.fail(t, "an address has no width and no cache hint")
        return n.AddrOf(buffer, index)

    def x_call(self, t: Node) -> Expr:
        name, *args, effects, result = t.children
        args = [a for a in args if a is not None]
        positional = [self.expr(a) for a in args if a.data != "keyword"]
        keywords = {plain(a.children[0]): self.expr(a.children[1]) for a in args if a.data == "keyword"}
        if str(name) in WARP_OPS:
            if not 1 <= len(positional) <= 2 or not keywords.keys() <= {"width", "mask"}:
                self.fail(name, f"{name} takes a value, an argument, and width= and mask=")
            arg = positional[1] if len(positional) == 2 else None
            width, mask = keywords.get("width", FULL_WARP), keywords.get("mask", FULL_MASK)
            return n.WarpOp(str(name), positional[0], arg, width, mask)
        if keywords:
            self.fail(name, f"'{plain(name)}' takes no named arguments")
        fn = plain(name)
        values = convert_args(fn, positional)
        ty = self.type(result) if result is not None else result_type(fn, values)
        return n.Call(fn, values, ty, "pure" if effects is None else str(effects)[1:])

    def x_string(self, t: Node) -> Expr:
        return n.Str(str(t.children[0])[1:-1])

    def x_raw(self, t: Node) -> Expr:
        ty, text, uses = t.children
        return n.Raw(unquote(text), self.symbols(uses), self.type(ty))

    def symbols(self, names: Node) -> tuple[Sym, ...]:
        return () if names is None else tuple(self.symbol(c) for c in names.children)


def _bare_int(t: Node) -> bool:
    return t.data == "int" or (t.data == "unary" and t.children[0] == "-" and t.children[1].data == "int")


def _split_suffix(text: str) -> tuple[str, Scalar | None]:
    head, _, suffix = text.rpartition("_")
    return (head, SCALARS[suffix]) if head else (text, None)
