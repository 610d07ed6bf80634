"""Ideas for products of which a factor is computed for each term."""

from __future__ import annotations

import pytest

from ktc.agent.build import Candidate
from ktc.agent.embedded.rules import Rules
from ktc.agent.planner import Proposal
from tests.agent.embedded.test_rules import observe

WEIGHTS = """\
kernel product(y: f32* restrict align 16 noalias, x: f32 const* restrict align 16 noalias readonly,
    w: u8 const* restrict align 16 noalias readonly, scale: f32 const* restrict noalias readonly,
    shift: f32 const* restrict noalias readonly, rows: i32, cols: i32, terms: i32)
  launch grid((cols + 15) / 16, (rows + 15) / 16) block(16, 16)
  let row: i32 = i32(blockIdx.y) * 16 + i32(threadIdx.y)
  let col: i32 = i32(blockIdx.x) * 16 + i32(threadIdx.x)
  if row < rows && col < cols
    var s: f32 = 0.0
    for k in 0..terms
      let two: u8 = w[(col * terms + k) / 2]
      s += x[row * terms + k] * (f32(k % 2 == 0 ? i32(two) >> 4 : i32(two) & 15) * scale[col] + shift[col])
    y[row * cols + col] = s
"""
SIZES = {"rows": 512, "cols": 1024, "terms": 1024}


@pytest.mark.parametrize("activations", ["f32", "f16"])
def test_the_first_ideas_compute_the_factor_once_a_block(activations: str) -> None:
    source = WEIGHTS.replace("x: f32", f"x: {activations}").replace("x[row * terms + k]", "f32(x[row * terms + k])")
    builder, o = observe(source, SIZES)
    scripts = [p.script for p in Rules().propose(o, 4)]
    for script in scripts[:3]:
        assert "stage-factors{loop=k_tile.*}" in script and "stage-shared{array=x loop=k_tile.* transpose=yes" in script
        assert isinstance(builder.build(Proposal(script, "")), Candidate)


def test_a_product_of_words_that_are_read_as_they_lie_needs_no_table() -> None:
    plain = WEIGHTS.replace("w: u8", "w: f32").replace(
        "let two: u8 = w[(col * terms + k) / 2]", "let two: f32 = w[col * terms + k]"
    )
    plain = plain.replace("(f32(k % 2 == 0 ? i32(two) >> 4 : i32(two) & 15) * scale[col] + shift[col])", "two")
    _, o = observe(plain, SIZES)
    assert not any("stage-factors" in p.script for p in Rules().propose(o, 6))
