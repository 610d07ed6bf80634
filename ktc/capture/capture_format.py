"""The format of a capture: a folder of ``launches.PID.jsonl`` (one launch a line) and ``blobs/HASH`` (memory).

A line of a launch that was captured::

    {"symbol": "_Z4axpyfPfS_i", "kernel": "axpy(float, float*, float*, int)", "ordinal": 1,
     "grid": [4, 1, 1], "block": [256, 1, 1], "shared": 0, "cooperative": false, "seconds": 0.00002, "rerun": "done",
     "runs": 3, "parameters": [[0, 4], [8, 8], [16, 8], [24, 4]], "arguments": "0000803f...", "memories": [
       {"address": 139637976727552, "bytes": 4096, "kind": "device", "name": "", "by_parameter": true,
        "pointers": false, "unstable": 0, "before": "3f...", "after": "a0...", "again": []}]}

``parameters`` are (offset, bytes) in the parameter block ``arguments`` (hex). ``kind`` is device, managed, pinned, or
constant, variable, managed variable (then ``name`` says which). The original ran ``runs`` times from the same state,
more often where the runs differ; ``unstable``: bytes that another run left differently, ``again``: the contents that
other runs left, where they are not ``after``. ``seconds``: from the launch to the end of the device's work. A launch
that was not captured has ``skipped``, the reason, instead of its memories, and, where it reaches too much memory, its
geometry, arguments and seconds all the same, with ``reaches``: (address, bytes) of the allocations.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ktc.ir.diagnostics import KtcError

HEAD = "capture.json"
VARIABLES = frozenset({"constant", "variable", "managed variable"})


@dataclass(frozen=True)
class Memory:
    """An allocation or variable that a launch reaches, with the names of its content before and after."""

    address: int
    bytes: int
    kind: str
    name: str
    by_parameter: bool
    pointers: bool
    unstable: int
    before: str
    after: str
    again: tuple[str, ...] = ()

    @property
    def is_variable(self) -> bool:
        return self.kind in VARIABLES


@dataclass(frozen=True)
class Launch:
    """One launch: geometry, the parameter block, the memory it reaches. ``folder``: of the capture."""

    folder: Path
    symbol: str
    kernel: str
    ordinal: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    cooperative: bool
    rerun: str
    parameters: tuple[tuple[int, int], ...]
    arguments: bytes
    memories: tuple[Memory, ...]
    runs: int = 2
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        """Bytes of memory that it reaches by its parameters."""
        return sum(m.bytes for m in self.memories if not m.is_variable)

    @property
    def unstable(self) -> int:
        """Bytes that runs of the original leave differently."""
        return sum(m.unstable for m in self.memories)

    def content(self, m: Memory, when: str) -> np.ndarray:
        """The bytes of ``m`` ``before`` or ``after``.

        Raises:
            KtcError: E-CAPTURE, the file is missing or of another size.
        """
        return self._blob(m, getattr(m, when))

    def others(self, m: Memory) -> list[np.ndarray]:
        """The contents of ``m`` that other runs of the original left, where they are not as ``after``.

        Raises:
            KtcError: as :meth:`content`.
        """
        return [self._blob(m, name) for name in m.again]

    def _blob(self, m: Memory, name: str) -> np.ndarray:
        path = self.folder / "blobs" / Path(name).name
        data = np.fromfile(path, np.uint8) if path.is_file() else None
        if data is None or data.size != m.bytes:
            raise KtcError("E-CAPTURE", f"{path} does not hold the {m.bytes} bytes that it should", exit_code=2)
        return data

    def holding(self, address: int) -> Memory | None:
        """The allocation that ``address`` points into."""
        for m in self.memories:
            if not m.is_variable and m.address <= address < m.address + max(m.bytes, 1):
                return m
        return None


@dataclass(frozen=True)
class Skipped:
    """A launch that was seen and not captured, and why."""

    kernel: str
    ordinal: int
    reason: str
    launch: Launch | None = None
    """Geometry, arguments and seconds, where they are known, with the allocations but without what they hold."""


@dataclass(frozen=True)
class Capture:
    """What one run of a program left. ``command``: as it was called."""

    folder: Path
    command: tuple[str, ...]
    launches: tuple[Launch, ...]
    skipped: tuple[Skipped, ...]

    @functools.cached_property
    def kernels(self) -> tuple[str, ...]:
        """Kernels with a captured launch, in the order of their first."""
        return tuple(dict.fromkeys(launch.kernel for launch in self.launches))

    @staticmethod
    def load(folder: Path) -> Capture:
        """The capture in ``folder``.

        Raises:
            KtcError: E-CAPTURE (exit code 2), it holds none or one that cannot be read.
        """
        try:
            head = json.loads((folder / HEAD).read_text("utf-8"))
            lines = [
                line for p in sorted(folder.glob("launches.*.jsonl")) for line in p.read_text("utf-8").splitlines()
            ]
            rows = [json.loads(line) for line in lines]
            skipped = tuple(
                Skipped(r["kernel"], r["ordinal"], r["skipped"], _launch(folder, r) if "arguments" in r else None)
                for r in rows
                if "skipped" in r
            )
            launches = tuple(_launch(folder, r) for r in rows if "skipped" not in r)
            return Capture(folder, tuple(head["command"]), launches, skipped)
        except FileNotFoundError as e:
            raise KtcError("E-CAPTURE", f"{folder} is not a capture: no {HEAD}", exit_code=2) from e
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise KtcError("E-CAPTURE", f"the capture {folder} cannot be read: {e}", exit_code=2) from e


def _launch(folder: Path, row: Mapping[str, Any]) -> Launch:
    arguments = bytes.fromhex(row["arguments"])
    places = tuple((int(a), int(b)) for a, b in row["parameters"])
    if any(a < 0 or b < 0 or a + b > len(arguments) for a, b in places):
        raise ValueError("a parameter lies outside of the parameter block")
    memories = tuple(Memory(**{**m, "again": tuple(m.get("again", ()))}) for m in row.get("memories", ()))
    memories += tuple(Memory(a, n, "device", "", True, False, 0, "", "") for a, n in row.get("reaches", ()))
    grid, block = (tuple(int(n) for n in row[k]) for k in ("grid", "block"))
    if len(grid) != 3 or len(block) != 3:
        raise ValueError("grid and block have three dimensions")
    return Launch(folder, row["symbol"], row["kernel"], int(row["ordinal"]), grid, block, int(row["shared"]),
                  bool(row["cooperative"]), row.get("rerun", "no"), places, arguments, memories,
                  int(row.get("runs", 2)), float(row.get("seconds", 0.0)))  # fmt: skip
