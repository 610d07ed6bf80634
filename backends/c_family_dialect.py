"""What differs between the C-family languages: one method per construct, answered by ``cuda``, ``hip`` and ``opencl``.

A dialect instance lives for one emission. It collects the helpers that the printed code turned out to need
(:meth:`need`), which the emitter puts above the kernel, each once and in the table's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.fold import evaluate, product, simplify
from ktc.ir.kernel import Kernel, KnobDecl, Param
from ktc.ir.nodes import Alloc, Atomic, Binary, Call, Const, Expr, HwIndex, Sym, Var
from ktc.ir.types import BF16, BOOL, E4M3, E5M2, F16, F32, F64, I32, Array, Opaque, Ptr, Scalar, Struct, Type, Vec
from ktc.ir.walk import walk_expr

from .c_family_piece import POSTFIX, UNARY, Piece, float_literal, integer_literal, literal_type
from .profiles import Profile
from .spellings import is_known, spelling

if TYPE_CHECKING:
    from .c_family_expr import Exprs

LANES = "xyzw"


def const_int(e: Expr | int | None) -> int | None:
    """The value of an integer literal (or of an expression of literals), else None."""
    if e is None or isinstance(e, int):
        return e
    v = evaluate(e, {})
    return int(v) if v is not None else None


class Dialect:
    """Base class. ``language`` selects the column of the spelling table; ``types`` maps scalars to the language's names."""

    language = ""
    types: dict[Scalar, str] = {}
    suffixes: dict[str, str] = {}
    native_vectors: dict[tuple[Scalar, int], str] = {}
    reserved: frozenset[str] = frozenset()
    helpers: dict[str, str] = {}
    constant_keyword = "const"
    exprs: Exprs

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.needed: set[str] = set()
        self.generic_vectors: set[tuple[Scalar, int]] = set()
        self.flat: set[Sym] = set()
        self.structs: dict[str, Struct] = {}
        self.loc: Loc | None = None

    # ------------------------------------------------------------------------------------------------- diagnostics

    def need(self, helper: str) -> None:
        """Ask for a helper of ``helpers`` above the kernel."""
        self.needed.add(helper)

    def refuse(self, code: str, message: str, hint: str = "") -> NoReturn:
        raise KtcError(f"E-BACKEND-{code}", f"{message} (target {self.profile.name})", self.loc, hint)

    def require(self, what: str, construct: str) -> None:
        """Refuse ``construct`` where the language cannot carry ``what`` (source text, inline PTX)."""
        self.refuse(
            "RAW",
            f"{construct} is CUDA and cannot be carried over",
            "rewrite it with built-ins the front-end understands",
        )

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
        small = p.nonneg and isinstance(to, Scalar) and to.is_int and to.bits >= 32
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
        return Piece(text, prec, ctype, 0 <= c.value < (1 << 31), literal=c)

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

    def call(self, fn: str, args: Sequence[Piece], ty: Type) -> Piece:
        """A canonical function on arguments of exact types, or a device function of the source."""
        t = args[0].ctype if args else ty
        found = spelling(fn, t, self.language) if isinstance(t, Scalar) else None
        if isinstance(t, Vec):
            found = spelling(fn, t.elem, self.language)
        if found is None:
            if is_known(fn):
                self.refuse("FUNCTION", f"no function '{fn}' on {t}", self.function_hint(fn))
            return self.foreign_call(fn, args, ty)
        if found in self.helpers:
            self.need(found)
        if "{" not in found:
            return Piece(f"{found}({', '.join(a.text for a in args)})", POSTFIX, self.result_type(fn, found, ty))
        text = (
            found.replace("/", " / ")
            .replace(",", ", ")
            .format(*(a.text if "," in found else a.at(UNARY) for a in args))
        )
        return Piece(text, 13 if " / " in text and "(" not in found else POSTFIX, ty)

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

    # ------------------------------------------------------------------------------------------------ statements

    def barrier(self, scope: str, mask: Piece | None) -> str:
        raise NotImplementedError

    def fence(self, scope: str) -> str:
        raise NotImplementedError

    def atomic(self, s: Atomic, place: str, value: str, compare: str | None, t: Scalar) -> str:
        """The call that performs ``s`` and yields the old value."""
        raise NotImplementedError

    def async_copy(self, dst: str, src: str, elem: Scalar, width: str, n: int | None) -> str:
        """A plain copy, where there is no asynchronous one: same meaning once waited for."""
        raise NotImplementedError

    def async_commit(self) -> str | None:
        return None

    def async_wait(self, pending: str) -> str | None:
        return None

    def has_compound(self, t: Scalar) -> bool:
        """Whether ``x += e`` exists for ``t``."""
        return not t.is_float or t.bits > 8

    def alignas(self, n: int) -> str:
        return f"alignas({n})"

    def shared_array(self, s: Alloc, name: str, extents: str) -> list[str]:
        raise NotImplementedError

    def dynamic_arrays(self, allocs: Sequence[tuple[Alloc, str, str]]) -> list[str]:
        """Declarations of the dynamic shared arrays, each (alloc, name, its size in elements as text)."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------- whole kernel

    def prepare(self, kernel: Kernel) -> Kernel:
        """Rewrite what the language cannot say into what it can, before printing."""
        return kernel

    def threads_per_block(self, kernel: Kernel) -> str | None:
        """Block size as text, where the launch fixes it without naming a parameter."""
        if kernel.launch is None:
            return None
        factors = [simplify(e) for e in kernel.launch.block]
        if any(isinstance(x, Var) for f in factors for x in walk_expr(f)):
            return None
        return self.exprs.text(simplify(product(factors)))

    def parameter(self, p: Param, name: str) -> str:
        raise NotImplementedError

    def extra_parameters(self) -> list[str]:
        """Parameters that the language needs beyond the kernel's own (OpenCL's dynamic local memory)."""
        return []

    def signature(self, kernel: Kernel) -> tuple[str, str]:
        """(head, tail) around the parameter list: ``__global__ void name(`` and ``)``."""
        raise NotImplementedError

    def options(self) -> tuple[str, ...]:
        """Compiler flags that the printed text needs."""
        return self.profile.options

    def helper_texts(self) -> list[tuple[str, str]]:
        """Helpers by name, in the order in which they may refer to each other."""
        return list(self.helpers.items())

    def late_declarations(self) -> list[str]:
        """Declarations that mention knobs and so follow them."""
        return []

    def bounds(self, kernel: Kernel) -> list[Expr]:
        """Launch expressions that the signature prints."""
        launch = kernel.launch
        return [] if launch is None else [e for e in (launch.max_threads, launch.min_blocks) if e is not None]

    def includes(self) -> list[str]:
        """Preprocessor lines for the headers that the printed types need."""
        return []

    def knob_constant(self, name: str, value: int) -> str:
        raise NotImplementedError

    def template(self, kernel: Kernel, knobs: Sequence[KnobDecl]) -> TemplateParts:
        """How the kernel is parameterised over ``knobs`` in template mode."""
        raise NotImplementedError


@dataclass(frozen=True)
class TemplateParts:
    """Lines above the helpers, directly above the kernel, and below it."""

    top: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()


__all__ = ["F32", "F64", "I32", "LANES", "Dialect", "HwIndex", "const_int"]
