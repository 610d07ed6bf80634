"""The format of a profile: a folder of ``profile.json`` (the command) and one ``profile.PID.json`` for each process.

A process's file, as the preloaded library writes it (times in seconds)::

    {"pid": 7, "program": "/home/me/solver", "complete": true, "clock": "cupti", "why": "", "device": "NVIDIA H100",
     "seconds": 3.1, "before": 0.4, "launching": 2.6, "span": 2.59, "busy": 1.9, "copies": 12, "copied_bytes": 4096,
     "copy_seconds": 0.001, "graphs": 0, "lost": 0, "graph": {"timed": 0, "seconds": 0, ...},
     "functions": [{"symbol": "_Z4axpyfPfi", "kernel": "axpy(float, float*, int)", "image": "/home/me/solver",
       "launches": 100, "sized": true, "parameters": [[0, 4], [8, 8], [16, 4]], "alignments": [[8, 256]], "equal": [],
       "rows": [{"grid": [4, 1, 1], "block": [256, 1, 1], "shared": 0, "cluster": [1, 1, 1], "cooperative": false,
         "launches": 100, "captured": 0, "others": false, "arguments": "0000803f...",
         "pointers": [[8, 1396, 1396, 4096]], "timed": 100, "seconds": 0.01,
         "least": 9e-5, "most": 2e-4, "times": [0.0001, ...]}]}],
     "strays": [{"symbol": "_Z4stepPf", "kernel": "step(float*)", "in_graph": true, "grid": ..., "timed": 9, ...}],
     "successions": [[0, 0, 1, 2, 12, [[8, 0]]]]}

``functions`` are the launches that were seen, a row for each geometry and values of scalar arguments (``others``: of
one geometry and of values beyond the 4096th). ``alignments``: (offset of a pointer, the largest power of two that
divides all its values); ``equal``: offsets of pointers that were equal in some launch; ``pointers``: (offset, address,
start and bytes of its allocation) in the first. ``captured``: launches that a graph recorded and did not run;
``failed``: those that the driver refused; ``swapped``, ``refused``: those that another kernel took the place of, or
could not (:mod:`ktc.observed.tryout`).
``successions``: launches of a row (function, row of it) that came right after launches of another one in one stream,
how often, and the (offset, offset) of pointers that were equal each time; those with none are left out.
``strays``: kernels that ran on the device and belong to no launch that was seen: nodes of graphs, and what reached the
driver another way.

With contents, ``contents/PID.FUNCTION.OFFSET`` holds the bytes from a pointer of the function's first launch to the end
of its allocation, as they were before that launch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError

PROFILE = "profile.json"

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """Blocks and threads of a launch; ``shared``: dynamic bytes; ``cluster``: blocks of a cluster."""

    grid: Dims
    block: Dims
    shared: int = 0
    cluster: Dims = (1, 1, 1)
    cooperative: bool = False


@dataclass(frozen=True)
class Times:
    """Device times of ``count`` launches, seconds; ``kept``: a systematic sample of them."""

    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    kept: tuple[float, ...] = ()

    def __add__(self, other: Times) -> Times:
        if not self.count or not other.count:
            return other if other.count else self
        return Times(self.count + other.count, self.total + other.total, min(self.least, other.least),
                     max(self.most, other.most), self.kept + other.kept)  # fmt: skip


@dataclass(frozen=True)
class PointerArgument:
    """A pointer in the parameter block: ``bytes`` from it to the end of its allocation, which begins at ``base`` (0
    where the driver knows none)."""

    offset: int
    address: int
    base: int
    bytes: int


@dataclass(frozen=True)
class Shape:
    """Launches of one kernel with one geometry and the same scalar arguments. ``arguments`` and ``pointers``: of the
    first of them; ``others``: not kept, for there are too many. ``varies``: several rows that differ in scalars that
    count (see :mod:`.shape_groups`), as the one of them that took longest."""

    geometry: Geometry
    launches: int
    captured: int
    arguments: bytes
    pointers: tuple[PointerArgument, ...]
    times: Times
    others: bool = False
    varies: bool = False
    swapped: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Launched:
    """A kernel that was launched. ``parameters``: (offset, bytes), known if ``sized``."""

    symbol: str
    kernel: str
    image: str
    launches: int
    sized: bool
    parameters: tuple[tuple[int, int], ...]
    alignments: Mapping[int, int]
    equal: frozenset[tuple[int, int]]
    shapes: tuple[Shape, ...]
    contents: Mapping[int, Path] = field(default_factory=dict)
    """By the offset of a pointer, a file with what lay from there to the end of its allocation before the first
    launch, that of ``shapes[0]``; where it was kept."""


@dataclass(frozen=True)
class Stray:
    """Kernels that ran and belong to no launch that was seen."""

    symbol: str
    kernel: str
    in_graph: bool
    geometry: Geometry
    times: Times


@dataclass(frozen=True)
class Succession:
    """Launches of one row right after launches of another in one stream, ``count`` times. ``first``, ``second``:
    (place in ``Process.launched``, place in its ``shapes``); ``equal``: offsets of their pointers that were equal each
    time."""

    first: tuple[int, int]
    second: tuple[int, int]
    count: int
    equal: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Process:
    """What one process launched. ``before``: seconds until its first launch; ``span``: from the start of the first
    kernel to the end of the last; ``busy``: how much of it the device ran anything (0: not known)."""

    pid: int
    program: str
    complete: bool
    clock: str
    why: str
    device: str
    seconds: float
    before: float
    launching: float
    span: float
    busy: float
    copies: int
    copied_bytes: int
    copy_seconds: float
    graphs: int
    lost: int
    graph_times: Times
    launched: tuple[Launched, ...]
    strays: tuple[Stray, ...]
    successions: tuple[Succession, ...] = ()


@dataclass(frozen=True)
class Profile:
    """What one run of a program launched. ``seconds``: of the whole program; ``status``: its exit code (None: it was
    stopped at the time limit)."""

    folder: Path
    command: tuple[str, ...]
    status: int | None
    seconds: float
    processes: tuple[Process, ...]
    cwd: str = ""
    """Where it ran."""

    @property
    def sources(self) -> Path | None:
        """The folder with what the program compiled as it ran; None if it compiled nothing."""
        folder = self.folder / "sources"
        return folder if folder.is_dir() else None

    @staticmethod
    def is_in(folder: Path) -> bool:
        return (folder / PROFILE).is_file()

    @staticmethod
    def load(folder: Path) -> Profile:
        """The profile in ``folder``.

        Raises:
            KtcError: E-PROFILE (exit code 2), it holds none or one that cannot be read.
        """
        try:
            head = json.loads((folder / PROFILE).read_text("utf-8"))
            rows = [json.loads(p.read_text("utf-8")) for p in sorted(folder.glob("profile.*.json"))]
            processes = tuple(_process(r, folder) for r in rows)
            return Profile(folder, tuple(head["command"]), head["status"], head["seconds"], processes,
                           head.get("cwd", ""))  # fmt: skip
        except FileNotFoundError as e:
            hint = f"ktc profile -o {folder} -- PROGRAM writes one"
            raise KtcError("E-PROFILE", f"{folder} is not a profile: no {PROFILE}", hint=hint, exit_code=2) from e
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise KtcError("E-PROFILE", f"the profile {folder} cannot be read: {e}", exit_code=2) from e


def _process(row: Mapping[str, Any], folder: Path) -> Process:
    plain = {k: row[k] for k in ("pid", "program", "complete", "clock", "why", "device", "seconds", "before",
                                 "launching", "span", "busy", "copies", "copied_bytes", "copy_seconds", "graphs",
                                 "lost")}  # fmt: skip
    kept = folder / "contents"
    launched = tuple(_launched(r, kept, f"{row['pid']}.{i}.") for i, r in enumerate(row["functions"]))
    strays = tuple(Stray(r["symbol"], r["kernel"], r["in_graph"], _geometry(r), _times(r)) for r in row["strays"])
    successions = tuple(
        Succession((f, r), (g, s), count, tuple((a, b) for a, b in equal))
        for f, r, g, s, count, equal in row.get("successions", ())
    )
    return Process(**plain, graph_times=_times(row["graph"]), launched=launched, strays=strays, successions=successions)


def _launched(row: Mapping[str, Any], kept: Path, prefix: str) -> Launched:
    """``kept``: the folder of contents, in which those of this kernel begin with ``prefix``."""
    contents = {int(p.suffix[1:]): p for p in kept.glob(f"{prefix}*") if p.suffix[1:].isdigit()}
    return Launched(row["symbol"], row["kernel"], row["image"], row["launches"], row["sized"],
                    tuple((a, b) for a, b in row["parameters"]), dict(row["alignments"]),
                    frozenset((a, b) for a, b in row["equal"]), tuple(map(_shape, row["rows"])), contents)  # fmt: skip


def _shape(row: Mapping[str, Any]) -> Shape:
    pointers = tuple(
        PointerArgument(at, p, base, base + size - p if base else 0) for at, p, base, size in row["pointers"]
    )
    return Shape(_geometry(row), row["launches"], row["captured"], bytes.fromhex(row["arguments"]), pointers,
                 _times(row), row["others"], swapped=row.get("swapped", 0), refused=row.get("refused", 0),
                 failed=row.get("failed", 0))  # fmt: skip


def _geometry(row: Mapping[str, Any]) -> Geometry:
    grid, block, cluster = (tuple(row[k]) for k in ("grid", "block", "cluster"))
    if not len(grid) == len(block) == len(cluster) == 3:
        raise ValueError("grid, block and cluster have three dimensions")
    return Geometry(grid, block, row["shared"], cluster, row["cooperative"])


def _times(row: Mapping[str, Any]) -> Times:
    return Times(row["timed"], row["seconds"], row["least"], row["most"], tuple(row["times"]))
