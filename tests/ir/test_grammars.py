"""Grammar tables kept between runs: same parser, and never a reason to fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from ktc.ir import grammars
from ktc.ir.grammars import load_grammar

GRAMMAR = 'start: "a" NUMBER [NUMBER]\nNUMBER: /[0-9]+/\n%ignore " "\n'


@pytest.fixture
def grammar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "g.lark"
    path.write_text(GRAMMAR)
    return path


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "grammars").glob("*"))


def test_tables_are_kept_and_parse_the_same(grammar: Path, tmp_path: Path) -> None:
    first = load_grammar(grammar, "start").parse("a 1")
    assert [p.suffix for p in kept(tmp_path)] == [".tables"]
    again = load_grammar(grammar, "start").parse("a 1")
    assert first == again and again.meta.line == 1


def test_another_grammar_has_other_tables(grammar: Path, tmp_path: Path) -> None:
    load_grammar(grammar, "start")
    grammar.write_text(GRAMMAR.replace('"a"', '"b"'))
    assert load_grammar(grammar, "start").parse("b 1") is not None
    assert len(kept(tmp_path)) == 2


def test_a_damaged_file_is_rebuilt(grammar: Path, tmp_path: Path) -> None:
    load_grammar(grammar, "start")
    for junk in (b"", b"not a pickle", kept(tmp_path)[0].read_bytes()[:-20]):
        kept(tmp_path)[0].write_bytes(junk)
        assert load_grammar(grammar, "start").parse("a 1") is not None


def test_a_folder_others_can_write_is_not_trusted(grammar: Path, tmp_path: Path) -> None:
    load_grammar(grammar, "start")
    (tmp_path / "cache" / "grammars").chmod(0o777)
    assert grammars._private_folder() is None
    assert load_grammar(grammar, "start").parse("a 1") is not None


def test_no_folder_is_no_failure(grammar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "file"))
    assert load_grammar(grammar, "start").parse("a 1") is not None
