"""Verdicts of the verification ladder, in a process without a device: others measure meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.kernel_json import kernel_from_json
from ktc.ir.text import print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import SharedRuns, assistant, verify

from .open_questions import asked_in, open_in

PAUSE_S = 0.003
"""How long an assistant waits before it looks again for something to do."""

STAY_S = 60.0
"""After so long an assistant says what it has done, and may be sent again: others give up on who says nothing."""


class Gate:
    """Keeps what it was asked about last: the runs of the original are then shared between its candidates."""

    def __init__(self) -> None:
        self._known: tuple[tuple[str, str | None], Workload, Kernel] | None = None
        self._assisted: dict[Path, SharedRuns | None] = {}  # by the folder of a question; None where it cannot be

    def handlers(self) -> dict[str, Any]:
        return {"gate": self.gate, "assist": self.assist, "load": self.load}

    def load(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Read the workload and its kernel before a candidate comes."""
        self._loaded(str(m["workload"]), m["variant"])
        return {}

    def gate(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """The ladder's verdict on the kernel ``candidate``; other processes may assist.

        Raises:
            KtcError: E-TEXT-CHANGED: the original is not (any more) what the workload's source says.
        """
        workload, original, candidate = self._asked(m)
        found = verify(
            original, candidate, workload, variant=m["variant"], seed=m["seed"], shared=_shared(m, leads=True)
        )
        return {"verdict": found.to_json()}

    def assist(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Make runs for the verdicts of other processes, that on the oldest question first, until none is open, the
        file ``leave`` is there, or :data:`STAY_S` are over; how many."""
        questions, leave, until = Path(m["questions"]), Path(m["leave"]), time.monotonic() + STAY_S
        made = 0
        while not leave.exists() and time.monotonic() < until and (open_ := open_in(questions)):
            self._assisted = {own: shared for own, shared in self._assisted.items() if own in open_}
            if any(self._assist(own) for own in open_):
                made += 1
            else:
                time.sleep(PAUSE_S)
        return {"made": made}

    def _assist(self, own: Path) -> bool:
        """Make one run for the verdict on a question; False where there is none to be made."""
        if own not in self._assisted:
            try:
                m = asked_in(own)
                shared = _shared(m, leads=False)
                if shared is None or not shared.is_planned():
                    return False
                workload, original, candidate = self._asked(m)
            except (OSError, KtcError):  # it is answered; or the process that leads says why nobody can
                return False
            how = {"variant": m["variant"], "seed": m["seed"]}
            able = assistant(original, candidate, workload, **how, shared=shared)
            self._assisted[own] = shared if able else None
        found = self._assisted[own]
        return found is not None and found.assist()

    def _asked(self, m: Mapping[str, Any]) -> tuple[Workload, Kernel, Kernel]:
        workload, original = self._loaded(str(m["workload"]), m["variant"])
        if print_kernel(original) != m["original"]:
            raise KtcError("E-TEXT-CHANGED", f"the source of {Path(m['workload'])} has changed meanwhile")
        return workload, original, kernel_from_json(m["candidate"])

    def _loaded(self, path: str, variant: str | None) -> tuple[Workload, Kernel]:
        if self._known is None or self._known[0] != (path, variant):
            workload = Workload.load(path)
            self._known = ((path, variant), workload, workload.load_kernel(variant))
        return self._known[1:]


def _shared(m: Mapping[str, Any], leads: bool) -> SharedRuns | None:
    """The folders in which the processes that verify share runs, if they do."""
    if not m.get("shared"):
        return None
    own, common = map(Path, m["shared"])
    return SharedRuns(own, common, leads)


__all__ = ["Gate"]
