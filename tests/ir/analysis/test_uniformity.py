"""Uniformity: which values and statements depend on the thread."""

from __future__ import annotations

import pytest

from ktc.ir.analysis.uniformity import uniformity
from ktc.ir.nodes import Barrier
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk

HEAD = "kernel k(p: f32 const*, n: i32)\n  array sh: shared f32[32]\n  var v: f32 = 0.0\n  var w: i32 = 0\n"


@pytest.mark.parametrize(
    ("body", "varying"),
    [
        ("  w = blockIdx.x\n  v = p[w]\n", set()),
        ("  w = threadIdx.x\n", {"w"}),
        ("  w = threadIdx.x * 0\n  v = p[w]\n", {"v", "w"}),  # no algebra: this is data flow
        ("  if threadIdx.x == 0\n    w = 1\n", {"w"}),
        ("  sh[threadIdx.x] = p[threadIdx.x]\n  v = sh[0]\n", set()),
        ("  v = shfl_xor(v, 16)\n", {"v"}),
        ("  while v < 3.0\n    v = v + 1.0\n    w = threadIdx.x\n", {"w"}),
        ("  for i in 0..n\n    v = v + w\n    w = threadIdx.x\n", {"v", "w"}),  # around the back edge
        ("  for i in 0..n\n    if p[threadIdx.x] > 0.0\n      break\n    w = i\n", {"w"}),
        ("  for i in 0..n\n    if p[i] > 0.0\n      break\n    w = i\n", set()),
        ("  array a: f32[4]\n  a[0] = threadIdx.x\n  v = a[1]\n", {"a", "v"}),
        ("  reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 32, seq]\n    yield p[i]\n  v = s\n", {"i"}),
        (
            "  par t in 0..n @ [thread.x]\n    reduce(+) s: f32 = 0.0 over i in 0..n\n      yield p[t * n + i]\n",
            {"s", "t"},
        ),
    ],
)
def test_thread_dependent_symbols(body: str, varying: set[str]) -> None:
    assert {s.name for s in uniformity(parse_kernel(HEAD + body)).varying} == varying


@pytest.mark.parametrize(
    ("body", "divergent"),
    [
        ("  barrier\n", False),
        ("  if n > 3\n    barrier\n", False),
        ("  if threadIdx.x > 3\n    barrier\n", True),
        ("  if threadIdx.x > 3\n    return\n  barrier\n", False),
        ("  for i in 0..n\n    if threadIdx.x > i\n      continue\n    barrier\n", True),
        ("  for i in 0..n\n    barrier\n    if threadIdx.x > i\n      continue\n", False),
        ("  for i in 0..n\n    barrier\n    if threadIdx.x > i\n      break\n", True),
        ("  for i: u32 = threadIdx.x; i < n; i + 32\n    barrier\n", True),
    ],
)
def test_divergent_statements(body: str, divergent: bool) -> None:
    k = parse_kernel(HEAD + body)
    barrier = next(s for s in walk(k.body) if isinstance(s, Barrier))
    assert uniformity(k).is_divergent(barrier) is divergent
