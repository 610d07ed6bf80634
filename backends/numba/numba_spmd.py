"""SPMD form on a CPU: one function runs a block, threads in turn, cut into thread loops at the barriers."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Atomic,
    Body,
    Decl,
    For,
    HwIndex,
    InlineAsm,
    RawStmt,
    Return,
    Stmt,
    Sym,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, Vec, scalar_of
from ktc.ir.walk import all_exprs, declared, used, walk

from .block_plan import Plan, Planner, symbols
from .counted_ranges import range_of
from .explicit_flow import flags_for_exits, isolate_warp_ops, synchronises
from .numba_expressions import ExprPrinter, hw_name
from .numba_statements import StmtPrinter
from .numba_types import unsupported, value_dtype
from .plan_items import Branch, Item, LaneRead, LaneStore, Loop, MaskedLoop, Once, SetMask, Threads

AXES = "xyz"


def explicit(body: Body) -> Body:
    """``body`` with warp operations isolated and exits turned into flags wherever a thread loop needs it."""
    for s in walk(body):
        if isinstance(s, RawStmt | InlineAsm):
            raise unsupported("inline assembly" if isinstance(s, InlineAsm) else "carried-through source text", s.loc)
    body = isolate_warp_ops(body)
    needs = any(synchronises(s) for s in body) or any(
        isinstance(x, Return) for s in walk(body) if isinstance(s, For | While) for x in walk(s.body)
    )
    return flags_for_exits(body) if needs else body


class SpmdPrinter:
    """Prints ``NAME_block``: the body of one block."""

    def __init__(self, kernel: Kernel, exprs: ExprPrinter) -> None:
        self.kernel = kernel
        self.x = exprs
        self.out = StmtPrinter(exprs)
        self.body = explicit(kernel.body)
        self.plan: Plan = Planner(self.body).plan
        launch = kernel.launch
        flat = launch is not None and all(getattr(b, "value", None) == 1 for b in launch.block[1:])
        self.axes = "x" if flat else AXES

    def hardware(self) -> list[str]:
        """The launch quantities that the block function takes as arguments, in a fixed order."""
        used = self._named()
        used |= {f"dim_{a}" for a in self.axes}
        order = [f"{k}_{a}" for k in ("block", "grid", "dim") for a in AXES]
        return [n for n in order if n in used]

    def _named(self) -> set[str]:
        """The hardware indices that the body mentions."""
        return {hw_name(x) for x in all_exprs(self.body) if isinstance(x, HwIndex)}

    def block_function(self, name: str, params: list[str], decorator: str) -> list[str]:
        """The text of the block function."""
        out = self.out
        out.line(decorator)
        with out.block(f"def {name}({', '.join([*params, *self.hardware()])}):"):
            out.line('"""One block: threads run in turn, from one barrier to the next."""')
            if self.plan.spread or self.plan.masks or self.plan.lanes:
                out.line(f"threads = {' * '.join('dim_' + a for a in reversed(self.axes))}")
            for name in sorted(self._named() & {f"thread_{a}" for a in AXES if a not in self.axes}):
                out.line(f"{name} = 0")
            self._allocate()
            self._items(self.plan.items)
        return out.lines

    # ---------------------------------------------------------------------------------------------------- allocation

    def _allocate(self) -> None:
        arrays = [s.sym for s in walk(self.body) if isinstance(s, Alloc)]
        arrays += [s.sym for s in walk(self.body) if isinstance(s, Decl) and isinstance(s.sym.type, Array | Vec)]
        for sym in dict.fromkeys(arrays):
            if sym in self.plan.spread:
                self.out.allocate(sym, "threads")
                self.x.spell[sym.id] = f"{self.x.name(sym)}[t]"
            elif _is_dynamic(self.body, sym):
                size = scalar_of(sym.type).bytes
                self.out.line(f"{self.x.name(sym)} = np.empty(shared_bytes // {size}, {value_dtype(sym.type)})")
            else:
                self.out.allocate(sym)
        for sym in sorted(self.plan.spread, key=lambda s: s.id):
            if sym.id not in self.x.spell and not isinstance(sym.type, Array | Vec):
                self.out.line(f"{self.x.name(sym)} = np.empty(threads, {value_dtype(sym.type)})")
                self.x.spell[sym.id] = f"{self.x.name(sym)}[t]"
        for sym in [*self.plan.masks, *self.plan.lanes]:
            self.out.line(f"{self.x.name(sym)} = np.empty(threads, {value_dtype(sym.type)})")

    # --------------------------------------------------------------------------------------------------------- items

    def _items(self, items: list[Item]) -> None:
        for item in items:
            getattr(self, "_" + type(item).__name__.lower())(item)

    def _threads(self, item: Threads) -> None:
        for s in item.body:
            if isinstance(s, LaneStore) and s.vote:
                self.out.line(f"{self.x.name(s.lanes)}[:] = 2")
        indexed = item.mask is not None or any(isinstance(s, LaneStore | LaneRead) for s in item.body)
        indexed |= any(x in self.plan.spread for s in item.body for x in symbols(s))

        def inside() -> None:
            for s in item.body:
                self._lane(s) if isinstance(s, LaneStore | LaneRead) else self.out.stmt(s)

        self._each_thread(inside, indexed, item.mask, tuple(item.body), set())

    def _each_thread(self, inside, indexed: bool, mask: Sym | None, body: Body, mentioned: set[Sym]) -> None:
        """``inside`` in loops over the thread indices; ``t`` is the linear index where ``indexed``."""
        out, depth = self.out, self.out.depth
        for axis in reversed(self.axes):
            out.line(f"for thread_{axis} in range(dim_{axis}):")
            out.depth += 1
        start = len(out.lines)
        if indexed:
            linear = "thread_x"
            if len(self.axes) == 3:
                linear = "(thread_z * dim_y + thread_y) * dim_x + thread_x"
            out.line(f"t = {linear}")
        for decl in self.plan.recomputed({x for s in body for x in symbols(s)} | mentioned, set(declared(body))):
            out.stmt(decl)
        if mask is not None:
            with out.block(f"if {self.x.name(mask)}[t]:"):
                inside()
        else:
            leave, out.leave = out.leave, "continue"
            inside()
            out.leave = leave
        if len(out.lines) == start:
            out.line("pass")
        out.depth = depth

    def _lane(self, s: Stmt) -> None:
        if isinstance(s, LaneStore):
            value = self.x.text(s.value)
            self.out.line(f"{self.x.name(s.lanes)}[t] = {f'1 if {value} else 0' if s.vote else value}")
            return
        assert isinstance(s, LaneRead)
        op: WarpOp = s.op
        lanes = self.x.name(s.lanes)
        if s.lanes.type.elem.is_int and op.type == op.value.type:  # type: ignore[attr-defined]
            wrap = "u64({})" if scalar_of(s.lanes.type).name == "u64" else "i64({})"
        else:
            wrap = "{}"
        if op.kind.startswith("shfl"):
            assert op.arg is not None
            call = f"{self.x.need(op.kind)}({lanes}, t, {self.x.text(op.arg)}, {self.x.text(op.width)})"
        else:
            mask = "0xFFFFFFFF" if op.kind == "active" else self.x.text(op.mask)
            call = f"{self.x.need(LANE_FUNCTIONS.get(op.kind, op.kind))}({lanes}, t, {mask})"
        self.out.line(f"{self.x.ref(s.sym)} = {wrap.format(call)}")

    def _once(self, item: Once) -> None:
        self.out.stmt(item.stmt)

    def _branch(self, item: Branch) -> None:
        with self.out.block(f"if {self.x.text(item.cond)}:"):
            self._items(item.then)
        if item.orelse:
            with self.out.block("else:"):
                self._items(item.orelse)

    def _loop(self, item: Loop) -> None:
        head = item.head
        if isinstance(head, For):
            counted = range_of(head, self.x)
            if counted is not None:
                with self.out.block(f"for {self.x.ref(head.var)} in {counted}:"):
                    self._items(item.body)
                return
            self.out.line(f"{self.x.ref(head.var)} = {self.x.text(head.init)}")
            with self.out.block(f"while {self.x.text(head.cond)}:"):
                self._items(item.body)
                self.out.line(f"{self.x.ref(head.var)} = {self.x.text(head.step)}")
            return
        with self.out.block("while True:" if head.post else f"while {self.x.text(head.cond)}:"):
            self._items(item.body)
            if head.post:
                with self.out.block(f"if not ({self.x.text(head.cond)}):"):
                    self.out.line("break")

    def _setmask(self, item: SetMask) -> None:
        mask, within = self.x.name(item.mask), self.x.name(item.within) if item.within is not None else None
        self_masked = item.within == item.mask

        def set_() -> None:
            for s in item.before:
                self.out.stmt(s)
            cond = "True" if item.cond is None else self.x.text(item.cond, 3)
            self.out.line(f"{mask}[t] = {'not ' if item.negate else ''}{cond}")

        def inside() -> None:
            if within is None:
                set_()
                return
            if not self_masked:
                self.out.line(f"{mask}[t] = False")
            with self.out.block(f"if {within}[t]:"):
                set_()

        self._each_thread(inside, True, None, item.before, used(item.cond) if item.cond is not None else set())

    def _maskedloop(self, item: MaskedLoop) -> None:
        with self.out.block(f"while {self.x.name(item.mask)}.any():"):
            self._items(item.body)


LANE_FUNCTIONS = {"any": "vote_any", "all": "vote_all", "active": "ballot"}
"""Helpers of :mod:`numba_prelude` that are not called as the warp operation is."""


def _is_dynamic(body: Body, sym: Sym) -> bool:
    """A dynamic shared allocation without a shape of its own: its size comes from the launch."""
    return any(isinstance(s, Alloc) and s.sym == sym and s.dynamic and not sym.type.shape for s in walk(body))  # type: ignore[attr-defined]


def has_global_atomics(body: Body) -> bool:
    """Whether blocks communicate through atomics: they then run one after the other."""
    return any(isinstance(s, Atomic) and isinstance(s.buffer.type, Ptr) for s in walk(body))
