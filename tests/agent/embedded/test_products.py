"""Ideas for tensor cores: on products of halves, for devices that have them, whatever loops and buffers are called."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.agent.embedded.rules import Rules
from tests.agent.embedded.test_rules import GPU, observe

HALF = """\
kernel half(out: f16* restrict align 16 noalias, x: f16 const* restrict align 16 noalias readonly,
    w: f16 const* restrict align 16 noalias readonly, tokens: i32, hidden: i32, inner: i32)
  launch grid((hidden + 15) / 16, (tokens + 15) / 16) block(16, 16)
  let t: i32 = i32(blockIdx.y) * 16 + i32(threadIdx.y)
  let h: i32 = i32(blockIdx.x) * 16 + i32(threadIdx.x)
  if t < tokens && h < hidden
    var s: f32 = 0.0
    for c in 0..inner
      s += f32(x[t * inner + c]) * f32(w[c * hidden + h])
    out[t * hidden + h] = f16(s)
"""
SIZES = {"tokens": 1024, "hidden": 1024, "inner": 1024}


def ideas(source: str, profile: str = "cuda-sm90", n: int = 1024) -> list[str]:
    builder, o = observe(source, dict.fromkeys(SIZES, n))
    o = dataclasses.replace(o, device=dataclasses.replace(GPU, profile=profile))
    found = [p.script for p in Rules().propose(o, 30) if "tensorize" in p.script and "stage-shared" in p.script]
    assert all(builder.attempt(s) is None for s in found)
    return found


def test_warpgroups_first_where_there_are_any() -> None:
    hopper, ampere = ideas(HALF), ideas(HALF, "cuda-sm80")
    assert "fragment=m64n128k16_f16" in hopper[0] and any("m64" not in s for s in hopper)
    assert ampere and all("m64" not in s for s in ampere)


@pytest.mark.parametrize("n, tile", [(1024, "64,128"), (2048, "128,256"), (3072, "192,192"), (4096, "128,256")])
def test_tiles_that_fill_the_device_come_first(n: int, tile: str) -> None:
    """128 x 256 leaves most of a third wave idle at 3072, and gives a quarter of the units a block at 1024."""
    assert f"sizes={tile}}}" in ideas(HALF, n=n)[0]


def test_blocks_are_ordered_only_if_there_are_more_than_units() -> None:
    assert "block-swizzle" in ideas(HALF, n=4096)[0] and "block-swizzle" not in ideas(HALF, n=1024)[0]


def test_results_are_stored_over_a_factor_s_tile_by_a_producer_s_block() -> None:
    first = ideas(HALF)[0]
    assert "stages=8 by=producer" in first and "stage-store{array=out over=w_s}" in first


def test_rows_of_a_factor_that_run_along_the_sum_need_no_panels() -> None:
    turned = HALF.replace("w[c * hidden + h]", "w[h * inner + c]")
    assert "fragment=m64n" in ideas(turned)[0] and "panel-shared" not in ideas(turned)[0]
    assert "panel-shared{array=w_s}" in ideas(HALF)[0]


def test_none_without_tensor_cores_or_halves() -> None:
    assert ideas(HALF, "opencl-cl12") == []
    assert ideas(HALF.replace("f16", "f32")) == []


BYTES = (
    HALF.replace("f16 const", "i8 const")
    .replace("s: f32 = 0.0", "s: i32 = 0")
    .replace("f32(x[t * inner + c]) * f32(w[c * hidden + h])", "i32(x[t * inner + c]) * i32(w[c * hidden + h])")
    .replace("f16(s)", "f16(f32(s) * 0.01)")
)
ALONG = BYTES.replace("w[c * hidden + h]", "w[h * inner + c]")


def test_bytes_take_the_instruction_that_suits_how_the_second_factor_lies() -> None:
    columns, terms = ideas(BYTES), ideas(ALONG)
    assert columns and all("fragment=m16n16k32_i8" in s and "vec=16" in s for s in columns)
    assert "fragment=m64n" in terms[0] and any("fragment=m16n8k32_i8" in s for s in terms)
    assert all("fragment=m16n8k32_i8" in s for s in ideas(ALONG, "cuda-sm80"))


def test_an_offset_of_bytes_is_summed_apart() -> None:
    less = BYTES.replace("i32(x[t * inner + c])", "(i32(x[t * inner + c]) - 3)")
    found = ideas(less)
    assert found and all(s.endswith("| offset-sums{loop=c.*}") for s in found)


def test_weights_in_bytes_feed_the_instruction_of_halves() -> None:
    mixed = HALF.replace("w: f16 const*", "w: i8 const*")
    found = ideas(mixed)
    assert found and all("fragment" not in s and "stage-shared{array=w loop=c_tile.* vec=16}" in s for s in found)


def test_floats_of_8_bits_only_where_the_device_converts_them() -> None:
    narrow = HALF.replace("f16 const*", "e4m3 const*")
    assert all("fragment=m16n16k32_e4m3" in s for s in ideas(narrow)) and ideas(narrow)
    assert not ideas(narrow, "cuda-sm80")
    assert not ideas(HALF.replace("w: f16 const*", "w: e4m3 const*"), "cuda-sm80")
