"""What worked before: a small SQLite knowledge base from (features, device) to (script, knobs, gain).

Features are counts and shapes, never source text or names. The nearest entries seed planners; entries can be exported
and merged between machines.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.diagnostics import KtcError

from .features import SCALES, distance, features, plain
from .learnt_rules import SCHEMA as RULES_SCHEMA

if TYPE_CHECKING:
    from ktc.search.target import DeviceInfo

_SCHEMA = """
CREATE TABLE IF NOT EXISTS lesson (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL, device TEXT NOT NULL, features TEXT NOT NULL,
  script TEXT NOT NULL, knobs TEXT NOT NULL, gain REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 1,
  misses INTEGER NOT NULL DEFAULT 0,
  UNIQUE (device, features, script)
) STRICT
"""


@dataclass(frozen=True)
class Lesson:
    """One remembered result. ``gain`` is the measured speed-up over the original, ``tries`` how often it was faster,
    ``misses`` how often it was suggested to a kernel like its own and was not. ``script`` names loops and arrays by
    their roles (:mod:`.loop_roles`)."""

    backend: str
    device: str
    features: Mapping[str, float]
    script: str
    knobs: Mapping[str, int] = field(default_factory=dict)
    gain: float = 1.0
    tries: int = 1
    misses: int = 0


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
        with self.transaction() as db:
            db.execute(_SCHEMA)
            db.execute(RULES_SCHEMA)
            if "misses" not in [row[1] for row in db.execute("PRAGMA table_info(lesson)")]:  # a file of before
                db.execute("ALTER TABLE lesson ADD COLUMN misses INTEGER NOT NULL DEFAULT 0")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
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
        row = (lesson.backend, lesson.device, plain(lesson.features), lesson.script, plain(lesson.knobs), lesson.gain)
        sql = (
            "INSERT INTO lesson (backend, device, features, script, knobs, gain, tries) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (device, features, script) DO UPDATE SET tries = tries + excluded.tries, "
            "knobs = CASE WHEN excluded.gain > gain THEN excluded.knobs ELSE knobs END, gain = max(gain, excluded.gain)"
        )
        with self.transaction() as db:
            db.execute(sql, (*row, lesson.tries))

    def lessons(self) -> list[Lesson]:
        with self.transaction() as db:
            rows = db.execute(
                "SELECT backend, device, features, script, knobs, gain, tries, misses FROM lesson ORDER BY id"
            ).fetchall()
        return [Lesson(b, d, json.loads(f), s, json.loads(k), g, n, m) for b, d, f, s, k, g, n, m in rows]

    def contradict(self, lesson: Lesson) -> None:
        """Count that ``lesson`` was suggested, tried, and did not make a kernel faster."""
        where = (lesson.device, plain(lesson.features), lesson.script)
        with self.transaction() as db:
            db.execute("UPDATE lesson SET misses = misses + 1 WHERE device = ? AND features = ? AND script = ?", where)

    def nearest(self, f: KernelFacts, device: DeviceInfo, k: int = 3, *, within: float = 2.0) -> list[Lesson]:
        """At most ``k`` lessons, closest first, larger gains first among equals; another device counts as farther.
        What missed more often than it was faster is not suggested any more."""
        mine = features(f)

        def far(x: Lesson) -> float:
            penalty = 0.0 if x.device == device.name else 0.3 if x.backend == device.backend else 1.0
            return distance(mine, x.features) + penalty

        good = (x for x in self.lessons() if x.gain > 1.0 and x.misses <= x.tries)
        near = sorted((x for x in good if far(x) <= within), key=lambda x: (far(x), -x.gain))
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


__all__ = ["SCALES", "Lesson", "Memory", "default_path", "distance", "features"]
