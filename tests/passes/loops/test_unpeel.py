"""unpeel: iterations beside a serial loop, taken into it."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.loops.joined_iterations import Joining
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(o: f32* align 16 noalias, q: f32* align 16 noalias, a: f32 const* align 16, n: i32 range 1..64,
    m: i32 range {m}..64)
  launch grid(cdiv(n, 32)) block(32)
  par i in 0..n @ [thread.x 32, block.x]
"""
SIZES = [{"n": n, "m": m} for n, m in ((1, 2), (3, 4), (33, 9))]


def columns(*lines: str, m: int = 2) -> Kernel:
    return parse_kernel(HEAD.format(m=m) + "".join(f"    {line}\n" for line in lines))


def nest(k: Kernel) -> str:
    return body_of(k).split("block.x]\n", 1)[1].replace("\n    ", "\n").removeprefix("    ")


def same(before: Kernel, after: Kernel) -> bool:
    return differs(before, after, SIZES, elements=64 * 16) is None


LOOP = (
    "for z in 1..m - 1",
    "  let here: f32 = a[i + z * n]",
    "  o[i + z * n] = here * 3.0 + (a[i + (z - 1) * n] - a[i + (z + 1) * n])",
)
FIRST = "o[i] = a[i] * 3.0 + (a[i] - a[i + n])"
LAST = ("let end: i32 = i + (m - 1) * n", "o[end] = a[end] * 3.0 + (a[end - n] - a[end])")


def test_clamped_ends_are_indices_that_choose() -> None:
    k = columns(FIRST, *LOOP, *LAST)
    after = applied(k, "unpeel{loop=z}")
    assert nest(after) == (
        "for z in 0..m\n"
        "  o[i + z * n] = a[i + z * n] * 3.0 + (a[z == 0 ? i : i + (z - 1) * n]"
        " - a[z == m - 1 ? i + (m - 1) * n : i + (z + 1) * n])\n"
    )
    assert same(k, after)


def test_other_values_are_chosen_as_a_whole() -> None:
    k = columns("o[i] = a[i]", *LOOP, "o[i + (m - 1) * n] = 0.0")
    after = applied(k, "unpeel{loop=z}")
    assert nest(after).startswith("for z in 0..m\n  o[i + z * n] = z == m - 1 ? 0.0 : z == 0 ? a[i] : ")
    assert same(k, after)


def test_several_statements_an_iteration_and_several_iterations() -> None:
    body = ("  o[i + z * n] = a[i + z * n]", "  if z > 2", "    q[i + z * n] = 1.0")
    k = columns(
        "o[i] = a[i]", "if 0 > 2", "  q[i] = 1.0", "o[i + n] = a[i]", "if 1 > 2", "  q[i + n] = 1.0",
        "for z in 2..m", *body,
    )  # fmt: skip
    after = applied(k, "unpeel{loop=z}")
    assert nest(after).startswith("for z in 0..m\n") and same(k, after)


NOT = {
    "another element": ("o[i + n] = a[i] * 3.0 + (a[i] - a[i + n])",),
    "another array": ("q[i] = a[i] * 3.0 + (a[i] - a[i + n])",),
    "something between": ("o[i] = a[i]", "q[i] = 1.0"),
    "what it reads is stored": ("let t: f32 = q[i]", "q[i] = 0.0", "o[i] = t"),
}


@pytest.mark.parametrize("case", NOT)
def test_what_is_no_iteration_stays(case: str) -> None:
    k = columns(*NOT[case], *LOOP)
    if case == "what it reads is stored":
        after = applied(k, "unpeel{loop=z}")
        assert "z == 0 ? t : " in nest(after) and same(k, after)
    else:
        assert refused(k, "unpeel{loop=z}").code == "E-UNPEEL-NONE"


def test_that_it_stores_the_same_element_is_not_taken_for_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    k = columns(*NOT["another element"], *LOOP)
    monkeypatch.setattr(Joining, "_equal", lambda *_: True)
    assert not same(k, applied(k, "unpeel{loop=z}"))


def test_a_loop_that_may_end_before_it_begins() -> None:
    no = refused(columns(FIRST, *LOOP, m=1), "unpeel{loop=z}")
    assert no.code == "E-UNPEEL-LOOP" and "range" in no.hint


def test_layers_at_the_ends_are_parallel_with_the_others() -> None:
    start = ("var below: f32 = a[i]", "var here: f32 = a[i]", "var above: f32 = a[i + n]")
    value = "here * 3.0 + (below - above)"
    walk = ("below = here", "here = above", "above = a[i + (z + 1) * n]", f"o[i + z * n] = {value}")
    last = ("let under: f32 = here", f"o[i + (m - 1) * n] = {value}".replace("here", "above").replace("below", "under"))
    k = columns(*start, f"o[i] = {value}", "for z in 1..m - 1", *(f"  {line}" for line in walk), *last)
    after = applied(k, "normalise")
    assert "par z in 0..m @ [seq]" in nest(after) and same(k, after)
