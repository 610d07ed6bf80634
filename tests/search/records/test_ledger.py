"""The ledger keeps what it was told, gives every configuration to one process, and fails in words."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.search.records.ledger import Ledger, StudyKey, config_key
from ktc.search.records.outcome import Outcome

KEY = StudyKey("recipe", "H200", "nvcc-13", "decode")
OK = Outcome("ok", {"a": 1e-5, "b": 2e-5}, {"a": (0.9e-5, 1.1e-5)}, {"registers": 32})


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    book = Ledger(tmp_path / "ledger.db")
    yield book
    book.close()


def record(ledger: Ledger, study: int, config: dict[str, int], outcome: Outcome = OK) -> None:
    claim = ledger.claim(study, config)
    assert claim is not None and ledger.record(claim, outcome)


def test_what_is_recorded_comes_back(ledger: Ledger, tmp_path: Path) -> None:
    study = ledger.study(KEY)
    record(ledger, study, {"V": 4, "T": 128})
    record(ledger, study, {"V": 8, "T": 128}, Outcome("compile-error", details={"log": "too many registers"}))
    ledger.close()
    rows = Ledger(tmp_path / "ledger.db").outcomes(study)
    assert [(r.config, r.outcome) for r in rows] == [
        ({"T": 128, "V": 4}, OK),
        ({"T": 128, "V": 8}, Outcome("compile-error", details={"log": "too many registers"})),
    ]
    assert [r.config["V"] for r in Ledger(tmp_path / "ledger.db").outcomes(study, after=rows[0].id)] == [8]


def test_studies_are_separate(ledger: Ledger) -> None:
    first = ledger.study(KEY)
    others = [ledger.study(StudyKey(**{**KEY.__dict__, f: "other"})) for f in ("recipe", "device", "compiler", "shape")]
    assert len({first, *others}) == 5 and ledger.study(KEY) == first
    record(ledger, first, {"V": 1})
    assert ledger.claim(others[0], {"V": 1}) is not None and not ledger.outcomes(others[0])


def test_a_configuration_is_claimed_once(ledger: Ledger) -> None:
    study = ledger.study(KEY)
    claim = ledger.claim(study, {"V": 1, "T": 2})
    assert claim and ledger.claim(study, {"T": 2, "V": 1}) is None
    assert ledger.claimed(study) == [{"T": 2, "V": 1}]
    ledger.release(claim)
    assert ledger.claimed(study) == []
    record(ledger, study, {"V": 1, "T": 2})
    assert ledger.claim(study, {"V": 1, "T": 2}) is None


def test_a_late_owner_is_fenced_off(tmp_path: Path) -> None:
    slow, fast = Ledger(tmp_path / "l.db", lease_s=-1), Ledger(tmp_path / "l.db")
    study = slow.study(KEY)
    late = slow.claim(study, {"V": 1})
    taken = fast.claim(study, {"V": 1})
    assert late and taken and taken.token > late.token
    assert not slow.renew(late) and not slow.record(late, OK)
    assert fast.renew(taken) and fast.record(taken, Outcome("wrong"))
    assert [r.outcome.status for r in fast.outcomes(study)] == ["wrong"]


def test_claims_of_a_killed_process_are_free_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from ktc.search.records.ledger import Ledger, StudyKey\n"
        f"l = Ledger({str(tmp_path / 'l.db')!r}); s = l.study(StudyKey('recipe', 'H200', 'nvcc-13', 'decode'))\n"
        "print(l.claim(s, {'V': 1}).token, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline().strip() == "1"
    ledger = Ledger(tmp_path / "l.db")
    study = ledger.study(KEY)
    assert ledger.claim(study, {"V": 1}) is None and ledger.claimed(study) == [{"V": 1}]
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert ledger.claimed(study) == []
    claim = ledger.claim(study, {"V": 1})
    assert claim is not None and claim.token == 2
    child.stdout.close()


def test_threads_never_share_a_claim(tmp_path: Path) -> None:
    ledgers = [Ledger(tmp_path / "l.db") for _ in range(4)]
    study = ledgers[0].study(KEY)
    won: list[int] = []

    def grab(ledger: Ledger) -> None:
        won.extend(v for v in range(25) if ledger.claim(study, {"V": v}))

    threads = [threading.Thread(target=grab, args=(ledger,)) for ledger in ledgers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(won) == list(range(25))


def test_rows_cannot_be_changed_or_deleted(ledger: Ledger) -> None:
    record(ledger, ledger.study(KEY), {"V": 1})
    db = sqlite3.connect(ledger.path)
    for statement in (
        "DELETE FROM outcome",
        "UPDATE outcome SET status='ok'",
        "DELETE FROM timing",
        "UPDATE timing SET seconds=1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    db.close()


def test_rounds_do_not_replace_the_first_timing(ledger: Ledger) -> None:
    study = ledger.study(KEY)
    record(ledger, study, {"V": 1})
    record(ledger, study, {"V": 2})
    ledger.record_round(study, "shootout-1", [({"V": 2}, Outcome("ok", {"a": 3e-5}))])
    assert [(r.config, r.outcome.seconds) for r in ledger.outcomes(study, round_="shootout-1")] == [
        ({"V": 2}, {"a": 3e-5})
    ]
    assert [r.outcome for r in ledger.outcomes(study)] == [OK, OK]


def test_durability_settings(ledger: Ledger) -> None:
    assert ledger._store.query("PRAGMA journal_mode")[0][0] == "wal"
    assert ledger._store.query("PRAGMA synchronous")[0][0] == 2  # FULL


def test_a_full_disk_is_an_error_and_loses_nothing(ledger: Ledger) -> None:
    study = ledger.study(KEY)
    record(ledger, study, {"V": 0})
    pages = ledger._store.query("PRAGMA page_count")[0][0]
    ledger._store.query(f"PRAGMA max_page_count={pages + 2}")  # SQLite's own way of running out of space
    written = 1
    with pytest.raises(KtcError) as info:
        for v in range(1, 100):
            record(ledger, study, {"V": v}, Outcome("ok", {"a": 1e-5}, details={"log": "x" * 2000}))
            written += 1
    assert info.value.code == "E-LEDGER-FULL" and info.value.exit_code == 3 and "full" in info.value.message
    assert 1 <= written < 100 and len(ledger.outcomes(study)) == written
    ledger._store.query("PRAGMA max_page_count=100000")
    assert ledger._store.query("PRAGMA integrity_check")[0][0] == "ok"
    after = ledger.claim(study, {"V": 1000})
    assert after and ledger.record(after, OK) and len(ledger.outcomes(study)) == written + 1


def test_a_full_filesystem_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    """The same with the operating system refusing the write: a file size limit, in a process of its own."""
    code = f"""
import resource, signal
from ktc.ir.diagnostics import KtcError
from ktc.search.records.ledger import Ledger, StudyKey
from ktc.search.records.outcome import Outcome
ledger = Ledger({str(tmp_path / "l.db")!r})
study = ledger.study(StudyKey("r", "d", "c", "s"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
done = 0
try:
    for v in range(1000):
        ledger.record(ledger.claim(study, {{"V": v}}), Outcome("ok", {{"a": 1e-5}}, details={{"log": "x" * 1000}}))
        done += 1
except KtcError as err:
    print(done, err.code, err.exit_code)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    done, code_, exit_code = out.stdout.split() or [out.stderr]
    assert code_ in ("E-LEDGER-FULL", "E-LEDGER-IO") and exit_code == "3"
    ledger = Ledger(tmp_path / "l.db")
    assert ledger._store.query("PRAGMA integrity_check")[0][0] == "ok"
    assert len(ledger.outcomes(1)) == int(done) > 0


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"not a database, but long enough to be looked at as one" * 40, "E-LEDGER-FORMAT"), (None, "E-LEDGER-OPEN")],
)
def test_unusable_files(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "l.db" if content else tmp_path / "absent" / "l.db"
    if content:
        path.write_bytes(content)
    with pytest.raises(KtcError) as info:
        Ledger(path)
    assert info.value.code == code and info.value.exit_code == 3


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "l.db")
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(KtcError, match="E-LEDGER-VERSION"):
        Ledger(tmp_path / "l.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_read_only_file(tmp_path: Path) -> None:
    Ledger(tmp_path / "l.db").close()
    os.chmod(tmp_path / "l.db", 0o444)
    with pytest.raises(KtcError, match="E-LEDGER-READONLY"):
        ledger = Ledger(tmp_path / "l.db")
        ledger.claim(ledger.study(KEY), {"V": 1})


def test_config_keys_are_canonical() -> None:
    assert config_key({"b": 2, "a": 1}) == config_key({"a": 1, "b": 2}) == '{"a":1,"b":2}'


def test_outcomes_are_checked() -> None:
    for bad in ({"status": "fine"}, {"status": "ok"}, {"status": "ok", "seconds": {"a": 0.0}}):
        with pytest.raises(ValueError):
            Outcome(**bad)  # type: ignore[arg-type]


def test_the_loser_of_a_race_to_open_a_new_ledger_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite answers busy at once, whatever the time limit, where two connections switch one file to WAL together."""
    refused: list[str] = []

    class Late(sqlite3.Connection):
        def execute(self, sql: str, *args: object) -> sqlite3.Cursor:  # type: ignore[override]
            if "journal_mode" in sql and len(refused) < 2:
                refused.append(sql)
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorname = "SQLITE_BUSY_RECOVERY"  # type: ignore[attr-defined]
                raise error
            return super().execute(sql, *args)  # type: ignore[arg-type]

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Late))
    ledger = Ledger(tmp_path / "l.db")
    assert len(refused) == 2 and ledger.study(KEY) is not None
