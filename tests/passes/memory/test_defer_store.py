"""defer-store: sweeps that write a row only to read it back, what is left of them, and what is refused."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.memory import defer_store
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32*, x: f32*, n: i32 range 1..64, c: i32 range 1..64)
  launch grid(n) block(1)
  par r in 0..n @ [block.x]
    var s: f32 = 1.0
    var m: f32 = 2.0
"""
SIZES = [{"n": n, "c": c} for n, c in ((1, 1), (3, 5), (2, 32), (2, 33))]
IN_PLACE = (
    "for j in 0..c",
    "  x[r * c + j] = x[r * c + j] * m",
    "  s += x[r * c + j]",
    "s = s * 0.5",
    "for j in 0..c",
    "  let i: i32 = r * c + j",
    "  x[i] = x[i] * s",
)
BESIDE = tuple(line.replace("x[r * c + j] = x", "y[r * c + j] = x").replace("s += x", "s += y").replace("x[i]", "y[i]")
               for line in IN_PLACE)  # fmt: skip


def rows(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"    {line}\n" for line in lines))


def test_before_and_after() -> None:
    k = applied(rows(*IN_PLACE), "defer-store{array=x}")
    assert (
        body_of(k).split("var m: f32 = 2.0\n")[1]
        == """\
    for j in 0..c
      let x_1: f32 = x[r * c + j] * m
      s += x_1
    s *= 0.5
    for j_1 in 0..c
      let x_2: f32 = x[r * c + j_1] * m
      let i: i32 = r * c + j_1
      x[i] = x_2 * s
"""
    )
    assert differs(rows(*IN_PLACE), k, SIZES, elements=200) is None


@pytest.mark.parametrize("lines", [IN_PLACE, BESIDE], ids=["in place", "beside"])
def test_the_sweeps_are_plain_ones_then(lines: tuple[str, ...]) -> None:
    before, array = rows(*lines), "x" if lines is IN_PLACE else "y"
    assert refused(before, "parallelize{loop=j}").code == "E-PARALLEL-CARRIED"
    spread = "parallelize{loop=j.* map=[thread.x 8, unroll 8]}"
    k = applied(before, f"defer-store{{array={array}}} | {spread}")
    assert differs(before, k, SIZES, elements=200) is None
    kept = applied(before, f"defer-store{{array={array}}} | {spread} | row-cache{{loop=j.* where=registers}}")
    assert differs(before, kept, SIZES, elements=200) is None


def test_the_site_applies_and_there_is_none_twice() -> None:
    (site,) = defer_store.DeferStore().sites(rows(*IN_PLACE))
    assert defer_store.DeferStore().sites(applied(rows(*IN_PLACE), str(site.step))) == []


def test_parallel_sweeps_and_reductions() -> None:
    before = rows(
        "reduce(+) t: f32 = 0.0 over j in 0..c @ [thread.x 8, seq]",
        "  let v: f32 = x[r * c + j] + 1.0",
        "  y[r * c + j] = v",
        "  yield v * y[r * c + j]",
        "par j in 0..c @ [thread.x 8, seq]",
        "  y[r * c + j] = y[r * c + j] - t",
    )
    k = applied(before, "defer-store{array=y}")
    assert body_of(k).count("y[") == 1 and differs(before, k, SIZES, elements=200) is None


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (4, "for j in 0..c - 1", "E-DEFER-USE"),  # the last element would not be written
        (4, "for j in 1..c", "E-DEFER-USE"),
        (3, "m = x[0]", "E-DEFER-USE"),  # read on the way
        (3, "m = 3.0", "E-DEFER-USE"),  # the value would be another one
        (3, "x[r * c] = 3.0", "E-DEFER-USE"),
        (6, "  x[i] = x[i] * s + x[0]", "E-DEFER-USE"),  # what another iteration left
        (6, "  x[c - 1 - j] = x[i] * s", "E-DEFER-USE"),
        (2, "  s += x[r * c + c - 1 - j]", "E-DEFER-USE"),
        (1, "  x[r * c] = x[r * c + j] * m", "E-DEFER-USE"),  # the last iteration's stays
        (1, "  x[r * c + j] = s * m", "E-DEFER-USE"),  # a running value
        (6, "  y[i] = x[i] * s", "E-DEFER-NONE"),
    ],
)
def test_refusals(old: int, new: str, code: str) -> None:
    lines = [new if k == old else line for k, line in enumerate(IN_PLACE)]
    assert refused(rows(*lines), "defer-store{array=x}").code == code


def test_a_store_under_a_condition_stays() -> None:
    lines = [*IN_PLACE[:6], "  if x[i] > 0.0", "    x[i] = x[i] * s"]
    assert refused(rows(*lines), "defer-store{array=x}").code == "E-DEFER-USE"
    moving = [*IN_PLACE[:5], "  y[r * c + j] = 0.0", *IN_PLACE[5:]]
    other = [line.replace("x[r * c + j] * m", "y[r * c + j] * m") for line in moving]
    assert refused(rows(*other), "defer-store{array=x}").code == "E-DEFER-USE"


def test_a_sweep_that_is_left_early_keeps_its_stores() -> None:
    lines = [*IN_PLACE[:2], "  if s > 5.0", "    break", *IN_PLACE[2:]]
    assert refused(rows(*lines), "defer-store{array=x}").code == "E-DEFER-USE"


def test_a_forgotten_condition_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defer_store._Detour, "why_not", lambda self: "")
    lines = [*IN_PLACE[:3], "m = 3.0", *IN_PLACE[4:]]
    wrong = applied(rows(*lines), "defer-store{array=x}")
    assert differs(rows(*lines), wrong, SIZES, elements=200) is not None


FURTHER = (
    "for j in 0..r + 1",
    "  y[r * c + j] = x[r * c + j] * m",
    "for i in 0..c",
    "  y[r * c + i] = {asked} ? y[r * c + i] * s : 0.0",
)
SQUARE = HEAD.replace("  par r in 0..n @ [block.x]", "  assume n == c origin declared\n  par r in 0..n @ [block.x]")


def further(asked: str, head: str = SQUARE) -> Kernel:
    return parse_kernel(head + "".join(f"    {line.format(asked=asked)}\n" for line in FURTHER))


@pytest.mark.parametrize("asked", ["i <= r", "i < r + 1", "r >= i && m > 0.0"])
def test_a_sweep_that_goes_further_and_asks_first(asked: str) -> None:
    """What the first sweep stored is computed where it was read, behind the question; of the first nothing is left."""
    before = further(asked)
    k = applied(before, "defer-store{array=y}")
    assert body_of(k).count("for ") == 1 and f"{asked} ? x[r * c + i] * m * s : 0.0" in body_of(k)
    assert differs(before, k, [{"n": n, "c": n} for n in (1, 2, 9)], elements=200) is None


@pytest.mark.parametrize("asked", ["i < r + 2", "m > 0.0", "i <= r || m > 0.0"])
def test_a_sweep_that_goes_further_must_ask_for_the_first_ones_range(asked: str) -> None:
    assert refused(further(asked), "defer-store{array=y}").code == "E-DEFER-USE"


def test_a_sweep_that_may_end_before_the_first_one_is_refused() -> None:
    done = refused(further("i <= r", HEAD), "defer-store{array=y}")
    assert done.code == "E-DEFER-USE" and "different ranges" in str(done)
