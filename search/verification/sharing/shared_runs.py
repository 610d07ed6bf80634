"""One verdict's runs, spread over processes that have nothing else to do.

One process *leads*: it climbs the ladder as it would alone, and says ahead which runs it is going to need. Others
*assist*: they take what nobody has begun yet and leave the results in files. The leader takes a result that is there,
does what nobody has begun, and while somebody else is at what it needs, does what it will need later. A run depends on
nothing but its kernel, its arguments and its domain, so the verdict is the same whoever made the run; and since each
run is asked for by the leader where it is needed, what was said ahead in vain costs time and nothing else.

Beside a verdict's own folder there is one for the runs of originals, which all candidates of an original need.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktc.ir.interp import FUEL, Kept, RunResult
from ktc.ir.kernel import Kernel
from ktc.ir.kernel_json import kernel_from_json, kernel_to_json
from ktc.search.verification.floats.special_values import SpecialRows

from . import run_files

PLAN = "plan.json"

GENERAL = "general-"
"""What names of members begin with whose original is general in the numbers of its source."""

PAUSE_S = 0.003
"""How long the leader waits before it looks again whether a run has had its turn."""

TURN = "turn"

Data = str | SpecialRows

Together = tuple[Data, ...]
"""Kinds of data on which a kernel runs at once (:mod:`ktc.ir.interp.launches_at_once`)."""


@dataclass(frozen=True)
class Planned:
    """A run that will be needed: of the ``original``, of the ``candidate`` against it, or of the candidate ``alone``,
    whose errors are bounded. Where the candidate finds what the launch before it left, the runs of a ``series`` in a
    domain come in ``turn``, all in one process.

    ``sanitize`` as for :func:`ktc.ir.interp.run`. ``fuel``: statements of the original beyond which it is not needed;
    ``most``: of the candidate, beyond which it is cut short (0: as :meth:`Job.run` says). ``kernel``: the name of a
    member that runs in the candidate's place, as :meth:`SharedRuns.member` gives it; '' for the candidate itself.
    ``data``: several kinds are run at once."""

    who: str
    sizes: tuple[tuple[str, int], ...]
    domain: str
    data: Data | Together
    sanitize: bool = False
    fuel: int = field(default=FUEL, compare=False)
    kernel: str = ""
    most: int = field(default=0, compare=False)
    series: int = 0

    @property
    def kind(self) -> Data:
        """The data of a run that is not several at once."""
        assert not isinstance(self.data, tuple)
        return self.data

    def comes_with(self, other: Planned) -> bool:
        """Whether the two are runs that come in turn, in one process."""
        return self.who == other.who == TURN and self.memory == other.memory

    @property
    def memory(self) -> tuple[str, str, int]:
        """Which runs find what each other left: those of one kernel, domain and series."""
        return self.kernel, self.domain, self.series

    @property
    def name(self) -> str:
        *parts, _, _ = self.to_json()
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def to_json(self) -> list[Any]:
        data = self.data
        special = {"at once": list(map(_to_json, data))} if isinstance(data, tuple) else _to_json(data)
        sizes = [list(s) for s in self.sizes]
        return [self.who, sizes, self.domain, special, self.sanitize, self.kernel, self.series, self.fuel, self.most]

    @staticmethod
    def from_json(m: list[Any]) -> Planned:
        who, sizes, domain, data, sanitize, kernel, series, fuel, most = m
        data = tuple(map(_from_json, data["at once"])) if isinstance(data, dict) else _from_json(data)
        return Planned(who, tuple((n, v) for n, v in sizes), domain, data, sanitize, fuel, kernel, most, series)


def _to_json(data: Data) -> Any:
    return data if isinstance(data, str) else [list(data.kinds), data.phase, data.only, data.cut, data.last]


def _from_json(data: Any) -> Data:
    return data if isinstance(data, str) else SpecialRows(tuple(data[0]), *data[1:])


def planned(
    who: str,
    sizes: Mapping[str, int],
    domain: str,
    data: Data | Together,
    sanitize: bool = False,
    fuel: int = FUEL,
    kernel: str = "",
    most: int = 0,
    series: int = 0,
) -> Planned:
    return Planned(
        who, tuple((n, int(v)) for n, v in sizes.items()), domain, data, sanitize, fuel, kernel, most, series
    )


@dataclass
class SharedRuns:
    """The folder of one verdict, ``own``, and that of the originals' runs, ``common``; ``leads``: as the process whose
    verdict it is. ``performers`` make planned runs, by kernel, and go through :meth:`run` or :meth:`known`; ``join``
    adds that of a member. ``later``: runs that will be needed after those that are announced."""

    own: Path
    common: Path
    leads: bool
    performers: dict[str, Callable[[Planned], None]] = field(default_factory=dict)
    join: Callable[[str], None] | None = None
    later: tuple[Planned, ...] = ()
    _plan: dict[Planned, None] = field(default_factory=dict)
    _open: deque[Planned] = field(default_factory=deque)  # what may be left of the plan, to an assistant
    _seen: tuple[int, int] = (0, 0)
    _ahead: dict[str, tuple[RunResult, int]] = field(default_factory=dict)
    _working_ahead: bool = False
    _taken: dict[tuple[str, str, int], list[Planned]] = field(default_factory=dict)
    """What has had its turn, by kernel, domain and series."""

    def perform(self, what: Planned) -> None:
        """Make a planned run, if its kernel is known."""
        if what.kernel not in self.performers and self.join is not None:
            self.join(what.kernel)
        if what.kernel in self.performers:
            self.performers[what.kernel](what)

    # ---------------------------------------------------------------------------------------------------------- members

    def member(self, kernel: Kernel, general: bool) -> str:
        """The name under which others find ``kernel``, which runs in the candidate's place. ``general``: against the
        original that is general in the numbers of its source."""
        written = json.dumps(kernel_to_json(kernel)).encode()
        name = f"{GENERAL if general else ''}{hashlib.sha256(written).hexdigest()}"
        with contextlib.suppress(OSError):
            run_files.write_whole(self.own / f"{name}.json", [written])
        return name

    def member_of(self, name: str) -> Kernel:
        """The member of that name. Raises OSError where there is none (any more)."""
        return kernel_from_json(json.loads((self.own / f"{name}.json").read_bytes()))

    # -------------------------------------------------------------------------------------------------------- originals

    def known(self, key: str, kernel: Kernel, fuel: int, compute: Callable[[], RunResult]) -> RunResult:
        """A run of an original, computed unless some process of the session has left its result, or is at it."""
        path = self.common / f"{key}.run"
        found = run_files.load(path, kernel)
        if found is not None and _usable(*found, fuel):
            return found[0]
        with _alone(self._lock_of(key)) as waited:
            found = run_files.load(path, kernel) if waited else None
            if found is not None and _usable(*found, fuel):
                return found[0]
            result = compute()
            run_files.save(path, kernel, result, fuel)
            return result

    def is_at(self, key: str) -> bool:
        """Whether some process is at that run of an original."""
        return _is_held(self._lock_of(key))

    def _lock_of(self, key: str) -> Path:
        return self.common / f"{key}.lock"

    # ------------------------------------------------------------------------------------------------------- candidates

    def run(self, what: Planned, key: str, kernel: Kernel, fuel: int, compute: Callable[[], RunResult]) -> RunResult:
        """A run of this verdict's candidate. ``key`` says all that its result depends on, but for the ``fuel``."""
        if not self.leads:
            result = compute()
            run_files.save(self.own / f"{key}.run", kernel, result, fuel)
            return result
        if self._working_ahead:
            self._ahead[key] = result, _ = compute(), fuel
            return result
        early = self._ahead.pop(key, None)
        if early is not None and _usable(*early, fuel):
            return early[0]
        if what not in self._plan or self._claim(what) is not None:
            return compute()
        self._meanwhile(what)
        found = run_files.load(self.own / f"{key}.run", kernel)
        return found[0] if found is not None and _usable(*found, fuel) else compute()

    def in_turn(
        self, what: Planned, key: str, kernel: Kernel, fuel: int, compute: Callable[[], RunResult], memory: Kept
    ) -> RunResult:
        """A run of this verdict's candidate that finds in ``memory`` what the run before it in its series left.
        ``key`` says all that its result depends on, runs before it among them, but for the ``fuel``."""
        path, left = self.own / f"{key}.run", self.own / f"{key}.kept"
        if not self.leads:
            result = compute()
            if result.ended and run_files.save_memory(left, memory):
                run_files.save(path, kernel, result, fuel)
            return result
        before = self._taken.setdefault(what.memory, [])
        turns = self.turns(what)
        expected = turns[: len(before) + 1] == [*before, what]
        before.append(what)
        if not expected or self._claim(turns[0]) is not None:
            return compute()
        held = True
        while True:
            found, after = run_files.load(path, kernel), run_files.load_memory(left)
            if found is not None and after is not None and _usable(*found, fuel):
                memory.clear()
                memory.update(after)
                return found[0]
            if not held:
                return compute()
            held = self._in_hands(turns[0], wait=False)
            time.sleep(PAUSE_S if held else 0.0)

    def turns(self, what: Planned) -> list[Planned]:
        """The planned runs that come in turn with ``what``, itself among them."""
        return [p for p in self._plan if p.comes_with(what)]

    def plan_again(self) -> None:
        """Read what the leader says now."""
        self._read_plan()

    # ------------------------------------------------------------------------------------------------------ the leader

    def announce(self, runs: Iterable[Planned]) -> None:
        """From now on these are the runs that will be needed, the most urgent first; what has had its turn stays before
        what comes after it."""
        self._plan = dict.fromkeys((*itertools.chain(*self._taken.values()), *runs, *self.later))
        text = json.dumps([p.to_json() for p in self._plan])
        with contextlib.suppress(OSError):
            run_files.write_whole(self.own / PLAN, [text.encode()])

    def _meanwhile(self, what: Planned) -> None:
        """Until ``what`` is not in anybody's hands any more: what nobody has begun yet, and then wait."""
        for p in [p for p in self._plan if p.who != TURN]:
            if not self._in_hands(what, wait=False):
                return
            if self._claim(p) is not None:
                self._working_ahead = True
                try:
                    self.perform(p)
                finally:
                    self._working_ahead = False
        self._in_hands(what, wait=True)

    def _in_hands(self, what: Planned, wait: bool) -> bool:
        """Whether the process that has begun ``what`` is still at it; a process that has ended is not."""
        return _is_held(self._mark(what), wait)

    # ------------------------------------------------------------------------------------------------------- assistants

    def is_planned(self) -> bool:
        """Whether the leader has said which runs will be needed."""
        return (self.own / PLAN).exists()

    def assist(self) -> bool:
        """Make the first planned run that nobody has begun; whether there was one."""
        begun = next(self._unbegun(), None)
        if begun is None:
            return False
        what, fd = begun
        try:
            self.perform(what)
        finally:
            os.close(fd)  # whoever waits for it goes on
        return True

    def _unbegun(self) -> Iterator[tuple[Planned, int]]:
        """What nobody had begun, begun by this process."""
        self._read_plan()
        while self._open:
            p = self._open.popleft()  # whoever begins it, nobody does so again
            if p.who == TURN and self.turns(p)[0] != p:
                continue  # who begins the first one makes all
            fd = self._claim(p)
            if fd is not None:
                yield p, fd

    def _read_plan(self) -> None:
        try:
            stat = os.stat(self.own / PLAN)
            if (stat.st_ino, stat.st_mtime_ns) != self._seen:
                text = (self.own / PLAN).read_text(encoding="utf-8")
                self._plan = dict.fromkeys(map(Planned.from_json, json.loads(text)))
                self._open = deque(self._plan)
                self._seen = stat.st_ino, stat.st_mtime_ns
        except OSError:
            self._plan, self._open = {}, deque()

    def _mark(self, what: Planned) -> Path:
        return self.own / f"{what.name}.begun"

    def _claim(self, what: Planned) -> int | None:
        """Begin ``what``, unless somebody has: an open file that is locked as long as this process is at it. That of
        the leader is closed at once, for nobody waits for the leader."""
        try:
            fd = os.open(self._mark(what), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        except OSError:
            return None
        if self.leads:
            os.close(fd)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX)
        return fd


def _is_held(lock: Path, wait: bool = False) -> bool:
    """Whether a process holds the file ``lock``; not any more, if it is waited for."""
    try:
        fd = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """As the only process that holds ``lock``; whether another one had to be waited for. One that dies lets go of it;
    where there can be no such file, nobody waits."""
    try:
        fd = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        yield False
        return
    try:
        waited = False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            waited = True
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield waited
    finally:
        os.close(fd)


def _usable(result: RunResult, had: int, fuel: int) -> bool:
    """Whether a run that ``had`` so many statements says what one with ``fuel`` would."""
    if not result.ended:
        return had == fuel
    return result.steps <= fuel


__all__ = ["GENERAL", "Data", "Planned", "SharedRuns", "Together", "planned"]
