"""Launches that differ in their data alone, run at once: each comes to what it comes to alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import RunResult, run
from ktc.ir.interp.launches_at_once import Lanes, apart, may_run_at_once
from tests.ir.interp.interp_samples import kernel

Data = Callable[[np.random.Generator], dict[str, np.ndarray | int]]

TURNED = """
kernel turned(y: f32*, x: f32 const*, n: i32)
  launch grid(cdiv(n, 8)) block(8)
  array t: shared f32[8]
  let i: i32 = i32(blockIdx.x * 8 + threadIdx.x)
  var v: f32 = 0.0
  if i < n
    v = x[i]
  t[threadIdx.x] = v
  barrier
  if i < n
    y[i] = t[7 - i32(threadIdx.x)] + f32(gridDim.x) + f32(blockIdx.x)
"""

COUNTED = """
kernel counted(h: i32*, x: i32 const*, n: i32)
  launch grid(cdiv(n, 8)) block(8)
  let i: i32 = i32(blockIdx.x * 8 + threadIdx.x)
  if i < n
    atomic add h[x[i]], 1
"""

HALVED = """
kernel halved(x: f32*, steps: i32*, n: i32)
  launch grid(cdiv(n, 8)) block(8)
  let i: i32 = i32(blockIdx.x * 8 + threadIdx.x)
  if i < n
    var k: i32 = 0
    while x[i] > 1.0
      x[i] = x[i] * 0.5
      k += 1
    steps[i] = k
"""

CASES: dict[str, tuple[str, Data]] = {
    "shared memory": (
        TURNED,
        lambda rng: {"y": np.zeros(19, np.float32), "x": rng.random(19).astype(np.float32), "n": 19},
    ),
    "atomics": (
        COUNTED,
        lambda rng: {"h": np.zeros(5, np.int32), "x": rng.integers(0, 5, 37).astype(np.int32), "n": 37},
    ),
    "loops that data end": (
        HALVED,
        lambda rng: {
            "x": (100 * rng.random(11)).astype(np.float32), "steps": np.full(11, -1, np.int32), "n": 11,
        },
    ),
}  # fmt: skip


def several(data: Data, count: int = 4) -> list[dict[str, np.ndarray | int]]:
    return [data(np.random.default_rng(k)) for k in range(count)]


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("sanitize", [True, False])
@pytest.mark.parametrize("domain", ["float", "bound", "float64"])
def test_each_launch_leaves_what_it_leaves_alone(what: str, sanitize: bool, domain: str) -> None:
    text, data = CASES[what]
    k, launches = kernel(text), several(data)
    assert may_run_at_once(k, launches[0])
    alone = [run(k, args, domain=domain, sanitize=sanitize) for args in launches]
    together = run(k, launches[0], domain=domain, sanitize=sanitize, beside=launches[1:])
    assert together.ok and all(r.ok for r in alone)
    for mine, theirs in zip(apart(together, len(launches)), alone, strict=True):
        assert mine.outputs.keys() == theirs.outputs.keys()
        assert all(np.array_equal(x, theirs.outputs[n]) for n, x in mine.outputs.items())
        assert mine.stored == theirs.stored
    assert max(r.steps for r in alone) <= together.steps < sum(r.steps for r in alone)
    seen: dict[int, int] = {}
    for r in alone:
        seen |= {e: seen.get(e, 0) | how for e, how in r.outcomes.items()}
    assert dict(together.outcomes) == seen


def test_what_nobody_stored_is_said_of_each_launch() -> None:
    k = kernel("""
kernel some(y: f32*, x: f32 const*)
  launch grid(1) block(8)
  let i: i32 = i32(threadIdx.x)
  if x[i] > 0.0
    y[i] = x[i]
""")
    signs = np.array([[1, -1] * 4, [-1, 1] * 4], np.float32)
    launches = [{"y": np.zeros(8, np.float32), "x": x} for x in signs]
    together = run(k, launches[0], undefined={"y"}, beside=launches[1:])
    assert [r.written["y"].tolist() for r in apart(together, 2)] == [list(x > 0) for x in signs]


RACING = """
kernel racing(y: f32*, x: i32 const*)
  launch grid(2) block(8)
  y[x[blockIdx.x * 8 + threadIdx.x]] = f32(threadIdx.x)
"""


def test_places_of_different_launches_are_different_places() -> None:
    k, places = kernel(RACING), np.arange(16, dtype=np.int32)
    launches = [{"y": np.zeros(16, np.float32), "x": x} for x in (places, places[::-1].copy())]
    assert run(k, launches[0], beside=launches[1:]).ok


@pytest.mark.parametrize(
    ("places", "kind"), [([3] * 16, "race"), ([*range(15), 16], "out-of-bounds"), ([-1, *range(15)], "out-of-bounds")]
)
def test_a_defect_of_one_launch_is_found(places: list[int], kind: str) -> None:
    k, fine = kernel(RACING), np.arange(16, dtype=np.int32)
    launches = [{"y": np.zeros(16, np.float32), "x": x} for x in (fine, np.array(places, np.int32), fine[::-1].copy())]
    assert kind in {f.kind for f in run(k, launches[0], beside=launches[1:]).findings}


def test_memory_that_nobody_wrote_is_seen() -> None:
    k = kernel("""
kernel unset(y: f32*, x: f32 const*)
  launch grid(1) block(8)
  array t: shared f32[8]
  let i: i32 = i32(threadIdx.x)
  if x[i] > 0.0
    t[i] = x[i]
  barrier
  y[i] = t[7 - i]
""")
    ones = np.ones(8, np.float32)
    launches = [{"y": np.zeros(8, np.float32), "x": x} for x in (ones, ones * 2, -ones)]
    assert run(k, launches[0], beside=launches[1:2]).ok
    assert {f.kind for f in run(k, launches[0], beside=launches[1:]).findings} == {"uninitialised"}


def test_launches_of_other_numbers_do_not_run_at_once() -> None:
    launches = several(CASES["shared memory"][1], 2)
    with pytest.raises(KtcError, match="differ in more than data"):
        run(kernel(TURNED), launches[0], beside=[{**launches[1], "n": 18}])


@pytest.mark.parametrize(
    "text",
    [
        "kernel k(y: f32*)\n  launch grid(2) block(8)\n  barrier grid\n",
        "kernel k(y: f32*, w: f32* scratch(8))\n  launch grid(2) block(8)\n  w[threadIdx.x] = 1.0\n",
        "kernel k(y: f32*)\n  par i in 0..8\n    y[i] = 1.0\n",
    ],
)
def test_which_kernels_run_alone(text: str) -> None:
    assert not may_run_at_once(kernel(text), {"y": np.zeros(8, np.float32)})


def result(steps: int, spared: int, lanes: tuple[float, float]) -> RunResult:
    return RunResult({}, steps=steps, spared=spared, lanes=lanes)


def test_launches_at_once_are_fewer_where_rounds_no_longer_run_at_once() -> None:
    k, args = kernel(TURNED), several(CASES["shared memory"][1], 1)[0]
    lanes = Lanes()
    lanes.note(k, args, (19,), result(100, 6300, (1024.0, 16384.0)))
    assert lanes.most_at_once(k, args, (19,)) == 16
    lanes.note_at_once(result(110, 6290, (9000.0, 30000.0)))
    assert lanes.most_at_once(k, args, (19,)) == 16
    lanes.note_at_once(result(6400, 0, (9000.0, 30000.0)))
    assert lanes.most_at_once(k, args, (19,)) == 2
    assert lanes.most_at_once(k, args, (7,)) == 2  # as many lanes a thread


@pytest.mark.parametrize("domain", ["bound", "terms", "roundings"])
def test_what_is_known_of_a_lane_is_not_a_matter_of_its_neighbours(domain: str) -> None:
    """A number that a narrower type has keeps its error where those beside it are rounded."""
    k = kernel("""
kernel narrowed(y: f16*, x: f32 const*)
  launch grid(1) block(4)
  let i: i32 = i32(threadIdx.x)
  y[i] = f16(x[i])
""")
    launches = [
        {"y": np.zeros(4, np.float16), "x": np.array(x, np.float32)} for x in ([1, 2, 0.5, 4], [0.1, 1, 3, 0.3])
    ]
    alone = [run(k, args, domain=domain, sanitize=False).outputs["y"] for args in launches]
    together = run(k, launches[0], domain=domain, sanitize=False, beside=launches[1:]).outputs["y"]
    assert together.tolist() == [x.tolist() for x in alone]
