"""What a run is, written before it measures anything: a run that goes on, or that was killed, can be read too."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ktc.ir.workload import Workload
from ktc.search.records.ledger import is_dead, start_of
from ktc.search.target import DeviceInfo

NAME = "run.json"
FORMAT = 1


@dataclass(frozen=True)
class About:
    """The start of a run: its kernel, source and workload (paths), device, planner and limits; which process on which
    host it is, by its number and when that ``started``; and when the run ``began`` (seconds since the epoch).
    ``time_limit`` None: there is none."""

    kernel: str
    source: str
    workload: str
    variant: str
    device: Mapping[str, object]
    planner: str
    budget: int
    time_limit: float | None
    host: str
    process: int
    started: str
    began: float

    @classmethod
    def of(
        cls, work: Workload, variant: str | None, planner: str, budget: int, time_limit: float, d: DeviceInfo
    ) -> About:
        """That of this process, now."""
        device = {"backend": d.backend, "name": d.name, "profile": d.profile, "compute_units": d.compute_units}
        limit = time_limit if time_limit < math.inf else None
        return cls(
            work.kernel_name, str(work.source), str(work.path), variant or "", device, planner, budget, limit,
            socket.gethostname(), os.getpid(), start_of(os.getpid()), time.time(),
        )  # fmt: skip

    def save(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    @property
    def is_running(self) -> bool:
        """Whether the process is there, as far as this machine can tell."""
        return self.host == socket.gethostname() and not is_dead(self.host, self.process, self.started)


def load_about(folder: Path) -> About | None:
    """The start of the run in ``folder``; None where none was written."""
    try:
        data = json.loads((folder / NAME).read_text(encoding="utf-8"))
        return About(**{k: v for k, v in data.items() if k != "format"})
    except (OSError, ValueError, TypeError):
        return None
