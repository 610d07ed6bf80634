"""Rows of known length: as many accesses a thread as reach their end, in registers where these hold them."""

from __future__ import annotations

import dataclasses
import re

import pytest

from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.rules import Rules
from ktc.agent.embedded.whole_rows import (
    OTHER_BYTES,
    THREAD_BYTES,
    THREADS,
    UNIT_BYTES,
    exact_threads,
    whole_row,
)
from ktc.agent.limits import space_for
from ktc.agent.planner import Proposal
from tests.agent.agent_kernels import REDUCTION
from tests.agent.embedded.test_rules import GPU, observe


def _points(n: int) -> list[tuple[int, int, int]]:
    """Vectors, threads and rounds over rows of ``n``, of those that the first script allows."""
    _, o = observe(REDUCTION, {"n": 64, "d": n})
    return _points_of(Rules().propose(o, 1)[0].script, n)


def _points_of(script: str, n: int) -> list[tuple[int, int, int]]:
    _, o = observe(REDUCTION, {"n": 64, "d": n})
    built = Builder(o.kernel).build(Proposal(script, ""))
    assert isinstance(built, Candidate)
    return [(c["V"], c["T"], c["U"]) for c in space_for(built.kernel, GPU, {"n": 64, "d": n})]


@pytest.mark.parametrize("n", [4096, 5120, 5001, 8193, 50257, 40000])
def test_threads_reach_the_end_of_a_row_and_no_further(n: int) -> None:
    found = _points(n)
    assert found and all(v * t * (u - 1) < n <= v * t * u for v, t, u in found)
    assert all(4 * v * u <= THREAD_BYTES for v, _, u in found)
    assert all(t * (4 * v * u + OTHER_BYTES) <= UNIT_BYTES for v, t, u in found)


def test_a_long_row_is_held_by_a_block_that_has_the_registers() -> None:
    """50,257 elements, an odd number: single accesses, 50 a thread of 1024."""
    _, o = observe(REDUCTION, {"n": 64, "d": 50257})
    held, cut, shared, streamed = (p.script for p in Rules().propose(o, 4))
    assert "unroll $U:(50)]} | row-cache{loop=i.* keep=loaded}" in held
    assert "unroll $U:(50)] tail=cut} | row-cache{loop=i.* keep=loaded}" in cut
    assert "seq] tail=cut} | row-cache{loop=i.* keep=loaded where=shared}" in shared
    assert "seq] tail=cut}" in streamed and "row-cache" not in streamed


def test_a_long_row_in_registers_tries_cheaper_functions_first() -> None:
    """What an accurate exponential needs beside fifty values is more than a thread of 1024 has."""
    _, o = observe(REDUCTION.replace("x[row + i] = w * inv", "x[row + i] = exp(w) * inv"), {"n": 64, "d": 50257})
    cheap, held = (p.script for p in Rules().propose(o, 2))
    assert "row-cache{loop=i.* keep=loaded} | fast-math" in cheap and "fast-math" not in held


def test_rows_that_no_block_holds_are_not_held() -> None:
    assert whole_row(128256, 4) is None and whole_row(65536, 4) is None
    assert whole_row(65536, 2) is not None  # half as wide
    assert whole_row(50257, 2) is not None and whole_row(65537, 2) is None  # single elements take a register each
    _, o = observe(REDUCTION, {"n": 64, "d": 128256})
    scripts = [p.script for p in Rules().propose(o, 6)]
    assert scripts and not any("row-cache" in s and "where=shared" not in s for s in scripts)


def test_whole_rows_by_threads_of_a_warp() -> None:
    whole = whole_row(1024, 4, wide=False, threads="32", choices=(32,))
    assert whole is not None and whole.unroll == "unroll $U:(32)" and whole.long
    assert re.findall(r"where ([^w]*)", whole.where)[:2] == ["32 * U < 2048 ", "32 * (U - 1) < 1024 "]


def test_a_script_whose_knobs_suit_no_size_is_not_proposed() -> None:
    _, o = observe(REDUCTION, {"n": 64, "d": 4096})
    found = [p.script for p in Rules().propose(o, 6)]
    fussy = dataclasses.replace(o, runs=lambda script: script != found[0])
    assert [p.script for p in Rules().propose(fussy, 6)][:5] == found[1:6]


@pytest.mark.parametrize(
    ("n", "size", "exact"),
    [(768, 4, {96, 192}), (5120, 2, {160, 320, 640}), (4096, 2, set()), (14336, 2, {224, 448, 896}), (50257, 4, set())],
)
def test_numbers_of_threads_that_leave_no_rest_of_a_row(n: int, size: int, exact: set[int]) -> None:
    assert set(exact_threads(n, size, THREADS)) == set(THREADS) | exact


def test_threads_that_leave_no_rest_are_asked_for_where_a_row_is_held() -> None:
    _, o = observe(REDUCTION, {"n": 64, "d": 768})
    held = next(p.script for p in Rules().propose(o, 4) if "where=registers" in p.script)
    assert "thread.x $T:(32,64,96,128,192,256,512,1024), unroll" in held
    assert {(4, 96, 2), (4, 192, 1)} <= set(_points_of(held, 768))
