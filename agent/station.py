"""One device at work: build a configuration, check it there, time it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from ktc.agent.printing import printed
from ktc.backends.base import CompileFailure, Emitted, Executable, Timing
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Scenario, Workload
from ktc.search.gate import differential
from ktc.search.outcome import Outcome

SETS = 8
"""Most argument sets rotated through: enough to leave a cache of their total size behind."""

QUICK_S, MEASURE_S, DUEL_S = 0.02, 0.15, 0.8
"""Seconds spent on a first look, on a measurement that counts, and on a duel of the finals."""

CLEARLY_SLOWER = 1.5
"""A configuration this many times slower than the best, at first look, is not measured further."""


@dataclass
class _Prepared:
    """A scenario on the device: argument sets that together exceed the cache."""

    sets: list[dict[str, Any]]


class Station:
    """Compiles, checks and times configurations of one kernel on one device.

    Raises:
        KtcError: no such device.
    """

    def __init__(self, work: Workload, original: Kernel, *, variant: str | None, device: str | None) -> None:
        from ktc.backends.runtimes import open_runtime

        self.work, self.original, self.variant = work, original, variant
        self.runtime = open_runtime(device)
        self.device = self.runtime.device
        self._base: tuple[Emitted, Executable] | None = None
        self._prepared: dict[str, _Prepared] = {}
        self._sizes: dict[str, dict[str, tuple[str, int]]] = {}

    def close(self) -> None:
        self._prepared.clear()

    # ------------------------------------------------------------------------------------------------ configurations

    def evaluate(self, kernel: Kernel, scenario: Scenario, best: float | None) -> Outcome:
        """Build, check and time ``kernel`` (knobs bound); ``best``: seconds to beat, for stopping early."""
        try:
            code, exe = self._compile(kernel)
        except CompileFailure as e:
            return Outcome("compile-error", details={"error": e.log[:4000]})
        except KtcError as e:
            return Outcome("infeasible", details={"error": f"{e.message} [{e.code}]"})
        try:
            base_code, base = self._original()
            verdict = differential(
                self.runtime, base_code, code, self.work, variant=self.variant, count=1, executables=(base, exe)
            )
            if verdict.status == "REJECTED":
                return Outcome("wrong", details={"error": verdict.reason, "verdict": verdict.to_json()})
            sets = self._arguments(scenario).sets
            first = self.runtime.time(exe, sets, budget_s=QUICK_S)
            if best is not None and first.median > CLEARLY_SLOWER * best:
                return _outcome(scenario, first, exe, early=True)
            return _outcome(scenario, self.runtime.time(exe, sets, budget_s=MEASURE_S), exe)
        except KtcError as e:
            if e.exit_code == 3:
                raise
            return Outcome("crash", details={"error": f"{e.message} [{e.code}]"})

    def compare(self, kernel: Kernel, scenario: Scenario) -> tuple[Timing, Timing, tuple[float, float, float], str]:
        """(original, kernel, original / kernel with its interval, 'ok' or what is wrong with the outputs)."""
        base_code, base = self._original()
        try:
            code, exe = self._compile(kernel)
        except CompileFailure as e:
            raise KtcError("E-COMPILE", f"the device compiler refused it: {e.log[:300]}") from None
        verdict = differential(
            self.runtime,
            base_code,
            code,
            self.work,
            variant=self.variant,
            sizes=[scenario.sizes],
            executables=(base, exe),
        )
        sets = self._arguments(scenario).sets
        before, after, ratio = self.runtime.time_pair((base, sets), (exe, sets), budget_s=DUEL_S)
        return before, after, ratio, "ok" if verdict.ok else verdict.reason

    def _compile(self, kernel: Kernel) -> tuple[Emitted, Executable]:
        code = printed(kernel, self.device.backend)
        return code, self.runtime.compile(code)

    def _original(self) -> tuple[Emitted, Executable]:
        if self._base is None:
            try:
                self._base = self._compile(self.original)
            except CompileFailure as e:
                raise KtcError(
                    "E-ORIGINAL", f"the original does not compile on {self.device.name}: {e.log[:500]}"
                ) from None
        return self._base

    # ------------------------------------------------------------------------------------------------------- scenarios

    def scalars(self, scenario: Scenario) -> dict[str, int | float]:
        """Values of the scalar parameters, host ones too."""
        from ktc.ir import intexpr

        values = {a.name: a.value for a in self.work.args if a.role == "scalar" and a.value is not None}
        return {k: intexpr.evaluate(v, scenario.sizes) if isinstance(v, str) else v for k, v in values.items()}

    def argument_bytes(self, scenario: Scenario) -> dict[str, tuple[str, int]]:
        """Array arguments: name -> (role, bytes), without making them."""
        from ktc.ir import intexpr
        from ktc.ir.types import SCALARS

        out = {}
        for a in self.work.args:
            if a.role != "scalar":
                n = math.prod(intexpr.evaluate(s, scenario.sizes) for s in a.shape)
                out[a.name] = (a.role, n * SCALARS[self.work.dtype(a, self.variant)].bytes)
        return out

    def _arguments(self, scenario: Scenario) -> _Prepared:
        """The scenario's argument sets on the device; only the latest scenario's are kept there."""
        if scenario.name not in self._prepared:
            self._prepared.clear()
            host = self.work.make_inputs(scenario.sizes, self.variant)
            size = sum(v.nbytes for v in host.values() if isinstance(v, np.ndarray))
            room = (self.device.global_bytes or 1 << 32) // 4
            wanted = math.ceil(2 * self.device.l2_bytes / max(1, size)) + 1
            n = max(1, min(SETS, wanted, room // max(1, size)))
            sets = [
                {k: self.runtime.to_device(v) if isinstance(v, np.ndarray) else v for k, v in host.items()}
                for _ in range(n)
            ]
            self._prepared[scenario.name] = _Prepared(sets)
        return self._prepared[scenario.name]


def _outcome(scenario: Scenario, t: Timing, exe: Executable, early: bool = False) -> Outcome:
    interval = {} if early else {scenario.name: (t.low, t.high)}
    return Outcome("ok", {scenario.name: t.median}, interval, {"resources": dict(exe.resources)}, early)
