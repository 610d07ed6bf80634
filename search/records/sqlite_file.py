"""A SQLite file that survives kill -9 and tells its owner, in words, when it cannot be written."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ktc.ir.diagnostics import KtcError

_BUSY_S = 30.0
"""How long a writer waits for another one; each holds the lock for a few milliseconds."""

_RETRY_S = 0.01

_CAUSES: dict[str, tuple[str, str, str]] = {
    "SQLITE_FULL": ("E-LEDGER-FULL", "the disk is full", "free some space and run the same command again"),
    "SQLITE_IOERR": ("E-LEDGER-IO", "the disk failed or is full", "check the disk and run the same command again"),
    "SQLITE_READONLY": ("E-LEDGER-READONLY", "it cannot be written", "choose another place, or change its permissions"),
    "SQLITE_PERM": ("E-LEDGER-READONLY", "it cannot be written", "choose another place, or change its permissions"),
    "SQLITE_CANTOPEN": ("E-LEDGER-OPEN", "it cannot be opened", "check that the folder exists and can be written"),
    "SQLITE_NOTADB": ("E-LEDGER-FORMAT", "it is not a ktc ledger", "choose another file"),
    "SQLITE_CORRUPT": ("E-LEDGER-CORRUPT", "it is damaged", "move it away; the run starts over with a new one"),
    "SQLITE_BUSY": ("E-LEDGER-BUSY", "another process keeps it locked", "wait for that process, or end it"),
}
"""SQLite's error name (or its prefix) -> (code, why, what to do)."""


class Store:
    """One connection, shared by the threads of a process behind a lock; transactions are explicit.

    Args:
        path: the file; its folder must exist. ``:memory:`` for a store that is not kept.
        schema: statements that create the tables, each idempotent.
        version: of the schema, kept in the file; a file of a newer version is refused.

    Raises:
        KtcError: E-LEDGER-..., exit code 3.
    """

    def __init__(self, path: str | Path, schema: str, version: int) -> None:
        self.path = str(path)
        self._lock = threading.RLock()
        with self._errors():
            # isolation_level=None: no transaction that this class did not open
            self._db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            self._write_ahead()
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
        found = self.query("PRAGMA user_version")[0][0]
        if found > version:
            raise KtcError(
                "E-LEDGER-VERSION",
                f"{self.path} was written by a newer ktc (format {found}, this one knows {version})",
                hint="upgrade ktc, or choose another file",
                exit_code=3,
            )
        if found < version:
            with self.transaction() as db:
                for statement in schema.split(";;"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version={version}")

    def _write_ahead(self) -> None:
        """Switch the file to a write-ahead log. Of two processes that do so at the same moment SQLite tells one, at
        once, that the file is busy: its own waiting does not apply here."""
        until = time.monotonic() + _BUSY_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as err:
                if not err.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > until:
                    raise
                time.sleep(_RETRY_S)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """``BEGIN IMMEDIATE`` ... ``COMMIT``: all or nothing, and no other writer in between."""
        with self._lock, self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # a full disk may have rolled it back already
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def query(self, sql: str, args: tuple = ()) -> list[sqlite3.Row]:
        with self._lock, self._errors():
            return self._db.execute(sql, args).fetchall()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as err:
            name = getattr(err, "sqlite_errorname", "") or ""
            code, why, hint = next((c for n, c in _CAUSES.items() if name.startswith(n)), ("E-LEDGER", str(err), ""))
            raise KtcError(code, f"cannot use the ledger {self.path}: {why}", hint=hint, exit_code=3) from err
