"""Sequences that differ in one launch, or in which launches come, are the same function where each launch is."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.fold import add, cdiv
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Launched, Var, i32
from ktc.ir.text import parse_kernel
from tests.mutation.campaign import OPERATORS
from tests.mutation.operators.operators import apply, places
from tests.mutation.proofs.launches import AGAIN, BOUND, EITHER
from tests.mutation.proofs.proofs import equivalent

TEXT = """
kernel pair(y: f32* noalias, x: f32 const* noalias, t: f32* noalias temporary(n), m: f32* noalias, n: i32)
  launch "scale" grid(cdiv(n, 64)) block(64) max_threads(64)
    let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
    if i < n
      t[i] = x[i] * 2.0
  launch "peaks" grid(cdiv(n, 64)) block(64)
    let j: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
    var v: f32 = -inf
    if j < n
      v = t[j]
    for offset = 16; offset > 0; offset / 2
      v = max(v, shfl_xor(v, offset))
    if j < n
      y[j] = v
  launch "others" grid(cdiv(n, 64)) block(64)
    let k: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
    if k < n
      m[k] = t[k] + 1.0
"""
PAIR = parse_kernel(TEXT)


def mutants(name: str) -> list[str]:
    op = next(op for op in OPERATORS if op.name == name)
    return [equivalent(PAIR, apply(PAIR, op, k)) for k in range(places(PAIR, op))]


def test_a_butterfly_in_one_launch_is_proved_as_in_a_kernel() -> None:
    assert all("symbolic threads" in why for why in mutants("delta-plus-one")) and mutants("delta-plus-one")


def test_which_launches_come() -> None:
    """The first must come before the others; each may come twice; the second and third may change places."""
    assert mutants("launch-again") == [AGAIN] * 3
    assert mutants("swap-launches") == ["", EITHER]
    assert mutants("drop-launch") == ["", "", ""]


@pytest.mark.parametrize(("bound", "why"), [("65", BOUND), ("63", "")])
def test_a_promise_about_threads(bound: str, why: str) -> None:
    first = PAIR.body[0]
    assert isinstance(first, Launched)
    other = dataclasses.replace(first, max_threads=i32(int(bound)))
    assert equivalent(PAIR, PAIR.with_(body=(other, *PAIR.body[1:]))) == why


def test_what_reads_what_it_writes_may_not_come_twice() -> None:
    twice = parse_kernel(TEXT.replace("m[k] = t[k] + 1.0", "m[k] = m[k] + t[k]"))
    op = next(op for op in OPERATORS if op.name == "launch-again")
    assert [equivalent(twice, apply(twice, op, k)) for k in range(3)] == [AGAIN, AGAIN, ""]


N = Var(PAIR.params[-1].sym)
ADDED = "z3: the threads that are added do nothing"


@pytest.mark.parametrize("blocks", [cdiv(N, i32(32)), cdiv(add(N, i32(70)), i32(64))])
def test_blocks_that_a_guard_stops_may_come(blocks: Expr) -> None:
    """For a negative size no block comes, however the extent is rounded."""
    assert equivalent(PAIR, of_blocks(blocks)) == ADDED


@pytest.mark.parametrize("blocks", [cdiv(N, i32(65)), i32(64)])
def test_blocks_that_do_something_must_come(blocks: Expr) -> None:
    assert not equivalent(PAIR, of_blocks(blocks))


@pytest.mark.parametrize(("largest", "why"), [(2**20, ADDED), (2**30, "")])
def test_blocks_may_not_be_so_many_that_indices_wrap(largest: int, why: str) -> None:
    """64 threads in each of n blocks."""
    few, many = (bounded(k, largest) for k in (PAIR, of_blocks(N)))
    assert equivalent(few, many) == why


def of_blocks(blocks: Expr) -> Kernel:
    """:data:`PAIR` with so many blocks in its first launch."""
    first = PAIR.body[0]
    assert isinstance(first, Launched)
    return PAIR.with_(body=(dataclasses.replace(first, grid=(blocks, *first.grid[1:])), *PAIR.body[1:]))


def bounded(kernel: Kernel, n: int) -> Kernel:
    """``kernel`` for at most ``n`` elements."""
    *others, last = kernel.params
    return kernel.with_(params=(*others, dataclasses.replace(last, range=(1, n))))
