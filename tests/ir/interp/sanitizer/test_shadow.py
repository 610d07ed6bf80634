"""Shadow memory: two witnesses of all accesses, who tell of any that is not ordered before a present one."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.interp.execution.frames import Frame
from ktc.ir.interp.execution.run_state import Geometry
from ktc.ir.interp.sanitizer import witnesses
from ktc.ir.interp.sanitizer.races import BarrierOrder, IterationOrder, Order
from ktc.ir.interp.sanitizer.witnesses import Witnesses
from ktc.ir.text import parse_kernel

PLACES = 3
SEEDS = [pytest.param(seed, marks=() if seed < 8 else pytest.mark.campaign) for seed in range(25)]


class Everybody:
    """All accesses of each place, none forgotten."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []

    def beside(self, order: Order, pos: np.ndarray, ids: np.ndarray, local: bool) -> set[int]:
        out = set()
        for place, who, when in self.seen:
            mine = ids[(pos == place) & (ids != who)]
            if len(mine) and order.concurrent(*(np.full(len(mine), x) for x in (who, when)), mine, local).any():
                out.add(place)
        return out

    def remember(self, order: Order, pos: np.ndarray, ids: np.ndarray) -> None:
        self.seen += [(int(p), int(i), order.now) for p, i in zip(pos, ids)]


def check(
    known: Witnesses, all_of_them: Everybody, order: Order, pos: np.ndarray, ids: np.ndarray, local: bool
) -> bool:
    """Whether some access is not ordered; the witnesses have to tell where."""
    beside = known.beside(order, pos, ids, local)
    told = {int(p) for b in beside for p in pos[b.held]}
    assert told == all_of_them.beside(order, pos, ids, local)
    known.remember(order, pos, ids, beside)
    all_of_them.remember(order, pos, ids)
    return bool(told)


@pytest.mark.parametrize("few", [1, 10_000])
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_threads(seed: int, local: bool, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "FEW", few)
    rng, blocks, threads, warp = np.random.default_rng(seed), 2, 12, 4
    total = blocks * threads
    order = BarrierOrder(Geometry((blocks, 1, 1), (threads, 1, 1), warp=warp))
    known, everybody, races = Witnesses(blocks * PLACES), Everybody(), 0
    everyone = np.arange(total)
    for _ in range(40):
        kind = rng.choice(["block", "warp", "grid", "access", "access", "access"])
        if kind == "block":
            block = everyone[everyone // threads == rng.integers(blocks)]
            order.block_barrier(block)
        elif kind == "warp":
            order.warp_barrier(everyone[everyone // warp == rng.integers(total // warp)])
        elif kind == "grid" and rng.random() < 0.3:
            order.grid_barrier(everyone)
        else:
            lanes = everyone[rng.random(total) < rng.choice([0.1, 0.5, 1.0])]
            pos = rng.integers(0, rng.integers(1, PLACES + 1), len(lanes))
            pos = pos + lanes // threads * PLACES if local else pos
            if few == 1:
                pos = np.sort(pos) if not local else pos
            races += check(known, everybody, order, pos, lanes, local)
    assert races


@pytest.mark.parametrize("seed", range(40))
def test_iterations(seed: int) -> None:
    rng, order = np.random.default_rng(seed), IterationOrder()
    known, everybody = Witnesses(PLACES), Everybody()
    root = Frame(1)
    order.enter(root)
    frames = [root]  # frames have to live as long as the order knows them

    def inside(frame: Frame, depth: int) -> None:
        for _ in range(rng.integers(1, 4)):
            if depth == 3 or rng.random() < 0.4:
                lanes = np.flatnonzero(rng.random(frame.n) < rng.choice([0.3, 1.0]))
                pos = rng.integers(0, rng.integers(1, PLACES + 1), len(lanes))
                check(known, everybody, order, pos, order.ids(frame, lanes), False)
                continue
            trips = rng.integers(0, 4, frame.n)
            owner = np.repeat(np.arange(frame.n), trips)
            child = Frame(len(owner), frame, owner)
            frames.append(child)
            number = np.arange(len(owner)) - (np.cumsum(trips) - trips)[owner]
            order.enter(child, order.begin(frame.n), number, trips[owner])
            inside(child, depth + 1)

    inside(root, 0)


READ_BY_ALL = """kernel k(y: i32*)
  launch grid(1) block(64)
  array s: shared i32[64]
  let t: i32 = threadIdx.x
  s[t] = y[t]
  barrier
  let own: i32 = s[t]
  let first: i32 = s[PLACE]
  BARRIER
  s[t] = first + own
  barrier
  y[t] = s[t]
"""


@pytest.mark.parametrize(("place", "barrier", "races"), [("1", "", 1), ("63", "barrier warp", 1), ("63", "barrier", 0)])
def test_what_all_read_and_one_writes(place: str, barrier: str, races: int) -> None:
    """The writer is among the readers, and a barrier of its warp orders the others of its warp only."""
    kernel = parse_kernel(READ_BY_ALL.replace("PLACE", place).replace("BARRIER", barrier))
    found = run(kernel, {"y": np.arange(64, dtype=np.int32)}, domain="int").findings
    assert [f.kind for f in found] == ["race"] * races


HALVES = """kernel k(y: i32*)
  launch grid(2) block(64)
  array s: shared i32[64]
  let t: i32 = threadIdx.x
  s[t] = y[blockIdx.x * 64_u32 + threadIdx.x]
  MEET
  if t % 32 >= 16
    y[blockIdx.x * 64_u32 + threadIdx.x] = s[t ^ AWAY]
"""
MASK = "barrier warp mask (threadIdx.x & 31_u32) < 16_u32 ? 65535_u32 : 4294901760_u32"


@pytest.mark.parametrize(
    ("meet", "away", "kinds"),
    [
        (MASK, 1, []),
        (MASK, 16, ["race"]),
        ("barrier warp", 16, []),
        (f"{MASK}\n  barrier warp mask 0xffffffff_u32", 16, []),
        (f"barrier warp\n  s[t] = 3\n  {MASK}", 16, ["race"]),
        ("barrier warp mask 65535_u32", 1, ["warp-divergence", "race"]),
        ("if t % 32 >= 16\n    barrier warp mask 4294901760_u32", 1, []),
        ("if t % 32 >= 16\n    barrier warp mask 4294901760_u32", 16, ["race"]),
    ],
)
def test_a_barrier_of_some_lanes_orders_those_only(meet: str, away: int, kinds: list[str]) -> None:
    kernel = parse_kernel(HALVES.replace("MEET", meet).replace("AWAY", str(away)))
    found = run(kernel, {"y": np.arange(128, dtype=np.int32)}, domain="int").findings
    assert [f.kind for f in found] == kinds, found


def test_who_met_whom_is_handed_on() -> None:
    """Lanes 0 and 1 meet, then 1 and 2: what 0 did before is ordered before 2."""
    source = HALVES.replace("if t % 32 >= 16\n", "if t % 32 == 2\n").replace("AWAY", "2").replace(
        "  MEET\n", "  if t % 32 < 2\n    barrier warp mask 3_u32\n  MORE\n")  # fmt: skip
    met = parse_kernel(source.replace("MORE", "if t % 32 == 1 || t % 32 == 2\n    barrier warp mask 6_u32"))
    others = parse_kernel(source.replace("MORE", "if t % 32 == 3 || t % 32 == 2\n    barrier warp mask 12_u32"))
    args = {"y": np.arange(128, dtype=np.int32)}
    assert not run(met, args, domain="int").findings
    assert [f.kind for f in run(others, args, domain="int").findings] == ["race"]
