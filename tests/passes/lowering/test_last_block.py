"""What a reduction over blocks leaves beside its results, for the block that ends last."""

from __future__ import annotations

import pytest

from ktc.backends.emitter import emit
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import LoweringError, materialise
from tests.passes.checks import differs

LEFT = """\
kernel k(out: f32*, x: f32 const*, kept: f32* noalias, n: i32, m: i32 range 1..64)
  launch grid(4) block(1)
  array sums: f32[4, n, m]
  par h in 0..n @ [block.x]
    reduce(max) top: f32 = -100.0 over part in 0..4 @ [block.y]
      par c in 0..m @ [thread.x 8, seq]
        sums[part, h, c] = x[h * 4 + part] + f32(c)
        kept[part * m * n + h * m + c] = f32(c)
      yield x[h * 4 + part]
    par d in 0..m @ [thread.x 8, seq]
      reduce(+) s: f32 = 0.0 over p in 0..4 @ [seq]
        yield sums[p, h, d] * kept[p * m * n + h * m + d]
      out[h * m + d] = s * top
"""
SIZES = [{"n": n, "m": m} for n, m in ((1, 1), (3, 5), (2, 17))]


def test_the_last_block_sees_what_all_left() -> None:
    kernel = parse_kernel(LEFT)
    alone = parse_kernel(LEFT.replace(" @ [block.y]", " @ [seq]"))
    assert differs(alone, kernel, SIZES) is None


@pytest.mark.parametrize(("language", "one"), [("cuda", "__ldcg(&"), ("hip", "load_cg(&")])
def test_it_reads_past_the_caches(language: str, one: str) -> None:
    text = emit(materialise(parse_kernel(LEFT)), language).text
    assert f"{one}sums[" in text and f"{one}kept[" in text, text
    wide = LEFT.replace("par d in 0..m @ [thread.x 8, seq]", "par d in 0..m @ [vec 4, thread.x 8, seq]")
    wide = wide.replace("m: i32 range 1..64", "m: i32 range 4..64 divisible_by 4")
    text = emit(materialise(parse_kernel(wide)), language).text
    assert "load_vec_cg<4>(&sums[" in text, text


MINE = """\
kernel k(out: f32*, x: f32 const*, n: i32)
  launch grid(4) block(1)
  par h in 0..n @ [block.x]
    array mine: f32[4]
    reduce(max) m: f32 = -100.0 over part in 0..4 @ [block.y]
      mine[part] = x[h * 4 + part]
      yield mine[part]
    out[h] = m + mine[1]
"""
HALVES = """\
kernel k(out: f32*, x: f32 const*, kept: f16*, n: i32)
  launch grid(4) block(1)
  par h in 0..n @ [block.x]
    reduce(max) m: f32 = -100.0 over part in 0..4 @ [block.y]
      kept[h * 4 + part] = f16(x[h * 4 + part])
      yield x[h * 4 + part]
    out[h] = m + f32(kept[h * 4 + 1])
"""


@pytest.mark.parametrize(("text", "what"), [(MINE, "'mine'"), (HALVES, "'kept'")], ids=["of one block", "halves"])
def test_what_it_may_not_see_is_refused(text: str, what: str) -> None:
    with pytest.raises(LoweringError) as e:
        materialise(parse_kernel(text))
    assert e.value.code == "E-LOWER-REDUCE-BLOCK" and what in e.value.message
