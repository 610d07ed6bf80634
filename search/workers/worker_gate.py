"""Verdicts of the verification ladder, in a process without a device: others measure meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import SharedRuns, assistant, verify


class Gate:
    """Keeps what it was asked about last: the runs of the original are then shared between its candidates."""

    def __init__(self) -> None:
        self._known: tuple[tuple[str, str | None], Workload, Kernel] | None = None

    def handlers(self) -> dict[str, Any]:
        return {"gate": self.gate, "assist": self.assist, "load": self.load}

    def load(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Read the workload and its kernel before a candidate comes."""
        self._loaded(str(m["workload"]), m["variant"])
        return {}

    def gate(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """The ladder's verdict on the kernel with the text ``candidate``; other processes may assist.

        Raises:
            KtcError: E-TEXT-CHANGED: the original is not (any more) what the workload's source says.
        """
        workload, original, candidate = self._asked(m)
        found = verify(
            original, candidate, workload, variant=m["variant"], seed=m["seed"], shared=_shared(m, leads=True)
        )
        return {"verdict": found.to_json()}

    def assist(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Make runs for the verdict of another process on the same question, until it is there or the file ``leave``
        is; how many."""
        workload, original, candidate = self._asked(m)
        shared, leave = _shared(m, leads=False), Path(m["leave"])
        if shared is None or not assistant(
            original, candidate, workload, variant=m["variant"], seed=m["seed"], shared=shared
        ):
            return {"made": 0}
        return {"made": shared.assist(leave.exists)}

    def _asked(self, m: Mapping[str, Any]) -> tuple[Workload, Kernel, Kernel]:
        workload, original = self._loaded(str(m["workload"]), m["variant"])
        if print_kernel(original) != m["original"]:
            raise KtcError("E-TEXT-CHANGED", f"the source of {Path(m['workload'])} has changed meanwhile")
        return workload, original, parse_kernel(m["candidate"])

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
