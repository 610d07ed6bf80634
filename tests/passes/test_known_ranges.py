"""What ranges decide, pass by pass and in the printed text: guards, bounds of tiles, digits of indices, triangles."""

from __future__ import annotations

import pytest

from ktc.driver.printing import printed
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.passes.lowering import materialise

from .checks import applied, body_of, differs, refused


def kernel(text: str) -> Kernel:
    return parse_kernel(text)


def lowered(k: Kernel) -> str:
    return body_of(materialise(k))


GUARDED = kernel("""
kernel guarded(x: f32* restrict, rows: i32)
  par row in 0..64 @ [thread.x 32, block.x]
    if row < rows
      x[row] = x[row] + 1.0
""")

TOKENS = kernel("""
kernel tokens(out: f32* restrict, x: f32 const* restrict, batch: i32 range 1..64, length: i32 range 1..64)
  par token in 0..batch * length @ [thread.x 32, block.x]
    let b: i32 = token / length
    let t: i32 = token % length
    out[b * length + t] = x[t] + f32(b)
""")

SQUARES = kernel("""
kernel squares(out: f32* restrict, x: f32 const* restrict, batch: i32 range 1..64)
  par i in 0..batch * 16 @ [thread.x 8, seq]
    out[i] = x[i % 16] + f32(i / 16)
""")

TRIANGLE = kernel("""
kernel triangle(out: f32* restrict, x: f32 const* restrict, batch: i32 range 1..64, length: i32 range 1..64)
  par row in 0..batch * length @ [block.x]
    let query: i32 = row % length
    par k in 0..query + 1 @ [thread.x 8, seq]
      out[row * length + k] = x[k]
""")

SUMS = kernel("""
kernel sums(out: f32* restrict, x: f32 const* restrict, n: i32 range 0..4096)
  par row in 0..8 @ [thread.x 8]
    var s: f32 = 0.0
    for k in 0..n
      s = s + x[row * n + k]
    out[row] = s
""")

SIZES = [{"batch": b, "length": n} for b, n in ((1, 1), (2, 3), (4, 8), (3, 7))]


def test_a_guard_that_the_range_of_its_loop_implies_goes() -> None:
    bound = applied(GUARDED, "specialize{rows=64}")
    assert "if" not in body_of(bound)
    assert "if" not in lowered(bound)
    assert "if" in body_of(applied(GUARDED, "specialize{rows=63}"))
    assert differs(GUARDED, bound, [{"rows": 64}]) is None


def test_a_guard_goes_in_the_text_of_every_language() -> None:
    bound = bind(GUARDED.with_(params=applied(GUARDED, "specialize{rows=64}").params), {})
    assert "if row < rows" in print_kernel(bound)
    for target in ("cuda", "hip", "opencl", "numba"):
        text = printed(bound, target).text
        assert "row < rows" not in text[text.index("guarded") :].split("void run", maxsplit=1)[0]


def test_tiles_of_a_product_by_its_factor_are_whole() -> None:
    script = "distribute{loop=token map=[thread.x 32, seq]} | tile{loops=token sizes=length}"
    tiled = applied(TOKENS, script)
    assert "par token_tile in 0..batch" in body_of(tiled)
    assert "min(" not in body_of(tiled)
    script += " | distribute{loop=token_tile map=[block.y]} | distribute{loop=token map=[block.x]}"
    nest = applied(TOKENS, script)
    launch = materialise(nest).launch
    assert launch is not None and [print_expr(e) for e in launch.grid] == ["length", "batch", "1"]
    text = lowered(nest)
    assert not any(x in text for x in ("/", "%", "if", "min"))
    assert differs(TOKENS, nest, SIZES) is None


def test_digits_of_a_distributed_index_are_its_levels() -> None:
    levels = applied(TOKENS, "distribute{loop=token map=[block.x length, unroll 2, block.y]}")
    assert not any(x in lowered(levels) for x in (" / ", " % "))
    assert differs(TOKENS, levels, SIZES) is None


def test_a_quotient_and_its_remainder_together_are_the_number() -> None:
    assert "out[token] =" in body_of(applied(TOKENS, "simplify"))
    assert differs(TOKENS, applied(TOKENS, "simplify"), SIZES) is None


@pytest.mark.parametrize("levels", ["block.x 4, unroll 2, block.y", "unroll 4, thread.x 2, block.x"])
def test_exact_tails_of_products_ask_nothing(levels: str) -> None:
    exact = applied(TOKENS, f"distribute{{loop=token map=[{levels}] tail=exact}}")
    assert "assume batch * length % 8 == 0" in print_kernel(exact)
    assert "if" not in lowered(exact)
    assert "if" in lowered(applied(TOKENS, f"distribute{{loop=token map=[{levels}]}}"))
    assert differs(TOKENS, exact, [{"batch": 2, "length": 4}, {"batch": 8, "length": 3}]) is None


def test_exact_tails_of_a_strided_level_ask_nothing() -> None:
    exact = applied(TOKENS, "distribute{loop=token map=[unroll 2, thread.x 4, block.x 2, seq] tail=exact}")
    assert "if" not in lowered(exact)
    assert differs(TOKENS, exact, [{"batch": 4, "length": 4}, {"batch": 8, "length": 6}]) is None


def test_a_tile_of_rows_swaps_with_the_loop_over_tiles() -> None:
    swapped = applied(SQUARES, "tile{loops=i sizes=16} | interchange{outer=i_tile}")
    assert "  par i in 0..16 @ [thread.x 8, seq]\n    par i_tile in 0..batch @ [seq]\n" in body_of(swapped)
    assert not any(x in lowered(swapped) for x in ("/", "%"))
    assert differs(SQUARES, swapped, [{"batch": b} for b in (1, 2, 5)]) is None
    assert refused(SQUARES, "tile{loops=i sizes=12} | interchange{outer=i_tile}").code == "E-INTERCHANGE-BOUNDS"
    assert refused(TRIANGLE, "interchange{outer=row}").code == "E-INTERCHANGE-NEST"


def test_a_serial_tile_swaps_too() -> None:
    copy = kernel("""
kernel copy(out: f32* restrict, x: f32 const* restrict, n: i32 range 0..64)
  launch grid(1) block(1)
  for i in 0..n * 4
    out[i] = x[i]
""")
    swapped = applied(copy, "tile{loops=i sizes=4} | interchange{outer=i_tile}")
    assert "  for i in 0..4\n    for i_tile in 0..n * 4 step 4\n" in body_of(swapped)
    assert differs(copy, swapped, [{"n": n} for n in (0, 1, 5)], lower=False) is None


TILED = "tile{loops=i sizes=16} | distribute{loop=i map=[thread.x 8, seq]}"


def test_interleaved_tiles_of_one_length_are_one_loop() -> None:
    unrolled = applied(SQUARES, f"{TILED} | distribute{{loop=i_tile map=[unroll 2, block.y]}}")
    assert "i < 16" in printed(unrolled, "cuda").text
    assert differs(SQUARES, unrolled, [{"batch": b} for b in (1, 2, 5)]) is None
    clipped = "tile{loops=i sizes=12} | distribute{loop=i_tile map=[unroll 2, block.y]}"
    assert refused(SQUARES, clipped).code == "E-DIST-RAGGED"


def test_blocks_over_a_tile_are_as_many_as_it_has_elements() -> None:
    script = f"{TILED} | distribute{{loop=i_tile map=[block.y]}} | distribute{{loop=i map=[thread.x 8, block.x]}}"
    blocks = applied(SQUARES, script)
    launch = materialise(blocks).launch
    assert launch is not None and [print_expr(e) for e in launch.grid] == ["2", "batch", "1"]
    assert differs(SQUARES, blocks, [{"batch": b} for b in (1, 2, 5)]) is None


def test_a_tile_of_a_tile() -> None:
    outer = "tile{loops=k sizes=16 tail=exact}"
    both = applied(SUMS, f"{outer} | tile{{loops=k sizes=4 tail=exact}}")
    assert "for k in k_tile_1..k_tile_1 + 4" in body_of(both)
    assert print_kernel(both).count("assume") == 1
    for tail in ("guard", "cut"):
        assert body_of(applied(SUMS, f"{outer} | tile{{loops=k sizes=4 tail={tail}}}")) == body_of(both)
    assert refused(SUMS, f"{outer} | tile{{loops=k sizes=5 tail=exact}}").code == "E-DIST-COVER"
    assert differs(SUMS, both, [{"n": n} for n in (0, 16, 32)]) is None
    open_ = applied(SUMS, "tile{loops=k sizes=$A:8,12,16 tail=exact} | tile{loops=k sizes=$B:4,8 tail=exact}")
    assert [print_expr(c) for c in open_.constraints] == ["$A % $B == 0"]
    clipped = "tile{loops=k sizes=16} | tile{loops=k sizes=4 tail=exact}"
    assert refused(SUMS, clipped).code == "E-TILE-FORM"


def test_what_is_left_after_whole_tiles_ends_at_the_end() -> None:
    cut = applied(SUMS, "tile{loops=k sizes=16 tail=cut}")
    assert "min(" in body_of(cut)  # which says how long it is at most
    assert "min(" not in lowered(cut)
    assert differs(SUMS, cut, [{"n": n} for n in (0, 1, 16, 35)]) is None


def test_a_triangle_is_covered_by_its_longest_row() -> None:
    spread = applied(TRIANGLE, "distribute{loop=k map=[thread.x 4, unroll 2]}")
    assert "assume 8 >= length origin guessed" in print_kernel(spread)
    assert "if" in lowered(spread)
    assert differs(TRIANGLE, spread, SIZES) is None
    bound = applied(TRIANGLE, "specialize{length=8} | distribute{loop=k map=[thread.x 4, unroll 2]}")
    assert print_kernel(bound).count("assume") == 1
    longer = "specialize{length=9} | distribute{loop=k map=[thread.x 4, unroll 2]}"
    assert refused(TRIANGLE, longer).code == "E-DIST-UNCHECKED"
    quotients = kernel(print_kernel(TRIANGLE).replace("row % length", "row / length"))
    spread = applied(quotients, "distribute{loop=k map=[thread.x 4, unroll 2]}")
    assert "assume 8 >= (" in print_kernel(spread)
    assert differs(quotients, spread, SIZES) is None


def test_loops_over_what_a_buffer_says_still_need_an_open_level() -> None:
    rows = kernel("""
kernel ragged(out: f32* restrict, ends: i32 const* restrict, n: i32 range 1..64)
  par row in 0..n @ [block.x]
    let end: i32 = ends[row]
    par k in 0..end @ [thread.x 8, seq]
      out[row * 64 + k] = 1.0
""")
    assert refused(rows, "distribute{loop=k map=[thread.x 4, unroll 2]}").code == "E-DIST-UNCHECKED"
