"""Ideas for products of weights in few bits, on tensor cores."""

from __future__ import annotations

import pytest

from ktc.agent.build import Candidate
from ktc.agent.embedded.rules import Rules
from ktc.agent.planner import Proposal
from tests.agent.embedded.test_rules import observe

WEIGHTS = """\
kernel product(y: f16* restrict align 16 noalias, x: f16 const* restrict align 16 noalias readonly,
    w: i32 const* restrict align 16 noalias readonly, scale: f16 const* restrict align 16 noalias readonly,
    zeros: i32 const* restrict align 16 noalias readonly,
    rows: i32, cols: i32 divisible_by 8, terms: i32 divisible_by 128)
  launch grid(cdiv(cols, 128), rows) block(128)
  let row: i32 = i32(blockIdx.y)
  let col: i32 = i32(blockIdx.x) * 128 + i32(threadIdx.x)
  if col < cols
    var s: f32 = 0.0
    for k in 0..terms
      let g: i32 = k / 128
      let q: i32 = w[k / 8 * cols + col] >> 4 * (k % 8) & 15
      let z: i32 = zeros[g * (cols / 8) + col / 8] >> 4 * (col % 8) & 15
      s += f32(x[row * terms + k]) * (f32(scale[g * cols + col]) * f32(q - z - 1))
    y[row * cols + col] = f16(s)
"""
SIZES = {"rows": 512, "cols": 1024, "terms": 1024}


def test_the_first_ideas_multiply_what_is_unpacked_on_tensor_cores_and_scale_the_sums() -> None:
    builder, o = observe(WEIGHTS, SIZES)
    scripts = [p.script for p in Rules().propose(o, 3)]
    for script in scripts:
        assert "factor-out{loop=k}" in script and "stage-factors{loop=k_tile type=f16} | tensorize" in script
    built = builder.build(Proposal(scripts[0], ""))
    assert isinstance(built, Candidate)


@pytest.mark.parametrize("rows, tile", [(16, "sizes=16,"), (4096, "sizes=128,")])
def test_tiles_have_as_many_rows_as_there_are(rows: int, tile: str) -> None:
    _, o = observe(WEIGHTS, {**SIZES, "rows": rows, "cols": 4096})
    assert tile in Rules().propose(o, 1)[0].script


def test_factors_of_32_bits_stay_with_threads() -> None:
    _, o = observe(WEIGHTS.replace("x: f16", "x: f32").replace("f32(x[row * terms + k])", "x[row * terms + k]"), SIZES)
    assert not any("tensorize" in p.script for p in Rules().propose(o, 6))


def test_weights_of_one_scale_a_column_are_multiplied_as_they_are() -> None:
    """The scale stands behind the sum: no factor of its terms is left to be taken out."""
    terms = "f32(x[row * terms + k]) * (f32(scale[g * cols + col]) * f32(q - z - 1))"
    source = WEIGHTS.replace(terms, "f32(x[row * terms + k]) * f32(q - 8)").replace(
        "f16(s)", "f16(s * f32(scale[col]))"
    )
    builder, o = observe(source, SIZES)
    script = Rules().propose(o, 1)[0].script
    assert "stage-factors{loop=k_tile type=f16} | tensorize" in script and "factor-out" not in script
    assert isinstance(builder.build(Proposal(script, "")), Candidate)
