"""Execution of statements in lockstep: each runs for all active lanes.

Every executor returns the lanes that go on to the next statement; those of control flow are in ``control_flow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.memory.access import access, own_places, write_own
from ktc.ir.interp.memory.allocate import allocate
from ktc.ir.interp.memory.atomics import atomic
from ktc.ir.interp.memory.thread_copies import CopyQueue
from ktc.ir.interp.memory.work_group_copies import GroupCopies
from ktc.ir.interp.sanitizer.barriers import barrier
from ktc.ir.interp.sanitizer.races import BarrierOrder
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Body,
    BulkCopy,
    Decl,
    Eval,
    Fence,
    GridDependency,
    GroupCopy,
    GroupWait,
    MatrixLoad,
    Mma,
    Par,
    Produce,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    TileMma,
    TileMmaWait,
    Var,
)  # fmt: skip
from ktc.ir.types import Array, Vec, scalar_of

from .control_flow import CONTROL, Executor, Loop
from .expressions import Evaluator
from .frames import Active, Frame, is_uniform, spread
from .parallel import par, reduce, scan
from .producer_loops import bulk_copy
from .rounds_at_once import apart_in
from .run_state import State
from .running_updates import Accumulation, accumulate
from .tensor_statements import matrix_load, mma, tile_mma


class Machine:
    """Executes bodies of one run."""

    def __init__(self, state: State, kernel: Kernel) -> None:
        self.state = state
        self.ev = Evaluator(state, kernel)
        self.apart = apart_in(kernel)
        self.copies = CopyQueue()
        self.group_copies = GroupCopies(self)
        self.products: list[Callable[[], None]] = []
        self.accumulating: Mapping[int, Accumulation] = {}
        """By ``id``, the statements whose lanes are rounds of a loop that update one thing after another."""

    def body(self, body: Body, frame: Frame, act: Active, loop: Loop | None = None) -> Active:
        state = self.state
        if body and (act is None or len(act)):
            state.reached.add(id(body[0]))
        for s in body:
            if act is not None and not len(act):
                return act
            state.stmt = s
            state.burn(frame.count(act))
            run = _EXECUTE.get(type(s))
            if run is None:
                raise Unsupported(f"the interpreter cannot execute {type(s).__name__}", s.loc)
            act = run(self, s, frame, act, loop)
        return act

    def end(self) -> None:
        """The kernel is done. What the run held is freed at once: copies and machine no longer hold each other."""
        self.group_copies.end()
        del self.group_copies

    # ---------------------------------------------------------------------------------------- data statements

    def _decl(self, s: Decl, frame: Frame, act: Active, loop: Loop | None) -> Active:
        if isinstance(s.sym.type, Array):
            allocate(self, s.sym, frame, act)
            return act
        if s.init is not None:
            frame.declare(s.sym, self.ev(s.init, frame, act), act)
            return act
        width = self.state.int_of(s.sym.type.n) if isinstance(s.sym.type, Vec) else 0
        poison = self.state.domain.poison(scalar_of(s.sym.type), max(width, 1), self.state.seed)
        frame.declare(s.sym, poison[None, :] if width else poison[0], act)
        if not width:
            frame.undefined[s.sym] = np.ones(frame.n, bool)
        return act

    def _alloc(self, s: Alloc, frame: Frame, act: Active, loop: Loop | None) -> Active:
        allocate(self, s.sym, frame, act, s.dynamic)
        return act

    def assign(self, sym: Sym, value, frame: Frame, act: Active) -> None:
        try:
            owner, lanes = frame.find(sym, act)
        except KeyError:
            raise Unsupported(f"'{sym.name}' is assigned before it is declared", self.state.where()) from None
        if owner is not frame:
            message = f"iterations of one par loop assign the outer variable {sym.name}"
            self.state.findings.add("dependent-iterations", message, self.state.stmt, buffer=sym.name)
        owner.assign(sym, value if is_uniform(value) else np.asarray(value), lanes)

    def _assign(self, s: Assign, frame: Frame, act: Active, loop: Loop | None) -> Active:
        if self.accumulating and (a := self.accumulating.get(id(s))) is not None:
            accumulate(self, a, frame, act)
            return act
        self.assign(s.sym, self.ev(s.value, frame, act), frame, act)
        return act

    def _store(self, s: Store, frame: Frame, act: Active, loop: Loop | None) -> Active:
        if self.accumulating and (a := self.accumulating.get(id(s))) is not None:
            accumulate(self, a, frame, act)
            return act
        ev, state = self.ev, self.state
        index = [ev(i, frame, act) for i in s.index]
        value = ev(s.value, frame, act)
        if isinstance(s.buffer.type, Vec) and s.buffer not in state.buffers:
            self._store_lane(s.buffer, index[0], value, frame, act)
            return act
        width = state.int_of(s.width)
        if width == 1 and value.ndim <= 1 and (own := own_places(state, s.buffer, frame, act, index)) is not None:
            write_own(state, own, value)
            return act
        access(state, s.buffer, frame, act, index, width).write(value)
        return act

    def _store_lane(self, sym: Sym, lane, value, frame: Frame, act: Active) -> None:
        n = frame.count(act)
        vector = np.array(spread(self.ev(Var(sym), frame, act), n))
        if np.ndim(lane) == 0 and 0 <= lane < vector.shape[1]:
            vector[:, int(lane)] = spread(value, n)
            self.assign(sym, vector, frame, act)
            return
        inside = (lane >= 0) & (lane < vector.shape[1])
        if not np.all(inside):
            self.state.report("out-of-bounds", f"lane outside vector {sym.name}", frame, act, ~inside, buffer=sym.name)
        rows = np.flatnonzero(np.broadcast_to(inside, (n,)))
        vector[rows, np.broadcast_to(lane, (n,))[rows]] = spread(value, n)[rows]
        self.assign(sym, vector, frame, act)

    def _eval(self, s: Eval, frame: Frame, act: Active, loop: Loop | None) -> Active:
        self.ev(s.value, frame, act)
        return act

    def _atomic(self, s: Atomic, frame: Frame, act: Active, loop: Loop | None) -> Active:
        atomic(self, s, frame, act)
        return act

    # -------------------------------------------------------------------------------- synchronisation, copies

    def _fence(self, s: Fence, frame: Frame, act: Active, loop: Loop | None) -> Active:
        order = self.state.order  # lockstep execution is sequentially consistent: only what is ordered changes
        if s.scope != "block" and isinstance(order, BarrierOrder):
            order.fence(frame.lanes(act))
        return act

    def _produce(self, s: Produce, frame: Frame, act: Active, loop: Loop | None) -> Active:
        """As a sequential program: the copies are made and waited for here."""
        outer, self.copies = self.copies, CopyQueue()
        act = self.body(s.body, frame, act, loop)
        self.copies.commit()
        self.copies.wait(0)
        self.copies = outer
        return act

    def _tile_mma(self, s: TileMma, frame: Frame, act: Active, loop: Loop | None) -> Active:
        self.products.append(tile_mma(self, s, frame, act))
        self.finish_products(s.pending)
        return act

    def finish_products(self, pending: int) -> None:
        """All but the last ``pending`` products are complete.

        They read their tiles as late as they may: one that is overwritten too early is seen.
        """
        while len(self.products) > pending:
            self.products.pop(0)()


def _then(run: Callable[[Machine, Any, Frame, Active], None]) -> Executor:
    """The executor of a statement after which every lane goes on."""

    def execute(machine: Machine, s: Stmt, frame: Frame, act: Active, loop: Loop | None) -> Active:
        run(machine, s, frame, act)
        return act

    return execute


_EXECUTE: dict[type[Stmt], Executor] = {
    **CONTROL,
    Decl: Machine._decl,
    Alloc: Machine._alloc,
    Assign: Machine._assign,
    Store: Machine._store,
    Eval: Machine._eval,
    Atomic: Machine._atomic,
    Barrier: _then(barrier),
    Fence: Machine._fence,
    GridDependency: _then(lambda m, s, frame, act: None),
    AsyncCopy: _then(lambda m, s, frame, act: m.copies.issue(m, s, frame, act)),
    AsyncCommit: _then(lambda m, s, frame, act: m.copies.commit()),
    AsyncWait: _then(lambda m, s, frame, act: m.copies.wait(m.state.int_of(s.pending))),
    GroupCopy: _then(lambda m, s, frame, act: m.group_copies.issue(s, frame, act)),
    GroupWait: _then(lambda m, s, frame, act: m.group_copies.wait(s, frame, act)),
    Produce: Machine._produce,
    BulkCopy: _then(bulk_copy),
    MatrixLoad: _then(matrix_load),
    Mma: _then(mma),
    TileMma: Machine._tile_mma,
    TileMmaWait: _then(lambda m, s, frame, act: m.finish_products(s.pending)),
    Par: _then(par),
    Reduce: _then(reduce),
    Scan: _then(scan),
}
