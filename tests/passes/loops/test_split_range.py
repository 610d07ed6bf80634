"""split-range: a loop for each part of a range, wherever the cut is; refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.ir.fold import add
from ktc.ir.nodes import Const, Decl
from ktc.ir.text import parse_kernel
from ktc.ir.text.printer import print_expr
from ktc.ir.types import I32
from ktc.ir.walk import map_body
from ktc.passes.loops import split_range
from tests.passes.checks import applied, body_of, differs, refused

HEAD = (
    "kernel k(y: f32* restrict, a: f32 const* restrict, b: f32 const* restrict, n: i32 range 1..64, m: {m}, w: i64)\n"
    "  launch grid(3) block(8)\n  par r in 0..3 @ [block.x]\n"
)


def text(body: str, m: str = "i32", lo: str = "0", levels: str = "thread.x 8, seq") -> str:
    return f"{HEAD.format(m=m)}    par i in {lo}..n @ [{levels}]\n{body}"


def choice(cond: str) -> str:
    return f"      if {cond}\n        y[r * n + i] = a[i] * b[i]\n      else\n        y[r * n + i] = a[r * n + i]\n"


HALVES = choice("i < m")
CASES = {
    "below": text(HALVES),
    "up to": text(choice("i <= m")),
    "from": text(choice("i >= m")),
    "beyond": text(choice("m < i")),
    "of unsigned numbers": text(choice("i as u32 < m"), "u32"),
    "wider": text(choice("i as i64 >= m as i64 * 2_i64")),
    "one part alone": text("      if i < m\n        y[r * n + i] = a[i]\n"),
    "among other things": text(
        "      let v: f32 = a[i]\n      var s: f32 = b[i]\n      if i > m\n        s = s * v\n"
        "      y[r * n + i] = s + v\n"
    ),
    "not from the start": text(choice("i < m"), lo="min(3, n)"),
}
SIZES = [{"n": n, "m": m, "w": 5} for n in (1, 8, 13, 40) for m in (0, 1, 7, 13, 50)]


def test_before_and_after() -> None:
    body = body_of(applied(parse_kernel(CASES["below"]), "split-range{loop=i}"))
    assert body[body.index("    let cut") :] == (
        "    let cut: i32 = max(0_i64, min(m, n as i64))\n"
        "    par i in 0..cut @ [thread.x 8, seq]\n"
        "      y[r * n + i] = a[i] * b[i]\n"
        "    par i_1 in cut..n @ [thread.x 8, seq]\n"
        "      y[r * n + i_1] = a[r * n + i_1]\n"
    )


@pytest.mark.parametrize("case", CASES)
def test_every_iteration_runs_once(case: str) -> None:
    before = parse_kernel(CASES[case])
    assert differs(before, applied(before, "split-range{loop=i}"), SIZES, 600) is None


@pytest.mark.parametrize("m", [-3, -1])
def test_a_limit_below_the_range(m: int) -> None:
    before = parse_kernel(CASES["below"])
    assert differs(before, applied(before, "split-range{loop=i}"), [{"n": 13, "m": m, "w": 5}]) is None


def test_elements_of_a_part_are_moved_together() -> None:
    source = text(choice("i < m")).replace("restrict", "restrict align 16")
    after = applied(parse_kernel(source), "split-range{loop=i} | distribute{loop=i.* map=[vec 4, thread.x 4, seq]}")
    sizes = [{"n": n, "m": m, "w": 5} for n, m in ((8, 4), (16, 16), (40, 0), (40, 20))]
    assert differs(parse_kernel(source), after, sizes) is None


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (text("      y[r * n + i] = a[i]\n"), "E-SPLIT-CONDITION"),
        (text(choice("a[i] < 1.0")), "E-SPLIT-CONDITION"),  # data
        (text(choice("i % 2 < m")), "E-SPLIT-CONDITION"),  # not in order
        (text(choice("i < i32(b[r])")), "E-SPLIT-CONDITION"),  # memory
        (text("      let e: i32 = i / 2\n" + choice("i < e")), "E-SPLIT-CONDITION"),  # another for each
        (text(choice("i as i64 < w")), "E-SPLIT-CONDITION"),  # may be the last of 64 bits
        (text(choice("i as u32 < m"), "u32", lo="m as i32 - 8"), "E-SPLIT-CONDITION"),  # below 0 a large number
        (text(choice("i as u8 < m as u8")), "E-SPLIT-CONDITION"),  # not the variable's value
        (text(HALVES, levels="thread.x 8, block.y").replace("grid(3)", "grid(3, 8)"), "E-SPLIT-LOOP"),
        (text(HALVES + "      barrier\n"), "E-SPLIT-ORDER"),
    ],
)
def test_refusals(source: str, code: str) -> None:
    assert refused(parse_kernel(source), "split-range{loop=i}").code == code


def test_a_cut_one_off_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = split_range._split

    def later(s):
        return replace(s, init=add(s.init, Const(1, I32))) if isinstance(s, Decl) and s.sym.name == "cut" else s

    def wrong(loop, facts, within):
        body, limit = right(loop, facts, within)
        return map_body(body, later), limit

    monkeypatch.setattr(split_range, "_split", wrong)
    before = parse_kernel(CASES["below"])
    assert differs(before, applied(before, "split-range{loop=i}"), SIZES) is not None


def test_a_limit_in_the_range_is_the_cut() -> None:
    before = parse_kernel(CASES["below"])
    after = applied(before, "split-range{loop=i within=yes}")
    assert "let cut: i32 = m\n" in body_of(after)
    assert [print_expr(a.expr).replace(" as i64", "") for a in after.assumptions] == ["m >= 0_i64", "n >= m"]
    assert differs(before, after, [{"n": n, "m": m, "w": 5} for n in (8, 13, 40) for m in (0, 1, 7, 8)]) is None


def test_a_limit_that_is_not_known_at_launch_is_clipped() -> None:
    source = text(choice("i < r * 3"))
    assert refused(parse_kernel(source), "split-range{loop=i within=yes}").code == "E-SPLIT-LAUNCH"
    before = parse_kernel(source)
    assert differs(before, applied(before, "split-range{loop=i}"), SIZES) is None


def test_sites() -> None:
    kernel = parse_kernel(CASES["below"])
    (site,) = split_range.SplitRange().sites(kernel)
    assert str(site.step) == "split-range{loop=i within=yes}"
    assert split_range.SplitRange().sites(applied(kernel, "split-range{loop=i}")) == []
    (site,) = split_range.SplitRange().sites(parse_kernel(text(choice("i < r * 3"))))
    assert str(site.step) == "split-range{loop=i}"
