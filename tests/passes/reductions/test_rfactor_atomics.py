# ruff: noqa: E501
"""rfactor-atomics: counts of each part of a loop, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.driver.printing import printed
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from ktc.passes.reductions import rfactor_atomics
from tests.passes.checks import applied, body_of, refused

HEAD = "kernel k(count: u32* restrict, x: u8 const* restrict, n: i32)\n"
COUNTS = parse_kernel(
    HEAD
    + "  par i in 2..n @ [thread.x 32, block.x]\n    let v: u8 = x[i]\n    if v != 3_u8\n      atomic add count[v as i32], 2_u32\n"
)
MOST = parse_kernel(HEAD + "  par i in 0..n @ [thread.x 32, block.x]\n    atomic max count[x[i] as i32], i as u32\n")


def results(kernel, n: int, bins: int = 256) -> tuple[np.ndarray, list]:
    rng = np.random.default_rng(n)
    args = {"count": np.arange(bins, dtype=np.uint32), "x": rng.integers(0, bins, max(n, 1)).astype(np.uint8), "n": n}
    done = run(kernel, args)
    return done.outputs["count"], done.findings


def test_each_part_counts_for_itself() -> None:
    assert (
        body_of(applied(COUNTS, "rfactor-atomics{loop=i bins=256 parts=$P:2,8}"))
        == """\
  knob $P in {2, 8} default 8 owner "rfactor-atomics" doc "parts of the loop, each a task"
  array count_parts: u32[$P, 256]
  par part in 0..$P @ [block.x]
    par k in 0..256 @ [seq]
      count_parts[part, k] = 0_u32
    for i in 2 + part * cdiv(n - 2, $P)..min(2 + part * cdiv(n - 2, $P) + cdiv(n - 2, $P), n)
      let v: u8 = x[i]
      if v != 3_u8
        count_parts[part, v as i32] += 2_u32
  par k_1 in 0..256 @ [seq 64, block.y]
    reduce(+) total: u32 = 0_u32 over part_1 in 0..$P @ [seq]
      yield count_parts[part_1, k_1]
    if total != 0_u32
      count[k_1] += total
"""
    )


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("kernel", [COUNTS, MOST])
@pytest.mark.parametrize("n", [0, 2, 3, 64, 701])
def test_the_same_counts_on_awkward_sizes(kernel, n: int, parts: int) -> None:
    want, _ = results(kernel, n)
    k = applied(kernel, f"rfactor-atomics{{loop=i bins=256 parts={parts}}}")
    for now in (k, materialise(k)):
        got, findings = results(now, n)
        assert np.array_equal(want, got) and not findings


def test_elements_that_nobody_chooses_need_not_be_there() -> None:
    """A buffer of ten elements, of which the data choose no other: none beyond is read or written."""
    k = materialise(applied(COUNTS, "rfactor-atomics{loop=i bins=256 parts=3}"))
    got, findings = results(k, 500, bins=10)
    assert np.array_equal(got, results(COUNTS, 500, bins=10)[0]) and not findings


def test_tasks_run_beside_each_other() -> None:
    text = printed(applied(COUNTS, "rfactor-atomics{loop=i bins=256 parts=8}"), "numba")
    assert text.text.count("in prange(") == 2 and not text.notes


@pytest.mark.parametrize(
    ("body", "args", "code"),
    [
        ("  for i in 0..n\n    atomic add count[x[i] as i32], 1_u32\n", "loop=i bins=256", "E-RFACTOR-PLACE"),
        (
            "  par j in 0..n @ [block.x]\n    par i in 0..n @ [thread.x 32, seq]\n      atomic add count[x[i] as i32], 1_u32\n",
            "loop=j bins=256",
            "E-RFACTOR-PLACE",
        ),
        ("  par i in 0..n @ [block.x]\n    count[i] = 1_u32\n", "loop=i bins=256", "E-RFACTOR-ATOMIC"),
        (
            "  par i in 0..n @ [block.x]\n    atomic add count[x[i] as i32], 1_u32\n",
            "loop=i bins=255",
            "E-RFACTOR-BINS",
        ),
        ("  par i in 0..n @ [block.x]\n    atomic add count[i], 1_u32\n", "loop=i bins=256", "E-RFACTOR-BINS"),
        (
            "  par i in 0..n @ [block.x]\n    atomic add count[x[i] as i32], count[0]\n",
            "loop=i bins=256",
            "E-RFACTOR-USED",
        ),
        (
            "  par i in 0..n @ [block.x]\n    atomic exch count[x[i] as i32], 1_u32\n",
            "loop=i bins=256",
            "E-RFACTOR-USED",
        ),
    ],
)
def test_refusals(body: str, args: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), f"rfactor-atomics{{{args} parts=2}}").code == code


def test_counts_that_are_not_cleared_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version in which each part begins with what it finds."""
    from ktc.ir.nodes import Const

    monkeypatch.setattr(rfactor_atomics, "identity", lambda op, t: Const(1, t))
    wrong = applied(COUNTS, "rfactor-atomics{loop=i bins=256 parts=2}")
    assert not np.array_equal(results(wrong, 100)[0], results(COUNTS, 100)[0])
