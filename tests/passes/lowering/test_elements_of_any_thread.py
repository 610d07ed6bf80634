"""A barrier stands between two loops over threads where what one of them may write is no iteration's own."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.nodes import Barrier
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.passes.lowering import materialise

KERNEL = """
kernel k(out: f32*, first: f32*, x: f32 const*, wanted: f32, host n: i32)
  par b in 0..n @ [block.x]
    par t in 0..128 @ [thread.x 128]
      if x[b * 128 + t] == wanted
        first[WRITTEN] = x[b * 128 + t]
    par u in 0..128 @ [thread.x 128]
      out[b * 128 + u] = first[READ]
"""
ANY = {
    "an element of the block": "b",
    "an element of two threads": "b * 128 + {0} / 2",
    "a remainder alone": "b * 128 + {0} % 64",
    "one of several rows": "b * 128 + {0} / 32 * 4",
}
OWN = {
    "an element each": "b * 128 + {0}",
    "every other one": "b * 256 + 2 * {0}",
    "backwards": "b * 128 + (127 - {0})",
    "a row and a column": "b * 128 + {0} / 32 * 32 + {0} % 32",
    "by bits": "b * 128 + ({0} >> 5) * 32 + ({0} & 31)",
}


def barriers(index: str) -> int:
    text = KERNEL.replace("WRITTEN", index.format("t")).replace("READ", index.format("u"))
    lowered = materialise(parse_kernel(text))
    x = np.arange(3 * 128, dtype=np.float32) % 128
    args = {"out": np.zeros(3 * 128, np.float32), "first": np.zeros(3 * 256, np.float32), "x": x, "wanted": 5.0, "n": 3}
    assert not run(lowered, args).findings
    return sum(isinstance(s, Barrier) for s in walk(lowered.body))


@pytest.mark.parametrize("index", ANY.values(), ids=ANY)
def test_others_wait_for_what_any_thread_may_have_written(index: str) -> None:
    assert barriers(index) == 1


@pytest.mark.parametrize("index", OWN.values(), ids=OWN)
def test_nobody_waits_for_what_its_own_thread_wrote(index: str) -> None:
    assert barriers(index) == 0


def test_others_wait_where_all_threads_write_one_element_alike() -> None:
    """In the next round one of them may be ahead of those that still read."""
    kernel = parse_kernel("""
kernel k(out: f32*, shared_by_all: f32*, host n: i32)
  par b in 0..n @ [block.x]
    for r in 0..4
      par t in 0..64 @ [thread.x 64]
        shared_by_all[b] = r as f32
      par u in 0..64 @ [thread.x 64]
        out[b * 64 + u] = out[b * 64 + u] + shared_by_all[b]
""")
    lowered = materialise(kernel)
    args = {"out": np.zeros(128, np.float32), "shared_by_all": np.zeros(2, np.float32), "n": 2}
    found = run(lowered, args)
    assert {f.kind for f in found.findings} <= {"redundant-store"} and found.outputs["out"].tolist() == [6.0] * 128


def test_what_every_iteration_writes_is_its_own_wherever_that_is() -> None:
    text = KERNEL.replace("      if x[b * 128 + t] == wanted\n  ", "").replace("WRITTEN", "b * 128 + (t ^ 5)")
    lowered = materialise(parse_kernel(text.replace("READ", "b * 128 + (u ^ 5)")))
    assert not any(isinstance(s, Barrier) for s in walk(lowered.body))


def test_a_kernel_that_looks_for_a_key_waits_before_the_place_is_read() -> None:
    """``if (keys[t] == start) first = pick[t]; __syncthreads(); if (keys[t] == end) length = pick[t] - first``."""
    kernel = parse_kernel("""
kernel k(length: i32*, first: i32*, keys: i32 const*, pick: i32 const*, start: i32, end: i32, host n: i32)
  par b in 0..n @ [block.x]
    par t in 0..64 @ [thread.x 64]
      if keys[b * 64 + t] == start
        first[b] = pick[t]
    par u in 0..64 @ [thread.x 64]
      if keys[b * 64 + u] == end
        length[b] = pick[u] - first[b]
""")
    keys, pick = np.tile(np.arange(64, dtype=np.int32), 2), np.arange(64, dtype=np.int32) * 3
    args = {"length": np.zeros(2, np.int32), "first": np.zeros(2, np.int32), "keys": keys, "pick": pick}
    found = run(materialise(kernel), {**args, "start": 10, "end": 7, "n": 2})
    assert not found.findings and found.outputs["length"].tolist() == [-9, -9]
