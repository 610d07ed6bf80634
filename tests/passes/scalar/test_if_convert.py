"""if-convert: branches that only choose values, as choices."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.scalar import if_convert
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: i32* restrict, x: i32 const* restrict, n: i32 range 0..40, d: i32)\n  par r in 0..4 @ [block.x]\n"
LOOP = "    var a: i32 = 0\n    var b: i32 = 1\n    for i in 0..n\n      let v: i32 = x[i] + r\n"
END = "    y[2 * r] = a\n    y[2 * r + 1] = b\n"
SIZES = [{"n": n, "d": 3} for n in (0, 1, 5, 40)]


def text(branch: str) -> str:
    return f"{HEAD}{LOOP}{branch}{END}"


COUNTS = text("      if v == 3\n        a += 1\n      elif v == 4\n        b += 1\n      elif v == 5\n        a += 2\n")
SWAP = text("      if v > a\n        b = a\n        a = v\n      else\n        b = max(b, v)\n")
TURN = text("      if v > 0\n        let w: i32 = a\n        a = b\n        b = w\n")
THREE = text(
    "      if v < a\n        e = b\n        b = a\n        a = v\n      elif v < b\n        e = b\n        b = v\n"
    "      elif v < e\n        e = v\n"
).replace("    var a: i32 = 0\n", "    var a: i32 = 0\n    var e: i32 = 9\n")
LOCAL = text(
    "      if v > 2\n        let w: i32 = v * v\n        if w < 30\n          a += w\n      else\n        b = b ^ v\n"
)
FRESH = text("      var c: i32 = 7\n      if v < 0\n        c = v\n      a += c\n")


def test_before_and_after() -> None:
    body = body_of(applied(parse_kernel(COUNTS), "if-convert{loop=i}"))
    assert "      a = v == 3 ? a + 1 : v == 5 ? a + 2 : a\n      b = v == 4 ? b + 1 : b\n" in body


def test_what_reads_a_variable_is_assigned_before_it_changes() -> None:
    body = body_of(applied(parse_kernel(SWAP), "if-convert{loop=i}"))
    assert body[body.index("      let when") : body.index("    y[")] == (
        "      let when: bool = v > a\n      b = when ? a : max(b, v)\n      a = when ? v : a\n"
    )


def test_variables_that_see_each_other_change_together() -> None:
    body = body_of(applied(parse_kernel(TURN), "if-convert{loop=i}"))
    assert "var b_new: i32 = v > 0 ? a : b" in body.replace("when", "v > 0")
    assert body.index("a_new: i32") < body.index("      b = b_new\n")


def test_a_condition_is_asked_once() -> None:
    """The three smallest: a compiler is left choices between values that are there."""
    body = body_of(applied(parse_kernel(THREE), "if-convert{loop=i}"))
    assert body.count("v < ") == 3
    assert "e = when || when_1 ? b : v < e ? v : e" in body


def test_choices_that_rarely_change_anything_stay_behind_a_branch() -> None:
    body = body_of(applied(parse_kernel(THREE), "if-convert{loop=i skip=yes}"))
    assert "      if when || when_1 || when_2\n        e = when || when_1 ? b : when_2 ? v : e\n" in body


def test_where_something_always_changes_there_is_no_branch() -> None:
    assert "if " not in body_of(applied(parse_kernel(SWAP), "if-convert{loop=i skip=yes}"))


@pytest.mark.parametrize("kernel", ["COUNTS", "SWAP", "TURN", "THREE", "LOCAL", "FRESH", "BOTH"])
def test_meaning_stays_behind_a_branch(kernel: str) -> None:
    before = parse_kernel(globals()[kernel])
    assert differs(before, applied(before, "if-convert{loop=i skip=yes}"), SIZES) is None


def test_a_change_that_is_skipped_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = if_convert._changes
    monkeypatch.setattr(if_convert, "_changes", lambda values: whole(values).a.a)
    before = parse_kernel(THREE)
    assert differs(before, applied(before, "if-convert{loop=i skip=yes}"), SIZES) is not None


def test_a_variable_is_declared_as_what_it_is() -> None:
    assert "var c: i32 = v < 0 ? v : 7\n" in body_of(applied(parse_kernel(FRESH), "if-convert{loop=i}"))


@pytest.mark.parametrize("kernel", [COUNTS, SWAP, TURN, THREE, LOCAL, FRESH])
def test_meaning_stays(kernel: str) -> None:
    before = parse_kernel(kernel)
    after = applied(before, "if-convert{loop=i}")
    assert "if " not in body_of(after)
    assert differs(before, after, SIZES) is None


@pytest.mark.parametrize(
    "branch",
    [
        "      a += v\n",
        "      if v > 2\n        y[0] = 1\n",
        "      if v > 2\n        a = x[v]\n",
        "      if v > 2\n        a = v / d\n",
        "      if v > 2\n        break\n",
        "      if v > 2\n        for z in 0..v\n          a += z\n",
        "      if x[i] > 2\n        a = 1\n",
    ],
)
def test_refusals(branch: str) -> None:
    assert refused(parse_kernel(text(branch)), "if-convert{loop=i}").code == "E-CONVERT-NONE"


def test_what_other_loops_hold_is_left_alone() -> None:
    nested = text("      for z in 0..3\n        if v > z\n          a += 1\n")
    assert refused(parse_kernel(nested), "if-convert{loop=i}").code == "E-CONVERT-NONE"
    assert "a = v > z ? a + 1 : a" in body_of(applied(parse_kernel(nested), "if-convert{loop=z}"))


def test_sites() -> None:
    (site,) = if_convert.IfConvert().sites(parse_kernel(COUNTS))
    assert str(site.step) == "if-convert{loop=i}"
    assert if_convert.IfConvert().sites(parse_kernel(text("      a += v\n"))) == []


BOTH = text("      if v > 3\n        a += 1\n      elif v > 1\n        b += 5\n")


def test_conditions_that_do_not_exclude_each_other_are_both_asked() -> None:
    before = parse_kernel(BOTH)
    assert differs(before, applied(before, "if-convert{loop=i}"), SIZES) is None


def test_a_condition_that_is_not_asked_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(if_convert, "_exclude", lambda c, d: True)
    before = parse_kernel(BOTH)
    assert differs(before, applied(before, "if-convert{loop=i}"), SIZES) is not None


TAPS = text("      if i > 1\n        a += x[i - 2] * x[0]\n")
READS_THERE = [
    text("      if v > 1\n        a = x[a]\n        b = x[a]\n"),
    text("      if v > 1\n        let at: i32 = v % 2\n        a = x[at]\n"),
    text("      if v > 1\n        a = v > 2 ? x[0] : 0\n"),
    text("      if v > 1\n        if v > 2\n          a = x[0]\n"),
    text("      if v > 1\n        a = x[0]\n      else\n        a = 2\n"),
]
"""At places that the branch computes, or where it asks more; and what has another side."""


def test_what_a_branch_reads_is_read_where_its_condition_holds() -> None:
    before = parse_kernel(TAPS)
    assert refused(before, "if-convert{loop=i}").code == "E-CONVERT-NONE"
    done = applied(before, "if-convert{loop=i loads=yes}")
    assert (
        "      let when: bool = i > 1\n      let x_at: i32 = when ? x[i - 2] : 0\n"
        "      let x_at_1: i32 = when ? x[0] : 0\n      a = when ? a + x_at * x_at_1 : a\n"
    ) in body_of(done)
    assert differs(before, done, SIZES) is None


@pytest.mark.parametrize("source", READS_THERE)
def test_reads_that_hang_on_more_than_the_condition_stay(source: str) -> None:
    assert refused(parse_kernel(source), "if-convert{loop=i loads=yes}").code == "E-CONVERT-NONE"
