"""Rules for expressions: operand types agree, indices are integers and as many as the buffer has, spaces fit."""

from __future__ import annotations

from collections.abc import Iterator, Set

from .fold import evaluate
from .fragments import BOX_ROWS, FRAGMENTS, INSTRUCTIONS, MATRIX_ROW, PANEL, Fragment
from .nodes import (
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
from .types import BOOL, EVENT, I32, U32, U64, Array, Ptr, Scalar, Type, Vec, scalar_of
from .walk import walk_expr

ARITHMETIC = frozenset("+-*/")
INTEGER_ONLY = frozenset({"%", "<<", ">>", "&", "|", "^"})
HW_LEVELS = frozenset({"thread", "block", "block_dim", "grid_dim"})
ATOMIC_OPS = frozenset({"add", "sub", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"})

MATRIX_WIDTHS = (2, 4, 8)
"""Elements a lane receives from a load of 1, 2 or 4 matrices."""

Complaint = tuple[str, str]


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
                if isinstance(x, Load) and x.cache == "ldg" and (not _global(x.buffer.type) or x.buffer in written):
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
                yield from _lane(x.x.type, x.lane)
            case VecMake() if isinstance(x.ty.n, int) and x.ty.n != len(x.args):
                yield "V-TYPE", f"{len(x.args)} lanes for a vector of {x.ty.n}"
            case Const() if x.ty.is_int and isinstance(x.value, float):
                yield "V-TYPE", f"the {x.ty} literal {x.value} is not an integer"


def check_stmt_types(s: Stmt) -> Iterator[Complaint]:
    """Problems of what ``s`` does with its expressions."""
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
            if not bad and isinstance(s.width, int) and s.width == 1:
                want = accessed_type(s.buffer, len(s.index))
                yield from same(f"an element of '{s.buffer.name}' and the value stored", want, s.value.type)
        case Atomic():
            bad = list(access(s.buffer, s.index))
            yield from bad
            if s.op not in ATOMIC_OPS or (s.op == "cas") != (s.compare is not None):
                yield "V-ATOMIC", f"a malformed atomic '{s.op}' on '{s.buffer.name}'"
            if getattr(s.buffer.type, "space", "local") in ("local", "const"):
                yield "V-SPACE", f"an atomic on '{s.buffer.name}', which is not shared or global"
        case AsyncCopy():
            yield from (*access(s.dst, s.dst_index), *access(s.src, s.src_index))
            if getattr(s.dst.type, "space", "") != "shared" or not _global(s.src.type):
                yield "V-SPACE", f"an asynchronous copy from '{s.src.name}' to '{s.dst.name}' is not global to shared"
            if s.valid is not None:
                yield from same("the condition of an asynchronous copy and its type", BOOL, s.valid.type)
        case GroupCopy():
            yield from _group_copy(s)
        case GroupWait():
            yield from same("an event waited for and its type", EVENT, s.event.type)
        case BulkCopy():
            yield from _bulk_copy(s)
        case MatrixLoad():
            yield from _matrix_load(s)
        case Mma():
            yield from _mma(s)
        case TileMma():
            yield from _tile_mma(s)
        case Reduce():
            for a in s.accs:
                yield from same(f"'{a.sym.name}' and its initial value", a.sym.type, a.init.type)
                yield from same(f"'{a.sym.name}' and what is accumulated", a.sym.type, a.value.type)
        case Scan():
            name = s.acc.sym.name
            yield from same(f"'{name}' and its initial value", s.acc.sym.type, s.acc.init.type)
            yield from same(f"'{name}' and what is accumulated", s.acc.sym.type, s.acc.value.type)


def _group_copy(s: GroupCopy) -> Iterator[Complaint]:
    bad = [*access(s.dst, s.dst_index), *access(s.src, s.src_index)]
    yield from bad
    spaces = {getattr(b.type, "space", "local") for b in (s.dst, s.src)}
    if "shared" not in spaces or not spaces <= {"shared", "global", "generic", "const"} or len(spaces) != 2:
        yield "V-SPACE", f"a copy by the block from '{s.src.name}' to '{s.dst.name}' is not between shared and global"
    if not bad:
        types = (accessed_type(b, len(i)) for b, i in ((s.dst, s.dst_index), (s.src, s.src_index)))
        yield from same("the elements that are copied", *types)
    for e, t in ((Var(s.event), EVENT), (s.after, EVENT), (s.count, U64), (s.stride, U64)):
        if e is not None:
            yield from same("an operand of a copy by the block and its type", t, e.type)


def _bulk_copy(s: BulkCopy) -> Iterator[Complaint]:
    bad = list(access(s.dst, s.dst_index))
    yield from bad
    t = s.dst.type
    tile = t if isinstance(t, Array) and t.space == "shared" and len(t.shape) > 1 and not bad else None
    if tile is None or scalar_of(t).bits != 16 or evaluate(tile.shape[-1], {}) not in (PANEL, None):
        yield "V-BULK", f"'{s.dst.name}' is no shared tile of 16-bit elements in rows of {PANEL}"
    if not _global(s.src.type) or scalar_of(s.src.type) != scalar_of(t):
        yield "V-BULK", f"'{s.src.name}' is no matrix in global memory of the elements of '{s.dst.name}'"
    if not 1 <= s.rows <= BOX_ROWS:
        yield "V-BULK", f"a box of {s.rows} rows; it has 1 to {BOX_ROWS}"
    if s.shared < 1 or (s.shared > 1 and s.rows % (s.shared * MATRIX_ROW)):
        yield "V-BULK", f"{s.rows} rows are not {s.shared} parts of whole groups of {MATRIX_ROW}"


def _matrix_load(s: MatrixLoad) -> Iterator[Complaint]:
    bad = [*access(s.dst, s.dst_index), *access(s.buffer, s.index)]
    yield from bad
    if bad:
        return
    elem = accessed_type(s.buffer, len(s.index))
    if getattr(s.buffer.type, "space", "") != "shared" or not isinstance(elem, Scalar) or elem.bits != 16:
        yield "V-MMA", f"'{s.buffer.name}' is not shared memory of 16-bit elements"
    yield from same(f"matrices of '{s.buffer.name}' and '{s.dst.name}'", elem, accessed_type(s.dst, len(s.dst_index)))
    if s.width not in MATRIX_WIDTHS:
        yield "V-MMA", f"a lane receives {' or '.join(map(str, MATRIX_WIDTHS))} elements, not {s.width}"


def _tile_mma(s: TileMma) -> Iterator[Complaint]:
    f = FRAGMENTS.get(s.fragment)
    if f is None or not f.from_shared:
        yield "V-MMA", f"'{s.fragment}' is no fragment of a warpgroup that reads shared tiles"
        return
    yield from _accumulators(s, f)
    bad = [*access(s.a, s.a_index), *access(s.b, s.b_index)]
    yield from bad
    for sym, dims in ((s.a, 2), (s.b, 3)) if not bad else ():
        t = sym.type
        tile = t if isinstance(t, Array) and t.space == "shared" and t.elem == f.operand else None
        if tile is None or len(tile.shape) < dims or evaluate(tile.shape[-1], {}) not in (PANEL, None):
            yield "V-MMA", f"'{sym.name}' is no shared tile of {f.operand} in rows of {PANEL}"
    if s.depth < 1 or s.depth % f.k or s.depth > PANEL:
        yield "V-MMA", f"{f.name} takes {f.k} to {PANEL} terms in steps of {f.k}, not {s.depth}"
    if s.keep is not None:
        yield from same("the condition of a sum of products and its type", BOOL, s.keep.type)
    if s.pending < 0:
        yield "V-MMA", f"{s.pending} products cannot be in flight"


def _accumulators(s: Mma | TileMma, f: Fragment) -> Iterator[Complaint]:
    if len(s.acc) != f.c.slots:
        yield "V-MMA", f"{f.name} has {f.c.slots} accumulators a lane, not {len(s.acc)}"
    for x in s.acc:
        if not isinstance(x, Var | Load) or (isinstance(x, Load) and _space(x.buffer.type) != "local"):
            yield "V-MMA", "an accumulator must be a private variable or an element of a private array"
        yield from same(f"an accumulator of {f.name} and its type", f.accumulator, x.type)


def _mma(s: Mma) -> Iterator[Complaint]:
    f = INSTRUCTIONS.get(s.fragment)
    if f is None or f.a is None or f.b is None:
        known = ", ".join(name for name, g in INSTRUCTIONS.items() if not g.from_shared)
        yield "V-MMA", f"no fragment '{s.fragment}' in registers; there are {known}"
        return
    yield from _accumulators(s, f)
    for what, x, layout in (("a", s.a, f.a), ("b", s.b, f.b)):
        t = x.type
        n, elem = (t.n, t.elem) if isinstance(t, Vec) else (1, t)
        if elem != f.operand or n != layout.slots:
            yield "V-MMA", f"operand {what} of {f.name} is {layout.slots} elements of {f.operand} a lane"


def _space(t: Type) -> str:
    return getattr(t, "space", "local")


def access(buffer: Sym, index: tuple[Expr, ...]) -> Iterator[Complaint]:
    """Problems of subscripting ``buffer`` with ``index``."""
    allowed = _index_counts(buffer.type)
    if not allowed:
        yield "V-INDEX", f"'{buffer.name}' is not a buffer"
    elif len(index) not in allowed:
        wants = " or ".join(map(str, allowed))
        yield "V-INDEX", f"'{buffer.name}' takes {wants} indices, not {len(index)}"
    for i in index:
        if not isinstance(i.type, Scalar) or not i.type.is_int:
            yield "V-INDEX", f"an index of '{buffer.name}' is not an integer"
    if allowed and len(index) == allowed[-1]:
        yield from _lane(
            buffer.type if isinstance(buffer.type, Vec) else getattr(buffer.type, "elem", buffer.type), index[-1]
        )


def _lane(t: Type, lane: Expr) -> Iterator[Complaint]:
    """A lane that a vector of type ``t`` does not have."""
    if isinstance(t, Vec) and isinstance(t.n, int) and isinstance(lane, Const) and not 0 <= lane.value < t.n:
        yield "V-INDEX", f"a vector of {t.n} elements has no element {lane.value}"


def _index_counts(t: Type) -> tuple[int, ...]:
    if isinstance(t, Ptr):
        return (1, 2) if isinstance(t.elem, Vec) else (1,)
    if isinstance(t, Array):
        return (len(t.shape), len(t.shape) + 1) if isinstance(t.elem, Vec) else (len(t.shape),)
    return (1,) if isinstance(t, Vec) else ()


def condition(e: Expr) -> Iterator[Complaint]:
    if e.type != BOOL:
        yield "V-TYPE", f"a condition of type {_name(e.type)}, not bool"


def same(what: str, a: Type, b: Type) -> Iterator[Complaint]:
    """Scalars must agree exactly; other types are the printers' business."""
    if isinstance(a, Scalar) and isinstance(b, Scalar) and a != b:
        yield "V-TYPE", f"{what} differ in type: {a} and {b}"


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


def _global(t: Type) -> bool:
    return isinstance(t, Ptr) and t.space in ("global", "const", "generic")


def _bits(t: Type) -> int | None:
    if isinstance(t, Vec) and isinstance(t.n, int):
        return t.elem.bits * t.n
    return t.bits if isinstance(t, Scalar) else None


def _name(t: Type) -> str:
    return str(t) if isinstance(t, Scalar) else type(t).__name__
