"""Compile and measure in child processes: a bad candidate costs its deadline and nothing else.

::

    with open_executor() as lab:
        ready = lab.compile(code)                        # a future: compiled ahead, in a pool
        said = lab.time(code, FromWorkload("kernels/serving/silu_and_mul", {"n": 16, "d": 4096}), baseline=original)
        said.status, said.timing, said.ratio

The supervisor (this process) holds no device context. One process owns each device and is reused until its first fault;
its successor must get a canary kernel right before it is trusted. :class:`Executor` is the interface;
:class:`LocalExecutor` the implementation over processes of this machine.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from ktc.backends.base import DeviceInfo, Emitted, Timing
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.kernel_json import kernel_to_json
from ktc.search.bounds.rates import Rates

from .assistance import Assistance
from .crew import Crew, reply_of
from .head_start import CANARY, EXPECT, HeadStart, opening
from .worker_deadlines import Deadlines, Patience
from .worker_messages import ProtocolError
from .worker_process import Meanwhile, Worker, WorkerDied, WorkerHung
from .worker_protocol import (
    FromWorkload,
    Inputs,
    Raw,
    Reply,
    code_to_json,
    device_from_json,
    inputs_to_json,
    load_array,
    timing_from_json,
)  # fmt: skip

MOST_COMPILING = 4
"""Processes that compile at a time: more would only compile what is measured much later."""


def compiling_processes() -> int:
    """A process that compiles for every four processors, at least two."""
    return max(2, min(MOST_COMPILING, (os.cpu_count() or 1) // 4))


@dataclass(frozen=True)
class Measured:
    """What came of timing one candidate. ``status`` as in :data:`ktc.search.records.outcome.STATUSES`.

    ``ratio``: baseline / candidate with a 95 % interval, when a baseline was given. ``details``: registers, message...
    """

    status: str
    timing: Timing | None = None
    baseline: Timing | None = None
    ratio: tuple[float, float, float] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class Executor(Protocol):
    """Where candidates run. Every method may be called from several threads."""

    device: DeviceInfo

    def compile(self, code: Emitted) -> Future[Reply]: ...

    def run(self, code: Emitted, inputs: Inputs) -> tuple[Reply, dict[str, np.ndarray]]: ...

    def verify(
        self, original: Emitted, candidate: Emitted, workload: str, *, variant: str | None = None,
        sizes: Iterable[Mapping[str, int]] | None = None, count: int = 4, seed: int = 0, twin: bool = False,
        within_s: float = math.inf, meanwhile: Meanwhile | None = None,
    ) -> Reply: ...  # fmt: skip

    def time(
        self,
        code: Emitted,
        inputs: Inputs,
        *,
        baseline: Emitted | None = None,
        budget_s: float = 0.3,
        cold: bool = True,
        within_s: float = math.inf,
        meanwhile: Meanwhile | None = None,
    ) -> Measured: ...

    def gate(
        self, original: str, candidate: Kernel, workload: str, *, variant: str | None, seed: int
    ) -> Future[Reply]: ...

    def expect(self, workload: str, variant: str | None) -> None: ...

    def load(self, inputs: Inputs, *, cold: bool = True) -> None: ...

    def rates(self, anew: bool = False) -> Rates: ...

    def renew(self) -> None: ...

    def close(self) -> None: ...


class LocalExecutor:
    """Processes of this machine. ``device`` as in :func:`ktc.backends.runtimes.open_runtime`.

    Raises:
        KtcError: from opening the device (exit code 3); E-WORKER-START when the worker does not start.
    """

    def __init__(
        self,
        device: str | None = None,
        *,
        compilers: int | None = None,
        gates: int = 1,
        deadlines: Deadlines | None = None,
        ahead: HeadStart | None = None,
        expects: tuple[str, str | None] | None = None,
        early: bool = False,
    ) -> None:
        """``expects``: a workload (its path) and the variant of it whose candidates are going to be compiled and
        verified: where the device is no processor, all that do so are started at once. ``early``: do not wait until the
        device is open where it is known which one will be; :meth:`confirm` does."""
        self.name = device or "auto"
        self.deadlines = deadlines or Deadlines()
        first = ahead.take() if ahead is not None and ahead.device == self.name else None
        try:
            self.folder = first.folder if first is not None else Path(tempfile.mkdtemp(prefix="ktc-workers-"))
        except OSError as e:
            raise KtcError(
                "E-WORKER-FOLDER", f"no temporary folder: {e.strerror}", exit_code=3, hint="set TMPDIR"
            ) from None
        self._lock = threading.Lock()
        self._rates: Rates | None = None
        self._patience = Patience(self.deadlines.floor)
        self._worker: Worker | None = None
        self._compilers = Crew(
            "compile", compilers or compiling_processes(), self.name, self.folder, self.deadlines.start
        )
        self._gates = Crew("gate", gates, self.name, self.folder, self.deadlines.start)
        self._questions = Assistance(self._gates, self.folder / "runs")
        self._opening: Worker | None = None
        self._gone: KtcError | None = None  # why no measuring process starts any more
        self._started = False  # a measuring process has got the canary right
        self._confirmed = False
        try:
            self._opening = first or opening(self.name, self.folder)
            expected = self._expected(self._opening)
            if expected is not None:
                self._named(expected)
            if expected is None or not early:
                self.confirm()
            if expects is not None and not self.device.is_cpu:
                self.expect(*expects)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every worker and remove the buffers."""
        self._questions.close()
        self._compilers.dismiss()
        self._gates.dismiss()
        self._end_measuring()
        shutil.rmtree(self.folder, ignore_errors=True)

    def confirm(self) -> DeviceInfo:
        """Wait until the device is open; from then on ``device`` is the one that was opened.

        Raises:
            KtcError: from opening it (exit code 3); E-WORKER-START when the worker does not start.
        """
        with self._lock:
            if not self._confirmed:
                self._named(self._hello(self._measuring()))
                self._confirmed = True
        return self.device

    # ------------------------------------------------------------------------------------------------------- compiling

    def compile(self, code: Emitted) -> Future[Reply]:
        """Compile ahead in the pool; the measuring process then finds the result in the cache."""
        request = {"do": "compile", "code": code_to_json(code), "arch": self.device.extra.get("arch", "")}
        return self._compilers.submit(request, self.deadlines.compile, "compile-error")

    # ------------------------------------------------------------------------------------------------------- verifying

    def gate(self, original: str, candidate: Kernel, workload: str, *, variant: str | None, seed: int) -> Future[Reply]:
        """The ladder on ``candidate``, in a process of its own, which idle ones assist;
        ``data['verdict']``. ``original`` is the text of what the workload's source says.
        """
        request = {
            "do": "gate", "original": original, "candidate": kernel_to_json(candidate), "workload": workload,
            "variant": variant, "seed": seed,
        }  # fmt: skip
        return self._questions.ask(request, self.deadlines.gate, "hang")

    def expect(self, workload: str, variant: str | None) -> None:
        """Have all processes ready that will compile and verify candidates of ``workload``."""
        self._compilers.begin(self._compilers.size, {"do": "ready", "arch": self.device.extra.get("arch", "")})
        self._gates.begin(self._gates.size, {"do": "load", "workload": workload, "variant": variant})

    # ------------------------------------------------------------------------------------------------------- measuring

    def run(self, code: Emitted, inputs: Inputs) -> tuple[Reply, dict[str, np.ndarray]]:
        """Launch once on fresh buffers and bring the outputs back."""
        request = {"do": "run", "code": code_to_json(code), "inputs": inputs_to_json(inputs, self.folder)}
        reply = self._on_device(request, self.deadlines.run)
        outputs = {n: load_array(m, self.folder) for n, m in reply.data.get("outputs", {}).items()}
        return reply, outputs

    def verify(
        self, original: Emitted, candidate: Emitted, workload: str, *, variant: str | None = None,
        sizes: Iterable[Mapping[str, int]] | None = None, count: int = 4, seed: int = 0, twin: bool = False,
        within_s: float = math.inf, meanwhile: Meanwhile | None = None,
    ) -> Reply:  # fmt: skip
        """The differential gate in the measuring process; ``data['accepted']`` and ``data['verdict']``.

        ``within_s``: what takes much longer counts as hung, as for :meth:`time`. ``twin``: the texts are twins,
        compared to the bit (:mod:`ktc.search.verification.device.twin`). ``meanwhile``: as for :meth:`time`.
        """
        request = {
            "do": "verify", "original": code_to_json(original), "code": code_to_json(candidate), "workload": workload,
            "variant": variant, "sizes": None if sizes is None else [dict(s) for s in sizes], "count": count,
            "seed": seed, "twin": twin,
        }  # fmt: skip
        return self._on_device(request, self.deadlines.verify, within_s, meanwhile)

    def time(
        self,
        code: Emitted,
        inputs: Inputs,
        *,
        baseline: Emitted | None = None,
        budget_s: float = 0.3,
        cold: bool = True,
        within_s: float = math.inf,
        meanwhile: Meanwhile | None = None,
    ) -> Measured:
        """Time ``code`` (interleaved with ``baseline``) for about ``budget_s`` seconds. What is much slower than what
        was timed before counts as hung soon after ``within_s``. ``meanwhile`` is called again and again until the
        answer comes; it may not ask the measuring process for anything."""
        request = {
            "do": "time", "code": code_to_json(code), "inputs": inputs_to_json(inputs, self.folder),
            "budget_s": budget_s, "cold": cold, "baseline": code_to_json(baseline) if baseline is not None else None,
        }  # fmt: skip
        reply = self._on_device(request, self.deadlines.run + 3 * budget_s, within_s, meanwhile)
        d = dict(reply.data)
        if not reply.ok:
            return Measured(reply.status, details=d)
        timing, base, ratio = d.pop("timing"), d.pop("baseline", None), d.pop("ratio", None)
        return Measured(
            "ok", timing_from_json(timing), timing_from_json(base) if base else None, tuple(ratio) if ratio else None, d
        )

    def load(self, inputs: Inputs, *, cold: bool = True) -> None:
        """Have ``inputs`` ready in the measuring process; where that fails, :meth:`time` will say so."""
        request = {"do": "load", "inputs": inputs_to_json(inputs, self.folder), "cold": cold}
        self._on_device(request, self.deadlines.run)

    def knows_rates(self) -> bool:
        """Whether :meth:`rates` answers at once."""
        return self._rates is not None

    def rates(self, anew: bool = False) -> Rates:
        """The rates that the device attains, measured once (or ``anew``); none where that fails."""
        if self._rates is None or anew:
            reply = self._on_device({"do": "rates", "anew": anew}, self.deadlines.run)
            self._rates = Rates.of(reply.data["rates"]) if reply.ok else self._rates or Rates()
        return self._rates

    def renew(self) -> None:
        """End the measuring process; the next request starts another. For a process that ran a kernel which turned out
        to be wrong, and may have written anywhere."""
        with self._lock:
            self._end_measuring()

    def _end_measuring(self) -> None:
        for worker in filter(None, (self._opening, self._worker)):
            worker.kill()
        self._opening = self._worker = None

    # ------------------------------------------------------------------------------------------------------ supervision

    def _on_device(
        self,
        request: Mapping[str, Any],
        deadline_s: float,
        within_s: float = math.inf,
        meanwhile: Meanwhile | None = None,
    ) -> Reply:
        """Ask the measuring process. A crash is tried once more in a fresh, trusted process before it is held against
        the candidate; a hang is not: the next process's canary shows that the device is well."""
        duel = request.get("baseline") is not None
        inputs = request.get("inputs") or [request.get("workload"), request.get("sizes"), request.get("count")]
        kind = json.dumps([request["do"], duel, inputs], sort_keys=True)
        with self._lock:
            deadline_s = self._patience.limit(kind, deadline_s, within_s)
            start = time.monotonic()
            reply = self._once(request, deadline_s, meanwhile)
            if reply.ok:
                self._patience.learn(kind, time.monotonic() - start)
            if reply.status == "crash" and reply.data.get("retry", True):
                reply = self._once(request, deadline_s, meanwhile)
            return reply

    def _once(self, request: Mapping[str, Any], deadline_s: float, meanwhile: Meanwhile | None) -> Reply:
        try:
            worker = self._measuring()
        except KtcError as e:
            return Reply("lost", {"message": e.message, "code": e.code})
        try:
            reply = reply_of(worker.ask(request, deadline_s, meanwhile))
        except WorkerHung:
            reply = Reply("hang", {"message": f"no answer within {deadline_s:g} s", "fatal": True})
        except WorkerDied as e:
            reply = Reply("crash", {"message": f"the process that ran it was {e.how}", "fatal": True})
        except ProtocolError as e:
            reply = Reply("crash", {"message": f"the process that ran it answered nonsense: {e}", "fatal": True})
        except BaseException:  # of who waits: the answer that is still to come is nobody's
            self._end_measuring()
            raise
        if reply.data.get("fatal"):
            worker.kill()
            self._worker = None
        return reply

    def _named(self, device: DeviceInfo) -> None:
        """What follows from which device it is: a process that is started later takes the same one."""
        self.device = device
        self.name = self._compilers.device = device.extra.get("opened", self.name)

    def _measuring(self) -> Worker:
        """The measuring process, or a new one where it has ended. A device that took no new one when the last had hung
        takes none later: each try would wait as long."""
        if self._gone is not None:
            raise self._gone
        return self._worker if self._worker is not None and self._worker.alive else self._start()

    def _start(self) -> Worker:
        """A measuring process that got the canary right. Raises KtcError E-WORKER-START, or the device's own error."""
        worker, self._opening = self._opening or Worker("measure", self.name, self.folder), None
        again, seconds = self._started, self.deadlines.restart if self._started else self.deadlines.start
        try:
            reply = reply_of(worker.ask(CANARY, seconds))
        except (WorkerHung, WorkerDied, ProtocolError) as e:
            worker.kill()
            what = "a process that was to measure after the last one had ended" if again else "the measuring process"
            why = str(e) or f"no answer within {seconds:g} s"
            error = KtcError("E-WORKER-START", f"{what} did not start: {why}", exit_code=3)
            self._gone = error if again and isinstance(e, WorkerHung) else None
            raise error from None
        if not reply.ok:
            worker.kill()
            d = reply.data
            raise KtcError(
                d.get("code", "E-WORKER-START"),
                d.get("message", ""),
                hint=d.get("hint", ""),
                exit_code=d.get("exit_code", 3),
            )
        self._worker, self._started = worker, True
        return worker

    def _expected(self, worker: Worker) -> DeviceInfo | None:
        """The device that ``worker`` is opening, if it is known; where it cannot say, its next answer says why."""
        try:
            found = worker.ask(EXPECT, self.deadlines.start).get("device")
        except (WorkerHung, WorkerDied, ProtocolError):
            return None
        return device_from_json(found) if found is not None else None

    def _hello(self, worker: Worker) -> DeviceInfo:
        try:
            return device_from_json(worker.ask({"do": "hello"}, self.deadlines.start)["device"])
        except (WorkerHung, WorkerDied, ProtocolError, KeyError, TypeError) as e:
            raise KtcError(
                "E-WORKER-START", f"the measuring process does not name its device: {e}", exit_code=3
            ) from None


def open_executor(
    device: str | None = None,
    *,
    compilers: int | None = None,
    gates: int = 1,
    deadlines: Deadlines | None = None,
    ahead: HeadStart | None = None,
    expects: tuple[str, str | None] | None = None,
    early: bool = False,
) -> LocalExecutor:
    """The executor for ``device`` (None: the best there is) on this machine.

    ``compilers`` (None: :func:`compiling_processes`) and ``gates``: most processes that compile and that verify;
    ``ahead``: a measuring process that has started already; ``expects`` and ``early`` as for
    :class:`LocalExecutor`.
    """
    return LocalExecutor(
        device, compilers=compilers, gates=gates, deadlines=deadlines, ahead=ahead, expects=expects, early=early
    )


__all__ = [
    "Deadlines",
    "Executor",
    "FromWorkload",
    "LocalExecutor",
    "Measured",
    "Patience",
    "Raw",
    "Reply",
    "open_executor",
]
