"""What the printer and the parser of ``.ktir`` agree on: spellings, precedence, and the conversions left unwritten.

An implicit cast is left out of the text exactly where the parser would put it back: in the operands of a binary
operator (C's usual arithmetic conversions), and where a value meets a declared type. Everywhere else it is written
``x as f32``. Both sides call the functions below, so what is left out and what is put back cannot drift apart.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence

from ktc.ir.fold import common_type
from ktc.ir.nodes import LOGICAL, WARP_KINDS, Binary, Cast, Const, Expr
from ktc.ir.types import BOOL, I32, SCALARS, U32, VOID, Scalar, Type

PRECEDENCE: dict[str, int] = {
    "?": 1, "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, "<=": 8, ">": 8, ">=": 8,
    "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11,
}  # fmt: skip
"""Binding strength of C's binary operators; higher binds tighter."""
UNARY, POSTFIX, ATOM = 12, 13, 14

HW_LEVELS = {"thread": "threadIdx", "block": "blockIdx", "block_dim": "blockDim", "grid_dim": "gridDim"}
WARP_OPS = WARP_KINDS
FULL_WARP = Const(32, I32)
FULL_MASK = Const(0xFFFFFFFF, U32)
CACHES = ("ldg", "cs", "cg", "ca", "lu", "cv", "wb", "wt", "volatile")
EFFECTS = ("pure", "read", "write", "sync")
SPACE_WORDS = {"global": "global", "shared": "shared", "local": "local", "const": "constant", "generic": "generic"}

KEYWORDS = (
    frozenset(
        "kernel host launch knob where assume flags trace pass let var array if elif else for while do par reduce"  # noqa: SIM905
        " scan exscan yield staging stems"
        " break continue return barrier fence atomic async_copy async_commit async_wait asm raw true false inf nan"
        " void grid_dependency group_copy group_wait matrix_load mma tile_mma tile_mma_wait struct opaque member"
        " lane".split()
    )
    | frozenset(HW_LEVELS.values())
    | frozenset(SCALARS)
    | frozenset(SPACE_WORDS.values())
)
"""Words that cannot stand alone as a symbol's name; such names are printed between backticks."""

SCALAR_PATTERN = "|".join(sorted(SCALARS, key=len, reverse=True))
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_TYPE_LIKE = re.compile(rf"(?:(?:{SCALAR_PATTERN})x\d*|(?:inf|nan)_\w+)\Z")


def spell_name(name: str) -> str:
    """``name`` as written in the text: bare when the grammar reads it back as a name, else between backticks."""
    if _PLAIN_NAME.match(name) and name not in KEYWORDS and not _TYPE_LIKE.match(name):
        return name
    return "`" + name.replace("`", "'").replace("\n", " ") + "`"


def spell_call(fn: str) -> str:
    """A called function's name; quoted when the bare word means something else in call position."""
    return f"`{fn}`" if fn in WARP_OPS else spell_name(fn)


def round_to_f32(value: float) -> float:
    """``value`` rounded to the nearest f32: what a literal without a suffix stands for. ``1.5_f32`` is not rounded."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


# ------------------------------------------------------------------------------------------------------ conversions


def is_implicit(e: Expr) -> bool:
    return isinstance(e, Cast) and e.style == "implicit"


def coerce(e: Expr, to: Type) -> Expr:
    """``e`` where a value of type ``to`` is expected: an implicit cast when both are scalars and differ."""
    if e.type == to or not isinstance(to, Scalar) or not isinstance(e.type, Scalar):
        return e
    return Cast(to, e, "implicit")


def uncoerce(e: Expr, to: Type) -> Expr:
    """The inverse of :func:`coerce`: what to write so that reading it back against ``to`` gives ``e``."""
    return e.x if isinstance(e, Cast) and is_implicit(e) and coerce(e.x, to) == e else e


def operand_types(op: str, a: Type, b: Type) -> tuple[Type, Type]:
    """The types that the operands of ``a op b`` are converted to."""
    if op in LOGICAL:
        return BOOL, BOOL
    if op in ("<<", ">>"):
        return a, a
    if a == b or not isinstance(a, Scalar) or not isinstance(b, Scalar):
        return a, b
    wide = common_type(a, b)
    return wide, wide


def convert_operands(op: str, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The operands of ``a op b`` with the unwritten conversions put back."""
    ta, tb = operand_types(op, a.type, b.type)
    return coerce(a, ta), coerce(b, tb)


def written_operands(e: Binary) -> tuple[Expr, Expr]:
    """The operands of ``e`` as they are written: implicit casts that :func:`convert_operands` restores are dropped."""
    choices = [(a, b) for a in _with_and_without(e.a) for b in _with_and_without(e.b)]
    return next((c for c in choices if convert_operands(e.op, *c) == (e.a, e.b)), (e.a, e.b))


def _with_and_without(e: Expr) -> tuple[Expr, ...]:
    return (e.x, e) if isinstance(e, Cast) and is_implicit(e) else (e,)


COMMON_ARGS = frozenset({"min", "max", "cdiv", "pow", "fmod", "remainder", "atan2", "copysign", "hypot", "fdim"})
"""Binary functions whose arguments take one common type, as an operator's operands do."""

_RESULTS: dict[str, Scalar] = dict.fromkeys(("isnan", "isinf", "isfinite", "signbit"), BOOL) | dict.fromkeys(
    ("popc", "clz", "ffs"), I32
)


def convert_args(fn: str, args: Sequence[Expr]) -> tuple[Expr, ...]:
    """Arguments of a call with the unwritten conversions put back."""
    if fn in COMMON_ARGS and len(args) == 2:
        return convert_operands("+", args[0], args[1])
    return tuple(args)


def written_args(fn: str, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Arguments of a call as written; the inverse of :func:`convert_args`."""
    if fn in COMMON_ARGS and len(args) == 2:
        return written_operands(Binary("+", args[0], args[1]))
    return args


def result_type(fn: str, args: Sequence[Expr]) -> Type:
    """The result type of a call that does not say one: its first argument's, with a table of exceptions."""
    return _RESULTS.get(fn) or (args[0].type if args else VOID)
