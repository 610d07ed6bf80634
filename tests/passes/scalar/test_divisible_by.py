"""divisible-by: rows that begin where wide accesses may, with a guard."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ktc
from ktc.agent.build import Builder
from ktc.agent.planner import Proposal
from ktc.ir.frontend import load
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.passes.core.catalogue import PASSES
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, body_of, differs, refused

ROWS = parse_kernel("""\
kernel rows(y: f32* align 16 noalias, x: f32 const* align 16, n: i32 divisible_by 4, m: i32, pitch: i32 range 1..999, \
first: i32, odd: i32 range 5..7)
  par r in 0..m @ [block.x]
    par i in 0..n @ [thread.x 128, seq]
      y[r * n + i] = x[r * pitch + first + i] + x[i + 1]
""")
SOURCE = """
__global__ void rows(float* __restrict__ y, const float* __restrict__ x, int n, int pitch, int first) {
  int row = blockIdx.x;
  for (int i = threadIdx.x; i < n; i += 128) y[row * n + i] = x[row * pitch + first + i];
}
void launch(float* y, const float* x, int m, int n, int pitch, int first) { rows<<<m, 128>>>(y, x, n, pitch, first); }
"""
VECTORS = "distribute{loop=i map=[vec 4, thread.x 128, seq]}"


def test_accesses_are_wide_where_all_that_rows_begin_at_is() -> None:
    assert "x_vec" not in lowered(VECTORS) and "x_vec" not in lowered(f"divisible-by{{pitch=4}} | {VECTORS}")
    assert "x_vec" in lowered(f"divisible-by{{pitch=4 first=8}} | {VECTORS}")


def lowered(script: str) -> str:
    return print_kernel(materialise(applied(ROWS, script)))


def test_the_launcher_is_told_and_the_meaning_stays() -> None:
    k = applied(ROWS, "divisible-by{pitch=4 first=8}")
    assert "assume pitch % 4 == 0 origin guessed\n  assume first % 8 == 0 origin guessed" in body_of(k)
    assert differs(ROWS, k, [{"n": 8, "m": 2, "pitch": 12, "first": 8, "odd": 5}], elements=64) is None


def test_the_site_names_pitches_and_offsets() -> None:
    (site,) = PASSES["divisible-by"].sites(ROWS)
    assert str(site.step) == "divisible-by{pitch=4 first=4}"
    assert not PASSES["divisible-by"].sites(applied(ROWS, str(site.step)))


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("divisible-by", "E-DIVISIBLE-PARAM"),
        ("divisible-by{x=4}", "E-DIVISIBLE-PARAM"),
        ("divisible-by{pitch=1}", "E-DIVISIBLE-VALUE"),
        ("divisible-by{pitch=wide}", "E-DIVISIBLE-VALUE"),
        ("divisible-by{odd=4}", "E-DIVISIBLE-FACT"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(ROWS, script).code == code


def test_scripts_begin_with_what_all_sizes_show() -> None:
    """The end of a loop is left to the vec level that asks for it, and a pitch that one of the sizes lacks alone."""
    kernel = load(SOURCE)
    kernel = kernel.with_(params=tuple(replace(p, align=16 if p.sym.name in "xy" else 0) for p in kernel.params))
    given = [{"n": 8, "m": 2, "pitch": 16, "first": 6}, {"n": 8, "m": 2, "pitch": 24, "first": 4}]
    builder = Builder(kernel, sizes=given)
    assert builder.start == "raise | divisible-by{pitch=4 first=2}"
    assert builder.whole(Proposal(f"raise | {VECTORS}", "")).script == f"{builder.start} | {VECTORS}"
    assert Builder(kernel, sizes=[*given, {"n": 8, "m": 2, "pitch": 15, "first": 1}]).start == "raise"
    assert Builder(kernel, sizes=given, as_loops=True).start == "raise"


def test_what_changes_nothing_leaves_the_source_s_staging() -> None:
    p = ktc.load("transpose_tiled").apply("raise")
    plain, told = (materialise(k) for k in (p.kernel, p.apply("divisible-by{rows=4}").kernel))
    assert canonical(told).body == canonical(plain).body and "in_s" in print_kernel(told)
