"""One device at work, behind a process boundary: print a configuration, have it checked, have it timed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from ktc.driver.printing import printed
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Scenario, Workload
from ktc.search.limiters.counters import Launch
from ktc.search.limiters.ncu import Unavailable, count
from ktc.search.records.outcome import Outcome
from ktc.search.workers.executor import Deadlines, FromWorkload, LocalExecutor, Measured, Reply, open_executor
from ktc.search.workers.head_start import HeadStart
from ktc.search.workers.worker_process import LISTENS_S, Meanwhile

from .gate import verifying_processes

if TYPE_CHECKING:
    from ktc.search.target import DeviceInfo, Emitted

CHECKED_BYTES = 16 << 20
"""Scenarios up to this size get the whole differential check in the finals; at larger ones the timed outputs are
compared with the original's, and the differential check runs on small sizes."""

PATIENCE = Deadlines(compile=60.0, run=45.0, verify=120.0)
CPU_PATIENCE = Deadlines(compile=12.0, run=20.0, verify=30.0)
"""What takes longer to compile or to run is not worth waiting for: others of its template do not. A CPU's compiler
works on the cores that measure. The original has to be waited for, alone and in duels: without it there is no run."""

EVERYWHERE = "numba"
"""The backend that is always there."""

CHECK_S, ORIGINAL_CHECK_S = 30.0, 60.0
"""Seconds that the check of a configuration may take, and that of the original, however few are left of a run: a launch
that does not end takes no longer."""

MEASURE_S, DUEL_S = 0.15, 0.8
"""Seconds of timing for a measurement while tuning, and for a duel of the finals."""


class Station:
    """Checks and times configurations of one kernel on one device; faults cost a child process, not the run.

    Raises:
        KtcError: no such device, or its worker does not start.
    """

    def __init__(
        self,
        work: Workload,
        original: Kernel,
        *,
        variant: str | None,
        device: str | None,
        seed: int = 0,
        opening: Opening | None = None,
    ) -> None:
        self.work, self.original, self.variant, self.seed = work, original, variant, seed
        self.executor, self.device = _opened(original, opening or Opening(device, work, variant))
        if self.device.is_cpu:
            self.executor.deadlines = CPU_PATIENCE
        self._compiling: dict[str, Future[Reply]] = {}
        self._base: Emitted | None = None
        self._loaded: set[str] = set()  # scenarios whose arguments the measuring process has had

    def close(self) -> None:
        self.executor.close()

    def is_as_expected(self) -> bool:
        """Whether the device that was opened, for which this waits, is the one that all was prepared for.

        Raises:
            KtcError: it cannot be opened.
        """
        return self.device.backend == EVERYWHERE or self.executor.confirm() == self.device

    # ------------------------------------------------------------------------------------------------ configurations

    def prepare(self, kernel: Kernel) -> None:
        """Start compiling a configuration that will be asked for soon."""
        try:
            self._compile(printed(kernel, self.device.profile))
        except KtcError:
            return  # evaluating it will say why

    def _compile(self, code: Emitted) -> Future[Reply]:
        """The compilation of ``code``, started once; the measuring process finds its result in the cache."""
        if code.text not in self._compiling:
            self._compiling[code.text] = self.executor.compile(code)
        return self._compiling[code.text]

    def evaluate(
        self,
        kernel: Kernel,
        scenario: Scenario,
        seconds: float = math.inf,
        meanwhile: Meanwhile | None = None,
    ) -> Outcome:
        """Check ``kernel`` (knobs bound) against the original on small awkward sizes, then time it on the scenario;
        ``seconds``: how many are left for it; ``meanwhile`` as for :meth:`LocalExecutor.time`."""
        try:
            code = printed(kernel, self.device.profile)
        except KtcError as e:
            return Outcome("infeasible", details={"error": f"{e.message} [{e.code}]"})
        compiling = self._compile(code)
        if scenario.name not in self._loaded:  # meanwhile
            self._loaded.add(scenario.name)
            self.executor.load(self._inputs(scenario))
        while meanwhile is not None and not wait([compiling], LISTENS_S).done:
            meanwhile()
        compiled = compiling.result()
        if not compiled.ok:
            return _failed(compiled.status, compiled.data)
        self._wait_for(code)
        least = CHECK_S if code.text != self._original().text else ORIGINAL_CHECK_S
        wrong = self._differs(code, None, 1, max(seconds, least), meanwhile)
        if wrong is not None:
            return wrong
        said = self.executor.time(
            code, self._inputs(scenario), budget_s=MEASURE_S, within_s=seconds, meanwhile=meanwhile
        )
        if said.timing is None:
            return _failed(said.status, said.details)
        t = said.timing
        details = {**_plain(said.details), "compile_s": compiled.data.get("seconds")}
        return Outcome("ok", {scenario.name: t.median}, {scenario.name: (t.low, t.high)}, details)

    def compare(self, kernel: Kernel, scenario: Scenario, rival: Kernel | None = None) -> tuple[Measured, str]:
        """A duel with the original, or with ``rival``, on the scenario; and 'ok', or how the outputs at these very
        sizes are wrong.

        Raises:
            KtcError: it cannot be printed, or it failed.
        """
        code = printed(kernel, self.device.profile)
        other = printed(rival, self.device.profile) if rival is not None else self._original()
        small = self.work.call_bytes(scenario.sizes, self.variant) <= CHECKED_BYTES
        self._wait_for(self._original() if small else other)  # which runs at these sizes to compare results, too
        wrong = self._differs(code, scenario if small else None, count=4)
        self._wait_for(other)
        said = self.executor.time(code, self._inputs(scenario), baseline=other, budget_s=DUEL_S)
        if said.timing is None or said.baseline is None or said.ratio is None:
            raise KtcError("E-DUEL", f"{said.status}: {said.details.get('message', '')}")
        apart = str(said.details.get("disagreement", ""))
        return said, apart or ("ok" if wrong is None else str(wrong.details["error"]))

    def _wait_for(self, code: Emitted) -> None:
        """Be as patient on a CPU as ``code`` deserves."""
        if self.device.is_cpu:
            self.executor.deadlines = PATIENCE if code.text == self._original().text else CPU_PATIENCE

    def _differs(
        self,
        code: Emitted,
        scenario: Scenario | None,
        count: int,
        seconds: float = math.inf,
        meanwhile: Meanwhile | None = None,
    ) -> Outcome | None:
        """The differential check on the device: a failed outcome, or None when nothing speaks against the candidate.
        ``seconds``: how many it may take.

        ``unknown`` (no awkward size satisfies the candidate's guards) is decided on the sizes of the finals.
        """
        sizes = [dict(scenario.sizes)] if scenario is not None else None
        reply = self.executor.verify(
            self._original(), code, str(self.work.path), variant=self.variant, sizes=sizes, count=count, seed=self.seed,
            within_s=seconds, meanwhile=meanwhile,
        )  # fmt: skip
        if not reply.ok:
            return _failed(reply.status, reply.data)
        verdict = reply.data["verdict"]
        if verdict["status"] == "REJECTED" or (scenario is not None and not reply.data["accepted"]):
            return Outcome("wrong", details={"error": verdict["reason"], "failure": verdict["failure"]})
        return None

    def _original(self) -> Emitted:
        if self._base is None:
            self._base = printed(self.original, self.device.profile)
        return self._base

    def _inputs(self, scenario: Scenario) -> FromWorkload:
        return FromWorkload(str(self.work.path), dict(scenario.sizes), self.variant, self.seed)

    def count(self, kernel: Kernel, sizes: Mapping[str, int | float]) -> Launch | Unavailable:
        """Hardware counters of one launch of ``kernel`` (knobs bound)."""
        try:
            code = printed(kernel, self.device.profile)
        except KtcError as e:
            return Unavailable(e.message, lasting=False)
        inputs = FromWorkload(str(self.work.path), dict(sizes), self.variant, self.seed)
        return count(code, inputs, self.device, self.executor.name)

    def gate(self, original: str, candidate: Kernel) -> Future[Reply]:
        """The verification ladder on ``candidate``, in a process that has no device."""
        return self.executor.gate(original, candidate, str(self.work.path), variant=self.variant, seed=self.seed)

    # ----------------------------------------------------------------------------------------------------- scenarios

    def scalars(self, scenario: Scenario) -> dict[str, int | float]:
        """Values of the scalar parameters, host ones too."""
        return self.work.scalars(scenario.sizes)


class Opening:
    """An executor that is being opened, while others prepare what it will run: candidates of a ``variant`` of ``work``;
    ``device`` as :class:`LocalExecutor` takes it."""

    def __init__(
        self,
        device: str | None,
        work: Workload,
        variant: str | None,
        ahead: HeadStart | None = None,
        early: bool = False,
    ) -> None:
        """``early``: the executor may be had before its device is open (:class:`LocalExecutor`)."""
        self.named = bool(device)
        self._pool = ThreadPoolExecutor(1, "ktc-open")
        self._coming = self._pool.submit(
            open_executor, device, gates=verifying_processes(), deadlines=PATIENCE, ahead=ahead,
            expects=(str(work.path), variant), early=early,
        )  # fmt: skip
        self._pool.shutdown(wait=False)

    def result(self) -> LocalExecutor:
        """The executor, from now on the caller's. Raises KtcError: no such device, or its worker does not start."""
        return self._coming.result()

    def abandon(self) -> None:
        """Nobody will ask for it: close it once it is there."""

        def close(opened: Future[LocalExecutor]) -> None:
            if opened.exception() is None:
                opened.result().close()

        self._coming.add_done_callback(close)


def _opened(original: Kernel, opening: Opening) -> tuple[LocalExecutor, DeviceInfo]:
    """The executor and its device. Where none was named, the best one that the original can be printed for: an OpenCL
    device may lack warp operations that the CPU backend has; ``extra['instead']`` then says why."""
    executor = opening.result()
    why = "" if opening.named else _unprintable(original, executor.device)
    if not why or executor.device.backend == EVERYWHERE or _unprintable(original, None):
        return executor, executor.device
    executor.close()
    other = open_executor(EVERYWHERE, deadlines=PATIENCE)
    note = f"{other.device.backend} instead of {executor.device.backend}: {why}"
    return other, dataclasses.replace(other.device, extra={**other.device.extra, "instead": note})


def _unprintable(kernel: Kernel, device: DeviceInfo | None) -> str:
    """Why ``kernel`` has no text for ``device`` (None: the CPU backend); '' if it has."""
    try:
        printed(kernel, device.profile if device is not None else EVERYWHERE)
    except KtcError as e:
        return e.message
    return ""


def _failed(status: str, details: Mapping[str, object]) -> Outcome:
    code = f" [{details['code']}]" if details.get("code") else ""
    return Outcome(status, details={"error": str(details.get("message", status))[:4000] + code})


def _plain(details: Mapping[str, object]) -> dict[str, object]:
    return {k: details[k] for k in ("resources", "copies") if k in details}
