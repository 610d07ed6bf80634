"""A run as a trajectory: one JSON line a step, for those who train models on what was seen, proposed and measured.

The lines are the events of :func:`ktc.agent.optimize.optimize` in their order, after one that says what the
planner saw: the kernel as IR text and its facts by scenario. They hold no path and no source text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload

NAME = "trajectory.jsonl"


class Trajectory:
    """A listener of events that appends them to ``path`` and passes them on to ``then``.

    Lines are numbered by ``n``; a run that resumes appends to what is there and begins at 0 again.
    """

    def __init__(self, path: Path, then: Callable[[Mapping[str, object]], None]) -> None:
        self.path, self.then = path, then
        self._lines = 0

    def saw(self, work: Workload, kernel: Kernel, device: Mapping[str, object]) -> None:
        """What there is to plan for: the kernel in the form that scripts apply to, and facts at tuned sizes."""
        from ktc.agent.llm.llm_planner import ir_text

        seen = {s.name: asdict(facts(kernel, work.scalars(s.sizes))) for s in work.scenarios if s.tuned}
        self._write({"event": "seen", "ir": ir_text(kernel), "facts": seen, "device": dict(device)})

    def __call__(self, event: Mapping[str, object]) -> None:
        self._write(event)
        self.then(event)

    def _write(self, event: Mapping[str, object]) -> None:
        line = json.dumps({"n": self._lines, **event}, default=str)
        self._lines += 1
        with self.path.open("a", encoding="utf-8") as f:
            f.write(line + "\n")
