"""A run as a trajectory: one JSON line a step, for those who train models on what was seen, proposed and measured.

The lines are the events of :func:`ktc.agent.optimize.optimize` in their order, after one that says what the
planner saw: the kernel as IR text and its facts by scenario. They hold no path and no source text. Of ``trials``, each
measured configuration is written once: knobs, status, seconds and interval (null where it failed), seconds that its
compiler took (null where none ran), and the error. Proposals have the reason and the speed-up that their planner gave.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload

if TYPE_CHECKING:
    from ktc.search.tuning.result import Trial

NAME = "trajectory.jsonl"


class Trajectory:
    """A listener of events that appends them to ``path`` and passes them on to ``then``.

    Lines are numbered by ``n``; a run that resumes appends to what is there and begins at 0 again.
    """

    def __init__(self, path: Path, then: Callable[[Mapping[str, object]], None]) -> None:
        self.path, self.then = path, then
        self._lines = 0
        self._written: Counter[tuple[object, object]] = Counter()  # (scenario, script) -> trials that have their line

    def saw(self, work: Workload, kernel: Kernel, device: Mapping[str, object]) -> None:
        """What there is to plan for: the kernel in the form that scripts apply to, and facts at tuned sizes."""
        from ktc.agent.llm.prompts import ir_text

        seen = {s.name: asdict(facts(kernel, work.scalars(s.sizes))) for s in work.scenarios if s.tuned}
        self._write({"event": "seen", "ir": ir_text(kernel), "facts": seen, "device": dict(device)})

    def __call__(self, event: Mapping[str, Any]) -> None:
        trials = event.get("trials")
        new = self._new(event, trials) if trials is not None else []
        if trials is None or new or event.get("best") is None:  # a step that measured nothing new is none
            self._write(event if trials is None else {**event, "trials": new})
        self.then(event)

    def _new(self, event: Mapping[str, Any], trials: Sequence[Trial]) -> list[dict[str, object]]:
        key = (event["scenario"], event["script"])
        fresh = trials[self._written[key] :]
        self._written[key] = len(trials)
        return [_trial(t, event["scenario"]) for t in fresh]

    def _write(self, event: Mapping[str, object]) -> None:
        line = json.dumps({"n": self._lines, **event}, default=_plain)
        self._lines += 1
        with self.path.open("a", encoding="utf-8") as f:
            f.write(line + "\n")


def _trial(t: Trial, scenario: str) -> dict[str, object]:
    said: dict[str, object] = {"knobs": dict(t.config), "status": t.outcome.status, "seconds": t.objective}
    said["interval"] = t.outcome.interval.get(scenario)
    said["compile_s"] = t.outcome.details.get("compile_s")
    return said if t.outcome.ok else {**said, "error": str(t.outcome.details.get("error", ""))[:300]}


def _plain(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
