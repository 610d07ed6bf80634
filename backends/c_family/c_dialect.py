"""What the C-family languages have in common: types, literals, conversions, calls, plain memory accesses."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ktc.backends.spellings import is_known, spelling
from ktc.backends.system_calls import expand, template
from ktc.ir.field_words import ARITY
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Binary, Call, Const, Expr, Sym
from ktc.ir.types import (
    BF16,
    BOOL,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I32,
    Array,
    Opaque,
    Ptr,
    Scalar,
    Struct,
    Type,
    Vec,
    scalar_of,
)

from .line_layout import COLUMNS
from .piece import LIMIT, POSTFIX, UNARY, Piece, float_literal, integer_literal, literal_type
from .protocol import DialectBase, const_int

LANES = "xyzw"
SYSTEM_HINTS = {"tex": "read the data from a buffer", "sur": "write the data to a buffer"}


class Dialect(DialectBase):
    """Base of the three dialects."""

    null = "nullptr"

    def require(self, what: str, construct: str) -> None:
        """Refuse ``construct`` where the language cannot carry ``what`` (source text, inline PTX)."""
        self.refuse(
            "RAW",
            f"{construct} is CUDA and cannot be carried over",
            "rewrite it with built-ins the front-end understands",
        )

    def bulk(self, cluster: int) -> None:
        """Refuse copies by a producer where there is no copy engine."""
        self.refuse("BULK", "copies by a producer need the copy engine of Hopper GPUs", "multi-buffer by=threads")

    def registers(self, how: str, count: int) -> list[str]:
        """Raise (inc) or lower (dec) the registers that each thread of a warpgroup may use."""
        return []

    def part_barrier(self, scope: str, threads: str) -> str:
        """A barrier among the threads of the block, which are not all that a launch starts."""
        self.refuse("PRODUCE", f"a {scope} barrier in a kernel with a producer")

    def is_argument(self, p: Param) -> bool:
        """Whether ``p`` is in the printed signature (host values are not, nor are variables at file scope)."""
        return not p.host

    def file_scope(self, kernel: Kernel) -> list[str]:
        """Declarations of the kernel's variables at file scope; where they are arguments, what they hold at first."""
        out = []
        for p in (p for p in kernel.params if p.init):
            elem = scalar_of(p.sym.type)
            values = ", ".join(self.exprs.assigned(Const(v, elem), elem) for v in p.init)
            what = f"{self.exprs.names.of(p.sym)} holds at first {{{values}}}."
            out += [f"// {line}" for line in textwrap.wrap(what, COLUMNS - 3)]
        return out

    # ------------------------------------------------------------------------------------------------------- types

    def type_name(self, t: Type) -> str:
        if isinstance(t, Scalar):
            if t not in self.types:
                self.refuse("TYPE", f"no type for {t.name}")
            self.note_scalar(t)
            return self.types[t]
        if isinstance(t, Vec):
            return self.vector_name(t)
        if isinstance(t, Struct):
            self.structs[t.name] = t
            return t.name
        if isinstance(t, Opaque):
            return self.opaque(t)
        if isinstance(t, Ptr):
            return self.type_name(t.elem) + "*"
        if isinstance(t, Array):
            return self.type_name(t.elem)
        raise TypeError(t)

    def note_scalar(self, t: Scalar) -> None:
        """Called for every scalar type printed: headers follow from it."""

    def opaque(self, t: Opaque) -> str:
        self.refuse("TYPE", f"type '{t.spelling}' has no counterpart")

    def vector_name(self, t: Vec) -> str:
        raise NotImplementedError

    def native_vector(self, t: Vec) -> str | None:
        """The language's own vector type, where lanes are only picked by constants."""
        n = const_int(t.n)
        if n is None or (t.elem, n) in self.generic_vectors:
            return None
        return self.native_vectors.get((t.elem, n))

    def is_flat(self, sym: Sym) -> bool:
        """Whether a multi-dimensional array is printed with one computed subscript (dynamic shared memory)."""
        return sym in self.flat

    # ------------------------------------------------------------------------------------------------- conversions

    def c_converts(self, source: Type, to: Type) -> bool:
        """Whether an initialisation converts ``source`` to ``to`` by itself, as the IR's implicit cast does."""
        plain = (F16, BF16, E4M3, E5M2)
        return isinstance(source, Scalar) and isinstance(to, Scalar) and source not in plain and to not in plain

    def mixes(self, t: Type, to: Scalar) -> bool:
        """Whether an operand of type ``t`` is converted to the floating type ``to`` beside an operand of that type."""
        return isinstance(t, Scalar) and self.c_converts(t, to) and (not t.is_float or t.bits <= to.bits)

    def convert(self, p: Piece, to: Type, style: str = "c") -> Piece:
        """An explicit conversion of the value ``p``."""
        if to == BOOL:
            return Piece(f"{p.at(10)} != 0", 9, BOOL, op="!=")
        text = self.type_name(to)
        small = p.upper if isinstance(to, Scalar) and to.is_int and to.bits >= 32 else None
        if style == "static" and self.language != "opencl":
            return Piece(f"static_cast<{text}>({p.text})", POSTFIX, to, small)
        return Piece(f"({text}){p.at(UNARY)}", UNARY, to, small)

    def bitcast(self, p: Piece, to: Type) -> Piece:
        raise NotImplementedError

    def constant(self, c: Const, exact: bool = False) -> Piece:
        """A literal. Integers that fit ``int`` are printed bare unless ``exact`` asks for their own type."""
        t = c.ty
        if t == BOOL:
            return Piece("true" if c.value else "false", POSTFIX, BOOL)
        if t.is_float:
            return self.float_constant(c)
        ctype = t if exact else literal_type(c)
        text = integer_literal(int(c.value), ctype, self.suffixes, c.spelling)
        prec = UNARY if text.startswith("-") else POSTFIX
        if ctype.bits < 32:
            return self.convert(Piece(str(int(c.value)), prec, I32), ctype) if exact else Piece(text, prec, I32)
        return Piece(text, prec, ctype, int(c.value) if 0 <= c.value <= LIMIT else None, literal=c)

    def float_constant(self, c: Const) -> Piece:
        if c.ty in (F32, F64):
            text = float_literal(float(c.value), c.ty, c.spelling)
            if text.lstrip("-") in ("INFINITY", "NAN"):
                self.need(text.lstrip("-"))
            # INFINITY and NAN are float constants: wider contexts convert them exactly.
            return Piece(text, UNARY if text.startswith("-") else POSTFIX, c.ty)
        return self.convert(self.float_constant(Const(float(c.value), F32, "")), c.ty)

    # ------------------------------------------------------------------------------------------------ expressions

    def hw_index(self, level: str, axis: str) -> Piece:
        raise NotImplementedError

    def index_idiom(self, e: Binary) -> Piece | None:
        """A shorter spelling of a whole index expression (OpenCL's ``get_global_id``)."""
        return None

    def negative(self, p: Piece) -> Piece | None:
        """``-p`` where the language's compiler must not see it as that; None: the operator will do."""
        return None

    def call(self, fn: str, args: Sequence[Piece], ty: Type) -> Piece:
        """A canonical function on arguments of exact types, or a device function of the source."""
        t = args[0].ctype if args else ty
        if (system := template(fn, self.language)) is not None:
            return self.system_call(fn, system, [a.text for a in args], ty)
        found = spelling(fn, t, self.language) if isinstance(t, Scalar) else None
        if isinstance(t, Vec):
            found = spelling(fn, t.elem, self.language)
        if found is None:
            if fn == "rsqrt_rn" and t == F32:  # rounded twice it is the nearest, as all 2^24 significands of x show
                return self.convert(Piece(f"1.0 / sqrt({self.convert(args[0], F64).text})", 13, F64), F32)
            if is_known(fn):
                self.refuse("FUNCTION", f"no function '{fn}' on {t}", self.function_hint(fn))
            return self.foreign_call(fn, args, ty)
        if found in ARITY:
            self.need("field")
        elif found in self.helpers:
            self.need(found)
        if "{" not in found:
            return Piece(f"{found}({', '.join(a.text for a in args)})", POSTFIX, self.result_type(fn, found, ty))
        text = (
            found.replace("/", " / ")
            .replace(",", ", ")
            .format(*(a.text if "," in found else a.at(UNARY) for a in args))
        )
        return Piece(text, 13 if " / " in text and "(" not in found else POSTFIX, ty)

    def system_call(self, fn: str, cell: str, args: list[str], ty: Type) -> Piece:
        """A function of :mod:`system_calls`."""
        if cell == "-":
            self.refuse("SYSTEM", f"'{fn}' has no counterpart", SYSTEM_HINTS.get(fn[:3], "leave it out"))
        head = cell.partition("(")[0].partition("<")[0]
        if head in self.helpers:
            self.need(head)
        text = expand(cell, args, self.type_name(ty) if "{T}" in cell else "")
        return Piece(text, UNARY if text.startswith("(") else POSTFIX, ty)

    def called_name(self, e: Call) -> str:
        """The function that ``e`` prints as a call of: no variable may hide it."""
        t = e.args[0].type if e.args else e.ty
        return (spelling(e.fn, t, self.language) if isinstance(t, Scalar) else None) or e.fn

    def function_hint(self, fn: str) -> str:
        return ""

    def result_type(self, fn: str, name: str, ty: Type) -> Type:
        return ty

    def foreign_call(self, fn: str, args: Sequence[Piece], ty: Type) -> Piece:
        self.refuse("FUNCTION", f"call of '{fn}', which this target does not know")

    def warp(self, kind: str, value: Piece, arg: Piece | None, width: Piece, mask: Piece, ty: Type) -> Piece:
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------------- memory

    def loaded_type(self, buffer: Sym, t: Type) -> Type:
        return t

    def is_byte(self, buffer: Sym) -> bool:
        """Whether ``buffer`` holds its truth values in bytes, to which nothing but 0 and 1 may be assigned."""
        return False

    def load(self, buffer: Sym, place: str, t: Type, cache: str) -> str:
        return place

    def store(self, buffer: Sym, place: str, value: str, t: Type, cache: str) -> str:
        return f"{place} = {value};"

    def lane(self, vector: str, t: Vec, lane: Expr, lane_text: str) -> str:
        raise NotImplementedError

    def load_vector(self, buffer: Sym, place: str, t: Vec, width: str, cache: str) -> str:
        raise NotImplementedError

    def store_vector(self, buffer: Sym, place: str, value: Piece, t: Vec, width: str, cache: str) -> str:
        raise NotImplementedError

    def make_vector(self, t: Vec, args: Sequence[str]) -> str:
        raise NotImplementedError

    def volatile_place(self, buffer: Sym, place: str, t: Type) -> str:
        """``place`` as a volatile lvalue, for one access to a buffer that is not volatile itself."""
        raise NotImplementedError

    def pointer_as(self, buffer: Sym, place: str, t: Type, qualifiers: str) -> str:
        """The address of ``place`` as one of a ``t`` with ``qualifiers``."""
        raise NotImplementedError

    def load_as(self, buffer: Sym, place: str, t: Type, cache: str = "") -> str:
        """The memory at ``place`` read as a ``t``."""
        return f"*{self.pointer_as(buffer, place, t, 'const ' + volatile(buffer, cache))}"

    def store_as(self, buffer: Sym, place: str, value: Piece, t: Type, cache: str = "") -> str:
        """``value`` stored over the memory at ``place``, seen as a ``t``."""
        return f"*{self.pointer_as(buffer, place, t, volatile(buffer, cache))} = {value.text};"

    def reshape_bits(self, p: Piece, to: Type) -> Piece:
        """The bits of a value as a type with another number of lanes."""
        raise NotImplementedError


def volatile(buffer: Sym, cache: str) -> str:
    """The qualifier of accesses that must stay where they are: to volatile buffers, or with a cache hint."""
    return "volatile " if cache or getattr(buffer.type, "volatile", False) else ""
