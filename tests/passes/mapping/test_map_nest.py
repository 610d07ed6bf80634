"""map: the levels of a whole nest in one step, judged at its end alone."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.pipeline import sites
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32* align 16, x: f32 const* align 16, n: i32 range 1..64, c: i32 range 1..64)
  launch grid(cdiv(n, 64)) block(64)
  par i in 0..n @ [thread.x 64, block.x]
"""
SIZES = [{"n": n, "c": c} for n, c in ((1, 1), (3, 5), (65, 32), (2, 33))]


def rows(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"    {line}\n" for line in lines))


COPIED = rows("for j in 0..c", "  y[i * c + j] = x[i * c + j] * 2.0")
SUMMED = rows(
    "var s: f32 = 0.0", "for j in 0..c", "  s += x[i * c + j]", "for j in 0..c", "  y[i * c + j] = x[i * c + j] - s"
)


def test_threads_move_from_one_loop_to_another_in_one_step() -> None:
    k = applied(COPIED, "map{i=[block.x] j=[thread.x $T:32, seq]}")
    assert "par i in 0..n @ [block.x]" in body_of(k) and "par j in 0..c @ [thread.x $T, seq]" in body_of(k)
    assert differs(COPIED, k, SIZES, elements=2200, knobs={"T": 32}) is None
    why = refused(COPIED, "parallelize{loop=j map=[thread.x $T:32, seq]}")
    assert why.code == "E-DIST-NEST"  # which is why it is one step


def test_all_sweeps_of_a_row_at_once_and_sums_are_reductions() -> None:
    k = applied(SUMMED, "map{i=[thread.y 4, block.x] j.*=[thread.x 8, seq]}")
    assert "reduce(+) s: f32 = 0.0 over j in 0..c @ [thread.x 8, seq]" in body_of(k) and "reassociates" in k.flags
    assert "par j_1 in 0..c @ [thread.x 8, seq]" in body_of(k) and "thread.y 4, block.x" in body_of(k)
    assert differs(SUMMED, k, SIZES, elements=2200) is None


def test_a_wrong_version_is_told_apart() -> None:
    k = applied(SUMMED, "map{i=[block.x] j.*=[thread.x 32, seq]}")
    wrong = parse_kernel(
        body_of_whole(k).replace("reduce(+) s: f32 = 0.0 over j in 0..c", "reduce(+) s: f32 = 0.0 over j in 1..c")
    )
    assert differs(SUMMED, wrong, SIZES, elements=2200) is not None


def body_of_whole(k: Kernel) -> str:
    from ktc.ir.text import print_kernel

    return print_kernel(k)


@pytest.mark.parametrize(("script", "code"), [
    ("map{}", "E-ARG-MISSING"),
    ("map{i=4}", "E-MAP-LEVELS"),
    ("map{z=[seq]}", "E-PLACE"),
    ("map{j=[thread.x 32, seq]}", "E-DIST-NEST"),  # i keeps its threads
    ("map{i=[block.x] j.*=[seq] j=[seq]}", "E-MAP-TWICE"),
    ("map{i=[thread.y 64, block.x] j.*=[thread.x 32, seq]}", "E-DIST-THREADS"),
    ("map{i=[thread.x 8, thread.x 8, block.x]}", "E-DIST-AXIS"),
])  # fmt: skip
def test_refusals(script: str, code: str) -> None:
    assert refused(SUMMED, script).code == code


def test_a_loop_that_carries_a_value_is_refused_by_name() -> None:
    carried = rows("for j in 1..c", "  y[i * c + j] = y[i * c + j - 1] + x[i * c + j]")
    why = refused(carried, "map{i=[block.x] j=[thread.x 32, seq]}")
    assert why.code == "E-PARALLEL-CARRIED" and "'j'" in why.why


def test_sites_offer_the_threads_of_a_loop_to_those_inside() -> None:
    [site] = sites(COPIED)["map"]
    assert str(site.step) == "map{i=[block.x] j=[vec $V, thread.x $T, seq]}"
    applied(COPIED, str(site.step))
    assert sites(applied(COPIED, "map{i=[block.x] j=[thread.x 32, seq]}"))["map"] == []
