"""Branches that the workload's data never enter, seen with data of a wider range."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktc.api import load
from ktc.ir.nodes import Atomic, Body, Const, Expr, If, Sym
from ktc.ir.types import I32
from ktc.passes.reductions import privatize_atomics
from ktc.search.verification import ladder, verify
from ktc.search.verification.members import wider_data

SOURCE = """\
__global__ void tally(const int* x, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&count[x[i]], 1);
}
"""
ARGS = """\
[launch]
grid = ["(n + 127) / 128"]
block = ["128"]
[[args]]
name = "x"
dtype = "i32"
role = "in"
shape = ["n"]
init = "ints"
range = [0, 6]
noalias = true
[[args]]
name = "count"
dtype = "i32"
role = "inout"
shape = ["7"]
init = "zeros"
noalias = true
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "a"
sizes = { n = 65536 }
"""
SCRIPT = (
    "raise | tile{loops=i sizes=1024} | distribute{loop=i map=[thread.x 64, seq]}"
    " | privatize-atomics{array=count bins=7 copies=2}"
)


def verdict(folder: Path, source: str = SOURCE, name: str = "tally", args: str = ARGS, script: str = SCRIPT) -> str:
    (folder / "k.cu").write_text(source)
    (folder / "workload.toml").write_text(f'[kernel]\nsource = "k.cu"\nname = "{name}"\n' + args)
    loaded = load(folder)
    assert loaded.original is not None and loaded.workload is not None
    return verify(loaded.original, loaded.apply(script).lowered(), loaded.workload).status


def test_counts_beyond_those_of_a_block_are_seen_with_more_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(tmp_path) == "TESTED"
    monkeypatch.setattr(ladder, "learn_from_wider_data", lambda job, missing: False)
    assert verdict(tmp_path) == "UNKNOWN"


def test_what_is_wrong_beyond_is_not_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = privatize_atomics._update

    def wrong(s: Atomic, own: Sym, mine: Expr, bins: int, neutral: Expr) -> Body:
        twice = Atomic(s.op, s.buffer, s.index, Const(2, I32))
        (choice,) = right(s, own, mine, bins, neutral)
        assert isinstance(choice, If)
        return (replace(choice, orelse=(twice,)),)

    monkeypatch.setattr(privatize_atomics, "_update", wrong)
    assert verdict(tmp_path) == "UNKNOWN"


RANKED = """\
__global__ void gather(const float* x, float* y, const unsigned* extents, const unsigned* strides, int rank,
                       unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned left = i, at = 0;
  for (int k = rank - 1; k >= 0; k--) {
    at += left % extents[k] * strides[k];
    left /= extents[k];
  }
  y[i] = x[at];
}
"""
RANKED_ARGS = """\
[launch]
grid = ["(n + 127) / 128"]
block = ["128"]
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["rows * cols"]
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["rows * cols"]
noalias = true
[[args]]
name = "extents"
dtype = "u32"
role = "in"
shape = ["2"]
init = ["rows", "cols"]
noalias = true
[[args]]
name = "strides"
dtype = "u32"
role = "in"
shape = ["2"]
init = ["1", "rows"]
noalias = true
[[args]]
name = "rank"
dtype = "i32"
role = "scalar"
value = 2
[[args]]
name = "n"
dtype = "u32"
role = "scalar"
value = "rows * cols"
[[scenario]]
name = "a"
sizes = { rows = 256, cols = 128 }
"""
DIVIDED = "raise | specialize{rank=2} | distribute{loop=i map=[thread.x 128, block.x]} | invariant-division"


def test_quotients_by_the_outermost_extent_are_seen_with_more_elements_than_a_tensor_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(tmp_path, RANKED, "gather", RANKED_ARGS, DIVIDED) == "TESTED"
    monkeypatch.setattr(wider_data, "_more", lambda workload: None)
    assert verdict(tmp_path, RANKED, "gather", RANKED_ARGS, DIVIDED) == "UNKNOWN"
