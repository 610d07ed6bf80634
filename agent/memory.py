"""What worked before: a small SQLite knowledge base from (features, device) to (script, knobs, gain).

Features are counts and shapes, never source text or names. The nearest entries seed planners; entries can be exported
and merged between machines.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.diagnostics import KtcError

if TYPE_CHECKING:
    from ktc.search.target import DeviceInfo

_SCHEMA = """
CREATE TABLE IF NOT EXISTS lesson (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL, device TEXT NOT NULL, features TEXT NOT NULL,
  script TEXT NOT NULL, knobs TEXT NOT NULL, gain REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 1,
  UNIQUE (device, features, script)
) STRICT
"""

SCALES: dict[str, float] = {
    "parallel": 4.0, "rank": 2.0, "reductions": 2.0, "serial": 2.0, "rows": 2.0, "log_bytes": 0.1, "log_trip": 0.15,
    "log_intensity": 0.5, "reuse": 1.0, "elem_bytes": 0.3, "irregular": 2.0, "strided": 0.5, "special": 0.5,
    "divisor": 0.2,
}  # fmt: skip
"""Weight of each feature's difference in the distance between two kernels; 1 is "another kind of kernel"."""


@dataclass(frozen=True)
class Lesson:
    """One remembered result. ``gain`` is the measured speed-up over the original."""

    backend: str
    device: str
    features: Mapping[str, float]
    script: str
    knobs: Mapping[str, int] = field(default_factory=dict)
    gain: float = 1.0
    tries: int = 1


def features(f: KernelFacts) -> dict[str, float]:
    """What makes two kernels alike for the choice of a script."""
    inner = [x for x in f.loops if x.innermost]
    trips = [x.trip for x in inner if x.trip]
    return {
        "parallel": float(f.form == "parallel"),
        "rank": float(max((x.depth for x in f.loops), default=-1) + 1),
        "reductions": float(f.reductions),
        "serial": float(sum(x.kind in ("for", "while") for x in f.loops)),
        "rows": float(sum(bool(x.levels) and all(v.startswith("block") for v in x.levels) for x in f.loops)),
        "log_bytes": math.log2(max(1, f.bytes)),
        "log_trip": math.log2(max(trips, default=1)),
        "log_intensity": math.log2(max(f.intensity, 2**-6)),
        "reuse": min(8.0, math.log2(max(1.0, f.reuse))),
        "elem_bytes": float(max((b.elem_bytes for b in f.buffers), default=4)),
        "irregular": float(sum(x.irregular for x in inner)),
        "strided": float(sum(x.strided for x in inner)),
        "special": float(f.special > 0),
        "divisor": math.log2(min((x.divisor for x in inner), default=1)),
    }


def distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Weighted Euclidean distance; a feature that one side lacks counts as a difference of one."""
    return math.sqrt(sum((w * (a[k] - b[k] if k in a and k in b else 1.0)) ** 2 for k, w in SCALES.items()))


def default_path() -> Path:
    """``$KTC_MEMORY``, else ``memory.sqlite`` in the user's data folder."""
    if os.environ.get("KTC_MEMORY"):
        return Path(os.environ["KTC_MEMORY"])
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "ktc" / "memory.sqlite"


class Memory:
    """The knowledge base in one file (``:memory:``: forgotten at exit)."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = str(default_path() if path is None else path)
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        self._kept = sqlite3.connect(":memory:") if self.path == ":memory:" else None
        with self._open() as db:
            db.execute(_SCHEMA)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._kept is not None:
                with self._kept:
                    yield self._kept
                return
            with closing(sqlite3.connect(self.path, timeout=10)) as db, db:
                yield db
        except sqlite3.Error as e:
            hint = "move the file away, or set KTC_MEMORY to another one"
            raise KtcError("E-MEMORY", f"the knowledge base {self.path}: {e}", hint=hint, exit_code=3) from None

    def add(self, lesson: Lesson) -> None:
        """Remember; the same script on the same features keeps its best gain and counts the tries."""
        row = (lesson.backend, lesson.device, _json(lesson.features), lesson.script, _json(lesson.knobs), lesson.gain)
        sql = (
            "INSERT INTO lesson (backend, device, features, script, knobs, gain, tries) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (device, features, script) DO UPDATE SET tries = tries + excluded.tries, "
            "knobs = CASE WHEN excluded.gain > gain THEN excluded.knobs ELSE knobs END, gain = max(gain, excluded.gain)"
        )
        with self._open() as db:
            db.execute(sql, (*row, lesson.tries))

    def lessons(self) -> list[Lesson]:
        with self._open() as db:
            rows = db.execute("SELECT backend, device, features, script, knobs, gain, tries FROM lesson ORDER BY id")
            return [Lesson(b, d, json.loads(f), s, json.loads(k), g, n) for b, d, f, s, k, g, n in rows.fetchall()]

    def nearest(self, f: KernelFacts, device: DeviceInfo, k: int = 3, *, within: float = 2.0) -> list[Lesson]:
        """At most ``k`` lessons, closest first, larger gains first among equals; another device counts as farther."""
        mine = features(f)

        def far(x: Lesson) -> float:
            penalty = 0.0 if x.device == device.name else 0.3 if x.backend == device.backend else 1.0
            return distance(mine, x.features) + penalty

        near = sorted((x for x in self.lessons() if x.gain > 1.0 and far(x) <= within), key=lambda x: (far(x), -x.gain))
        return list({x.script: x for x in reversed(near)}.values())[::-1][:k]

    def export(self) -> list[dict]:
        """Every lesson as plain data, for another machine's :meth:`merge`."""
        return [asdict(x) for x in self.lessons()]

    def merge(self, rows: Iterable[Mapping]) -> int:
        """Add exported lessons; rows that are not lessons are skipped. Returns how many were taken."""
        taken = 0
        for r in rows:
            try:
                lesson = Lesson(
                    str(r["backend"]), str(r["device"]), {str(k): float(v) for k, v in r["features"].items()},
                    str(r["script"]), {str(k): int(v) for k, v in r["knobs"].items()}, float(r["gain"]),
                    int(r.get("tries", 1)),
                )  # fmt: skip
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
            self.add(lesson)
            taken += 1
        return taken


def _json(values: Mapping) -> str:
    return json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}, sort_keys=True)
