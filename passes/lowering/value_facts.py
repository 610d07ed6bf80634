"""What lowering knows of the values of a kernel: definitions, alignment, how an index moves along a jam."""

from __future__ import annotations

from ktc.ir.analysis.defs import MAX_DEPTH, integer_constants
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import total
from ktc.ir.fold import binary
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary, Expr, Knob, Select, Sym, Var, i32
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import assigned, map_expr, walk, walk_expr
from ktc.passes.lowering.distribution.levels import Jam
from ktc.passes.lowering.distribution.scope import Scope
from ktc.passes.lowering.distribution.variation import Variation

from .decider import Decider

ACCESS_BYTES = 16
"""The widest single access."""

VECTOR_BYTES = 64
"""The widest vector of lanes: several accesses. A loop over narrow and wide elements has one lane count for both."""


class Facts:
    """Facts that one ``materialise`` call gathers, and what follows from them."""

    def __init__(self, kernel: Kernel, thread_axes: frozenset[str]) -> None:
        self.kernel = kernel
        self.decide = Decider(kernel)
        self.variation = Variation()
        self.thread_axes = thread_axes
        self.definitions = integer_constants(kernel.body, loads=True)
        self.assigned = assigned(kernel.body)
        self.alignment = {p.sym: p.align for p in kernel.params}
        self.alignment |= {s.sym: s.align for s in walk(kernel.body) if isinstance(s, Alloc)}
        self.starts: dict[Sym, Expr] = {}  # loop variable -> lo
        self.exact: dict[Sym, bool] = {}  # lane jam variable -> lanes never straddle the end
        self.depth: dict[Sym, int] = {}  # private value -> number of jams in force at its declaration

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
        """Whether ``e`` grows by one from lane to lane of ``j``, from a multiple of their number; of a choice that all
        lanes make alike, either value."""
        choice = next((x for x in walk_expr(e) if isinstance(x, Select) and not self._moves(x.cond, j)), None)
        if choice is not None:
            values = (map_expr(e, lambda x, v=v: v if x == choice else x) for v in (choice.a, choice.b))  # type: ignore[misc]
            return all(self._counts(v, j) for v in values)
        found = self._stride(e, j)
        if found is None or not self._is_one(found[0]):
            return False
        first = total(found[1], self.resolve(self.starts[j.owner]))  # what the address adds to a multiple of the lanes
        return self.decide.divisible(first, j.extent)

    def _stride(self, e: Expr, j: Jam) -> tuple[Expr, Expr] | None:
        """What each step of the owner of ``j`` adds to ``e``, and the rest of ``e``, which is the same for all lanes;
        None where it is no such sum."""
        form = linear_form(e, {j.owner})
        c = None if form is None else form.coeffs.get(j.owner)
        return None if form is None or c is None or j.var in self.variation.of(form.rest) else (c, form.rest)

    def steps(self, e: Expr, j: Jam) -> tuple[int, Expr] | None:
        """By how many elements ``e`` grows from lane to lane of ``j``, and what it is for the first lane; None if it
        does not grow so."""
        found = self._stride(self.resolve(e), j)
        n = None if found is None else self.decide.value(found[0])
        if found is None or n is None:
            return None
        return n, total(found[1], binary("*", self.resolve(self.starts[j.owner]), i32(n)))

    def begins_vector(self, buffer: Sym, first: Expr, j: Jam) -> bool:
        """Whether a vector of the lanes of ``j`` may begin at the element ``first`` of ``buffer``."""
        return self.decide.divisible(first, j.extent) and self.aligned(buffer, j.extent)

    def _is_one(self, stride: Expr) -> bool:
        n = self.decide.value(stride)
        return n == 1 if n is not None else self.decide.equal(stride, i32(1))

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
