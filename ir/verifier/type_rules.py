"""Rules for expressions: operand types agree, indices are integers and as many as the buffer has, spaces fit."""

from __future__ import annotations

from collections.abc import Iterator, Set

from ktc.ir.atomic_ops import ATOMIC_OPS, TAKEN
from ktc.ir.nodes import (
    COMPARISONS,
    LOGICAL,
    MATCHES,
    WARP_KINDS,
    WARP_REDUCTIONS,
    AddrOf,
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    BulkCopy,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    GroupCopy,
    GroupWait,
    HwIndex,
    If,
    Knob,
    Load,
    MatrixLoad,
    Mma,
    Par,
    Raw,
    Reduce,
    Scan,
    Select,
    Stmt,
    Store,
    Sym,
    TileMma,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
    While,
    accessed_type,
)  # fmt: skip
from ktc.ir.types import BOOL, EVENT, I32, U32, Array, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import walk_expr

from .shared_rules import Complaint, access, condition, is_global, lane, same
from .tile_rules import bulk_copy, group_copy, matrix_load, mma, tile_mma

ARITHMETIC = frozenset("+-*/")
INTEGER_ONLY = frozenset({"%", "<<", ">>", "&", "|", "^"})
HW_LEVELS = frozenset({"thread", "block", "block_dim", "grid_dim"})


def symbols_of(e: Expr) -> Iterator[Sym | Knob]:
    """Symbols and knobs that ``e`` mentions, those in vector types and widths included."""
    for x in walk_expr(e):
        if isinstance(x, Var):
            yield x.sym
        elif isinstance(x, Knob):
            yield x
        elif isinstance(x, Load | AddrOf):
            yield x.buffer
        elif isinstance(x, Raw):
            yield from x.uses
        width = getattr(getattr(x, "ty", None) or getattr(x, "to", None), "n", None)
        if isinstance(width, Expr):
            yield from symbols_of(width)


def check_expr(e: Expr, written: Set[Sym]) -> Iterator[Complaint]:
    """Problems of ``e`` and everything below it, as (code, message); ``written``: buffers the kernel stores to."""
    for x in walk_expr(e):
        match x:
            case Binary():
                yield from _binary(x)
            case Unary():
                yield from _unary(x)
            case Select():
                yield from condition(x.cond)
                yield from same("the two values of a conditional", x.a.type, x.b.type)
            case Load() | AddrOf():
                yield from access(x.buffer, x.index)
                if isinstance(x, Load) and x.cache == "ldg" and (not is_global(x.buffer.type) or x.buffer in written):
                    yield "V-SPACE", f"'{x.buffer.name}' is loaded as read-only but is not read-only global memory"
            case HwIndex() if x.level not in HW_LEVELS or x.axis not in ("x", "y", "z"):
                yield "V-TYPE", f"no hardware index {x.level}.{x.axis}"
            case WarpOp() if x.kind not in WARP_KINDS:
                yield "V-TYPE", f"unknown warp operation '{x.kind}'"
            case WarpOp() if x.kind in WARP_REDUCTIONS and x.value.type not in (I32, U32):
                yield "V-TYPE", f"{x.kind} takes a 32-bit integer, not {x.value.type}"
            case WarpOp() if x.kind in MATCHES and (_bits(x.value.type) not in (32, 64) or x.value.type.is_float):  # type: ignore[attr-defined]
                yield "V-TYPE", f"{x.kind} takes a 32- or 64-bit integer, not {x.value.type}"
            case Call(fn="min" | "max" | "cdiv") if len(x.args) == 2:
                yield from same(f"the arguments of {x.fn}", x.args[0].type, x.args[1].type)
            case Cast(style="bit") if None not in (sizes := (_bits(x.to), _bits(x.x.type))) and len(set(sizes)) > 1:
                yield "V-TYPE", f"a bit cast from {_bits(x.x.type)} to {_bits(x.to)} bits"
            case VecGet():
                yield from lane(x.x.type, x.lane)
            case VecMake() if isinstance(x.ty.n, int) and x.ty.n != len(x.args):
                yield "V-TYPE", f"{len(x.args)} lanes for a vector of {x.ty.n}"
            case Const() if x.ty.is_int and isinstance(x.value, float):
                yield "V-TYPE", f"the {x.ty} literal {x.value} is not an integer"


def check_stmt_types(s: Stmt) -> Iterator[Complaint]:
    """Problems of what ``s`` does with its expressions."""
    if isinstance(s, Par | Reduce | Scan):
        yield from same(f"'{s.var.name}' and its first value", s.var.type, s.lo.type)
        yield from same(f"'{s.var.name}' and its end", s.var.type, s.hi.type)
    match s:
        case If() | While():
            yield from condition(s.cond)
        case For():
            yield from condition(s.cond)
            yield from same(f"'{s.var.name}' and its initial value", s.var.type, s.init.type)
            yield from same(f"'{s.var.name}' and its next value", s.var.type, s.step.type)
        case Decl() if s.init is not None:
            yield from same(f"'{s.sym.name}' and its initial value", s.sym.type, s.init.type)
        case Alloc():
            pass
        case Assign():
            if isinstance(s.sym.type, Array):
                yield "V-TYPE", f"the array '{s.sym.name}' is assigned as a whole"
            yield from same(f"'{s.sym.name}' and the value assigned to it", s.sym.type, s.value.type)
        case Store():
            bad = list(access(s.buffer, s.index))
            yield from bad
            if not bad:
                elem = accessed_type(s.buffer, len(s.index))
                want = elem if s.width == 1 else Vec(scalar_of(elem), s.width)
                yield from same(f"what is stored to '{s.buffer.name}' and its place", want, s.value.type)
        case Atomic():
            bad = list(access(s.buffer, s.index))
            yield from bad
            if s.op not in ATOMIC_OPS or (s.op == "cas") != (s.compare is not None):
                yield "V-ATOMIC", f"a malformed atomic '{s.op}' on '{s.buffer.name}'"
            elif not bad and s.op in TAKEN and not scalar_of(accessed_type(s.buffer, len(s.index))).is_float:
                yield "V-ATOMIC", f"an atomic '{s.op}' on '{s.buffer.name}', which holds no floats"
            if getattr(s.buffer.type, "space", "local") in ("local", "const"):
                yield "V-SPACE", f"an atomic on '{s.buffer.name}', which is not shared or global"
        case AsyncCopy():
            yield from (*access(s.dst, s.dst_index), *access(s.src, s.src_index))
            if getattr(s.dst.type, "space", "") != "shared" or not is_global(s.src.type):
                yield "V-SPACE", f"an asynchronous copy from '{s.src.name}' to '{s.dst.name}' is not global to shared"
            if s.valid is not None:
                yield from same("the condition of an asynchronous copy and its type", BOOL, s.valid.type)
        case GroupCopy():
            yield from group_copy(s)
        case GroupWait():
            yield from same("an event waited for and its type", EVENT, s.event.type)
        case BulkCopy():
            yield from bulk_copy(s)
        case MatrixLoad():
            yield from matrix_load(s)
        case Mma():
            yield from mma(s)
        case TileMma():
            yield from tile_mma(s)
        case Reduce():
            for a in s.accs:
                yield from same(f"'{a.sym.name}' and its initial value", a.sym.type, a.init.type)
                yield from same(f"'{a.sym.name}' and what is accumulated", a.sym.type, a.value.type)
        case Scan():
            name = s.acc.sym.name
            yield from same(f"'{name}' and its initial value", s.acc.sym.type, s.acc.init.type)
            yield from same(f"'{name}' and what is accumulated", s.acc.sym.type, s.acc.value.type)


def _binary(e: Binary) -> Iterator[Complaint]:
    if e.op in LOGICAL:
        yield from (*condition(e.a), *condition(e.b))
        return
    if e.op not in ARITHMETIC | INTEGER_ONLY | COMPARISONS:
        yield "V-TYPE", f"unknown operator '{e.op}'"
    if e.op not in ("<<", ">>"):
        yield from same(f"the operands of '{e.op}'", e.a.type, e.b.type)
    if e.op in INTEGER_ONLY and isinstance(e.a.type, Scalar) and e.a.type.is_float:
        yield "V-TYPE", f"'{e.op}' of {e.a.type} operands"


def _unary(e: Unary) -> Iterator[Complaint]:
    if e.op == "!":
        yield from condition(e.x)
    elif e.op not in "+-~":
        yield "V-TYPE", f"unknown operator '{e.op}'"
    elif e.op == "~" and isinstance(e.x.type, Scalar) and e.x.type.is_float:
        yield "V-TYPE", f"'~' of a {e.x.type} operand"


def _bits(t: Type) -> int | None:
    if isinstance(t, Vec) and isinstance(t.n, int):
        return t.elem.bits * t.n
    return t.bits if isinstance(t, Scalar) else None
