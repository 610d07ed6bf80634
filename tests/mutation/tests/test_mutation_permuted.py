"""Proofs that blocks do one another's work: bands of rows that are turned."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

BANDS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, heads: i32 range 1..1024, tokens: i32 range 1..1000000)
  launch grid(heads * tokens) block(64)
  let block: i32 = i32(blockIdx.x)
  let first: i32 = block / (8 * tokens) * 8
  let rows: i32 = min(8, heads - first)
  let head: i32 = first + block % (8 * tokens) % rows
  let token: i32 = block % (8 * tokens) / rows
  y[(head * tokens + token) * 64 + i32(threadIdx.x)] = x[head]
"""

TURNED = ("block % (8 * tokens) % rows", "block % rows")


def proof(text: str, old: str = TURNED[0], new: str = TURNED[1]) -> str:
    assert old in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))


def test_rows_of_a_band_may_be_turned() -> None:
    assert "one another's work" in proof(BANDS)


def test_as_counted_out() -> None:
    """The formulas of BANDS, for small sizes: the same pairs, each once."""
    for heads, tokens in ((1, 1), (8, 3), (11, 5), (17, 7), (23, 1)):
        block = np.arange(heads * tokens)
        first = block // (8 * tokens) * 8
        rows = np.minimum(8, heads - first)
        token = block % (8 * tokens) // rows
        one, other = (set(zip(first + x % rows, token, strict=True)) for x in (block % (8 * tokens), block))
        assert one == other and len(one) == heads * tokens


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("grid(heads * tokens)", "grid(heads * tokens - 1)"),  # the last column lacks a row
        ("grid(heads * tokens)", "grid(heads * (tokens + 1))"),  # blocks come again, in bands of their own
        ("heads - first)", "heads - first + 1)"),  # the last band is not whole columns
        ("x[head]", "x[i32(blockIdx.x)]"),  # a block is known otherwise
        ("x[head]", "x[block % 2]"),
        ("x[head]", "f32(gridDim.x - blockIdx.x)"),
        ("let token: i32 = block % (8 * tokens) / rows", "let token: i32 = block / heads"),
        ("let rows: i32 = min(8, heads - first)", "let rows: i32 = min(8, heads - block)"),
        ("let rows: i32 = min(8, heads - first)", "let rows: i32 = min(8, heads - i32(threadIdx.x))"),
        ("let rows: i32 = min(8, heads - first)", "let rows: i32 = i32(x[block])"),
    ],
)
def test_and_not_where_bands_are_cut_or_blocks_known_otherwise(old: str, new: str) -> None:
    assert old in BANDS
    assert not proof(BANDS.replace(old, new))


def test_nor_where_blocks_learn_of_each_other() -> None:
    drawn = "  var t: u32\n  t = atomic inc tickets[0], 1000\n"
    text = BANDS.replace("y: f32*", "tickets: u32*, y: f32*") + drawn
    assert not proof(text)
    added = BANDS + "  atomic add y[0], 1.0\n"
    assert proof(added)
    polled = BANDS.replace("= x[head]", "= x.volatile[head]")
    assert not proof(polled)


def test_nor_by_other_amounts() -> None:
    assert not proof(BANDS, *("block % (8 * tokens) % rows", "block % (7 * tokens) % rows"))
    assert not proof(BANDS, *("block % (8 * tokens) % rows", "block / rows % rows"))
    assert not proof(BANDS, *("block % (8 * tokens) / rows", "block / rows"))
    assert not proof(BANDS, *("block % (8 * tokens) % rows", "block % 8"))
