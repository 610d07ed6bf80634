"""Outcomes of raising on disk: the same to the byte as fresh ones, and nothing that is damaged or somebody else's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.support.time_limits import until
from ktc.ir.text import print_kernel
from ktc.ir.text.plain_kernels import Reader, Writer
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising import outcome_cache
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.reduction_sources import TREE_BACKWARDS
from tests.passes.raising.test_raise_budget import COPY

RACE = COPY.replace("y[i] = x[i]", "y[i] = x[i] + y[i + 1]")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and how often something was raised afresh in ``attempts``."""
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    monkeypatch.setenv("KTC_RAISE_CACHE", "on")
    return tmp_path / "raised"


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    attempt, made = Raise._attempt, list[Kernel]()
    monkeypatch.setattr(Raise, "_attempt", lambda self, k, launch: made.append(k) or attempt(self, k, launch))
    return made


def outcome(text: str) -> Result | Refused:
    return Raise().run(load(text, name="source.cu"))


@pytest.mark.parametrize("text", [COPY, TREE_BACKWARDS])
def test_a_kernel_raised_before_is_the_same_kernel(text: str, folder: Path, attempts: list[Kernel]) -> None:
    source = load(text, name="source.cu")
    fresh, again = outcome(text), Raise().run(source)
    assert len(attempts) == 1 and len(list(folder.glob("*.json"))) == 1
    assert isinstance(fresh, Result) and isinstance(again, Result)
    assert print_kernel(again.kernel) == print_kernel(fresh.kernel) and again.notes == fresh.notes
    assert [s.loc for s in walk(again.kernel.body)] == [s.loc for s in walk(fresh.kernel.body)]
    assert [p.sym for p in again.kernel.params] == [p.sym for p in source.params], "its parameters are the source's"
    assert Writer().plain(again.kernel) == Writer().plain(fresh.kernel)


def test_kernels_that_differ_in_alignments_alone_are_raised_once(folder: Path, attempts: list[Kernel]) -> None:
    source = load(COPY, name="source.cu")
    p, *others = source.params
    aligned = dataclasses.replace(p, align=16, origins=(("align", "guessed"),))
    weak = dataclasses.replace(p, align=4)
    plain, wide, narrow = (Raise().run(source.with_(params=(q, *others))) for q in (p, aligned, weak))
    assert len(attempts) == 2, "an alignment that accesses may be too wide for counts"
    assert all(isinstance(r, Result) for r in (plain, wide, narrow))
    assert wide.kernel.body == plain.kernel.body and wide.kernel.params[0] == aligned
    assert plain.kernel.params[0].align == 0 and narrow.kernel.params[0].align == 4


def test_a_refusal_is_kept_with_its_reason(folder: Path, attempts: list[Kernel]) -> None:
    first, second = outcome(RACE), outcome(RACE)
    assert isinstance(first, Refused) and second == first and len(attempts) == 1


@pytest.mark.parametrize("damage", [b"", b"{}", b"x\n[]", None])
def test_a_damaged_entry_is_none(damage: bytes | None, folder: Path, attempts: list[Kernel]) -> None:
    first = outcome(COPY)
    (entry,) = folder.glob("*.json")
    data = entry.read_bytes()
    entry.write_bytes(data[:-40] + b"9" + data[-39:] if damage is None else damage)
    second = outcome(COPY)
    assert isinstance(first, Result) and isinstance(second, Result) and len(attempts) == 2
    assert print_kernel(first.kernel) == print_kernel(second.kernel) and entry.read_bytes() == data


def test_other_facts_places_and_code_are_other_entries(
    folder: Path, attempts: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(COPY)
    outcome("\n" + COPY)  # its notes name other lines
    outcome(COPY.replace("const float* x", "const float* __restrict__ x"))
    assert len(attempts) == 3
    monkeypatch.setattr(outcome_cache, "_code", lambda: "another version")
    outcome(COPY)
    assert len(attempts) == 4


def test_it_can_be_switched_off_and_a_folder_of_others_is_not_read(
    folder: Path, attempts: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(COPY)
    monkeypatch.setenv("KTC_RAISE_CACHE", "off")
    outcome(COPY)
    assert len(attempts) == 2
    monkeypatch.setenv("KTC_RAISE_CACHE", "on")
    folder.chmod(0o777)
    outcome(COPY)
    assert len(attempts) == 3


def test_it_may_lie_elsewhere(
    folder: Path, attempts: list[Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(COPY)
    monkeypatch.setenv("KTC_RAISE_CACHE", str(tmp_path / "other"))
    outcome(COPY)
    outcome(COPY)
    assert len(attempts) == 2 and len(list((tmp_path / "other" / "raised").glob("*.json"))) == 1


def test_kernels_of_the_library_come_back_as_they_are(root: Path) -> None:
    """Every field of every node: numbers of every kind, types of arrays, places, comments."""
    import ktc

    for path in sorted((root / "kernels").rglob("kernel.cu")):
        kernel = ktc.load(str(path.parent)).kernel
        writer = Writer()
        plain = writer.plain(kernel)
        back = Reader().value(plain)
        assert Writer().plain(back) == plain and print_kernel(back) == print_kernel(kernel)
        assert back.loc == kernel.loc and back.comments == kernel.comments
        assert Reader(writer.symbols).value(Writer(writer.symbols).plain(kernel)) == kernel


def test_what_the_clock_stopped_is_kept_by_nobody(folder: Path, attempts: list[Kernel]) -> None:
    """Who has no time is told so, as often as they ask; who has time gets all that there is."""
    source = load(COPY, name="source.cu")
    with until(0.0):
        cut = [Raise().run(source) for _ in range(2)]
    assert all(isinstance(c, Refused) and c.code == "E-RAISE-TIME" for c in cut) and len(attempts) == 1
    assert not list(folder.glob("*.json"))
    assert isinstance(Raise().run(source), Result) and len(attempts) == 2
    with until(0.0):
        assert isinstance(Raise().run(source), Result), "it is known by now"
