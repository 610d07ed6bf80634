"""Running a kernel on host arrays in one value domain."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ktc.ir.analysis.words import only_travel
from ktc.ir.fold import evaluate
from ktc.ir.interp.domains.bit_patterns import Given
from ktc.ir.interp.domains.domain import Domain, Unsupported, domain_named
from ktc.ir.interp.domains.encoded_inputs import encoded
from ktc.ir.interp.domains.poison import RUNS
from ktc.ir.interp.execution.frames import Frame
from ktc.ir.interp.execution.kernel_structure import structure_of
from ktc.ir.interp.execution.launch_numbers import Args, environment, geometry_of, hardware
from ktc.ir.interp.execution.run_state import Footprints, Geometry, OutOfFuel, Reach, State, bad_argument
from ktc.ir.interp.execution.statements import Machine
from ktc.ir.interp.launches_at_once import differing
from ktc.ir.interp.memory import textures
from ktc.ir.interp.memory.memory_spaces import Buffer, base_of
from ktc.ir.interp.memory.row_layout import laid_out, row_layouts
from ktc.ir.interp.sanitizer.findings import Decided, Finding, Findings
from ktc.ir.interp.sanitizer.polls import Polls
from ktc.ir.interp.sanitizer.races import BarrierOrder, IterationOrder
from ktc.ir.interp.sanitizer.shadow import Shadow
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Expr, is_cooperative
from ktc.ir.sequences import launch_kernels
from ktc.ir.support.allocator import keep_freed_memory
from ktc.ir.types import U64, Ptr, Vec, scalar_of
from ktc.ir.workload.input_data import initial_array, numpy_dtype

from .run_results import RunResult, same
from .same_accesses import may_have_same_accesses, moves_the_same, same_accesses

FUEL = 300_000
"""Default budget: statements executed, each counted once for all threads of a batch of blocks."""

LANES = 1 << 16
"""Threads that run at once: whole blocks are batched up to this many."""

MOST_THREADS = 1 << 24
"""Threads of a launch: what orders their accesses takes some 70 bytes for each of them."""

COOPERATIVE_LANES = 1 << 20
"""Threads of a launch with grid barriers: they all run at once (a GPU holds some 300,000)."""

Kept = MutableMapping[tuple[str, int], np.ndarray]
"""Working memory between launches, as a launcher keeps it: contents by scratch parameter and number of elements."""


def run(
    kernel: Kernel,
    args: Args,
    *,
    domain: str = "float",
    sanitize: bool = True,
    warp: int = 32,
    fuel: int = FUEL,
    most_cost: float = math.inf,
    undefined: Collection[str] = (),
    measure: bool = False,
    footprints: bool = False,
    fatal: Callable[[Finding], bool] | None = None,
    kept: Kept | None = None,
    before: RunResult | None = None,
    returned: Collection[str] = (),
    backwards: bool = False,
    beside: Sequence[Args] = (),
) -> RunResult:
    """Execute ``kernel`` (SPMD or parallel form) on ``args``, by parameter name; the arrays are not modified.

    Args:
        args: numpy arrays (any shape; flat indices are row-major) for pointers, numbers for scalars and host values.
        domain: ``float | float64 | int | field | bound``, see :mod:`ktc.ir.interp.domains.domain`.
        sanitize: check races, barrier divergence, alignment and uninitialised reads; out-of-bounds is always checked.
        warp: hardware warp width for ordering (warp collectives always see logical warps of 32).
        fuel: statements before the run is declared endless.
        most_cost: the time of how many statements of few threads a run is worth.
        undefined: buffers whose initial contents mean nothing (pure outputs): reading them before writing is a defect.
        measure: note how far each buffer is reached (see :class:`RunResult`).
        footprints: note what each load reads.
        fatal: which finding ends the run at once, as the last of its findings; the outputs mean nothing then.
        kept: working memory as earlier launches in this domain left it (zeros where there is none); what this launch
            leaves, if it comes to its end, is put there.
        before: what a sanitized run of the same kernel on the same integers left, in another domain or on other floats.
            Where nothing was found then, and the accesses are the same (:mod:`.same_accesses`), their order is not
            looked at again, nor whether results depend on floats that nobody wrote, where the domain is exact or no
            float decides what is moved where. Where it said that they do, they do so here, without more runs that show
            it.
        returned: buffers that are among the outputs though the kernel may have no statement that stores to them.
        backwards: atomics that several lanes make at once are applied last lane first: as good an order as any.
        beside: arguments of other launches that run at the same time, each on memory of its own
            (:mod:`.launches_at_once`, which says of which kernels). Outputs then have one more axis in front, launches.

    Raises:
        KtcError: E-INTERP-ARGS (missing argument), E-INTERP-LAUNCH (geometry unknown), E-INTERP-UNSUPPORTED.
    """
    keep_freed_memory()
    values = copy(domain_named(domain))
    values.bits_travel = partial(only_travel, kernel)  # type: ignore[method-assign]
    ordered = before is not None and before.ok and may_have_same_accesses(kernel)
    told = next((f for f in before.findings if f.kind == "uninitialised"), None) if before is not None else None
    job = _Job(
        kernel, args, values, sanitize, warp, fuel, frozenset(undefined), measure, fatal, kept, ordered, footprints,
        frozenset(returned), most_cost, backwards, tuple(beside),
    )  # fmt: skip
    with np.errstate(all="ignore"):
        result, doubts = job.run(seed=0)
        if ordered and before is not None and not same_accesses(kernel, before, result):
            job.ordered = False
            result, doubts = job.run(seed=0)
        if job.ordered and not doubts.of_integers and (values.exact or moves_the_same(kernel)):
            doubts = _Doubts(False, False)
        ended = any(f.kind == "fuel" or (fatal is not None and fatal(f)) for f in result.findings)
        left = {} if ended else job.left
        doubtful = sanitize and doubts.any and not ended
        if doubtful and told is not None and all(f.kind != told.kind for f in result.findings):
            result = dataclasses.replace(result, findings=[*result.findings, told])
        for seed in range(1, job.poisons(doubts)) if doubtful and told is None else ():
            again = job.again(seed, result, doubts)
            result = dataclasses.replace(result, work=result.work + again.work)
            if not same(result, again):
                result = _depending(result, again, kernel)
                break
            del again  # as large as all outputs, beside those of the next run
    if kept is not None:
        kept.update(left)
    return result


def _depending(result: RunResult, again: RunResult, kernel: Kernel) -> RunResult:
    """The first of two runs that differ in what nobody wrote, with what the second one found as well."""
    what = "results change with the contents of memory or variables never written"
    known = {(f.kind, f.index) for f in result.findings}
    more = [f for f in again.findings if (f.kind, f.index) not in known]
    return dataclasses.replace(result, findings=[*result.findings, *more, Finding("uninitialised", what, kernel.loc)])


@dataclass(frozen=True)
class _Doubts:
    """Whether numbers were read that nobody wrote; integers, or what stands for them, among them."""

    any: bool
    of_integers: bool


@dataclass
class _Job:
    kernel: Kernel
    args: Args
    domain: Domain
    sanitize: bool
    warp: int
    fuel: int
    undefined: frozenset[str]
    measure: bool = False
    fatal: Callable[[Finding], bool] | None = None
    kept: Kept | None = None
    ordered: bool = False
    """Whether all accesses are known to be ordered, or not concurrent."""
    footprints: bool = False
    returned: frozenset[str] = frozenset()
    most_cost: float = math.inf
    backwards: bool = False
    beside: tuple[Args, ...] = ()
    left: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    """The working memory after the last run."""

    def __post_init__(self) -> None:
        self.structure = structure_of(self.kernel)
        noting = self.measure or self.footprints  # what is noted are places in the arrays as they are passed
        self.layouts = {} if noting else row_layouts(self.kernel, self.args)
        self.args = laid_out(self.kernel, self.args, self.layouts) if self.layouts else self.args
        self.launches = Frame(1 + len(self.beside)) if self.beside else None
        """The lanes of this frame are launches that run at once, and own what is ``own`` to each; None where one runs
        alone."""
        self.own: Mapping[str, tuple[np.ndarray, ...]] = {}
        if self.beside:
            own = differing(self.kernel, [self.args, *self.beside])
            if own is None:
                raise bad_argument(f"launches of '{self.kernel.name}' that run at once differ in more than data")
            self.own = own

    def again(self, seed: int, first: RunResult, doubts: _Doubts) -> RunResult:
        """The run with other poison. Where no integer is among that, and it makes the accesses of the ``first`` one, in
        which nothing was found, their order is not looked at."""
        floats_alone = first.ok and not (doubts.of_integers or self.structure.polled)
        if not self.ordered and floats_alone and may_have_same_accesses(self.kernel):
            self.ordered = True
            made = self.run(seed)[0]
            if same_accesses(self.kernel, first, made):
                return made
            self.ordered = False
        return self.run(seed)[0]

    def run(self, seed: int) -> tuple[RunResult, _Doubts]:
        kernel = self.kernel
        self.domain.given = Given()
        env = environment(kernel, self.args)
        state = State(
            self.domain, env, Findings(self.fatal), self.fuel, self.sanitize, seed, self.most_cost,
            written=self.structure.written, backwards=self.backwards,
        )  # fmt: skip
        state.reach = Reach() if self.measure else None
        state.footprints = Footprints() if self.footprints else None
        root = Frame(1)
        if not kernel.is_parallel:
            state.geometry = self._geometry(kernel)
        self._order(state)
        for position, p in enumerate(kernel.params):
            self._bind(state, root, p)
            if p.sym in state.buffers:
                state.buffers[p.sym].base = base_of(position)
        try:
            for k in range(kernel.repeat.launches if kernel.repeat else 1):
                if k:
                    self._relaunch(state)
                for launched in launch_kernels(kernel):
                    if kernel.is_sequence:
                        self._begin(state, launched)
                    self._launch(state, Frame(1, values=dict(root.values)), launched)
        except OutOfFuel as why:
            with suppress(Decided):
                state.findings.add("fuel", f"did not end {why}", state.stmt, certain=why.certain)
        except Decided:
            pass
        mine = [p for p in kernel.params if p.scratch is not None and p.sym.name not in self.args]
        scratch = [state.buffers[p.sym] for p in mine if not p.temporary]
        self.left = {(b.sym.name, b.size): b.data for b in scratch}
        result = self._result(state)
        state.buffers.clear()  # what else holds on to the state goes with the next collection of cycles
        return result, _Doubts(state.doubtful, state.doubtful_integers)

    def poisons(self, doubts: _Doubts) -> int:
        """How many runs tell whether results depend on what nobody wrote."""
        return RUNS if self.structure.signed and doubts.of_integers else RUNS - 1

    def _geometry(self, kernel: Kernel) -> Geometry:
        g = dataclasses.replace(geometry_of(kernel, self.args, self.warp), launches=1 + len(self.beside))
        if g.blocks * g.threads > MOST_THREADS:
            what = f"a launch of {g.blocks} blocks of {g.threads} threads, more than {MOST_THREADS} threads in all"
            raise Unsupported(what, kernel.loc)
        return g

    def _order(self, state: State) -> None:
        """A new launch: nothing in it is ordered yet."""
        if self.sanitize and not self.ordered:
            state.order = IterationOrder() if state.geometry is None else BarrierOrder(state.geometry)

    def _begin(self, state: State, launched: Kernel) -> None:
        """Another launch of a sequence, after all that came before it."""
        state.geometry = None if launched.is_parallel else self._geometry(launched)
        state.threads = None
        state.hardware = {}
        state.burn(1)
        self._unordered(state)

    def _launch(self, state: State, root: Frame, kernel: Kernel) -> None:
        if state.geometry is not None:
            self._watch(state)
            self._spmd(state, root, kernel)
            return
        assert state.order is None or isinstance(state.order, IterationOrder)
        if isinstance(state.order, IterationOrder):
            state.order.enter(root)
        machine = Machine(state, kernel)
        machine.body(kernel.body, root, None)
        machine.end()

    def _watch(self, state: State) -> None:
        """Relaxed loads may see less than the latest, where the sanitizer says what is ordered."""
        assert state.geometry is not None
        for sym in self.structure.polled & state.buffers.keys():
            if isinstance(state.order, BarrierOrder):
                buffer = state.buffers[sym]
                buffer.polls = Polls.of(buffer.data, state.geometry.blocks)

    def _relaunch(self, state: State) -> None:
        """What the host does between two launches: it swaps the two buffers. The last launch is not swapped."""
        assert self.kernel.repeat is not None
        a, b = (state.buffers[self.kernel.param(name).sym] for name in self.kernel.repeat.swap)
        if a.data.size != b.data.size:
            raise bad_argument(f"'{a.sym.name}' and '{b.sym.name}' are swapped and differ in size")
        a.data, b.data, a.written, b.written = b.data, a.data, b.written, a.written
        a.base, b.base = b.base, a.base
        self._unordered(state)

    def _unordered(self, state: State) -> None:
        """Nothing that comes now is concurrent with what has been."""
        self._order(state)
        for buffer in state.buffers.values():
            if buffer.shadow is not None:
                buffer.shadow = Shadow(buffer.data.size)

    def _bind(self, state: State, root: Frame, p: Param) -> None:
        sym, name = p.sym, p.sym.name
        if name not in self.args:
            if p.host:
                return
            if p.init:
                state.buffers[sym] = self._buffer(state, p, self._elements(p, initial_array(p)))
                return
            if p.scratch is not None:
                self._scratch(state, p, p.scratch)
                return
            raise bad_argument(f"no value for parameter '{name}' of '{self.kernel.name}'")
        value = self.args[name]
        if isinstance(sym.type, Ptr):
            buffer = self._buffer(state, p, np.zeros(0) if value is None else self._elements(p, value))
            buffer.null = value is None
            if name in self.own:
                rows = [self._buffer(state, p, self._elements(p, x)) for x in self.own[name][1:]]
                self._one_each(buffer, [buffer, *rows])
            state.buffers[sym] = buffer
        elif isinstance(value, np.ndarray) and value.ndim and sym.type == U64 and value.dtype != np.uint64:
            root.values[sym] = np.uint64(textures.bind(state.textures, value))
        elif isinstance(sym.type, Vec):
            root.values[sym] = self._vector(state, p, np.asarray(value))
        elif isinstance(value, np.ndarray) and value.ndim:
            raise bad_argument(f"parameter '{name}' is a scalar, not an array")
        else:
            root.values[sym] = self.domain.const(value, scalar_of(sym.type))  # type: ignore[arg-type]

    def _elements(self, p: Param, value: object) -> np.ndarray:
        """An array argument, which must be of the parameter's element type: the kernel would read other bits."""
        array, name, elem = np.asarray(value), p.sym.name, scalar_of(p.sym.type)
        want = numpy_dtype(elem.name)
        if array.dtype != want:
            message = f"'{name}' is an array of {array.dtype}, and the kernel takes {want} elements ({elem})"
            raise bad_argument(message, hint=f"pass {name}.astype('{want}')")
        return array

    def _vector(self, state: State, p: Param, value: np.ndarray) -> np.ndarray:
        """A vector argument: one row of lanes, alike for all threads."""
        t = p.sym.type
        assert isinstance(t, Vec)
        if value.size != state.int_of(t.n):
            raise bad_argument(f"parameter '{p.sym.name}' has {t.n} lanes, not {value.size}")
        return self.domain.encode_any(value, scalar_of(t)).reshape(1, -1)

    def _scratch(self, state: State, p: Param, size: Expr) -> None:
        """Working memory as a launcher provides it: zeros, and what earlier launches left after that."""
        sizes = {n: int(v) for n, v in self.args.items() if isinstance(v, int | np.integer)}
        count = evaluate(size, self.kernel.environment(sizes))
        if count is None:
            raise bad_argument(f"the size of the scratch parameter '{p.sym.name}' is not known")
        elem = scalar_of(p.sym.type)
        if p.temporary:
            self._temporary(state, p, int(count))
            return
        known = self.kept.get((p.sym.name, int(count))) if self.kept else None
        zeros = np.zeros(max(int(count), 1), np.float32 if elem.is_float else np.int64)
        data = self.domain.encode_any(zeros, elem) if known is None else known.copy()
        buffer = Buffer(p.sym, elem, 1, None, int(count), data, None, None)
        if state.order is not None and p.sym in state.written:
            buffer.shadow = Shadow(buffer.data.size)
        state.buffers[p.sym] = buffer

    def _temporary(self, state: State, p: Param, count: int) -> None:
        """Working memory of this run alone: what is in it before it is written means nothing."""
        t = p.sym.type
        assert isinstance(t, Ptr)
        elem, lanes = scalar_of(t), state.int_of(t.elem.n) if isinstance(t.elem, Vec) else 1
        data = self.domain.poison(elem, max(count * lanes, 1), state.seed)
        buffer = Buffer(p.sym, elem, lanes, None, count * lanes, data, None, np.zeros(len(data), bool), align=p.align)
        if state.order is not None:
            buffer.shadow = Shadow(len(data))
        if self.launches is not None:
            self._one_each(buffer, [buffer] * self.launches.n)
        state.buffers[p.sym] = buffer

    def _buffer(self, state: State, p: Param, array: np.ndarray) -> Buffer:
        t = p.sym.type
        assert isinstance(t, Ptr)
        elem = scalar_of(t)
        lanes = state.int_of(t.elem.n) if isinstance(t.elem, Vec) else 1
        layout = self.layouts.get(p.sym.name)
        array = array if layout is None else layout.spread(array)
        size = array.size
        known = np.zeros(max(size, 1), bool) if p.sym.name in self.undefined else None
        if size and known is None:
            data = encoded(self.domain, array, elem, self._changes(p, state))
        else:  # never empty: clamped accesses must hit something
            data = self.domain.poison(elem, max(size, 1), state.seed)
        buffer = Buffer(p.sym, elem, lanes, None, size, data, None, known, align=p.align, layout=layout)
        if state.order is not None and p.sym in state.written:
            buffer.shadow = Shadow(data.size)
        return buffer

    def _one_each(self, buffer: Buffer, rows: list[Buffer]) -> None:
        """Let each launch of those that run at once have one of ``rows``."""
        buffer.data = np.concatenate([b.data for b in rows])
        if buffer.written is not None:
            buffer.written = np.concatenate([b.written for b in rows if b.written is not None])
        if buffer.shadow is not None:
            buffer.shadow = Shadow(buffer.data.size)
        buffer.owner = self.launches

    def _changes(self, p: Param, state: State) -> bool:
        """Whether a run may write to a parameter's memory, under its own name or that of what it is swapped with."""
        repeat = self.kernel.repeat
        return p.sym in state.written or (repeat is not None and p.sym.name in repeat.swap)

    def _spmd(self, state: State, root: Frame, kernel: Kernel) -> None:
        """All blocks, in batches of whole blocks; memory of a batch's blocks is thrown away after it."""
        g = state.geometry
        assert g is not None
        per_batch = max(1, LANES // max(g.threads, 1))
        if is_cooperative(kernel.body):  # all blocks wait for each other
            per_batch = max(g.blocks, 1)
            if per_batch * g.threads > COOPERATIVE_LANES:
                raise Unsupported(f"a grid barrier over more than {COOPERATIVE_LANES} threads", kernel.loc)
        for first in range(0, g.blocks if g.threads else 0, per_batch):
            count = min(per_batch, g.blocks - first)
            blocks = Frame(count, values=root.values)
            if self.launches is not None:
                each = g.blocks // self.launches.n
                blocks.parent, blocks.index = self.launches, np.arange(first, first + count) // each
            lanes = Frame(count * g.threads, blocks, np.repeat(np.arange(count), g.threads))
            for sym in [s for s, b in state.buffers.items() if b.owner is not None and b.owner is not self.launches]:
                del state.buffers[sym]
            state.threads = lanes
            state.first_thread, state.shared_used = first * g.threads, 0
            if isinstance(state.order, BarrierOrder):
                state.order.begin_batch(state.first_thread, count * g.threads)
            state.hardware = hardware(g, first, count)
            machine = Machine(state, kernel)
            machine.body(kernel.body, lanes, None)
            machine.end()

    def _passed(self, buffer: Buffer, data: np.ndarray) -> np.ndarray:
        """What of ``data``, one entry an element, is of elements that the arrays have that were passed."""
        return buffer.passed(data) if buffer.owner is None else data

    def _of_each(self, buffer: Buffer, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """``data`` as an array of that shape; of launches that run at once, as one such array each."""
        if self.launches is None:
            return data.reshape(shape)
        several = (self.launches.n, *shape)
        return data.reshape(several) if buffer.owner is not None else np.broadcast_to(data.reshape(shape), several)

    def _result(self, state: State) -> RunResult:
        outputs: dict[str, np.ndarray] = {}
        written: dict[str, np.ndarray] = {}
        for p in self.kernel.params:
            buffer = state.buffers.get(p.sym)
            if (
                buffer is None
                or buffer.null
                or (p.sym not in state.written and p.sym.name not in self.returned)
                or (p.scratch is not None and p.sym.name not in self.args)
            ):
                continue
            shape = np.shape(self.args.get(p.sym.name, p.init))
            outputs[p.sym.name] = self._of_each(
                buffer, self.domain.decode_any(self._passed(buffer, buffer.data), buffer.elem), shape
            )
            if buffer.written is not None:
                written[p.sym.name] = self._of_each(buffer, self._passed(buffer, buffer.written), shape)
        missed = tuple(s for s in self.structure.beginnings if id(s) not in state.reached)
        once = tuple(s for s in self.structure.loops if id(s) not in state.repeated)
        stored = frozenset(p.sym.name for p in self.kernel.params if p.sym in state.stored)
        result = RunResult(
            outputs, state.findings.list(), written, stored, state.steps, state.work, missed, once, state.outcomes,
            spared=state.spared, lanes=state.lanes,
        )  # fmt: skip
        if state.footprints is not None:
            seen = tuple((sym.name, where) for sym, where in state.footprints.read.values())
            result = dataclasses.replace(result, reads=seen)
        if state.reach is None:
            return result
        spans = {p.sym.name: state.reach.span[p.sym] for p in self.kernel.params if p.sym in state.reach.span}
        return dataclasses.replace(result, reach=spans, accesses=state.reach.accesses)


__all__ = ["FUEL", "Args", "RunResult", "environment", "geometry_of", "run"]
