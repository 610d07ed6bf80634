"""Candidates that do one after another what many threads of the original do at once: long, and not endless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from textwrap import indent
from typing import Any

import pytest

from ktc.ir.interp import FUEL, RunResult
from ktc.ir.workload import ArgSpec
from ktc.search.verification import ladder, verify
from ktc.search.verification.floats.special_values import SpecialRows
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import Oracle
from ktc.search.verification.rungs import exact
from tests.ir.interp.interp_samples import kernel
from tests.search.verification.gate_samples import _workload, scalar

WORK = _workload(
    "k",
    (ArgSpec("y", "f32", "out", ("n",)), ArgSpec("x", "f32", "in", ("n",)), scalar("n", "n"), scalar("m", "m")),
    {"n": 3000, "m": 6},
    {"n": 37, "m": 3},
)
HEAD = "kernel k(y: f32*, x: f32 const*, n: i32 range 1..4096, m: i32 range 1..8)\n"
STEPS = "".join(f"if v < x[(i + {k}) % n]\n  v = v * {k}.0 + 1.0\n" for k in range(2, 12))
ELEMENT = f"var v: f32 = 0.0\nfor k in 0..m\n{indent(STEPS, '  ')}y[i] = v\n"
THREADS = (
    f"{HEAD}  launch grid(min((n + 63) / 64, 4096)) block(64)\n"
    f"  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)\n  if i < n\n{indent(ELEMENT, '    ')}"
)
"""A thread an element; with 4096 a number of the program, so many elements are tried."""

REPEATED = """kernel k(y: f32*, x: f32 const*, n: i32 range 1..64, m: i32 range 1..90000)
  launch grid((n + {0} - 1) / {0}) block({0})
  let i: i32 = i32(blockIdx.x) * {0} + i32(threadIdx.x)
  if i < n
    var v: f32 = 0.0
    for k in 0..m
      v = v + x[i]
      v = v * 0.5
      v = v + 1.0
    y[i] = v
"""


def one_thread(step: str = "1") -> str:
    loop = f"  var i: i32 = 0\n  while i < n\n{indent(ELEMENT, '    ')}    i += {step}\n"
    return f"{HEAD}  launch grid(1) block(1)\n{loop}"


def test_one_thread_may_take_as_many_statements_as_many_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """4096 elements are 100,000 statements of one thread, and 30 of each of the original's: among the shortest."""
    usual = ladder.instances
    long = Instance({"n": 4096, "m": 1}, 8192)
    monkeypatch.setattr(ladder, "instances", lambda *a, **more: [long, *usual(*a, **more)[:8]])
    verdict = verify(kernel(THREADS), kernel(one_thread()), WORK)
    assert verdict.status == "TESTED", verdict


def test_what_never_ends_is_still_seen() -> None:
    verdict = verify(kernel(THREADS), kernel(one_thread("n == 37 ? 0 : 1")), WORK)
    assert verdict.status in ("REJECTED", "UNKNOWN"), verdict


def test_what_is_too_long_for_a_candidate_is_not_run_to_its_end_for_the_original(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the original races or has a defect at sizes of which most are too long is asked of all of them."""
    allowed: dict[tuple[int, ...], int] = {}
    compared: set[tuple[int, ...]] = set()
    usual, against = Oracle.run, Job.run

    def original(
        self: Oracle, sizes: Mapping[str, int], domain: str, data: str | SpecialRows, fuel: int = FUEL, *cost: float
    ) -> RunResult:
        key = tuple(sizes.values())
        allowed[key] = max(fuel, allowed.get(key, 0))
        return usual(self, sizes, domain, data, fuel, *cost)

    def candidate(self: Job, instance: Instance, *a: Any, **more: Any) -> RunResult:
        compared.add(tuple(instance.sizes.values()))
        return against(self, instance, *a, **more)

    monkeypatch.setattr(Oracle, "run", original)
    monkeypatch.setattr(Job, "run", candidate)
    work = replace(
        WORK,
        scenarios=tuple(replace(s, sizes={"n": 37, "m": m}) for s, m in zip(WORK.scenarios, (9, 90000), strict=True)),
    )
    assert verify(kernel(REPEATED.format(64)), kernel(REPEATED.format(32)), work).status == "TESTED"
    only_followed = allowed.keys() - compared
    assert (37, 90000) in only_followed
    assert max(allowed[sizes] for sizes in only_followed) <= exact.MORE_STEPS
