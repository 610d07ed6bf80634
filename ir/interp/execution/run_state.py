"""What one run carries around: domain, memory, findings, fuel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp.domains.domain import Domain
from ktc.ir.interp.memory.memory_spaces import Buffer
from ktc.ir.interp.sanitizer.findings import Findings
from ktc.ir.nodes import Expr, Load, Stmt, Sym
from ktc.ir.support.time_limits import checkpoint
from ktc.ir.types import Scalar

from .frames import Active, Frame
from .true_counts import count_true

if TYPE_CHECKING:
    from ktc.ir.interp.sanitizer.races import Order

LANES_OF_WORK = 2048
"""How many lanes take as long as what a statement takes however few they are (measured)."""

LOOKED_AT = 4
"""How many times as long lanes take whose accesses the sanitizer looks at (measured)."""


def work_of(lanes: float) -> float:
    """Work of one statement for so many lanes (see ``RunResult.work``)."""
    return 1 + lanes / LANES_OF_WORK


@dataclass(frozen=True)
class Geometry:
    """Launch geometry: blocks and threads per axis, dynamic shared memory in bytes, hardware warp width. ``launches``
    such launches run at once, whose ``blocks`` come one launch after the other."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0
    warp: int = 32
    launches: int = 1

    @property
    def blocks(self) -> int:
        """Of all launches together."""
        return math.prod(self.grid) * self.launches

    @property
    def threads(self) -> int:
        return math.prod(self.block)


@dataclass
class Reach:
    """What a run touched, whether or not it is there: ``span`` holds the lowest and highest flat scalar index of each
    buffer, ``accesses`` how many scalars all threads together read and wrote."""

    span: dict[Sym, tuple[int, int]] = field(default_factory=dict)
    accesses: int = 0

    def note(self, sym: Sym, flat: np.ndarray, moved: int, lanes: int) -> None:
        if not lanes or not np.size(flat):
            return
        low, high = int(np.min(flat)), int(np.max(flat)) + moved - 1
        old = self.span.get(sym, (low, high))
        self.span[sym] = min(low, old[0]), max(high, old[1])
        self.accesses += moved * lanes


@dataclass
class Footprints:
    """Which scalars of its buffer each load read, by the load's ``id``."""

    read: dict[int, tuple[Sym, np.ndarray]] = field(default_factory=dict)

    def note(self, e: Load, size: int, places: np.ndarray) -> None:
        _, seen = self.read.setdefault(id(e), (e.buffer, np.zeros(size, bool)))
        seen[places] = True


@dataclass
class State:
    """One run. ``env`` holds integer parameters and knobs by name (for launch and shape expressions)."""

    domain: Domain
    env: Mapping[str, int]
    findings: Findings
    fuel: int
    sanitize: bool = True
    seed: int = 0
    most_cost: float = math.inf
    """What all may take, in statements of few threads."""
    geometry: Geometry | None = None
    threads: Frame | None = None
    """The frame of the threads of the blocks that run now; None in parallel form."""
    order: Order | None = None
    written: frozenset[Sym] = frozenset()
    buffers: dict[Sym, Buffer] = field(default_factory=dict)
    hardware: dict[tuple[str, str], Any] = field(default_factory=dict)
    textures: list[np.ndarray] = field(default_factory=list)
    """Arrays behind texture and surface objects, by handle (see ``memory.textures``)."""
    first_thread: int = 0
    shared_used: int = 0
    stmt: Stmt | None = None
    steps: int = 0
    spared: int = 0
    """Statements that rounds would have taken beside ``steps``, had they not run at once."""
    work: float = 0.0
    backwards: bool = False
    """Whether atomics that lanes make at once are applied last lane first."""
    stores: int = 0
    """Accesses that may have changed a buffer."""
    stored: set[Sym] = field(default_factory=set)
    """The buffers that some thread has stored to, or tried to beyond their ends."""
    reached: set[int] = field(default_factory=set)
    """``id`` of every statement that was first in a body that ran."""
    reach: Reach | None = None
    footprints: Footprints | None = None
    repeated: set[int] = field(default_factory=set)
    """``id`` of every loop whose body some thread ran twice in a row."""
    outcomes: dict[int, int] = field(default_factory=dict)
    """By ``id`` of a condition, or of a choice between two values, what has been seen of it: 1 where it held (or the
    first was chosen), 2 where not, 3 both."""
    deciding: dict[int, tuple[Sym, ...]] = field(default_factory=dict)
    """By ``id`` of a loop that ran long: what decides how often it runs (see ``sanitizer.endless_loops``)."""
    most_lanes: int = 0
    doubtful: bool = False
    """An uninitialised value was read: the run is repeated with other poison to see whether results depend on it."""
    doubtful_integers: bool = False
    """One of those that were read was no float."""

    @property
    def is_noting(self) -> bool:
        """Whether each access is looked at."""
        return self.reach is not None or self.footprints is not None

    @property
    def lanes(self) -> tuple[float, float]:
        """How many lanes a statement had on average, so far, and at most."""
        return (self.work / self.steps - 1) * LANES_OF_WORK if self.steps else 0.0, self.most_lanes

    def int_of(self, e: Expr | int) -> int:
        """A width or extent: knobs and integer parameters only."""
        if isinstance(e, int):
            return e
        value = evaluate(e, self.env)
        if value is None:
            from ktc.ir.interp.domains.domain import Unsupported

            raise Unsupported("an extent that is not an expression of knobs and integer parameters", self.where())
        return int(value)

    def where(self):
        return self.stmt.loc if self.stmt is not None else None

    def burn(self, lanes: int) -> None:
        checkpoint()
        if lanes > self.most_lanes:
            self.most_lanes = lanes
        self.work += work_of(lanes)
        by_lanes = (LOOKED_AT if self.sanitize else 1) * (self.work - self.steps)
        if self.steps + by_lanes > self.most_cost:
            raise OutOfFuel(f"in the time of {self.most_cost:.0f} statements of few threads")
        self.spend(1)

    def spend(self, steps: int) -> None:
        """Count ``steps`` statements."""
        self.steps += steps
        if self.steps > self.fuel:
            raise OutOfFuel(f"within {self.fuel} statements")

    def stores_to(self, buffer: Sym) -> None:
        """An access may change ``buffer``."""
        self.stores += 1
        self.stored.add(buffer)

    def doubt(self, t: Scalar) -> None:
        """A number of type ``t`` is read that nobody wrote."""
        self.doubtful = True
        self.doubtful_integers |= not t.is_float

    def is_doubtful(self, t: Scalar) -> bool:
        """Whether there is nothing more to note of uninitialised numbers of type ``t``."""
        return self.doubtful if t.is_float else self.doubtful_integers

    def has_seen_all(self, e: Expr) -> bool:
        """Whether ``e`` came out both ways already: there is nothing more to note of it."""
        return self.outcomes.get(id(e)) == 3

    def saw(self, e: Expr, holds: Any) -> Any:
        """``holds``, noted: how a condition came out, for one lane or for many."""
        seen = self.outcomes.get(id(e), 0)
        if seen == 3:
            return holds
        if holds.ndim == 0:
            seen |= 1 if holds else 2
        else:
            holding = count_true(holds)
            seen |= (holding > 0) + 2 * (holding < holds.size)
        self.outcomes[id(e)] = seen
        return holds

    def saw_choice(self, e: Expr, out: Any, first: Any, second: Any) -> None:
        """Note which of two values ``e`` came to; nothing where they are one."""
        if self.outcomes.get(id(e), 0) != 3:
            differ = np.asarray(first != second)
            if differ.any():
                self.saw(e, np.broadcast_to(out == first, differ.shape)[differ])

    def by_thread(self, frame: Frame, act: Active) -> tuple[Frame, np.ndarray]:
        """The frame of threads, and there the thread of each active lane; in parallel form that of iterations, of which
        rounds that run at once are lanes of frames inside."""
        owner = self.threads
        if owner is None:
            owner = frame
            while owner.fixed:
                assert owner.parent is not None
                owner = owner.parent
        if frame is owner:
            return frame, frame.lanes(act)
        return owner, owner.lanes(frame.rows_in(owner, act))

    def report(self, kind: str, message: str, frame: Frame, act: Active, bad: np.ndarray, **more) -> None:
        """One finding about the active lanes where ``bad``; the first of them is the witness."""
        bad = np.broadcast_to(bad, (frame.count(act),))
        lane = int(self.by_thread(frame, act)[1][int(np.argmax(bad))])
        block = thread = None
        if self.geometry is not None:
            block, thread = divmod(self.first_thread + lane, self.geometry.threads)
        self.findings.add(kind, message, self.stmt, thread=thread, block=block, count=int(bad.sum()), **more)


class OutOfFuel(Exception):
    """The statement budget is spent, or would be whatever it is (``certain``); the message says how one knows."""

    def __init__(self, message: str, certain: bool = False) -> None:
        super().__init__(message)
        self.certain = certain


def bad_argument(message: str, hint: str = "") -> KtcError:
    return KtcError("E-INTERP-ARGS", message, hint=hint, exit_code=2)
