"""Grammar tables kept between runs: same parser, and never a reason to fail."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lark
import lark.load_grammar
import pytest
from lark import Lark, Tree

from ktc.ir.support import grammars
from ktc.ir.support.grammars import load_grammar, pass_single_children_on

GRAMMAR = 'start: "a" NUMBER [NUMBER]\nNUMBER: /[0-9]+/\n%ignore " "\n'


@pytest.fixture
def grammar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "g.lark"
    path.write_text(GRAMMAR)
    return path


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "grammars").glob("*.tables*"))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The grammars that lark reads, of which it builds tables then."""
    read: list[str] = []

    def slow(grammar: str, *others: Any) -> Any:
        read.append(grammar)
        time.sleep(0.3)
        return lark.load_grammar.load_grammar(grammar, *others)

    monkeypatch.setattr(lark.lark, "load_grammar", slow)
    return read


def test_tables_are_kept_and_parse_the_same(grammar: Path, tmp_path: Path, built: list[str]) -> None:
    first = load_grammar(grammar, "start").parse("a 1")
    assert [p.suffix for p in kept(tmp_path)] == [".tables"]
    again = load_grammar(grammar, "start").parse("a 1")
    assert first == again and again.meta.line == 1 and built == [GRAMMAR]


def test_who_needs_what_another_builds_waits_for_it(grammar: Path, built: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        parsers = list(pool.map(lambda _: load_grammar(grammar, "start"), range(4)))
    assert built == [GRAMMAR]
    assert all(p.parse("a 1").children == parsers[0].parse("a 1").children for p in parsers)


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


def described(tree: Tree) -> tuple:
    """A tree with all its places."""
    place = {name: getattr(tree.meta, name, None) for name in ("line", "column", "end_line", "end_column", "start_pos")}
    return tree.data, place, [described(c) if isinstance(c, Tree) else (c, c.type) for c in tree.children]


def test_single_children_are_passed_on_with_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))
    grammar = tmp_path / "sums.lark"
    grammar.write_text(
        '?start: sum\n?sum: product | sum "+" product -> add\n?product: atom | product "*" atom -> mul\n'
        '?atom: NUMBER -> number | "(" start ")"\nNUMBER: /[0-9]+/\n%ignore /\\s+/\n'
    )
    quick = load_grammar(grammar, "start")
    plain = Lark(grammar.read_text(), parser="lalr", propagate_positions=True)
    assert pass_single_children_on(plain) == 3, "lark keeps its rules elsewhere, or they look otherwise"
    plain = Lark(grammar.read_text(), parser="lalr", propagate_positions=True)
    for text in ("1", "1 + 2", "(1)", "\n ( 1 + 2 )\n * 3 + (4 * (5))", "((7 * 8)) + 1"):
        assert described(quick.parse(text)) == described(plain.parse(text)), text
