"""stage-factors: factors that are computed of what lies in memory, once a block."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.catalogue import PASSES
from tests.passes.checks import applied, body_of, differs, refused

PRODUCT = """\
kernel product(y: f32* noalias, x: f32 const* noalias, w: i32 const* noalias, scale: f32 const* noalias,
    m: i32, n: i32, terms: i32)
  launch grid(cdiv(n, 16), cdiv(m, 16)) block(16, 16)
  par row in 0..m @ [thread.y 16, block.y]
    par col in 0..n @ [thread.x 16, block.x]
      var s: f32 = 0.0
      for k in 0..terms
        s += x[row * terms + k] * (f32(w[WHERE] >> k % 2 * 4 & 15) * scale[col] - 8.0)
      y[row * n + col] = s
"""
TILED = (
    "tile{loops=row,col sizes=8,4} | map{row=[thread.y 8] col=[thread.x 4]}"
    " | tile{loops=k sizes=4 tail=cut} | register-tile{loop=k_tile.*}"
)
SIZES = [{"m": m, "n": n, "terms": k} for m, n, k in ((1, 1, 1), (8, 4, 4), (9, 7, 10), (3, 5, 3))]


def product(where: str = "col * terms + k") -> Kernel:
    return parse_kernel(PRODUCT.replace("WHERE", where))


def test_a_computed_factor_is_a_table_of_the_block() -> None:
    k = product()
    after = applied(k, f"{TILED} | stage-factors{{loop=k_tile.*}}")
    text = body_of(after)
    assert "array factor_s: shared f32[4, 4] align 16" in text
    assert "par factor_i in 0..16 @ [thread.x 4, thread.y 8, seq]" in text
    assert "x[(row_tile * 8 + row_1) * terms + k] * factor_s[k - k_tile, col_1]" in text
    assert "factor_s[factor_i % 4, factor_i / 4] = factor_i / 4 < n - col_tile * 4" in text  # terms lie side by side
    assert differs(k, after, SIZES) is None


def test_neighbours_compute_what_lies_side_by_side() -> None:
    k = product("k * n + col")
    after = applied(k, f"{TILED} | stage-factors{{loop=k_tile.*}}")
    assert "factor_s[factor_i / 4, factor_i % 4] =" in body_of(after) and differs(k, after, SIZES) is None


def test_it_goes_with_copies_of_the_other_factor_and_tiles_ahead() -> None:
    k = product()
    more = "stage-shared{array=x loop=k_tile.*} | pad-shared{array=factor_s.* by=1}"
    more += " | multi-buffer{loop=k_tile,k_tile_1 stages=2}"
    after = applied(k, f"{TILED} | stage-factors{{loop=k_tile.*}} | {more}")
    assert "f32[2, 4, 5]" in body_of(after) and differs(k, after, SIZES) is None


def test_both_factors_may_be_computed() -> None:
    text = PRODUCT.replace("x[row * terms + k] *", "(x[row * terms + k] * 2.0 + 1.0) *").replace(
        "WHERE", "col * terms + k"
    )
    k = parse_kernel(text)
    after = applied(k, f"{TILED} | stage-factors{{loop=k_tile.*}}")
    assert "factor_s[k - k_tile, row_1] * factor_s_1[k - k_tile, col_1]" in body_of(after)
    assert differs(k, after, SIZES) is None


def test_sites_are_the_loops_that_have_such_factors() -> None:
    tiled = applied(product(), TILED)
    assert [str(s.step) for s in PASSES["stage-factors"].sites(tiled)] == [
        "stage-factors{loop=k_tile}",
        "stage-factors{loop=k_tile_1}",
    ]


@pytest.mark.parametrize("change, code", [
    (("scale[col]", "x[row]"), "E-FACTOR-NONE"),  # depends on both
    (("(f32(w[WHERE] >> k % 2 * 4 & 15) * scale[col] - 8.0)", "f32(w[WHERE])"), "E-FACTOR-NONE"),  # is only loaded
    (("scale[col]", "y[col]"), "E-FACTOR-NONE"),  # what the kernel writes
    (("w: i32 const* noalias", "w: i32 const*"), None),
    ((" noalias", ""), "E-FACTOR-NONE"),  # may be what is written
])  # fmt: skip
def test_refusals(change: tuple[str, str], code: str | None) -> None:
    k = parse_kernel(PRODUCT.replace(*change).replace("WHERE", "col * terms + k"))
    if code is None:
        applied(k, f"{TILED} | stage-factors{{loop=k_tile.*}}")
    else:
        assert refused(applied(k, TILED), "stage-factors{loop=k_tile.*}").code == code


def test_what_is_no_tile_of_the_block_is_refused() -> None:
    loop = "tile{loops=k sizes=4 tail=cut}"
    assert refused(applied(product(), loop), "stage-factors{loop=k_tile}").code == "E-FACTOR-LOOP"
    large = TILED.replace("sizes=8,4", "sizes=8,4096").replace("thread.x 4", "thread.x 4, seq")
    assert refused(applied(product(), large), "stage-factors{loop=k_tile.*}").code == "E-FACTOR-SIZE"


# ------------------------------------------------------------------------------------- tables that tensor cores take

PACKED = """\
kernel product(y: f32* noalias, x: f16 const* noalias, w: i32 const* noalias, m: i32, n: i32, terms: i32)
  launch grid(cdiv(n, 16), cdiv(m, 16)) block(16, 16)
  assume terms % 16 == 0
  par row in 0..m @ [thread.y 16, block.y]
    par col in 0..n @ [thread.x 16, block.x]
      var s: f32 = 0.0
      for k in 0..terms
        s += f32(x[row * terms + k]) * f32((w[WHERE] >> SHIFT & 15) - 8)
      y[row * n + col] = s
"""
ALONG_TERMS = {"WHERE": "col * (terms / 8) + k / 8", "SHIFT": "4 * (k % 8)"}
ACROSS = {"WHERE": "k * cdiv(n, 8) + col / 8", "SHIFT": "4 * (col % 8)"}
COLUMNS = {"WHERE": "k / 8 * n + col", "SHIFT": "4 * (k % 8)"}
HALVES = (
    "tile{loops=row,col sizes=16,16} | map{row=[thread.y 8, unroll 2] col=[thread.x 8, unroll 2]}"
    " | tile{loops=k sizes=16 tail=exact} | register-tile{loop=k_tile} | stage-factors{loop=k_tile type=f16}"
)
SMALL = [{"m": m, "n": n, "terms": k} for m, n, k in ((1, 1, 16), (17, 9, 32), (16, 24, 16))]


def packed(where: dict[str, str]) -> Kernel:
    text = PACKED
    for name, written in where.items():
        text = text.replace(name, written)
    return parse_kernel(text)


@pytest.mark.parametrize("where, word", [
    (ALONG_TERMS, "factor_s[factor_i / 2, factor_i % 2 * 8 + factor_v_1]"),
    (COLUMNS, "factor_s[factor_i % 16, factor_i / 16 * 8 + factor_v_1]"),
    (ACROSS, "factor_s[factor_i / 2, factor_i % 2 * 8 + factor_v_1]"),
])  # fmt: skip
def test_whole_numbers_are_held_in_16_bits_a_word_a_thread(where: dict[str, str], word: str) -> None:
    """A row of the table lies along what a word holds; neighbours take what lies side by side in memory."""
    k = packed(where)
    after = applied(k, HALVES)
    text = body_of(after)
    assert "array factor_s: shared f16[16, 16] align 16" in text and f"{word} = factor[factor_v_1]" in text
    assert differs(k, after, SMALL) is None


@pytest.mark.parametrize("where", [ALONG_TERMS, ACROSS, COLUMNS])
def test_tensor_cores_take_them_with_the_threads_that_fill_them(where: dict[str, str]) -> None:
    k = packed(where)
    after = applied(
        k, f"{HALVES} | tensorize{{loop=k warps=1,1 pairs=yes}} | stage-shared{{array=x loop=k_tile vec=8}}"
    )
    text = body_of(after)
    assert "strategy m16n8k16_f16" in text and "par factor_i in 0..32 @ [thread.x 32, seq]" in text
    assert "par row_1 in 0..16 @" in text  # whole tiles: no element of an operand is asked for
    assert differs(k, after, SMALL) is None


def test_values_that_16_bits_do_not_hold_stay() -> None:
    text = PACKED.replace("& 15) - 8", "& 4095) - 8")  # f16 has no odd numbers beyond 2048
    for name, written in ALONG_TERMS.items():
        text = text.replace(name, written)
    tiled, staged = HALVES.rsplit(" | ", 1)
    assert refused(applied(parse_kernel(text), tiled), staged).code == "E-FACTOR-NONE"


COPIED = HALVES.replace("stage-factors", "stage-shared{array=w loop=k_tile} | stage-factors")


@pytest.mark.parametrize("where, tile, read", [
    (ALONG_TERMS, "i32[16, 2]", "w_s[factor_i / 2, (factor_i % 2 * 8 + factor_v) / 8]"),
    (COLUMNS, "i32[2, 16]", "w_s[(factor_i / 16 * 8 + factor_v) / 8, factor_i % 16]"),
    (ACROSS, "i32[16, 2]", "w_s[factor_i / 2, (factor_i % 2 * 8 + factor_v) / 8]"),
])  # fmt: skip
def test_words_of_a_tile_are_copied_and_unpacked_where_they_are(where: dict[str, str], tile: str, read: str) -> None:
    """A tile of 16 terms, or columns, has two words of eight elements each."""
    k = packed(where)
    after = applied(k, COPIED)
    text = body_of(after)
    assert f"array w_s: shared {tile}" in text and read in text
    assert differs(k, after, SMALL) is None


def test_words_that_a_tile_may_begin_in_the_middle_of_are_no_box() -> None:
    text = PACKED.replace("for k in 0..terms", "for k in 3..terms")
    for name, written in ALONG_TERMS.items():
        text = text.replace(name, written)
    tiled = applied(parse_kernel(text), HALVES.rsplit(" | ", 1)[0].replace("tail=exact", "tail=cut"))
    assert refused(tiled, "stage-shared{array=w loop=k_tile}").code == "E-STAGE-FOOTPRINT"
