"""Values that all threads compute alike: the planner's schedules, from structure alone."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.tables import tables
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.passes.checks import differs

HEAD = "kernel k(y: f32* restrict, x: f32 const* restrict, b: f32, n: i32 range 1..64, m: i32 range 1..64)\n"
STEPS = (
    f"{HEAD}  par q in 0..m @ [thread.x 64, block.x]\n"
    "    for t = 1; t <= n; t + 1\n      y[q] = y[q] * b + x[q] / (1.0 + pow(b, t))\n"
)
TAPS = (
    f"{HEAD}  par p in 0..m @ [thread.y 4, block.y]\n    par q in 0..m @ [thread.x 32, block.x]\n"
    "      var s: f32 = 0.0\n      for i in 0..3\n        for j in 0..3\n"
    "          s += x[p + i + q + j] * exp(f32(i * i + j * j) * b)\n      y[p * m + q] = s\n"
)
CHEAP = STEPS.replace("pow(b, t)", "b * f32(t)").replace("x[q] / ", "x[q] * ")


FILLED = (
    f"{HEAD}  par q in 0..m @ [thread.x 64, block.x]\n    array w: f32[9]\n"
    "    for i in 0..9\n      w[i] = f32(i) * b\n    y[q] = w[i32(x[q]) % 9]\n"
)


def proposed(text: str) -> list[str]:
    return [s for s, _, _ in tables(parse_kernel(text))]


def test_a_table_for_a_tile_of_a_long_loop() -> None:
    fast, exact = proposed(STEPS)
    assert exact == (
        "promote{loop=t} | tile{loops=q sizes=$R:(32,64,128,256)}"
        " | distribute{loop=q map=[thread.x $R:(32,64,128,256)]}"
        " | tile{loops=t sizes=$C:(64,128,256)} | register-tile{loop=t_tile} | tabulate{loop=t}"
        " | unroll{loop=t factor=$U:(1,2,4)}"
    )
    assert fast == f"{exact} | fast-math{{fns=div}}"


def test_a_table_for_all_taps_of_a_filter() -> None:
    (taps,) = proposed(TAPS)
    assert taps == (
        "tile{loops=p,q sizes=$TY:(4,8,16),$TX:(32,64)} | distribute{loop=p map=[thread.y $TY:(4,8,16)]}"
        " | distribute{loop=q map=[thread.x $TX:(32,64)]} | tabulate{loop=i,j}"
    )


def test_an_array_that_all_threads_fill_alike() -> None:
    several, one = proposed(FILLED)
    assert one == (
        "tile{loops=q sizes=$R:(32,64,128,256)} | distribute{loop=q map=[thread.x $R:(32,64,128,256)]}"
        " | share-array{array=w}"
    )
    assert several == (
        "tile{loops=q sizes=$TX:(64,128,256)} | distribute{loop=q map=[unroll $UX:(2,1,4), thread.x $RX:(32,64,128)]}"
        " | share-array{array=w}"
    )


def test_quotients_beside_such_an_array_have_no_branches() -> None:
    text = FILLED.replace("w[i32(x[q]) % 9]", "w[i32(x[q]) % 9] / x[q]")
    assert text != FILLED
    found = proposed(text)
    assert [s.endswith("share-array{array=w} | fast-math{fns=div}") for s in found] == [True, False, True, False]


def test_nothing_to_tabulate() -> None:
    assert proposed(CHEAP) == []


@pytest.mark.parametrize("text", [STEPS, TAPS, FILLED])
def test_meaning_stays(text: str) -> None:
    kernel = parse_kernel(text)
    for script in proposed(text):
        assert Builder(kernel).attempt(script) is None
        if "fast-math" not in script:
            done = apply_script(kernel, parse_script(script)).kernel
            knobs = {"R": 32, "C": 64, "U": 2, "TY": 4, "TX": 64 if "$UX" in script else 32, "UX": 2, "RX": 32}
            sizes = [{"n": n, "m": m, "b": 2.0} for n, m in ((1, 3), (40, 9))]
            assert differs(kernel, done, sizes, 400, {k.name: knobs[k.name] for k in done.knobs}) is None
