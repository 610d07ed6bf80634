"""What lowering knows while it walks: facts, index definitions, where expanded values live, the launch it derives."""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.affine import linear_form
from ktc.ir.analysis.polynomial import total
from ktc.ir.fold import both, cast, fold_node, simplify
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    Decl,
    Expr,
    If,
    Knob,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.storage import is_private, is_shared
from ktc.ir.types import Array, Scalar, scalar_of
from ktc.ir.walk import assigned, map_body, map_expr, stmt_exprs, walk, walk_expr

from .decide import Decider, strip
from .errors import LoweringError
from .levels import Jam, Lowered
from .scope import Scope, first_thread
from .vary import Variation

ACCESS_BYTES = 16
"""The widest single access."""

VECTOR_BYTES = 64
"""The widest vector of lanes: several accesses. A loop over narrow and wide elements has one lane count for both."""

MAX_DEPTH = 16
"""Nesting of integer definitions followed when an index is analysed."""


class State:
    """Mutable state of one ``materialise`` call."""

    def __init__(self, kernel: Kernel, thread_axes: frozenset[str]) -> None:
        self.kernel = kernel
        self.decide = Decider(kernel)
        self.variation = Variation()
        self.thread_axes = thread_axes
        self.definitions = integer_constants(kernel.body, loads=True)
        self.alignment = {p.sym: p.align for p in kernel.params}
        self.alignment |= {s.sym: s.align for s in walk(kernel.body) if isinstance(s, Alloc)}
        self.index: dict[Sym, Expr] = {}  # loop variable -> base + jam terms
        self.base: dict[Sym, Expr] = {}  # loop variable -> its value at jam 0, minus lo
        self.starts: dict[Sym, Expr] = {}  # loop variable -> lo
        self.exact: dict[Sym, bool] = {}  # lane jam variable -> lanes never straddle the end
        self.storage: dict[Sym, tuple[Sym, tuple[Sym, ...]]] = {}  # private value -> (array, jam variables)
        self.owned: dict[Sym, tuple[Sym, int]] = {}  # logical array -> per-thread array, dimensions that threads own
        self.levels_of: dict[Sym, tuple[Jam, ...]] = {}  # loop variable -> its jams
        self.depth: dict[Sym, int] = {}  # private value -> number of jams in force at its declaration
        self.loops: dict[Sym, Lowered] = {}  # loops being lowered, outermost first
        self.alignments: dict[Sym, int] = {}  # shared arrays that matrix instructions read: bytes of alignment
        self.counts: dict[Expr, int] = {}  # variables that count from zero, and thread axes: their largest values
        self.threaded: dict[Sym, frozenset[str]] = {}  # loop variables spread over threads -> the axes
        self.extents: dict[str, Expr] = {}  # thread axis -> size
        self.grid: dict[str, Expr] = {}
        self.scratch: list[Param] = []  # working memory asked for so far

    # ------------------------------------------------------------------------------------------------- questions

    def since_declared(self, sym: Sym, scope: Scope) -> frozenset[Sym]:
        """Jams entered after ``sym`` was declared: an update of it must be repeated over them."""
        return frozenset(j.var for j in scope.jams[self.depth.get(sym, 0) :])

    def lanes_exact(self, j: Jam) -> bool:
        return self.exact.get(j.var, False)

    def is_vector_access(self, buffer: Sym, index: tuple[Expr, ...], j: Jam) -> bool:
        """Unit stride along the owner of lane jam ``j``, aligned base, offset divisible by the lane count.

        Of an array's indices only the last may move along the lanes, and each row must start aligned. Panels of whole
        vectors (``x / n`` before ``x % n``) are rows, too.
        """
        *rows, last = index
        if any(self._moves(self.resolve(i), j) for i in rows) or not self._counts(
            self.unturned(self.resolve(last), j), j
        ):
            return False
        row = buffer.type.shape[-1] if isinstance(buffer.type, Array) else i32(0)
        whole_rows = not rows or self.decide.divisible(row, j.extent)
        return whole_rows and self.aligned(buffer, j.extent)

    def _moves(self, e: Expr, j: Jam) -> bool:
        """Whether ``e`` may differ between the lanes of ``j``."""

        def whole(x: Expr) -> Expr:
            panel = isinstance(x, Binary) and x.op == "/" and self.decide.divisible(x.b, j.extent)
            return i32(0) if panel and self._counts(x.a, j) else x  # type: ignore[attr-defined]

        return j.var in self.variation.of(map_expr(e, whole))

    def _counts(self, e: Expr, j: Jam) -> bool:
        """Whether ``e`` grows by one from lane to lane of ``j``, from a multiple of their number."""
        form = linear_form(e, {j.owner})
        if form is None:
            return False
        c = form.coeffs.get(j.owner)
        if c is None or self.decide.value(c) != 1 or j.var in self.variation.of(form.rest):
            return False
        first = total(form.rest, self.resolve(self.starts[j.owner]))  # what the address adds to a multiple of the lanes
        return self.decide.divisible(first, j.extent)

    def unturned(self, e: Expr, j: Jam) -> Expr:
        """``x`` of a column swizzled, ``x ^ m``, or in a panel, ``x % m``: whole vectors stay whole when ``m`` is a
        multiple of the lanes."""
        while isinstance(e, Binary) and e.op in ("^", "%"):
            if self._moves(e.b, j) or not self.decide.divisible(e.b, j.extent):
                break
            e = e.a
        return e

    def resolve(self, e: Expr) -> Expr:
        """``e`` with integer constants replaced by their definitions, down to parameters and loop variables."""
        for _ in range(MAX_DEPTH):
            if not any(isinstance(x, Var) and x.sym in self.definitions for x in walk_expr(e)):
                break
            e = map_expr(e, lambda x: self.definitions.get(x.sym, x) if isinstance(x, Var) else x)
        return e

    def aligned(self, buffer: Sym, lanes: Expr) -> bool:
        """Whether the base address allows ``lanes`` elements at once, in accesses of up to 16 bytes."""
        align = self.alignment.get(buffer, 0)
        widest = self._largest(lanes) * scalar_of(buffer.type).bytes
        return widest <= VECTOR_BYTES and align >= min(widest, ACCESS_BYTES)

    def _largest(self, lanes: Expr) -> int:
        """The most lanes ``lanes`` can mean: its value, or the end of its knob's domain while that is open."""
        n = self.decide.value(lanes)
        if n is not None:
            return n
        return max((v for k in self.kernel.knobs if Knob(k.name) == lanes for v in k.domain), default=VECTOR_BYTES + 1)

    # ------------------------------------------------------------------------------------------------- rewriting

    def expr(self, e: Expr, zero: Jam | None = None) -> Expr:
        """``e`` with loop variables, expanded values and row arrays replaced; lane ``zero`` taken as 0."""
        out = map_expr(map_expr(e, self._own), self._node)
        if zero is not None:
            out = map_expr(out, lambda x: i32(0) if isinstance(x, Var) and x.sym == zero.var else x)
        return simplify(out)

    def rewrite(self, body: Body) -> Body:
        """``body`` with every expression rewritten and expanded variables stored to their arrays."""

        def own(s: Stmt) -> Stmt:
            if isinstance(s, Store) and s.buffer in self.owned:
                regs, slots = self.owned[s.buffer][0], self._slots(s.buffer, s.index)
                if not slots:
                    return Assign(regs, s.value, loc=s.loc, comments=s.comments)
                return dataclasses.replace(s, buffer=regs, index=slots)
            return s

        def on(s: Stmt) -> Stmt | None:
            if isinstance(s, Decl) and s.sym in self.storage:
                return None if s.init is None else self._set(s.sym, s.init, s)
            if isinstance(s, Assign) and s.sym in self.storage:
                return self._set(s.sym, s.value, s)
            if isinstance(s, Store | Atomic) and is_private(s.buffer):
                return dataclasses.replace(s, **self._private(s.buffer, s.index))
            return s

        return map_body(map_body(body, own, self._own), on, self._node)

    def _own(self, x: Expr) -> Expr:
        """Accesses of owned row arrays, resolved while their index still names the loop variable."""
        if isinstance(x, Load) and x.buffer in self.owned:
            regs, slots = self.owned[x.buffer][0], self._slots(x.buffer, x.index)
            return dataclasses.replace(x, buffer=regs, index=slots) if slots else Var(regs)
        if isinstance(x, Binary) and x.op == "/":
            return self._number_of_vector(x)
        return x

    def _number_of_vector(self, x: Binary) -> Expr:
        """``unsigned(i) / lanes`` is the same for all lanes of a vector: written without the lane.

        A multiple of a power of two stays one when it wraps to unsigned, so this holds for any start that is one.
        """
        i, t = strip(x.a), x.a.type
        if not (isinstance(i, Var) and i.sym in self.index and isinstance(t, Scalar) and t.is_int and not t.is_signed):
            return x
        lanes = next((j for j in self.levels_of[i.sym] if self.exact[j.var] and self.decide.equal(j.extent, x.b)), None)
        start = self.starts[i.sym]
        if lanes is None or self._largest(x.b).bit_count() != 1 or not self.decide.divisible(start, lanes.extent):
            return x
        whole = map_expr(self.index[i.sym], lambda e: i32(0) if isinstance(e, Var) and e.sym == lanes.var else e)
        return dataclasses.replace(x, a=cast(simplify(whole), t, "static"))

    def _node(self, x: Expr) -> Expr:
        if isinstance(x, Var):
            if x.sym in self.index:
                return cast(self.index[x.sym], x.sym.type)  # type: ignore[arg-type]
            if x.sym in self.storage:
                return self._stored(x.sym)
        elif isinstance(x, Load | AddrOf) and is_private(x.buffer):
            return dataclasses.replace(x, **self._private(x.buffer, x.index))
        return fold_node(x)

    def _stored(self, sym: Sym) -> Expr:
        array, dims = self.storage[sym]
        return Load(array, tuple(Var(d) for d in dims)) if dims else Var(array)

    def _set(self, sym: Sym, value: Expr, at: Stmt) -> Stmt:
        array, dims = self.storage[sym]
        if not dims:
            return Assign(array, value, loc=at.loc, comments=at.comments)
        return Store(array, tuple(Var(d) for d in dims), value, loc=at.loc, comments=at.comments)

    def _slots(self, buffer: Sym, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        slots: list[Expr] = []
        own = self.owned[buffer][1]
        for v in map(strip, index[:own]):
            if not isinstance(v, Var) or v.sym not in self.levels_of:
                raise LoweringError(
                    "E-LOWER-OWNER", f"'{buffer.name}' lives in registers, so only its own loop variables may index it"
                )
            slots += [Var(j.var) for j in self.levels_of[v.sym]]
        return (*slots, *index[own:])

    def _private(self, buffer: Sym, index: tuple[Expr, ...]) -> dict:
        if buffer in self.storage:
            array, dims = self.storage[buffer]
            return {"buffer": array, "index": (*(Var(d) for d in dims), *index)}
        return {}

    # ------------------------------------------------------------------------------------------------ declarations

    def expand(self, s: Decl, dims: tuple[Jam, ...]) -> list[Stmt]:
        """The declaration of ``s`` moved in front of its group: an array over ``dims``, or an uninitialised scalar."""
        if dims:
            array = fresh(s.sym.name, Array(s.sym.type, tuple(j.extent for j in dims)))
            self.storage[s.sym] = (array, tuple(j.var for j in dims))
            return [Alloc(array, loc=s.loc)]
        hoisted = fresh(s.sym.name, s.sym.type)
        self.storage[s.sym] = (hoisted, ())
        return [Decl(hoisted, None, loc=s.loc)]

    def one_a_block(self, s: Alloc, scope: Scope) -> None:
        """Refuse a shared array of an iteration that shares its block with others.

        Raises:
            LoweringError: E-LOWER-ROWS-SHARED.
        """
        t = s.sym.type
        if scope.axes and isinstance(t, Array) and t.space == "shared":
            axis = f"threadIdx.{min(scope.axes)}"
            raise LoweringError(
                "E-LOWER-ROWS-SHARED", f"'{s.sym.name}' in shared memory belongs to one round of a loop over {axis}",
                s.loc, hint="spread that loop over blocks only, or keep the row in registers",
            )  # fmt: skip

    def allocate(self, s: Alloc, scope: Scope) -> list[Stmt]:
        """A private array, with one more leading dimension for each jam its contents vary along."""
        t = s.sym.type
        assert isinstance(t, Array)
        if scope.jams and t.space == "shared":
            raise LoweringError(
                "E-LOWER-JAM-SHARED", f"'{s.sym.name}' in shared memory would be needed once a jammed iteration", s.loc,
                hint="keep vec and unroll levels to loops inside, or the row in registers",
            )  # fmt: skip
        dims = scope.ordered(self.variation.of_sym.get(s.sym, frozenset()))
        if not dims or t.space != "local":
            return [s]
        array = fresh(s.sym.name, Array(t.elem, (*(j.extent for j in dims), *t.shape)))
        self.storage[s.sym] = (array, tuple(j.var for j in dims))
        return [dataclasses.replace(s, sym=array)]

    # ------------------------------------------------------------------------------------------------- who executes

    def owner_guard(self, s: Stmt, scope: Scope) -> Stmt:
        """An effect outside the loops that spread over some axis of threads or blocks is the first one's to have.

        Shared memory every block has for itself, and fills it for itself.

        Raises:
            LoweringError: E-LOWER-BLOCKS: one statement writes both kinds of memory.
        """
        idle = self.grid.keys() - scope.blocks
        own = writes_shared(s) if idle else False
        if own and any(is_global_effect(x) for x in walk((s,))):
            why = "one block is to write memory here and every block its shared memory, in one statement"
            raise LoweringError("E-LOWER-BLOCKS", why, s.loc, "split the statement")
        cond = both(None if own else first_thread(idle, "block"), first_thread(self.thread_axes - scope.axes))
        return If(cond, (s,), loc=s.loc) if cond is not None and has_effect(s) else s

    def set_extent(self, axis: str, n: Expr, at: Stmt) -> None:
        """Record a thread axis' size; every loop on it must agree.

        Raises:
            LoweringError: E-LOWER-SHAPE.
        """
        old = self.extents.setdefault(axis, n)
        if not self.decide.equal(old, n):
            raise LoweringError(
                "E-LOWER-SHAPE",
                f"two loops want different sizes of threadIdx.{axis}",
                at.loc,
                hint="give every loop over this axis the same size (use the same knob name)",
            )


def integer_constants(body: Body, loads: bool = False) -> dict[Sym, Expr]:
    """Integer variables that keep their initial value, and that value; ``loads``: also what was read from memory."""
    changed = assigned(body)
    out: dict[Sym, Expr] = {}
    for s in walk(body):
        if isinstance(s, Decl) and s.init is not None and s.sym not in changed:
            t = s.sym.type
            if (
                isinstance(t, Scalar)
                and t.is_int
                and (loads or not any(isinstance(x, Load) for x in walk_expr(s.init)))
            ):
                out[s.sym] = s.init
    return out


def has_effect(s: Stmt) -> bool:
    """Whether ``s`` writes memory that others can see."""
    return writes_shared(s) or any(is_global_effect(x) for x in walk((s,)))


def writes_shared(s: Stmt) -> bool:
    """Whether ``s`` writes memory that the threads of a block share."""
    return any(is_shared(b) for x in walk((s,)) if (b := _written(x)) is not None)


def is_global_effect(x: Stmt) -> bool:
    """Whether ``x`` itself does what all blocks can see."""
    b = _written(x)
    if b is not None and not is_private(b) and not is_shared(b):
        return True
    return any(getattr(e, "effects", "pure") not in ("pure", "read") for ex in stmt_exprs(x) for e in walk_expr(ex))


def _written(x: Stmt) -> Sym | None:
    return x.dst if isinstance(x, AsyncCopy) else x.buffer if isinstance(x, Store | Atomic) else None
