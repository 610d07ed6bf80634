"""The bound of data that a cache holds is the cache's: no honest time is below it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ktc.backends.base import DeviceInfo
from ktc.backends.runtimes import open_device
from ktc.backends.runtimes.cpu_runtime import CpuRuntime
from ktc.backends.runtimes.processor import caches, last_level_cache_bytes, own_caches
from ktc.driver.printing import printed
from ktc.ir.text import parse_kernel
from ktc.search.bounds import cpu_rates
from ktc.search.bounds.attained_rates import attained_rates
from ktc.search.bounds.compulsory_work import Work
from ktc.search.bounds.cpu_rates import footprints, measure_cores
from ktc.search.bounds.rates import CacheRates, Rates
from ktc.search.bounds.speed_of_light import bound, ceilings
from ktc.search.workers.timing import rotation

CORES = DeviceInfo("numba", "some CPU", "numba", 2, 1024, 1 << 20, l2_bytes=32 << 20,
                   extra={"l1_bytes": str(32 << 10), "core_l2_bytes": str(1 << 20)})  # fmt: skip
MEASURED = Rates(4e10, 3e10, 2e11, (CacheRates(32 << 10, 4e11, 3e11), CacheRates(1 << 20, 2e11, 2.5e11),
                                    CacheRates(64 << 20, 5e10, 4e10)))  # fmt: skip


@pytest.mark.parametrize(
    "footprint, copy, read",
    [(0, 4e10, 3e10), (1 << 10, 4e11, 3e11), (100 << 10, 4e11, 3e11), (2 << 20, 2e11, 2.5e11), (200 << 20, 5e10, 4e10),
     (1 << 30, 4e10, 3e10)],
)  # fmt: skip
def test_the_ceiling_is_that_of_what_is_gone_through(footprint: int, copy: float, read: float) -> None:
    """A larger footprint is no faster than the smaller one that was measured, and what is much larger than the last
    cache as fast as memory; a copy is no faster than what is read."""
    c = ceilings(CORES, MEASURED, footprint)
    assert c.read == max(copy, read)
    moved = bound(Work(1 << 20, 1 << 20), c).terms["memory"]
    assert moved == pytest.approx((2 << 20) / copy)


def test_a_rate_that_a_larger_footprint_reached_is_possible_for_a_smaller_one() -> None:
    disturbed = dataclasses.replace(MEASURED, near=(CacheRates(32 << 10, 1e10, 1e10), *MEASURED.near[1:]))
    assert disturbed.within(40 << 10).copy_bytes == 2e11


def test_the_best_of_each_level_is_kept() -> None:
    other = Rates(5e10, 2e10, 1e11, (CacheRates(32 << 10, 3e11, 5e11), CacheRates(2 << 20, 1e11, 1e11)))
    best = MEASURED.better(other)
    assert (best.copy_bytes, best.read_bytes, best.f32_flops) == (5e10, 3e10, 2e11)
    assert best.near == (CacheRates(32 << 10, 4e11, 5e11), CacheRates(2 << 20, 1e11, 1e11))
    assert Rates.of(dataclasses.asdict(best)) == best


def test_sizes_are_the_systems(tmp_path: Path) -> None:
    for k, (level, kind, size, cpus) in enumerate(
        [
            (1, "Data", "48K", "0"),
            (1, "Instruction", "32K", "0"),
            (2, "Unified", "2048K", "0"),
            (3, "Unified", "30M", "0-9"),
        ]
    ):
        (tmp_path / f"index{k}").mkdir()
        for name, text in {"level": level, "type": kind, "size": size, "shared_cpu_list": cpus}.items():
            (tmp_path / f"index{k}" / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()  # without a size
    assert [c.bytes for c in caches(tmp_path)] == [48 << 10, 2 << 20, 30 << 20]
    assert last_level_cache_bytes(tmp_path) == 30 << 20
    assert own_caches(tmp_path) == {"l1_bytes": str(48 << 10), "core_l2_bytes": str(2 << 20)}
    assert caches(tmp_path / "none") == [] and own_caches(tmp_path / "none") == {}


def test_half_and_twice_of_each_level_is_measured() -> None:
    runtime = CpuRuntime()
    runtime.device = CORES
    assert footprints(runtime) == [32 << 10, 128 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


SMALL = """
kernel small(y: f32* restrict noalias, x: f32 const* restrict noalias, n: i32)
  par i in 0..n @ [seq 4096, block.x]
    y[i] = x[i] * 2.0
"""


def test_no_time_of_small_data_is_below_its_bound() -> None:
    """As the search times it, on sets of arguments that all fit a cache: the memory's rate said 111 % of the bound."""
    runtime = CpuRuntime()
    rates = measure_cores(runtime, budget_s=0.02)
    exe = runtime.compile(printed(parse_kernel(SMALL), "numba"))
    n, device = 1 << 14, runtime.device
    sets = rotation(8 * n, device.l2_bytes, device.global_bytes)
    args = [{"y": runtime.full(n, np.float32(0)), "x": runtime.full(n, np.float32(1)), "n": n} for _ in range(sets)]
    seconds = runtime.time(exe, args, budget_s=0.05).low
    found = bound(Work(4 * n, 4 * n), ceilings(device, rates, sets * 4 * n))
    assert found.alarm(seconds) == ""


def test_rates_that_were_beaten_are_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    measured = iter([Rates(2.0, 5.0, 9.0), Rates(3.0, 4.0, 8.0)])
    monkeypatch.setattr(cpu_rates, "measure_cores", lambda runtime: next(measured))
    runtime = open_device("numba")
    assert attained_rates(runtime) == attained_rates(runtime) == Rates(2.0, 5.0, 9.0)
    assert attained_rates(runtime, anew=True) == attained_rates(runtime) == Rates(3.0, 5.0, 9.0)
