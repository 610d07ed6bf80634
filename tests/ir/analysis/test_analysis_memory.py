"""Sectors and bank conflicts against known cases; the register estimate; occupancy against the vendor's calculator."""

from __future__ import annotations

import pytest

from ktc.ir.analysis.memory_costs import bank_conflict, requests
from ktc.ir.analysis.register_pressure import register_estimate
from ktc.ir.text import parse_kernel
from ktc.search.bounds.occupancy import occupancy

GLOBAL = """\
kernel k(out: f32* restrict, a: f32 const* restrict, s: i32)
  launch grid(8) block({block})
  let t: i32 = threadIdx.x as i32
  let u: i32 = threadIdx.y as i32
  out[{out}] = a[{index}]
"""


@pytest.mark.parametrize(
    ("index", "block", "sectors", "efficiency"),
    [
        ("t", "64", 4, 1.0),
        ("t * 2", "64", 8, 0.5),
        ("t * 8", "64", 32, 0.125),
        ("t * s", "64", 32, 0.125),
        ("0", "64", 1, 0.125),
        ("u * 1000 + t", "8, 8", 4, 1.0),
        ("t * 1000 + u", "8, 8", 8, 0.5),
    ],
)
def test_sectors(index: str, block: str, sectors: int, efficiency: float) -> None:
    k = parse_kernel(GLOBAL.format(index=index, block=block, out="t"))
    read = next(r for r in requests(k, {"s": 64}) if r.mode == "read")
    assert (read.sectors, read.efficiency) == (sectors, efficiency)


def test_what_depends_on_data_or_a_missing_size_is_not_known() -> None:
    k = parse_kernel(GLOBAL.format(index="t * s", block="64", out="i32(a[t])"))
    by_mode = {r.mode: r for r in requests(k) if r.sectors is None}
    assert set(by_mode) == {"read", "write"}


@pytest.mark.parametrize(
    ("stride", "size", "turns"),
    [(4, 4, 1), (8, 4, 2), (128, 4, 32), (132, 4, 1), (0, 4, 1), (8, 8, 1), (16, 16, 1), (528, 16, 1), (512, 16, 8)],
)
def test_bank_conflicts(stride: int, size: int, turns: int) -> None:
    assert bank_conflict([lane * stride for lane in range(32)], size) == turns


def test_a_padded_tile_is_free_of_conflicts() -> None:
    text = """\
kernel k(out: f32*)
  launch grid(1) block(32, 32)
  array tile: shared f32[32, {columns}]
  tile[threadIdx.y, threadIdx.x] = 1.0
  barrier
  out[threadIdx.y * 32_u32 + threadIdx.x] = tile[threadIdx.x, threadIdx.y]
"""
    for columns, turns in ((32, 32), (33, 1)):
        k = parse_kernel(text.format(columns=columns))
        assert [r.conflict for r in requests(k) if r.space == "shared"] == [1, turns]


def test_registers_grow_with_the_tile() -> None:
    text = """\
kernel k(out: f32*, a: f32 const*, n: i32)
  launch grid(1) block(32)
  array acc: f32[{size}]
  for k in 0..n
    for i in 0..{size} unroll
      acc[i] += a[k * {size} + i]
  for i in 0..{size} unroll
    out[i] = acc[i]
"""
    small, large = (register_estimate(parse_kernel(text.format(size=n))) for n in (4, 64))
    assert large - small == 60 and small < 32


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limiter"),
    [
        (256, 32, 0, 8, "warps"),
        (256, 64, 0, 4, "registers"),
        (1024, 64, 0, 1, "registers"),
        (128, 32, 100 * 1024, 2, "shared memory"),
        (32, 16, 0, 32, "blocks"),
        (256, 256, 0, 0, "registers"),
    ],
)
def test_occupancy(threads: int, registers: int, shared: int, blocks: int, limiter: str) -> None:
    o = occupancy(threads, registers, shared)
    assert (o.blocks, o.limiter) == (blocks, limiter)
    assert o.fraction == blocks * -(-threads // 32) / 64
