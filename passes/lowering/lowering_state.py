"""What lowering knows while it walks: facts, index definitions, where expanded values live, the launch it derives."""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.effects import has_effect, is_global_effect, writes_shared
from ktc.ir.arith.integer_casts import without_casts, without_index_casts
from ktc.ir.fold import add, both, cast, fold_node, simplify
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Atomic,
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    If,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.storage import is_private
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import map_body, map_expr, walk
from ktc.passes.lowering.distribution.levels import Jam, Lowered
from ktc.passes.lowering.distribution.scope import Scope, first_thread
from ktc.passes.lowering.sync.single_thread import guarded

from .errors import LoweringError
from .value_facts import Facts


class State(Facts):
    """Mutable state of one ``materialise`` call."""

    def __init__(self, kernel: Kernel, thread_axes: frozenset[str]) -> None:
        super().__init__(kernel, thread_axes)
        self.index: dict[Sym, Expr] = {}  # loop variable -> base + jam terms
        self.storage: dict[Sym, tuple[Sym, tuple[Sym, ...]]] = {}  # private value -> (array, jam variables)
        self.owned: dict[Sym, tuple[Sym, int]] = {}  # logical array -> per-thread array, dimensions that threads own
        self.levels_of: dict[Sym, tuple[Jam, ...]] = {}  # loop variable -> its jams
        self.loops: dict[Sym, Lowered] = {}  # loops being lowered, outermost first
        self.alignments: dict[Sym, int] = {}  # shared arrays that matrix instructions read: bytes of alignment
        self.counts: dict[Expr, int] = {}  # variables that count from zero, and thread axes: their largest values
        self.threaded: dict[Sym, frozenset[str]] = {}  # loop variables spread over threads -> the axes
        self.extents: dict[str, Expr] = {}  # thread axis -> size
        self.grid: dict[str, Expr] = {}
        self.unset: set[Sym] = set()  # values that only threads for which a pending guard holds have set
        self.alone: list[tuple[Stmt, Expr]] = []  # statements that one thread runs, where that is so
        self.scratch: list[Param] = []  # working memory asked for so far

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
        if isinstance(x, Binary) and x.op in "/%":
            return self._by_whole_vectors(x)
        return x

    def _by_whole_vectors(self, x: Binary) -> Expr:
        """``i / row`` is the same for all lanes of a vector, as long as rows are whole vectors, and ``i % row`` what it
        is for the first and the lane: written so, for compilers do not see it, and divide once a lane.

        Numbers from zero on divide so. A multiple of a power of two stays one when it wraps to unsigned, so for vectors
        of such a length this holds there for any start that is one.
        """
        i, t = without_index_casts(x.a), x.a.type
        if not (isinstance(i, Var) and i.sym in self.index and isinstance(t, Scalar) and t.is_int):
            return x
        start = self.starts[i.sym]
        if t.is_signed and not (isinstance(start, Const) and start.value >= 0):
            return x
        whole = (j for j in self.levels_of[i.sym] if self.lanes_exact(j) and self.decide.divisible(x.b, j.extent))
        lanes = next((j for j in whole if j.var not in self.variation.of(x.b)), None)
        if lanes is None or not self.decide.divisible(start, lanes.extent):
            return x
        if not t.is_signed and self._largest(lanes.extent).bit_count() != 1:
            return x
        first = map_expr(self.index[i.sym], lambda e: i32(0) if isinstance(e, Var) and e.sym == lanes.var else e)
        of_first = dataclasses.replace(x, a=cast(simplify(first), t, "static"))
        return of_first if x.op == "/" else add(of_first, cast(Var(lanes.var), t))

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
        for v in map(without_casts, index[:own]):
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
        if cond is None or not has_effect(s):
            return s
        out = guarded(s, cond)
        if isinstance(out, If) and out.cond is cond:
            self.alone.append((s, cond))
        return out

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
