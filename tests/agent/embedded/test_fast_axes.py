"""Planes whose neighbouring threads are a row of memory apart: the planner turns them first."""

from __future__ import annotations

import pytest

from ktc.agent.embedded.rules import Rules
from ktc.agent.embedded.turned import along_memory
from ktc.ir.text import parse_kernel
from tests.agent.embedded.test_rules import observe
from tests.passes.checks import differs

PLANE = """\
kernel plane(y: f32* align 16 noalias, x: f32 const* align 16 readonly, n: i32 range 1..4096, m: i32 range 1..4096)
  launch grid(cdiv(m, 32), cdiv(n, 8)) block(32, 8)
  let a: i32 = i32(blockIdx.x) * 32 + i32(threadIdx.x)
  let b: i32 = i32(blockIdx.y) * 8 + i32(threadIdx.y)
  if a < m && b < n
    y[{stored}] = x[{loaded}] + 1.0
"""


def plane(stored: str, loaded: str) -> str:
    return PLANE.format(stored=stored, loaded=loaded)


@pytest.mark.parametrize("loaded", ["a * n + b", "a"])
def test_the_loop_along_memory_takes_the_fast_axis_and_goes_inside(loaded: str) -> None:
    source = plane("a * n + b", loaded)
    _, o = observe(source, {"n": 1024, "m": 1024})
    assert o.raised is not None
    ((steps, kernel),) = along_memory(o.raised)
    assert steps == "interchange{outer=b} | map{a=[thread.y 8, block.y] b=[thread.x 32, block.x]} | "
    assert differs(parse_kernel(source), kernel, [{"n": n, "m": m} for n, m in ((1, 1), (9, 33), (40, 7))]) is None
    first = Rules().propose(o, 3)
    assert all(p.script.startswith(f"raise | {steps}") for p in first)
    assert any("b map=[vec $V, thread.x" in p.script for p in first)


@pytest.mark.parametrize(("stored", "loaded"), [("b * m + a", "b * m + a"), ("a * n + b", "b * m + a")])
def test_planes_with_an_access_along_the_fast_axis_stay(stored: str, loaded: str) -> None:
    _, o = observe(plane(stored, loaded), {"n": 1024, "m": 1024})
    assert o.raised is not None and not [*along_memory(o.raised)]


VOLUME = """\
kernel volume(y: f32* align 16 noalias, x: f32 const* align 16 readonly, n: i32 range 1..512, m: i32 range 1..512)
  launch grid(cdiv(n, 8), cdiv(m, 8), cdiv(m, 4)) block(8, 8, 4)
  let a: i32 = i32(blockIdx.x) * 8 + i32(threadIdx.x)
  let b: i32 = i32(blockIdx.y) * 8 + i32(threadIdx.y)
  let c: i32 = i32(blockIdx.z) * 4 + i32(threadIdx.z)
  if a < n && b < m && c < m
    y[(a * m + b) * m + c] = x[(a * m + b) * m + c] + 1.0
"""


def test_the_loop_along_memory_goes_inside_of_all_loops_of_a_volume() -> None:
    _, o = observe(VOLUME, {"n": 64, "m": 256})
    assert o.raised is not None
    ((steps, kernel),) = along_memory(o.raised)
    assert steps == (
        "interchange{outer=c} | interchange{outer=c}"
        " | map{b=[block.z] a=[thread.y 8, block.y] c=[thread.x 32, block.x]} | "
    )
    assert differs(parse_kernel(VOLUME), kernel, [{"n": n, "m": m} for n, m in ((1, 1), (9, 33), (17, 5))]) is None


PRODUCT = """\
kernel product(
    y: f32* align 16 noalias,
    x: f32 const* align 16 readonly,
    z: f32 const* align 16 readonly,
    n: i32 range 1..4096)
  launch grid(cdiv(n, 32), cdiv(n, 8)) block(32, 8)
  let a: i32 = i32(blockIdx.x) * 32 + i32(threadIdx.x)
  let b: i32 = i32(blockIdx.y) * 8 + i32(threadIdx.y)
  if a < n && b < n
    y[a * n + b] = 0.0
    for k in 0..n
      y[a * n + b] += x[a * n + k] * z[k * n + b]
"""


def test_a_sum_in_memory_is_one_in_registers_before_its_plane_is_tiled() -> None:
    _, o = observe(PRODUCT, {"n": 1024})
    first = Rules().propose(o, 2)
    assert first and all("interchange{outer=b}" in p.script for p in first)
    assert all("promote{loop=k}" in p.script.split("stage-shared")[0] and "stage-shared" in p.script for p in first)
