"""A lab without a device: times come from a formula over script and knobs, and everything it is asked is kept."""

from __future__ import annotations

import math
from concurrent.futures import Future

from ktc.agent.lab import Comparison, Tuned
from ktc.agent.limits import space_for
from ktc.agent.profiler import Profiler
from ktc.agent.report import Timed
from ktc.backends.base import DeviceInfo
from ktc.ir.diagnostics import KtcError
from ktc.search.bounds.speed_of_light import Bound
from ktc.search.records.ledger import Ledger, StudyKey
from ktc.search.records.outcome import Outcome
from ktc.search.tuning.tune import tune
from ktc.search.verification import Verdict

GPU = DeviceInfo("cuda", "a GPU", "cuda-sm90", 132, 1024, 227 << 10, dram_bytes_per_s=4e12)


class FakeLab:
    """``seconds(script, knobs, scenario)`` is the device: a float, or an Outcome status such as ``wrong``.

    ``rejects(kernel)`` is the gate; ``dies_after`` measurements KeyboardInterrupt stands for a killed process.
    """

    gates = 0

    @staticmethod
    def between():
        """Somebody else's, once a run has begun."""

    def __init__(
        self, seconds, *, ledger=":memory:", rejects=lambda kernel: False, sizes=None, dies_after=None, device=GPU
    ):
        self.seconds, self.rejects, self.device, self.dies_after = seconds, rejects, device, dies_after
        self.ledger, self.sizes = Ledger(ledger), sizes or {}
        self.measured, self.gated, self.compared, self.closed = [], [], [], False
        self.renewed, self.waited, self.prepared = 0, [], []

    def gate(self, kernel):
        self.gated.append(kernel)
        answer = Future()
        answer.set_result(Verdict("REJECTED" if self.rejects(kernel) else "TESTED", "fake", "because"))
        return answer

    def renew(self):
        self.renewed += 1

    def _space(self, c, scenario):
        return space_for(c.kernel, self.device, scenario.sizes)

    def prepare(self, c, scenario):
        self.prepared.append(c.script)
        return self._space(c, scenario).default()

    def tune(self, c, scenario, total, seeds, seconds=math.inf):
        try:
            space = self._space(c, scenario)
        except KtcError as e:
            return Tuned((), 0, exhausted=True, why_empty=e.message)

        def evaluate(config, incumbent):
            self.between()
            if self.dies_after is not None and len(self.measured) >= self.dies_after:
                raise KeyboardInterrupt
            self.measured.append((c.key, scenario.name, tuple(sorted(config.items()))))
            t = self.seconds(c.script, config, scenario)
            return Outcome(t, details={"error": "made up"}) if isinstance(t, str) else Outcome("ok", {scenario.name: t})

        key = StudyKey(c.key, "fake", "fake", scenario.name)
        found = tune(
            None, evaluate, space, budget=total, ledger=self.ledger, study_key=key, seeds=seeds, sampler="random"
        )
        ranked = sorted(((t.config, t.objective) for t in found.trials if t.objective is not None), key=lambda x: x[1])
        failures = tuple((t.config, t.outcome.status, "made up") for t in found.trials if not t.outcome.ok)
        n = len(found.trials)
        return Tuned(tuple(ranked), n, n - found.resumed, n >= space.size, failures, trials=found.trials)

    def compare(self, c, knobs, scenario, rival=None):
        self.compared.append((c.script, scenario.name) if rival is None else (c.script, scenario.name, rival[0].script))
        other, at = (rival[0].script, rival[1]) if rival is not None else ("", {})
        t, base = self.seconds(c.script, knobs, scenario), self.seconds(other, at, scenario)
        ratio = base / t
        return Comparison(Timed(base, base, base), Timed(t, t, t), (ratio, 0.99 * ratio, 1.01 * ratio))

    def feasible(self, c, knobs, scenario):
        try:
            return self._space(c, scenario).contains(dict(knobs))
        except KtcError:  # no tuple at all suits the sizes of the scenario
            return False

    def runs(self, c, scenario):
        try:
            return self._space(c, scenario).size > 0
        except KtcError:
            return False

    def traffic(self, scenario):
        return 4 * scenario.sizes.get("n", 1) * scenario.sizes.get("d", 1)

    def knows_rates(self):
        return True

    def bound(self, scenario, beaten_by=0.0):
        seconds = self.traffic(scenario) / self.device.dram_bytes_per_s
        return Bound(seconds, "memory", {"memory": seconds})

    def profile(self, c, knobs, scenario, seconds=0.0):
        return Profiler(self.device).of(c.kernel, knobs, scenario.sizes, scenario.sizes, seconds)

    def close(self):
        self.closed = True


class LateLab(FakeLab):
    """Two verdicts may be outstanding; each comes only when it is waited for."""

    gates = 2

    def gate(self, kernel):
        known, lab = super().gate(kernel).result(), self

        class Late(Future):
            def result(self, timeout=None):
                if not self.done():
                    lab.waited.append(kernel)
                    self.set_result(known)
                return super().result(timeout)

        return Late()
