"""Statements that are instructions of the machine: asynchronous copies, their producers, products of matrices."""

from __future__ import annotations

from ktc.ir.support.frozen import frozen

from .expr_nodes import Expr
from .stmt_nodes import Body, Stmt
from .symbols import Sym


@frozen
class AsyncCopy(Stmt):
    """Asynchronous global -> shared copy of ``width`` elements; where not ``valid`` zeros, and ``src`` is not read."""

    dst: Sym
    dst_index: tuple[Expr, ...]
    src: Sym
    src_index: tuple[Expr, ...]
    width: int | Expr
    cache: str = ""
    valid: Expr | None = None


@frozen
class AsyncCommit(Stmt):
    """The thread's copies since the last commit are a group. ``spread``: lowering may issue them as late as in the
    loop that follows, one after each of its steps."""

    spread: bool = False


@frozen
class AsyncWait(Stmt):
    """Wait until at most ``pending`` committed groups are in flight."""

    pending: int | Expr = 0


@frozen
class GroupCopy(Stmt):
    """``event = copy of count elements from src to dst`` by the block as a whole (``async_work_group_copy``).

    All threads of the block reach it with equal operands. It reads and writes at any time between the first thread's
    arrival and the end of a :class:`GroupWait` for its event; it orders nothing before it, and only that wait orders
    it before anything. ``after`` is an earlier copy's event that names this one too. ``stride``: the elements on the
    side of global memory lie so far apart (in elements; None: consecutive). OpenCL C 3.0, section 6.15.11.
    """

    dst: Sym
    dst_index: tuple[Expr, ...]
    src: Sym
    src_index: tuple[Expr, ...]
    count: Expr
    event: Sym
    after: Expr | None = None
    stride: Expr | None = None


@frozen
class GroupWait(Stmt):
    """Wait until the copies that ``event`` names are done. All threads of the block reach it with one event."""

    event: Expr


@frozen
class Produce(Stmt):
    """The first statement of a loop whose copies a producer makes: ``body`` fills buffer ``slot``, one of ``stages``.

    As a sequential program: ``body``, here. In SPMD form the producer, a thread beside those of the block, goes through
    the rounds of the loop and runs this statement alone, up to ``stages`` rounds ahead of the block; at the end of
    round r every thread of the block has given up the buffer of round r - ``hold``. A round begins when its buffer is
    full, so what ``body`` fills is ordered with the rest of the loop without barriers. ``cluster`` consecutive blocks
    along x (those of ``Launch.cluster``) may copy for each other.
    """

    slot: Expr
    stages: Expr
    body: Body
    hold: int = 0
    cluster: int = 1


@frozen
class BulkCopy(Stmt):
    """One thread's copy of a box of a matrix in global memory into a shared tile (``cp.async.bulk.tensor``).

    The box has ``rows`` rows of 64 elements and starts at ``origin`` (row, column) of the matrix ``src``, which has
    ``extent`` rows and columns, each row ``pitch`` elements after the one before; elements outside of it are zeros.
    ``extent`` and ``pitch`` are values of the launch: parameters, knobs, constants. Columns are permuted by row, as in
    :class:`TileMma`: element (r, c) of the box goes to ``dst[..., i + r, c ^ r % 8 * 8]``, ``dst_index`` = (..., i, 0),
    where i is a multiple of 8. Stands in a :class:`Produce`. ``shared`` > 1: so many blocks, those of the cluster, fill
    the same box in the same rounds, and each copies its part of the rows to all of them.
    """

    dst: Sym
    dst_index: tuple[Expr, ...]
    src: Sym
    origin: tuple[Expr, Expr]
    extent: tuple[Expr, Expr]
    pitch: Expr
    rows: int
    shared: int = 1


@frozen
class MatrixLoad(Stmt):
    """Warp-wide load of matrices of eight rows of 16 bytes (``ldmatrix``) from shared into private memory.

    Lane l names row l % 8 of matrix l / 8 by ``buffer[index]``: eight consecutive elements of 16 bits, or sixteen
    bytes. Each lane receives 32 bits a matrix (``fragments.matrix_layout``; of the transposed matrix if ``trans``),
    matrices one after another, as ``width`` consecutive elements of ``dst`` starting at ``dst_index``. Four matrices of
    bytes that are transposed are one of 32 rows, and a lane receives what ``fragments.PAIRED`` says. All lanes of the
    warp take part.
    """

    dst: Sym
    dst_index: tuple[Expr, ...]
    buffer: Sym
    index: tuple[Expr, ...]
    width: int
    trans: bool = False


@frozen
class Mma(Stmt):
    """Warp-wide ``acc += a * b`` on matrix fragments (``fragments.INSTRUCTIONS[fragment]``); all lanes take part.

    ``acc`` are the lane's accumulators in slot order, each a private variable or element of a private array; ``a`` and
    ``b`` its operand elements, vectors in slot order.
    """

    fragment: str
    acc: tuple[Expr, ...]
    a: Expr
    b: Expr


@frozen
class TileMma(Stmt):
    """``acc += a * b`` by a warpgroup that reads both operands from shared tiles (``wgmma``).

    It ends when at most ``pending`` products of the warpgroup are in flight. While one is, its accumulators hold
    nothing and its tiles must not be written; ``TileMmaWait`` ends that. ``acc = a * b`` where not ``keep``.

    Both arrays have rows of 128 bytes, columns permuted by row: element (r, c) of 16 bits lies at
    ``[r, c ^ r % 8 * 8]``, a byte at ``[r, c ^ r % 8 * 16]``.
    ``a_index`` is the place of element (0, 0) of the fragment's rows by ``depth`` columns; ``b`` keeps panels of 64
    columns, ``[c / 64, r, c % 64]``, and ``b_index`` is that of ``depth`` rows by the fragment's columns. With
    ``trans`` its transpose lies there, as ``a`` does: the fragment's columns by ``depth`` columns, without panels.
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
    trans: bool = False


@frozen
class TileMmaWait(Stmt):
    """Wait until at most ``pending`` products of the warpgroup are in flight."""

    pending: int = 0
