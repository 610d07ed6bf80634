"""Expressions of the IR as C text with minimal parentheses and casts.

:meth:`Exprs.piece` prints an expression so that the *value* is the IR's; the C type of the text may be another (see
:class:`~ktc.backends.c_family.piece.Piece`). An implicit ``Cast`` disappears where the language performs the same
conversion by itself: in an initialiser, in an operand of the usual arithmetic conversions, in a subscript.

``wrap=True`` asks only for the low 32 bits, as the initialiser of a 32-bit integer does: there ``blockIdx.x * d + i``
may mix signed and unsigned operands, because sums and products agree modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktc.ir.fold import is_const
from ktc.ir.nodes import (
    VOTES,
    AddrOf,
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
    Str,
    Sym,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
)
from ktc.ir.types import BOOL, I32, Array, Ptr, Scalar, Type, Vec, scalar_of

from .c_dialect import Dialect
from .c_operators import Operators
from .conversion_rules import (
    infinity_or_nan,
    is_int32,
    keeps_value,
)
from .piece import BINARY_PREC, LIMIT, POSTFIX, UNARY, Piece
from .protocol import const_int
from .symbol_names import Names

PLAIN = ("", "volatile")
"""Accesses without a cache hint."""


class Exprs(Operators):
    """Prints expressions for one dialect, with the names of one kernel."""

    def __init__(self, dialect: Dialect, names: Names) -> None:
        self.d = dialect
        self.names = names
        self.upper: dict[Sym, int] = {}
        self.knob_upper: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------- contexts

    def text(self, e: Expr) -> str:
        """Where any C type does: a subscript, a statement's expression."""
        return self.piece(e).text

    def condition(self, e: Expr) -> Piece:
        """Where C tests against zero by itself."""
        if isinstance(e, Cast) and e.style == "implicit" and e.to == BOOL and self.d.c_converts(e.x.type, BOOL):
            return self.piece(e.x)
        return self.piece(e)

    def assigned(self, e: Expr, to: Type) -> str:
        """As the right-hand side of an initialisation, assignment or store to an object of type ``to``."""
        e = self.without_implicit(e, to)
        wrap = isinstance(to, Scalar) and to.is_int and to.bits <= 32
        p = self.piece(e, wrap)
        return self.coerce(p, to, assigning=True).text

    def exact(self, e: Expr, to: Type | None = None) -> Piece:
        """With exactly the type of ``e`` (or ``to``): arguments of overloaded functions."""
        to = to or e.type
        return self.coerce(self.piece(self.without_implicit(e, to)), to)

    # -------------------------------------------------------------------------------------------------- dispatch

    def piece(self, e: Expr, wrap: bool = False) -> Piece:
        return _PRINTERS[type(e)](self, e, wrap)

    def _const(self, e: Const, wrap: bool) -> Piece:
        return self.d.constant(e)

    def _var(self, e: Var, wrap: bool) -> Piece:
        return Piece(self.names.of(e.sym), POSTFIX, e.type, self.upper.get(e.sym))

    def _knob(self, e: Knob, wrap: bool) -> Piece:
        return Piece(e.name, POSTFIX, I32, self.knob_upper.get(e.name, LIMIT))

    def _hw(self, e: HwIndex, wrap: bool) -> Piece:
        return self.d.hw_index(e.level, e.axis)

    def _raw(self, e: Raw, wrap: bool) -> Piece:
        self.d.require("raw", "source text carried through")
        return Piece(e.text, POSTFIX if e.text.isidentifier() else 0, e.ty)

    def _str(self, e: Str, wrap: bool) -> Piece:
        return Piece(f'"{e.text}"', POSTFIX, e.type)

    def _member(self, e: Member, wrap: bool) -> Piece:
        return Piece(f"{self.piece(e.x).at(POSTFIX)}.{e.name}", POSTFIX, e.ty)

    # ------------------------------------------------------------------------------------------------ conversions

    def _cast(self, e: Cast, wrap: bool) -> Piece:
        if e.style == "bit":
            if (special := infinity_or_nan(e)) is not None:
                return self.d.constant(special)
            return self._bits(e)
        if e.to == e.x.type:
            return self.piece(e.x, wrap)
        p = self.piece(e.x, wrap and is_int32(e.x.type))
        if not isinstance(e.to, Scalar) or not isinstance(p.ctype, Scalar):
            return self.d.convert(p, e.to, e.style)
        if e.style == "implicit":
            if keeps_value(p, e.to) and self.d.c_converts(p.ctype, e.to):
                return p
            if wrap and is_int32(e.to) and is_int32(e.x.type):
                return p
        elif p.ctype == e.to and e.x.type != e.to and not p.literal:
            return p
        if p.literal is not None and e.style == "implicit":
            return self.coerce(p, e.to)
        return self.d.convert(p, e.to, e.style)

    def _bits(self, e: Cast) -> Piece:
        """A reinterpretation; memory is read as the other type right away."""
        source = e.x.type
        if same_shape(source, e.to):
            return self.d.bitcast(self.exact(e.x), e.to)
        if isinstance(e.x, Load) and e.x.cache in PLAIN:
            place = self.subscript(e.x.buffer, e.x.index)
            return Piece(self.d.load_as(e.x.buffer, place, e.to, e.x.cache), UNARY, e.to)
        return self.d.reshape_bits(self.exact(e.x), e.to)

    # ----------------------------------------------------------------------------------------------------- memory

    def subscript(self, buffer: Sym, index: tuple[Expr, ...]) -> str:
        """``buf[i][j]``: one bracket per dimension, the lane of a vector last."""
        text = self.names.of(buffer)
        t = buffer.type
        if isinstance(t, Vec):
            return self.d.lane(text, t, index[0], self.text(index[0]))
        dims = len(t.shape) if isinstance(t, Array) and not self.d.is_flat(buffer) else 1
        dims += buffer in self.d.tables
        if isinstance(t, Array) and self.d.is_flat(buffer) and len(t.shape) > 1:
            flat: Expr = index[0]
            for extent, i in zip(t.shape[1:], index[1 : len(t.shape)]):
                flat = Binary("+", Binary("*", flat, extent), i)
            index = (flat, *index[len(t.shape) :])
        for i in index[:dims]:
            text += f"[{self.text(i)}]"
        if len(index) > dims:
            elem = t.elem if isinstance(t, Ptr | Array) else t
            assert isinstance(elem, Vec), f"{buffer.name}: too many subscripts"
            text = self.d.lane(text, elem, index[dims], self.text(index[dims]))
        return text

    def _load(self, e: Load, wrap: bool) -> Piece:
        place = self.subscript(e.buffer, e.index)
        if e.width != 1:
            vec = e.type
            assert isinstance(vec, Vec)
            text = self.d.load_vector(e.buffer, place, vec, self.width(e.width), e.cache)
            return Piece(text, UNARY if text.startswith("*") else POSTFIX, vec)
        t = self.d.loaded_type(e.buffer, e.type)
        if e.cache == "volatile":
            return Piece(self.d.volatile_place(e.buffer, place, t), UNARY, t)
        return Piece(self.d.load(e.buffer, place, e.type, e.cache), POSTFIX, t)

    def _addr_of(self, e: AddrOf, wrap: bool) -> Piece:
        return Piece("&" + self.subscript(e.buffer, e.index), UNARY, e.type)

    def width(self, n: int | Expr) -> str:
        return str(n) if isinstance(n, int) else self.text(n)

    # ---------------------------------------------------------------------------------------------------- vectors

    def _vec_make(self, e: VecMake, wrap: bool) -> Piece:
        args = [self.assigned(a, scalar_of(e.ty)) for a in e.args]
        return Piece(self.d.make_vector(e.ty, args), POSTFIX, e.ty)

    def _vec_get(self, e: VecGet, wrap: bool) -> Piece:
        t = e.x.type
        assert isinstance(t, Vec)
        return Piece(self.d.lane(self.piece(e.x).at(POSTFIX), t, e.lane, self.text(e.lane)), POSTFIX, e.type)

    # ------------------------------------------------------------------------------------------------------ calls

    def _call(self, e: Call, wrap: bool) -> Piece:
        if e.fn == "cdiv":
            return self._cdiv(e, wrap)
        if e.fn == "is_null":
            return self.is_null(e, "==")
        if e.fn == "launch":
            return self._launch(e)
        if e.fn == "shared_address":
            self.d.require("ptx", "an address in shared memory")
            return Piece(f"__cvta_generic_to_shared({self.piece(e.args[0]).text})", POSTFIX, e.ty)
        return self.d.call(e.fn, [self.exact(a) for a in e.args], e.ty)

    def _launch(self, e: Call) -> Piece:
        """``launch(name, grid, block, shared, stream, ...)``: dimensions that are 1 and a default of 0 go unsaid."""
        self.d.require("launches", "a kernel that launches a kernel")
        name, *head = e.args[:9]
        assert isinstance(name, Str)
        config = [self._dim3(head[:3]), self._dim3(head[3:6])]
        rest = [self._in_launch(head[6]), f"(cudaStream_t){self.piece(head[7]).at(UNARY)}"]
        while rest and is_const(head[5 + len(rest)], 0):
            rest.pop()
        args = ", ".join(self.text(a) for a in e.args[9:])
        return Piece(f"{name.text}<<<{', '.join(config + rest)}>>>({args})", POSTFIX, e.ty)

    def _dim3(self, dims: Sequence[Expr]) -> str:
        plain = all(is_const(x, 1) for x in dims[1:])
        return self._in_launch(dims[0]) if plain else f"dim3({', '.join(map(self.text, dims))})"

    def _in_launch(self, e: Expr) -> str:
        """``e`` between ``<<<`` and ``>>>``: shifts and comparisons stand in parentheses."""
        return self.piece(e).at(BINARY_PREC["+"])

    def is_null(self, e: Call, op: str) -> Piece:
        address = e.args[0]
        assert isinstance(address, AddrOf)
        pointer = self.names.of(address.buffer)
        pointer += f"[{self.text(address.index[0])}]" if address.buffer in self.d.tables else ""
        return self._infix(op, Piece(pointer, POSTFIX, e.ty), Piece(self.d.null, POSTFIX, e.ty), BOOL)

    def _cdiv(self, e: Call, wrap: bool) -> Piece:
        a, b = e.args
        t = e.ty
        assert isinstance(t, Scalar)
        if (n := const_int(b)) is not None:
            return self._binary(Binary("/", Binary("+", a, Const(n - 1, t)), b), wrap)
        return self._binary(Binary("/", Binary("-", Binary("+", a, b), Const(1, t)), b), wrap)

    def _vote(self, e: Expr) -> Piece:
        """A condition as the ``int`` that votes take: of a wider number or a float that would cut off what is not 0."""
        p = self.condition(e)
        whole = isinstance(p.ctype, Scalar) and not p.ctype.is_float and p.ctype.bits <= 32
        return p if whole else self.piece(e)

    def _warp(self, e: WarpOp, wrap: bool) -> Piece:
        value = self._vote(e.value) if e.kind in VOTES else self.exact(e.value)
        arg = self.piece(e.arg) if e.arg is not None else None
        return self.d.warp(e.kind, value, arg, self.piece(e.width), self.piece(e.mask), e.type)


def same_shape(a: Type, b: Type) -> bool:
    """Whether a reinterpretation between ``a`` and ``b`` is one of scalars."""
    return isinstance(a, Scalar) and isinstance(b, Scalar)


_PRINTERS: dict[type[Expr], Callable[..., Piece]] = {
    Const: Exprs._const, Var: Exprs._var, Knob: Exprs._knob, HwIndex: Exprs._hw, Unary: Exprs._unary,
    Binary: Exprs._binary, Select: Exprs._select, Cast: Exprs._cast, Load: Exprs._load, AddrOf: Exprs._addr_of,
    Member: Exprs._member, VecMake: Exprs._vec_make, VecGet: Exprs._vec_get, Call: Exprs._call, WarpOp: Exprs._warp,
    Raw: Exprs._raw, Str: Exprs._str,
}  # fmt: skip
