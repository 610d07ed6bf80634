"""stage-gathered: the matrix of a factor whose elements lie in no box, gathered in shared memory."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.catalogue import PASSES
from tests.passes.checks import applied, body_of, differs, refused

PIXELS = """\
kernel conv(y: f32* noalias, x: f16 const* noalias, w: f16 const* noalias, n: i32, h: i32, l: i32, c: i32, m: i32)
  launch grid(cdiv(m, 16), n * h * l) block(16)
  assume h >= 1
  assume l >= 1
  par p in 0..n * h * l @ [block.y]
    par k in 0..m @ [thread.x 16, block.x]
      var sum: f32 = 0.0
      for r in 0..3
        let at: i32 = p % l + r - 1
        for i in 0..c
          sum += f32(at >= 0 && at < l ? x[(p / l * l + at) * c + i] : 0.0_f16) * f32(w[(r * c + i) * m + k])
      y[p * m + k] = sum
"""
TILED = (
    "divisible-by{c=4} | tile{loops=p,k sizes=8,4} | tile{loops=i sizes=4 tail=exact} | linearise{loops=r,i_tile}"
    " | register-tile{loop=r_i_tile} | map{p.*=[thread.y 4, unroll 2] k.*=[thread.x 4]}"
    " | map{p_tile=[block.x] k_tile=[block.y]}"
)
GATHERED = f"{TILED} | stage-gathered{{array=x loop=r_i_tile vec=4}} | stage-gathered{{array=w loop=r_i_tile}}"
SIZES = [
    {"n": n, "h": h, "l": l, "c": c, "m": m}
    for n, h, l, c, m in ((1, 1, 1, 4, 1), (1, 2, 4, 4, 4), (2, 3, 5, 8, 9), (3, 1, 2, 12, 3))
]


def pixels() -> Kernel:
    return parse_kernel(PIXELS)


def test_rows_of_pixels_are_gathered_with_zeros_at_the_rim() -> None:
    k = pixels()
    after = applied(k, GATHERED)
    text = body_of(after)
    assert "array x_s: shared f16[8, 4] align 16" in text and "array w_s: shared f16[4, 4] align 16" in text
    assert "sum[p_1, k_1] += f32(x_s[p_1, i]) * f32(w_s[i, k_1])" in text
    assert "x[(p_tile * 8 + x_i_1 - 1) * c + " in text, "digits of a pixel's number come together"
    assert "par p_1 in 0..8 @" in text and "par k_1 in 0..4 @" in text, "whole tiles: beyond edges there are zeros"
    assert differs(k, after, SIZES) is None


def test_a_row_is_divided_once() -> None:
    hot = body_of(applied(pixels(), GATHERED)).split("for r_i_tile in")[1].split("par p_2")[0]
    assert "% l" not in hot and "/ l" not in hot and "x_at[x_i_1]" in hot


def test_tiles_ahead() -> None:
    k = pixels()
    after = applied(k, f"{GATHERED} | multi-buffer{{loop=r_i_tile stages=2}}")
    assert differs(k, after, SIZES) is None
    alone = f"{TILED} | stage-gathered{{array=x loop=r_i_tile vec=4}} | async-copy{{loop=r_i_tile}}"
    after = applied(k, f"{alone} | multi-buffer{{loop=r_i_tile stages=3}}")
    assert "async_copy x_s[" in body_of(after) and differs(k, after, SIZES) is None


def test_a_producer_does_not_know_the_rows_of_threads() -> None:
    script = f"{TILED} | stage-gathered{{array=x loop=r_i_tile vec=4}} | async-copy{{loop=r_i_tile}}"
    why = refused(pixels(), f"{script} | multi-buffer{{loop=r_i_tile stages=2 by=producer}}")
    assert why.code == "E-BUFFER-COPIES" and "registers" in why.why


def test_places_that_change_from_round_to_round_are_not_ahead() -> None:
    text = """\
kernel k(y: f32* noalias, x: f32 const* noalias, n: i32)
  launch grid(1) block(8)
  par b in 0..1 @ [block.x]
    array at: i32[8]
    par i in 0..8 @ [thread.x 8]
      at[i] = i
    array x_s: shared f32[8]
    for t in 0..n
      par i in 0..8 @ [thread.x 8]
        x_s[i] = x[at[i]]
      par i in 0..8 @ [thread.x 8]
        y[t * 8 + i] = x_s[7 - i]
        at[i] = (at[i] + 1) % 8
"""
    assert refused(parse_kernel(text), "multi-buffer{loop=t stages=2}").code == "E-BUFFER-FLOW"


def test_a_sum_of_any_length_and_terms_counted_through() -> None:
    k = pixels()
    script = (
        "linearise{loops=r,i} | tile{loops=p,k sizes=8,4} | tile{loops=r_i sizes=4 tail=cut}"
        " | register-tile{loop=r_i_tile.*} | map{p.*=[thread.y 4, unroll 2] k.*=[thread.x 4]}"
        " | map{p_tile=[block.x] k_tile=[block.y]}"
        " | stage-gathered{array=x loop=r_i_tile.*} | stage-gathered{array=w loop=r_i_tile.*}"
    )
    sizes = [s | {"c": c} for s, c in zip(SIZES, (1, 2, 3, 5))]
    assert differs(k, applied(k, script), sizes) is None


def test_a_zero_that_is_converted_already() -> None:
    k = parse_kernel(PIXELS.replace("f32(at >= 0 && at < l ? x[(p / l * l + at) * c + i] : 0.0_f16)",
                                    "(at >= 0 && at < l ? f32(x[(p / l * l + at) * c + i]) : 0.0)"))  # fmt: skip
    after = applied(k, GATHERED)
    assert "f32(x_s[p_1, i]) * f32(w_s[i, k_1])" in body_of(after) and differs(k, after, SIZES) is None


def test_where_it_is_offered() -> None:
    after = applied(pixels(), TILED)
    assert [str(s.step) for s in PASSES["stage-gathered"].sites(after)] == ["stage-gathered{array=x loop=r_i_tile}"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (f"{TILED} | stage-gathered{{array=x loop=r_i_tile vec=3}}", "E-GATHER-VEC"),
        (f"{TILED} | stage-gathered{{array=x loop=r_i_tile vec=16}}", "E-GATHER-VEC"),
        (f"{TILED} | stage-gathered{{array=y loop=r_i_tile}}", "E-STAGE-WRITTEN"),
        ("stage-gathered{array=x loop=r}", "E-GATHER-LOOP"),
        (f"{TILED} | stage-gathered{{array=x loop=r_i_tile}}".replace("i sizes=4", "i sizes=16384"), "E-GATHER-SIZE"),
    ],
)  # fmt: skip
def test_refusals(script: str, code: str) -> None:
    assert refused(pixels(), script).code == code


def test_other_values_than_zero_stay() -> None:
    k = parse_kernel(PIXELS.replace(": 0.0_f16", ": 1.0_f16"))
    assert refused(k, f"{TILED} | stage-gathered{{array=x loop=r_i_tile}}").code == "E-GATHER-READS"


def test_a_wrong_rim_is_caught() -> None:
    k = pixels()
    wrong = parse_kernel(PIXELS.replace("at >= 0 &&", "at >= 1 &&"))
    assert differs(k, applied(wrong, GATHERED), SIZES) is not None
