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


def verdict(folder: Path) -> str:
    (folder / "k.cu").write_text(SOURCE)
    (folder / "workload.toml").write_text('[kernel]\nsource = "k.cu"\nname = "tally"\n' + ARGS)
    source = load(folder)
    assert source.original is not None and source.workload is not None
    return verify(source.original, source.apply(SCRIPT).lowered(), source.workload).status


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
