"""The speed of light: bytes, operations, ceilings, alarms; and how many buffers make a measurement cold."""

import numpy as np
import pytest

from ktc.backends.base import DeviceInfo, Timing
from ktc.backends.runtimes import open_runtime
from ktc.backends.timing_stats import Interval
from ktc.ir.text import parse_kernel
from ktc.search.bounds.speed_of_light import (
    Ceilings,
    Work,
    bound,
    ceilings,
    count_flops,
    measure_copy,
    with_ceiling,
    work_of,
)
from ktc.search.workers.timing import Comparison, rotation

H200 = DeviceInfo("cuda", "NVIDIA H200", "cuda-sm90", 132, 1024, 227 << 10, l2_bytes=60 << 20, global_bytes=140 << 30)


class Arg:
    def __init__(self, name, role):
        self.name, self.role = name, role


class Load:
    args = (Arg("out", "out"), Arg("x", "in"), Arg("acc", "inout"), Arg("n", "scalar"))


def test_each_input_once_each_output_once():
    values = {"out": np.zeros(10, np.float16), "x": np.zeros(40, np.float32), "acc": np.zeros(3), "n": 10}
    work = work_of(Load(), values)
    assert (work.bytes_in, work.bytes_out, work.flops) == (160 + 24, 20 + 24, 0.0)


def test_operations_follow_trip_counts():
    kernel = parse_kernel(
        "kernel gemm(c: f32* restrict, a: f32 const* restrict, b: f32 const* restrict, m: i32, n: i32, k: i32)\n"
        "  par i in 0..m @ [block.y]\n    par j in 0..n @ [block.x]\n"
        "      reduce (+) s: f32 = 0.0 over p in 0..k\n        yield a[i * k + p] * b[p * n + j]\n"
        "      c[i * n + j] = s\n"
    )
    assert count_flops(kernel, {"m": 5, "n": 7, "k": 11}) == 2 * 5 * 7 * 11
    spmd = parse_kernel(
        "kernel axpy(y: f32*, a: f32, n: i32)\n  launch grid(cdiv(n, 64)) block(64)\n"
        "  let i: i32 = (blockIdx.x * 64_u32 + threadIdx.x) as i32\n  if i < n\n    y[i] = a * y[i] + 1.0\n"
    )
    assert count_flops(spmd, {"n": 128, "a": 1.0}) == 256


def test_data_dependent_loops_are_unknown_not_wrong():
    kernel = parse_kernel(
        "kernel k(y: f32*, n: i32)\n  launch grid(1) block(1)\n  var v: f32 = y[0]\n"
        "  while v > 1.0\n    v = v * 0.5\n  y[0] = v\n"
    )
    assert count_flops(kernel, {"n": 1}) == 0.0


LOOPS = {
    "i: i32 = 0; i < n; i + 1": 8,
    "i: i32 = 0; i <= n; i + 1": 9,
    "i: i32 = n - 1; i >= 0; i - 1": 8,
    "i: i32 = n - 1; i > 0; i - 1": 7,
    "i: i32 = n - 1; 0 <= i; i + -1": 8,
    "i: i32 = 0; n > i; i + 2": 4,
    "i: i32 = 0; i != n; i + 1": 8,
    "i: i32 = n; i < 0; i + 1": 0,
    "i: i32 = 0; i > n; i + 1": 0,
    "i: i32 = 9; i > n; i + 1": None,  # away from its end
    "i: i32 = n; i < 9; i - 1": None,
    "i: i32 = 1; i < n; i * 2": None,
    "i: i32 = 0; k < n; i + 1": None,  # another variable decides
}


@pytest.mark.parametrize("loop", LOOPS)
def test_trips_follow_the_direction_of_the_loop(loop: str) -> None:
    text = f"""
kernel k(y: f32*, n: i32, k: i32)
  launch grid(1) block(1)
  for {loop}
    y[i] = y[i] + 1.0
  for j: i32 = 0; j < 100; j + 1
    y[j] = y[j] * 2.0
"""
    trips = LOOPS[loop]
    assert count_flops(parse_kernel(text), {"n": 8, "k": 3}) == (0.0 if trips is None else trips + 100)


def test_a_loop_that_computes_nothing_hides_nothing_behind_it() -> None:
    text = """
kernel k(y: f32*, n: i32)
  launch grid(1) block(1)
  var i: i32 = 0
  while i < n
    i = i + 3
  y[i] = y[i] * 2.0
"""
    assert count_flops(parse_kernel(text), {"n": 8}) == 1


def test_the_largest_term_is_the_bound():
    c = Ceilings(4e12, 60e12, 2e-6, "test")
    big = bound(Work(3 << 30, 1 << 30), c)
    assert big.limiter == "memory" and big.seconds == pytest.approx((4 << 30) / 4e12)
    assert bound(Work(100, 100), c).limiter == "launch"
    assert bound(Work(100, 100, 1e12), c).limiter == "compute"
    assert bound(Work(1 << 30, 0), Ceilings(0.0, 0.0, 1e-6, "")).limiter == "launch"


def test_faster_than_light_is_an_alarm():
    b = bound(Work(4_000_000, 0), Ceilings(4e12, 0, 1e-7, ""))
    assert b.fraction(2e-6) == pytest.approx(0.5) and b.alarm(2e-6) == ""
    assert "2.00x" in b.alarm(0.5e-6)


def test_a_measured_copy_lowers_the_ceiling_and_never_raises_it():
    assert ceilings(H200).bytes_per_s == 4.8e12
    assert ceilings(H200, 4.3e12).bytes_per_s == 4.3e12 and "measured" in ceilings(H200, 4.3e12).source
    assert ceilings(H200, 9e12).bytes_per_s == 4.8e12
    unknown = DeviceInfo("numba", "some CPU", "numba", 2, 1024, 1 << 20)
    assert ceilings(unknown).bytes_per_s == 0 and ceilings(unknown, 1e10).bytes_per_s == 1e10
    assert with_ceiling(unknown, 5e9).dram_bytes_per_s == 5e9


def test_copy_bandwidth_of_this_machine_is_plausible():
    rate = measure_copy(open_runtime("numba"), megabytes=16, budget_s=0.05)
    assert 1e8 < rate < 1e13


def test_rotation_leaves_the_cache():
    l2 = 60 << 20
    assert rotation(1 << 20, l2) == 121
    assert rotation(1 << 30, l2) == 2
    assert rotation(1 << 10, l2) == 128
    assert rotation(1 << 30, l2, memory_bytes=1 << 31) == 1
    assert rotation(0, l2) == rotation(1 << 20, 0) == 1


def test_a_comparison_names_its_verdict():
    t = Timing(1.0, 1.0, 1.0, 9)
    assert Comparison(t, t, Interval(1.1, 1.05, 1.2)).verdict == "faster"
    assert Comparison(t, t, Interval(1.0, 0.99, 1.2)).verdict == "same"
    assert Comparison(t, t, Interval(0.9, 0.8, 0.95)).verdict == "slower"
