"""Words: a 32-bit value and a tag in one 64-bit word, so that one access writes or reads both.

    word = (u64) tag << 32 | bits(value)

What a block has to say to another one and that it has said it are seen together: the reader needs no fence between
them. Only 64-bit accesses of *one* word are a single access (PTX ISA, memory consistency model); vectors are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.atomic_ops import BIT_ORDERS
from ktc.ir.fold import cast, i32, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Atomic, Binary, Cast, Const, Decl, Expr, Load, Stmt, Store, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.types import U32, U64, Scalar, Vec, scalar_of
from ktc.ir.walk import stmt_exprs, walk, walk_expr

TAG = 32
"""Where the tag begins, in bits."""


def fits(t: Scalar) -> bool:
    """Whether a value of type ``t`` is the lower half of a word."""
    return t.bits == 32 and t.kind != "bool"


def word(tag: Expr, value: Expr) -> Expr:
    """``tag`` (u32) and ``value`` (of a type that :func:`fits`) as one u64."""
    return Binary("|", Binary("<<", cast(tag, U64, "c"), i32(TAG)), cast(_as(value, U32), U64, "c"))


def tag_of(w: Expr) -> Expr:
    return cast(Binary(">>", w, i32(TAG)), U32, "c")


def value_of(w: Expr, t: Scalar) -> Expr:
    return _as(cast(w, U32, "c"), t)


def _as(e: Expr, to: Scalar) -> Expr:
    floating = to.is_float or (isinstance(e.type, Scalar) and e.type.is_float)
    return Cast(to, e, "bit") if floating and e.type != to else cast(e, to, "c")


@by_identity(64)
def only_travel(kernel: Kernel) -> bool:
    """Whether the bits of floats that ``kernel`` looks at only travel: put into words, left in memory that holds
    nothing else, taken out again. Then any names for values would do as their bits."""
    kept: set[Sym] = set()  # buffers of words
    seen = 0
    for s in walk(kernel.body):
        value = s.value if isinstance(s, Store | Atomic) else None
        if isinstance(s, Atomic) and s.op in BIT_ORDERS:
            return False
        if value is not None and (bits := _put(value)) is not None:
            if isinstance(s, Atomic) and s.op != "exch":
                return False
            kept.add(s.buffer)  # type: ignore[attr-defined]
            seen += bits
    taken = _taken(kernel, kept)
    return taken is not None and seen + taken == sum(1 for _ in _bit_casts(kernel))


def _taken(kernel: Kernel, kept: set[Sym]) -> int | None:
    """How often floats are taken out of words; None where a word, or memory of words, is used otherwise."""
    words = {s.dst for s in walk(kernel.body) if isinstance(s, Atomic) and s.buffer in kept and s.dst is not None}
    taken = 0
    for s in walk(kernel.body):
        found = [_looked_at(e, words, kept) for e in stmt_exprs(s)]
        if _changes(s, words, kept) or None in found:
            return None
        taken += sum(n for n in found if n is not None)
    return taken


def _changes(s: Stmt, words: set[Sym], kept: set[Sym]) -> bool:
    """Whether ``s`` gives ``words`` or ``kept`` anything but words."""
    match s:
        case Atomic(op="load"):
            return False
        case Store() | Atomic():
            return s.buffer in kept and _put(s.value) is None
        case Assign():
            return s.sym in words
        case Decl():
            return s.sym in words and not isinstance(s.init, Const | None)
    return False


def _looked_at(e: Expr, words: set[Sym], kept: set[Sym]) -> int | None:
    """The floats that ``e`` takes out of ``words``; None if it does anything else with one but read its tag."""
    below = list(walk_expr(e))
    if any(isinstance(x, Load) and x.buffer in kept for x in below):
        return None
    uses = sum(_is_word(x, words) for x in below)
    tags = sum(isinstance(x, Binary) and x.op == ">>" and _by_tag(x.b) and _is_word(x.a, words) for x in below)
    floats = sum(_is_bit_cast(x) and isinstance(x.x, Cast) and _is_word(x.x.x, words) for x in below)  # type: ignore[attr-defined]
    return floats if tags + floats == uses else None


def _is_word(e: Expr, words: set[Sym]) -> bool:
    return isinstance(e, Var) and e.sym in words


def _by_tag(shift: Expr) -> bool:
    return is_const(shift.x if isinstance(shift, Cast) else shift, TAG)


def _put(e: Expr) -> int | None:
    """The bit casts of ``e`` if it is a word of a float, else None."""
    match e:
        case Binary("|", Binary("<<", tag, shift), Cast(to, Cast(low, x, "bit"), _)) if _by_tag(shift):
            whole = (to, low) == (U64, U32) and isinstance(x.type, Scalar) and x.type.is_float
            inner = any(_is_bit_cast(y) for part in (tag, x) for y in walk_expr(part))
            return 1 if whole and not inner else None
    return None


def _is_bit_cast(e: Expr) -> bool:
    floating = isinstance(e, Cast) and any(
        isinstance(t, Scalar | Vec) and scalar_of(t).is_float for t in (e.to, e.x.type)
    )
    return floating and isinstance(e, Cast) and e.style == "bit" and e.to != e.x.type


def _bit_casts(kernel: Kernel) -> Iterator[Expr]:
    return (e for s in walk(kernel.body) for top in stmt_exprs(s) for e in walk_expr(top) if _is_bit_cast(e))


__all__ = ["fits", "only_travel", "tag_of", "value_of", "word"]
