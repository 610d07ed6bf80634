"""Expressions and statements of the IR: immutable trees, typed, with explicit statement order.

Conventions that every producer and consumer keeps:

* **Symbols** are compared by ``id``; names are made unique only when printing. ``Sym.type`` is the declared type.
* **Buffers**: pointers are resolved to (buffer symbol, index) pairs. A ``Load``/``Store`` names a symbol whose type is
  ``Ptr``, ``Array`` or ``Vec``. A ``Ptr`` takes one flat element index; an ``Array`` one index per dimension (one more
  to pick a lane of an ``Array`` of ``Vec``); a ``Vec`` variable one lane index. ``width > 1`` moves that many
  consecutive elements, starting at the index, as one access of type ``Vec(elem, width)``.
* **Arithmetic** has C's meaning on already-converted operands: both sides of a ``Binary`` have one type, conversions
  are explicit ``Cast`` nodes (``style='implicit'`` when the source had none, so printers may drop them). Integer
  division truncates; shifts by >= width are taken modulo the width; float -> int saturates (CUDA). ``&& || ?:`` are
  lazy.
* **Functions** are called by canonical names (``exp``, ``rsqrt``, ``fma``, ``min``, ``fast_exp``), see ``builtins.py``.
* ``loc`` and ``comments`` do not take part in equality.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from .diagnostics import Loc
from .types import BOOL, I8, I32, U32, VOID, Array, Ptr, Scalar, Type, Vec, scalar_of

_ids = itertools.count(1)


@dataclass(frozen=True)
class Sym:
    """A variable, parameter or array. Compared by ``id`` alone; use :func:`fresh` to make one."""

    name: str = field(compare=False)
    type: Type = field(compare=False)
    id: int

    def __repr__(self) -> str:
        return f"{self.name}#{self.id}"


def fresh(name: str, type: Type) -> Sym:
    """A new symbol, different from all others of this process. Ids are identities only: they are never printed."""
    return Sym(name, type, next(_ids))


# --------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Expr:
    """Base class; every expression has a ``type``."""

    @property
    def type(self) -> Type:
        raise NotImplementedError


@dataclass(frozen=True)
class Const(Expr):
    """A literal. ``spelling`` keeps the source's text (``1e-6f``) and does not take part in equality."""

    value: int | float | bool
    ty: Scalar
    spelling: str = field(default="", compare=False)

    @property
    def type(self) -> Scalar:
        return self.ty


@dataclass(frozen=True)
class Var(Expr):
    sym: Sym

    @property
    def type(self) -> Type:
        return self.sym.type


@dataclass(frozen=True)
class Knob(Expr):
    """A named tunable constant of type ``i32``, declared in ``Kernel.knobs``."""

    name: str

    @property
    def type(self) -> Scalar:
        return I32


@dataclass(frozen=True)
class HwIndex(Expr):
    """``threadIdx | blockIdx | blockDim | gridDim``: level ``thread|block|block_dim|grid_dim``, axis x|y|z (u32)."""

    level: str
    axis: str

    @property
    def type(self) -> Scalar:
        return U32


@dataclass(frozen=True)
class Unary(Expr):
    """``- ~ !``. ``!`` yields bool."""

    op: str
    x: Expr

    @property
    def type(self) -> Type:
        return BOOL if self.op == "!" else self.x.type


COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
LOGICAL = frozenset({"&&", "||"})


@dataclass(frozen=True)
class Binary(Expr):
    """``+ - * / % << >> & | ^``, comparisons and lazy ``&& ||`` (both yield bool)."""

    op: str
    a: Expr
    b: Expr

    @property
    def type(self) -> Type:
        return BOOL if self.op in COMPARISONS or self.op in LOGICAL else self.a.type


@dataclass(frozen=True)
class Select(Expr):
    """``cond ? a : b``, lazy."""

    cond: Expr
    a: Expr
    b: Expr

    @property
    def type(self) -> Type:
        return self.a.type


@dataclass(frozen=True)
class Cast(Expr):
    """Value conversion (``style`` c | static | implicit), or same-size ``bit`` reinterpretation of the bits."""

    to: Type
    x: Expr
    style: str = "c"

    @property
    def type(self) -> Type:
        return self.to


@dataclass(frozen=True)
class Load(Expr):
    """``buffer[index...]``. ``cache``: '' | ldg (read-only) | cs (streaming) | cg | ca | lu | volatile.

    ``volatile``: an access that stays one of the machine, where it is, though the buffer's type does not say so.
    """

    buffer: Sym
    index: tuple[Expr, ...]
    width: int | Expr = 1
    cache: str = ""

    @property
    def type(self) -> Type:
        t = accessed_type(self.buffer, len(self.index))
        return t if self.width == 1 else Vec(scalar_of(t), self.width)


@dataclass(frozen=True)
class AddrOf(Expr):
    """A pointer to ``buffer[index...]``, as an argument of a call."""

    buffer: Sym
    index: tuple[Expr, ...]

    @property
    def type(self) -> Type:
        t = self.buffer.type
        return Ptr(accessed_type(self.buffer, len(self.index)), getattr(t, "space", "local"))


@dataclass(frozen=True)
class Member(Expr):
    """Field of a struct value."""

    x: Expr
    name: str
    ty: Type

    @property
    def type(self) -> Type:
        return self.ty


@dataclass(frozen=True)
class VecMake(Expr):
    """A vector from its lanes."""

    ty: Vec
    args: tuple[Expr, ...]

    @property
    def type(self) -> Vec:
        return self.ty


@dataclass(frozen=True)
class VecGet(Expr):
    """One lane of a vector value."""

    x: Expr
    lane: Expr

    @property
    def type(self) -> Type:
        return scalar_of(self.x.type)


@dataclass(frozen=True)
class Call(Expr):
    """A built-in or device function by canonical name. ``effects``: pure | read | write | sync."""

    fn: str
    args: tuple[Expr, ...]
    ty: Type
    effects: str = "pure"

    @property
    def type(self) -> Type:
        return self.ty


SHUFFLES = frozenset({"shfl", "shfl_up", "shfl_down", "shfl_xor"})
VOTES: dict[str, Scalar] = {"ballot": U32, "any": BOOL, "all": BOOL, "active": U32}
MATCHES = frozenset({"match_any", "match_all"})
WARP_REDUCTIONS = {f"reduce_{op}": op for op in ("add", "min", "max", "and", "or", "xor")}
WARP_KINDS = (*sorted(SHUFFLES), *VOTES, *sorted(MATCHES), *WARP_REDUCTIONS)


@dataclass(frozen=True)
class WarpOp(Expr):
    """Warp collective. ``mask`` names the lanes that take part (u32); ``width`` is the logical segment of a shuffle.

    shuffles
        shfl | shfl_up | shfl_down | shfl_xor: the value of another lane; ``arg`` is source lane / delta / lane mask.
    votes
        ballot | any | all over the predicate ``value``; ``active``: the lanes that are here now, whatever the mask says
        (``value`` is true), as converged as the hardware happens to be.
    matches
        match_any: the lanes of ``mask`` whose ``value`` has the same bits; match_all: ``mask`` if all have, else 0.
    reductions
        reduce_add | reduce_min | ...: of ``value`` (a 32-bit integer) over the lanes of ``mask``.
    """

    kind: str
    value: Expr
    arg: Expr | None
    width: Expr
    mask: Expr

    @property
    def type(self) -> Type:
        return U32 if self.kind in MATCHES else VOTES.get(self.kind, self.value.type)


@dataclass(frozen=True)
class Raw(Expr):
    """Source text carried through for a backend of the same language; ``uses`` are the symbols it mentions."""

    text: str
    uses: tuple[Sym, ...]
    ty: Type

    @property
    def type(self) -> Type:
        return self.ty


@dataclass(frozen=True)
class Str(Expr):
    """A string literal, as an argument of ``printf``: ``text`` is what stands between the quotes, escapes and all."""

    text: str

    @property
    def type(self) -> Type:
        return Ptr(I8, "const", const=True)


def accessed_type(buffer: Sym, n_indices: int) -> Type:
    """Type of ``buffer`` subscripted with ``n_indices`` indices."""
    t = buffer.type
    if isinstance(t, Ptr):
        return t.elem if n_indices == 1 else scalar_of(t.elem)
    if isinstance(t, Array):
        return t.elem if n_indices <= len(t.shape) else scalar_of(t.elem)
    if isinstance(t, Vec):
        return t.elem
    raise TypeError(f"{buffer.name} of type {t} cannot be subscripted")


# ---------------------------------------------------------------------------------------------------- distributions

LEVELS = ("vec", "unroll", "seq", "lane", "warp", "thread", "block", "cluster")


@dataclass(frozen=True)
class Level:
    """One level of a distribution. ``n is None`` (last level only): this level takes the rest of the range.

    ``cut`` (an ``unroll`` level): where all of its iterations are in range they run without guards of their own.
    """

    kind: str
    n: Expr | None = None
    axis: str = ""
    cut: bool = False


Dist = tuple[Level, ...]
"""An ordered factorisation of an iteration space, fastest-varying level first."""


# ------------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, kw_only=True)
class Stmt:
    """Base class. ``tags`` name the statement for places (``loop:k``); ``comments`` are the source's, above it."""

    loc: Loc | None = field(default=None, compare=False, repr=False)
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    tags: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


Body = tuple[Stmt, ...]


@dataclass(frozen=True)
class Decl(Stmt):
    """A scalar, vector or small private array variable. ``init is None``: uninitialised."""

    sym: Sym
    init: Expr | None = None
    const: bool = False


@dataclass(frozen=True)
class Alloc(Stmt):
    """An array (``sym.type`` is ``Array``): shared, or private (``local``).

    In SPMD form a local array belongs to the thread. In parallel form it is a logical array of the enclosing iteration;
    lowering gives each thread the elements it owns. ``dynamic``: taken from the launch's dynamic shared memory.
    """

    sym: Sym
    dynamic: bool = False
    align: int = 0


@dataclass(frozen=True)
class Assign(Stmt):
    """``sym = value`` for a scalar or whole vector variable. Printers re-sugar ``x = x + e`` to ``x += e``."""

    sym: Sym
    value: Expr


@dataclass(frozen=True)
class Store(Stmt):
    """``buffer[index...] = value``; see :class:`Load` for the index and width conventions."""

    buffer: Sym
    index: tuple[Expr, ...]
    value: Expr
    width: int | Expr = 1
    cache: str = ""


@dataclass(frozen=True)
class Eval(Stmt):
    """An expression for its effect."""

    value: Expr


@dataclass(frozen=True)
class If(Stmt):
    cond: Expr
    then: Body
    orelse: Body = ()


@dataclass(frozen=True)
class For(Stmt):
    """``for (var = init; cond; var = step)``. ``cond`` and ``step`` mention ``var``; ``step`` is its next value.

    ``unroll``: None (compiler's choice), 1 (never), 0 (fully), or a factor (int or expression).
    """

    var: Sym
    init: Expr
    cond: Expr
    step: Expr
    body: Body
    unroll: int | Expr | None = None


@dataclass(frozen=True)
class While(Stmt):
    """``while (cond) body``, or ``do body while (cond)`` when ``post``."""

    cond: Expr
    body: Body
    post: bool = False


@dataclass(frozen=True)
class Break(Stmt):
    pass


@dataclass(frozen=True)
class Continue(Stmt):
    pass


@dataclass(frozen=True)
class Return(Stmt):
    pass


@dataclass(frozen=True)
class Barrier(Stmt):
    """``scope`` block (``__syncthreads``), warp (``__syncwarp(mask)``) or grid (all blocks: a cooperative launch).

    ``memory``: whose accesses it orders, all | shared | global | none. OpenCL's barriers may order less than all; code
    is emitted as if they ordered all, so only the sanitizer tells the difference.
    """

    scope: str = "block"
    mask: Expr | None = None
    memory: str = "all"


@dataclass(frozen=True)
class Fence(Stmt):
    """Memory fence at scope block | device | system; ``async``: writes to shared memory, for instructions that read
    it through the asynchronous proxy."""

    scope: str = "device"


@dataclass(frozen=True)
class Atomic(Stmt):
    """``dst = old; buffer[index] = op(old, value)``: add sub min max and or xor exch cas inc dec."""

    op: str
    buffer: Sym
    index: tuple[Expr, ...]
    value: Expr
    compare: Expr | None = None
    dst: Sym | None = None
    order: str = "relaxed"
    scope: str = "device"


@dataclass(frozen=True)
class AsyncCopy(Stmt):
    """Asynchronous global -> shared copy of ``width`` elements; where not ``valid`` zeros, and ``src`` is not read."""

    dst: Sym
    dst_index: tuple[Expr, ...]
    src: Sym
    src_index: tuple[Expr, ...]
    width: int | Expr
    cache: str = ""
    valid: Expr | None = None


@dataclass(frozen=True)
class AsyncCommit(Stmt):
    pass


@dataclass(frozen=True)
class AsyncWait(Stmt):
    """Wait until at most ``pending`` committed groups are in flight."""

    pending: int | Expr = 0


@dataclass(frozen=True)
class MatrixLoad(Stmt):
    """Warp-wide load of 8 x 8 matrices of 16-bit elements (``ldmatrix``) from shared into private memory.

    Lane l names row l % 8 of matrix l / 8 by ``buffer[index]``: eight consecutive elements. Each lane receives two
    elements a matrix (``fragments.MATRIX``; of the transposed matrix if ``trans``), matrices one after another, as
    ``width`` consecutive elements of ``dst`` starting at ``dst_index``. All lanes of the warp take part.
    """

    dst: Sym
    dst_index: tuple[Expr, ...]
    buffer: Sym
    index: tuple[Expr, ...]
    width: int
    trans: bool = False


@dataclass(frozen=True)
class Mma(Stmt):
    """Warp-wide ``acc += a * b`` on matrix fragments (``fragments.INSTRUCTIONS[fragment]``); all lanes take part.

    ``acc`` are the lane's accumulators in slot order, each a private variable or element of a private array; ``a`` and
    ``b`` its operand elements, vectors in slot order.
    """

    fragment: str
    acc: tuple[Expr, ...]
    a: Expr
    b: Expr


@dataclass(frozen=True)
class TileMma(Stmt):
    """``acc += a * b`` by a warpgroup that reads both operands from shared tiles (``wgmma``).

    It ends when at most ``pending`` products of the warpgroup are in flight. While one is, its accumulators hold
    nothing and its tiles must not be written; ``TileMmaWait`` ends that. ``acc = a * b`` where not ``keep``.

    Both arrays have rows of 64 elements, columns permuted by row: element (r, c) lies at ``[r, c ^ r % 8 * 8]``.
    ``a_index`` is the place of element (0, 0) of the fragment's rows by ``depth`` columns; ``b`` keeps panels of 64
    columns, ``[c / 64, r, c % 64]``, and ``b_index`` is that of ``depth`` rows by the fragment's columns.
    """

    fragment: str
    acc: tuple[Expr, ...]
    a: Sym
    a_index: tuple[Expr, ...]
    b: Sym
    b_index: tuple[Expr, ...]
    depth: int
    pending: int = 0
    keep: Expr | None = None


@dataclass(frozen=True)
class TileMmaWait(Stmt):
    """Wait until at most ``pending`` products of the warpgroup are in flight."""

    pending: int = 0


@dataclass(frozen=True)
class InlineAsm(Stmt):
    """PTX carried opaquely: only a CUDA backend prints it."""

    text: str
    outputs: tuple[tuple[str, Sym], ...] = ()
    inputs: tuple[tuple[str, Expr], ...] = ()
    volatile: bool = True


@dataclass(frozen=True)
class RawStmt(Stmt):
    """Source text carried through; ``may_sync`` if it can contain a barrier."""

    text: str
    reads: tuple[Sym, ...] = ()
    writes: tuple[Sym, ...] = ()
    may_sync: bool = False


@dataclass(frozen=True)
class Par(Stmt):
    """Independent iterations ``var in lo..hi``; the next statement starts when all are done (parallel form)."""

    var: Sym
    lo: Expr
    hi: Expr
    dist: Dist
    body: Body


@dataclass(frozen=True)
class Acc:
    """One accumulator of a :class:`Reduce`: after it, ``sym = init op v(lo) op v(lo+1) ...`` in any association."""

    sym: Sym
    op: str  # + * min max & | ^
    init: Expr
    value: Expr


@dataclass(frozen=True)
class Reduce(Stmt):
    """A ``par`` loop with accumulators: ``body`` runs per iteration, then each ``acc.value`` is accumulated.

    Declares each ``acc.sym`` in the enclosing scope. ``strategy``: auto | serial | shuffle | shared, or
    the name of a tensor-core fragment.
    """

    accs: tuple[Acc, ...]
    var: Sym
    lo: Expr
    hi: Expr
    dist: Dist
    body: Body
    strategy: str = "auto"


@dataclass(frozen=True)
class Scan(Stmt):
    """A loop whose running result is used in every iteration (a prefix sum).

    In order of ``var``: ``body`` runs, ``acc.value`` is accumulated into ``acc.sym`` (in any association), then
    ``then`` runs, which sees it as the inclusive prefix; if ``exclusive``, as it was before this iteration's value.
    Nothing that ``then`` writes may be read by another iteration. Declares ``acc.sym`` in the enclosing scope: after
    it, the total. ``strategy``: auto (lanes exchange values) | shared (threads do, through shared memory).
    """

    acc: Acc
    var: Sym
    lo: Expr
    hi: Expr
    dist: Dist
    body: Body
    then: Body
    exclusive: bool = False
    strategy: str = "auto"


# ------------------------------------------------------------------------------------------------ small constructors


def is_cooperative(body: Body) -> bool:
    """Whether blocks wait for each other: all of them must be resident, so the launch must be a cooperative one."""
    return any(
        (isinstance(s, Barrier) and s.scope == "grid") or any(is_cooperative(inner) for inner in bodies(s))
        for s in body
    )


def i32(value: int) -> Const:
    return Const(value, I32)


def bodies(s: Stmt) -> Iterator[Body]:
    """The statement lists directly inside ``s``."""
    if isinstance(s, If):
        yield s.then
        yield s.orelse
    elif isinstance(s, For | While | Par | Reduce):
        yield s.body
    elif isinstance(s, Scan):
        yield s.body
        yield s.then


__all__ = [name for name in globals() if not name.startswith("_") and name[0].isupper()] + [
    "COMPARISONS", "LEVELS", "LOGICAL", "VOID", "accessed_type", "bodies", "fresh", "i32", "is_cooperative",
]  # fmt: skip
