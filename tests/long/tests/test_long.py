"""The second tier: rows of the same code are taken over, others are run; figures come from what campaigns print."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tests.long.__main__ as long
from tests import code_hash
from tests.fuzz.__main__ import _known as known_chunks
from tests.fuzz.__main__ import _note
from tests.long.parts import PARTS, Part, Settings, last_document, of
from tests.mutation.campaign import _known as known_records
from tests.mutation.campaign import _write


def settings(folder: Path) -> Settings:
    return Settings(seed=1, jobs=1, scale=0.01, folder=folder, suites=None, corpora=None)


def counting(log: Path, code: int = 0) -> Part:
    """A campaign that leaves a mark each time it runs."""
    program = f"open({str(log)!r}, 'a').write('x'); print('noise'); print('{{\"cases\": 3}}'); raise SystemExit({code})"
    return Part("counting", "", ("tests/long",), lambda p, s: [sys.executable, "-c", program], of("cases"))


def test_a_row_of_this_code_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, book = tmp_path / "log", tmp_path / "rows.jsonl"
    part = counting(log)
    first = long.row_of(part, settings(tmp_path), [], book)
    assert first["ok"] is True and first["figures"] == {"cases": 3}
    again = long.row_of(part, settings(tmp_path), long.known(book), book)
    assert again["note"] == "known" and log.read_text() == "x"
    monkeypatch.setattr(long, "code_hash", lambda *own: "another")
    other = long.row_of(part, settings(tmp_path), long.known(book), book)
    assert other["code"] == "another" and log.read_text() == "xx"
    assert "| counting | cases 3 | yes |" in long.table([other])


def test_what_fails_is_no_success(tmp_path: Path) -> None:
    row = long.row_of(counting(tmp_path / "log", code=1), settings(tmp_path), [], tmp_path / "rows.jsonl")
    assert row["ok"] is False and "**no**" in long.table([row])


SLOW = """
import signal, sys, time
def said(*_):
    print('{"cases": 2}')
    sys.exit(0)
signal.signal(signal.SIGTERM, said)
print("begun", flush=True)
time.sleep(60)
"""


def test_a_part_that_takes_too_long_says_what_it_has_found() -> None:
    part = Part("slow", "", ("tests/long",), lambda p, s: [sys.executable, "-c", SLOW], of("cases"), minutes=1)
    ok, figures, note = long.run(part.command(part, settings(Path())), 1.0, part)
    assert ok and figures == {"cases": 2} and note == "stopped after 1 s"


def test_parts_without_their_trees_say_so(tmp_path: Path) -> None:
    absent = [p for p in PARTS if p.needs is not None]
    assert absent
    for part in absent:
        row = long.row_of(part, settings(tmp_path), [], tmp_path / "rows.jsonl")
        assert row["ok"] is None and "not run" in str(row["note"])


def test_every_part_names_code_that_exists_and_a_command(tmp_path: Path) -> None:
    for part in PARTS:
        assert len(code_hash.code_hash(*part.own)) == 16
        assert all((code_hash.ROOT / p).exists() for p in part.own)
        if part.needs is None:
            assert part.command(part, settings(tmp_path))[:2] == [sys.executable, "-m"]


def test_documents_are_found_among_other_lines() -> None:
    assert last_document('a\n{"x": 1}\n{"x": 2}\n') == {"x": 2}
    assert last_document('{\n "x": [1, 2]\n}\n') == {"x": [1, 2]}
    assert of("x")('{"x": [1, 2]}') == {"x": 2}
    assert last_document("nothing") == {}


def test_a_campaigns_log_is_read_for_this_code_alone(tmp_path: Path) -> None:
    log = tmp_path / "mutation.jsonl"
    mine = {"type": "subject", "subject": 1, "status": "TESTED"}
    _write(log, [mine])
    stale = json.loads(log.read_text()) | {"subject": 2, "code": "another"}
    with log.open("a") as f:
        f.write(json.dumps(stale) + "\n" + json.dumps({**mine, "subject": 3}) + "\n")
    assert [r["subject"] for r in known_records(log)] == [1]


def test_chunks_of_a_fuzzers_log_are_of_this_code_and_whole(tmp_path: Path) -> None:
    log, how = str(tmp_path / "fuzz.jsonl"), {"chunk": 40, "scripts": 20}
    chunk = {"counts": {"drawn": 40}, "failures": []}
    _note(log, {"seed": 1, **how, "whole": True, **chunk})
    _note(log, {"seed": 2, **how, "whole": False, **chunk})
    _note(log, {"seed": 3, **how, "scripts": 8, "whole": True, **chunk})
    stale = {"seed": 4, **how, "whole": True, **chunk, "code": "another"}
    with Path(log).open("a") as f:
        f.write(json.dumps(stale) + "\n" + '{"seed": 5, ')
    assert list(known_chunks(log, how)) == [1]


def test_the_hash_follows_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "a.py").write_text("1")
    monkeypatch.setattr(code_hash, "ROOT", tmp_path)
    plain = code_hash.code_hash.__wrapped__
    before = plain("ir")
    (tmp_path / "ir" / "notes.md").write_text("no code")
    assert plain("ir") == before
    (tmp_path / "ir" / "a.py").write_text("2")
    assert plain("ir") != before
