"""The ledger: every measurement ever made, append-only, and who is measuring what right now.

It is the truth; an Optuna study is a view of it that can be rebuilt. Three kinds of rows:

* **outcome**: one per (study, configuration), unique, with one **timing** per scenario. Triggers refuse to change or
  delete either.
* **claim**: a process's lease on a configuration it is about to measure. A claim names its owner and carries a *fencing
  token*, a number that grows with every claim: when a lease expired and somebody else took the configuration over, the
  late first owner's token is stale and its result is not recorded. Claims of a process that died on this machine are
  free at once.
* **timing** rows of a later *round* (the shoot-out of finalists), which never replace the first ones.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ktc.search.space.knob_space import Config

from .outcome import Outcome
from .sqlite_file import Store

LEASE_S = 600.0
"""Seconds until a claim of a process on another machine counts as abandoned: longer than compiling and measuring one
configuration takes. A live process on this machine keeps its claims only as long, too."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS study (
    id INTEGER PRIMARY KEY, recipe TEXT NOT NULL, device TEXT NOT NULL, compiler TEXT NOT NULL, shape TEXT NOT NULL,
    created REAL NOT NULL, UNIQUE (recipe, device, compiler, shape)) STRICT;;
CREATE TABLE IF NOT EXISTS outcome (
    id INTEGER PRIMARY KEY AUTOINCREMENT, study INTEGER NOT NULL REFERENCES study(id), config TEXT NOT NULL,
    status TEXT NOT NULL, early INTEGER NOT NULL, details TEXT NOT NULL, token INTEGER NOT NULL, created REAL NOT NULL,
    UNIQUE (study, config)) STRICT;;
CREATE TABLE IF NOT EXISTS timing (
    id INTEGER PRIMARY KEY AUTOINCREMENT, outcome INTEGER NOT NULL REFERENCES outcome(id), round TEXT NOT NULL,
    scenario TEXT NOT NULL, seconds REAL NOT NULL, low REAL, high REAL, created REAL NOT NULL) STRICT;;
CREATE INDEX IF NOT EXISTS timing_of ON timing (outcome, round);;
CREATE TABLE IF NOT EXISTS claim (
    study INTEGER NOT NULL REFERENCES study(id), config TEXT NOT NULL, token INTEGER NOT NULL UNIQUE,
    host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL, expires REAL NOT NULL,
    PRIMARY KEY (study, config)) STRICT;;
CREATE TABLE IF NOT EXISTS fence (token INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;;
CREATE TRIGGER IF NOT EXISTS outcome_kept BEFORE DELETE ON outcome BEGIN SELECT RAISE(ABORT, 'append-only'); END;;
CREATE TRIGGER IF NOT EXISTS outcome_same BEFORE UPDATE ON outcome BEGIN SELECT RAISE(ABORT, 'append-only'); END;;
CREATE TRIGGER IF NOT EXISTS timing_kept BEFORE DELETE ON timing BEGIN SELECT RAISE(ABORT, 'append-only'); END;;
CREATE TRIGGER IF NOT EXISTS timing_same BEFORE UPDATE ON timing BEGIN SELECT RAISE(ABORT, 'append-only'); END
"""


@dataclass(frozen=True)
class StudyKey:
    """What measurements must share to be comparable: the template (hash of source, script and variant), the class of
    device, the compiler and its options, and the shapes measured."""

    recipe: str
    device: str
    compiler: str
    shape: str


@dataclass(frozen=True)
class Claim:
    """The right to measure ``config`` in ``study``, until somebody with a larger ``token`` takes it over."""

    study: int
    config: str
    token: int


@dataclass(frozen=True)
class Recorded:
    """One finished configuration: ``id`` grows in the order of recording."""

    id: int
    config: Config
    outcome: Outcome


class Ledger:
    """Measurements in one SQLite file, shared by any number of processes.

    Raises:
        KtcError: E-LEDGER-..., exit code 3 (disk full, not writable, damaged, newer format), from any method.
    """

    def __init__(self, path: str | Path = ":memory:", *, lease_s: float = LEASE_S) -> None:
        self._store = Store(path, _SCHEMA, version=1)
        self._lease_s = lease_s
        self.path = self._store.path

    def close(self) -> None:
        self._store.close()

    def study(self, key: StudyKey) -> int:
        """The study's number, created if it is new."""
        values = tuple(asdict(key).values())
        where = "recipe=? AND device=? AND compiler=? AND shape=?"
        found = self._store.query(f"SELECT id FROM study WHERE {where}", values)
        if not found:
            with self._store.transaction() as db:
                sql = "INSERT OR IGNORE INTO study (recipe, device, compiler, shape, created) VALUES (?, ?, ?, ?, ?)"
                db.execute(sql, (*values, time.time()))
            found = self._store.query(f"SELECT id FROM study WHERE {where}", values)
        return int(found[0]["id"])

    # ----------------------------------------------------------------------------------------------------------- claims

    def claim(self, study: int, config: Mapping[str, int]) -> Claim | None:
        """The right to measure ``config``, or None: it is measured already, or a live process is at it."""
        text, now = config_key(config), time.time()
        with self._store.transaction() as db:
            if db.execute("SELECT 1 FROM outcome WHERE study=? AND config=?", (study, text)).fetchone():
                return None
            held = db.execute("SELECT * FROM claim WHERE study=? AND config=?", (study, text)).fetchone()
            if held and held["expires"] > now and not is_dead(held["host"], held["pid"], held["started"]):
                return None
            db.execute("DELETE FROM claim WHERE study=? AND config=?", (study, text))
            token = db.execute("INSERT INTO fence DEFAULT VALUES").lastrowid
            me = (socket.gethostname(), os.getpid(), start_of(os.getpid()))
            db.execute("INSERT INTO claim VALUES (?, ?, ?, ?, ?, ?, ?)", (study, text, token, *me, now + self._lease_s))
        return Claim(study, text, int(token or 0))

    def renew(self, claim: Claim) -> bool:
        """Extend the lease; False when it was lost to somebody else."""
        with self._store.transaction() as db:
            expires = time.time() + self._lease_s
            return db.execute("UPDATE claim SET expires=? WHERE token=?", (expires, claim.token)).rowcount == 1

    def release(self, claim: Claim) -> None:
        """Give the configuration back, unmeasured."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM claim WHERE token=?", (claim.token,))

    def claimed(self, study: int) -> list[Config]:
        """Configurations that live processes, this one included, are measuring."""
        rows = self._store.query("SELECT * FROM claim WHERE study=? AND expires>?", (study, time.time()))
        return [json.loads(r["config"]) for r in rows if not is_dead(r["host"], r["pid"], r["started"])]

    # ----------------------------------------------------------------------------------------------------- measurements

    def record(self, claim: Claim, outcome: Outcome) -> bool:
        """Append the outcome and end the claim, durably and at once; False when the claim was lost (nothing is written:
        whoever holds it now records the configuration)."""
        now = time.time()
        with self._store.transaction() as db:
            if db.execute("DELETE FROM claim WHERE token=?", (claim.token,)).rowcount != 1:
                return False
            row = _insert(
                db, "outcome", study=claim.study, config=claim.config, status=outcome.status, early=int(outcome.early),
                details=_json(outcome.details), token=claim.token, created=now,
            )  # fmt: skip
            self._timings(db, row, "tune", outcome, now)
        return True

    def record_round(self, study: int, round_: str, outcomes: Sequence[tuple[Mapping[str, int], Outcome]]) -> None:
        """Append further timings of configurations that have an outcome: one shoot-out is one ``round_``, recorded
        whole."""
        now = time.time()
        with self._store.transaction() as db:
            for config, outcome in outcomes:
                where = (study, config_key(config))
                row = db.execute("SELECT id FROM outcome WHERE study=? AND config=?", where).fetchone()
                if row:
                    self._timings(db, row["id"], round_, outcome, now)

    @staticmethod
    def _timings(db: sqlite3.Connection, outcome_id: int, round_: str, outcome: Outcome, now: float) -> None:
        for scenario, seconds in outcome.seconds.items():
            low, high = outcome.interval.get(scenario, (None, None))
            _insert(
                db, "timing", outcome=outcome_id, round=round_, scenario=scenario, seconds=seconds, low=low, high=high,
                created=now,
            )  # fmt: skip

    def outcomes(self, study: int, *, after: int = 0, round_: str = "tune") -> list[Recorded]:
        """Recorded configurations in order, those with an ``id`` greater than ``after``. Other rounds than ``tune``
        give only the configurations that were timed in them."""
        rows = self._store.query(
            "SELECT o.id, o.config, o.status, o.early, o.details, t.scenario, t.seconds, t.low, t.high FROM outcome o "
            "LEFT JOIN timing t ON t.outcome = o.id AND t.round = ? WHERE o.study = ? AND o.id > ? ORDER BY o.id, t.id",
            (round_, study, after),
        )
        grouped: dict[int, list] = {}
        for r in rows:
            grouped.setdefault(r["id"], []).append(r)
        found = []
        for id_, group in grouped.items():
            timed = [r for r in group if r["scenario"] is not None]
            if timed or round_ == "tune":
                seconds = {r["scenario"]: r["seconds"] for r in timed}
                interval = {r["scenario"]: (r["low"], r["high"]) for r in timed if r["low"] is not None}
                first = group[0]
                outcome = Outcome(
                    first["status"], seconds, interval, json.loads(first["details"]), bool(first["early"])
                )
                found.append(Recorded(id_, json.loads(first["config"]), outcome))
        return found


def config_key(config: Mapping[str, int]) -> str:
    """Canonical JSON of a configuration: equal configurations have equal keys."""
    return json.dumps({k: int(v) for k, v in config.items()}, sort_keys=True, separators=(",", ":"))


def _insert(db: sqlite3.Connection, table: str, **values: object) -> int:
    """Insert one row and return its number. Names are this module's own."""
    marks = ", ".join("?" * len(values))
    cursor = db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
    return int(cursor.lastrowid or 0)


def _json(details: Mapping[str, object]) -> str:
    return json.dumps(details, sort_keys=True, default=str)


def is_dead(host: str, pid: int, started: str) -> bool:
    """Whether the owner is known to be gone: on this machine, and no process has its number and starting time."""
    return host == socket.gethostname() and start_of(pid) != started


def start_of(pid: int) -> str:
    """When a process of this machine started, so that a reused number is not mistaken for it; '' when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        state, *fields = stat.rsplit(")", 1)[1].split()  # the name before ')' may contain anything
        return "" if state == "Z" else fields[18]  # field 22 of proc(5): start time in ticks since boot
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
    try:  # no /proc (macOS, Windows under WSL1): existence is all we can tell
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"
