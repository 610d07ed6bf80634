"""Statements of the IR that one thread executes in order. The conventions are those of ``nodes``."""

from __future__ import annotations

from dataclasses import field

from ktc.ir.support.frozen import frozen

from .diagnostics import Loc
from .expr_nodes import Expr
from .symbols import Sym


@frozen(kw_only=True)
class Stmt:
    """Base class. ``tags`` name the statement for places (``loop:k``); ``comments`` are the source's, above it."""

    loc: Loc | None = field(default=None, compare=False, repr=False)
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    tags: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


Body = tuple[Stmt, ...]


@frozen
class Decl(Stmt):
    """A scalar, vector or small private array variable. ``init is None``: uninitialised."""

    sym: Sym
    init: Expr | None = None
    const: bool = False


@frozen
class Alloc(Stmt):
    """An array (``sym.type`` is ``Array``): shared, or private (``local``).

    In SPMD form a local array belongs to the thread. In parallel form it is a logical array of the enclosing iteration;
    lowering gives each thread the elements it owns. ``dynamic``: taken from the launch's dynamic shared memory.
    """

    sym: Sym
    dynamic: bool = False
    align: int = 0


@frozen
class Assign(Stmt):
    """``sym = value`` for a scalar or whole vector variable. Printers re-sugar ``x = x + e`` to ``x += e``."""

    sym: Sym
    value: Expr


@frozen
class Store(Stmt):
    """``buffer[index...] = value``; see :class:`Load` for the index and width conventions."""

    buffer: Sym
    index: tuple[Expr, ...]
    value: Expr
    width: int | Expr = 1
    cache: str = ""


@frozen
class Eval(Stmt):
    """An expression for its effect."""

    value: Expr


@frozen
class If(Stmt):
    cond: Expr
    then: Body
    orelse: Body = ()


@frozen
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


@frozen
class While(Stmt):
    """``while (cond) body``, or ``do body while (cond)`` when ``post``."""

    cond: Expr
    body: Body
    post: bool = False


@frozen
class Break(Stmt):
    pass


@frozen
class Continue(Stmt):
    pass


@frozen
class Return(Stmt):
    pass


@frozen
class Barrier(Stmt):
    """``scope`` block (``__syncthreads``), warp (``__syncwarp(mask)``) or grid (all blocks: a cooperative launch).

    ``memory``: whose accesses it orders, all | shared | global | none. OpenCL's barriers may order less than all; code
    is emitted as if they ordered all, so only the sanitizer tells the difference. ``flags``: what each thread fences of
    its own accesses, where only run time knows: 1 for shared memory, 2 for global memory, 3 for both.
    """

    scope: str = "block"
    mask: Expr | None = None
    memory: str = "all"
    flags: Expr | None = None


@frozen
class Fence(Stmt):
    """Memory fence at scope block | device | system; ``async``: writes to shared memory, for instructions that read
    it through the asynchronous proxy."""

    scope: str = "device"


@frozen
class GridDependency(Stmt):
    """Programmatic dependent launch: the kernel may begin while launches before it in its stream still run.

    ``what``: ``wait`` until those have ended and their writes are seen; or ``release``, launches behind this one may
    begin (what they wait for is this launch's end all the same). Once a kernel is raised, its flags say which it has:
    :mod:`ktc.ir.grid_dependencies`.
    """

    what: str = "wait"


@frozen
class Atomic(Stmt):
    """``dst = old; buffer[index] = op(old, value)``: add sub mul min max and or xor exch cas inc dec load.

    :mod:`ktc.ir.atomic_ops` has those that compare floats in other ways than ``max`` does, or their bits.
    ``load`` changes nothing (its value is not looked at) and may see an older value than an update in its place would:
    it is for polling a flag.
    """

    op: str
    buffer: Sym
    index: tuple[Expr, ...]
    value: Expr
    compare: Expr | None = None
    dst: Sym | None = None
    order: str = "relaxed"
    scope: str = "device"


@frozen
class InlineAsm(Stmt):
    """PTX carried opaquely: only a CUDA backend prints it.

    ``memory``: it may read and write any memory. An operand may be an address (a ``Cast`` of an ``AddrOf``, or a call
    of ``shared_address``): then it may touch that buffer, and no pass touches the kernel.
    """

    text: str
    outputs: tuple[tuple[str, Sym], ...] = ()
    inputs: tuple[tuple[str, Expr], ...] = ()
    volatile: bool = True
    memory: bool = False


@frozen
class RawStmt(Stmt):
    """Source text carried through; ``may_sync`` if it can contain a barrier."""

    text: str
    reads: tuple[Sym, ...] = ()
    writes: tuple[Sym, ...] = ()
    may_sync: bool = False
