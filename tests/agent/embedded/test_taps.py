"""Windows around an element: the planner's schedules, from structure alone."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.taps import taps
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.passes.checks import differs

HEAD = "kernel k(y: f32* restrict, x: f32 const* restrict, b: f32, h: i32 range 1..60, w: i32 range 1..60)\n"
PLANE = f"{HEAD}  par p in 0..h @ [thread.y 8, block.y]\n    par q in 0..w @ [thread.x 32, block.x]\n"
MIRRORED = (
    f"{PLANE}      var s: f32 = 0.0\n      for i in -1..2\n        for j in -1..2\n"
    "          var r: i32 = p + i\n          var c: i32 = q + j\n          if r < 0\n            r = -r\n"
    "          s += x[min(r, h - 1) * w + min(max(c, 0), w - 1)] / (b + f32((r - p) * (r - p)))\n"
    "      y[p * w + q] = s\n"
)
INSIDE = f"{PLANE}      var s: f32 = 0.0\n      for i in 0..3\n        s += x[p * w + q + i]\n      y[p * w + q] = s\n"
LONG = INSIDE.replace("0..3", "0..500")
BLOCK = "map{p=[thread.y $TY:(2,4,8), block.y] q=[thread.x $TX:(32,64,128), block.x]}"


def proposed(text: str) -> list[str]:
    return [s for s, _, _ in taps(parse_kernel(text))]


def test_tiles_without_edges_have_code_of_their_own() -> None:
    apart, exact, plain, plain_exact = proposed(MIRRORED)
    assert exact == (
        "tile{loops=p,q sizes=$TY:(4,8),$TX:(16,32)} | distribute{loop=p map=[unroll $UY:(1,2,4), thread.y $RY:(2,4)]}"
        " | distribute{loop=q map=[thread.x $TX:(16,32)]} | split-edges{loop=q_tile}"
        " | unroll{loop=j factor=3} | unroll{loop=i factor=3}"
    )
    assert apart == f"{exact} | fast-math{{fns=div}}"
    assert plain_exact == f"{BLOCK} | unroll{{loop=j factor=3}} | unroll{{loop=i factor=3}}"
    assert plain == f"{plain_exact} | fast-math{{fns=div}}"


def test_windows_without_edges_are_written_out() -> None:
    assert proposed(INSIDE) == [f"{BLOCK} | unroll{{loop=i factor=3}}"]
    assert proposed(LONG) == []


@pytest.mark.parametrize("text", [MIRRORED, INSIDE])
def test_meaning_stays(text: str) -> None:
    kernel = parse_kernel(text)
    for script in proposed(text):
        assert Builder(kernel).attempt(script) is None
        if "fast-math" not in script:
            done = apply_script(kernel, parse_script(script)).kernel
            knobs = {"TY": 8, "TX": 32, "UY": 2, "RY": 4}
            sizes = [{"h": h, "w": w, "b": 2.0} for h, w in ((1, 2), (19, 45))]
            assert differs(kernel, done, sizes, 3700, {k.name: knobs[k.name] for k in done.knobs}) is None
