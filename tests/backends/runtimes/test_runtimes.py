"""Runtimes: choice of the device, data in and out, errors, timing."""

import re

import ml_dtypes
import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.base import CompileFailure, Emitted
from ktc.backends.device_table import DEVICES, peaks_of
from ktc.backends.runtimes import OPENERS, expected_device, open_device, open_runtime, probe
from ktc.backends.runtimes.common import geometry, scalar
from ktc.backends.runtimes.cuda_runtime import graph_launches
from ktc.backends.runtimes.file_cache import Cache, key_of
from ktc.backends.timing_stats import FEW, Interval, collect, median_interval, order_ranks, ratio_interval
from ktc.ir.diagnostics import KtcError
from ktc.ir.text import parse_kernel
from ktc.ir.types import BF16, U64
from tests import devices

SCALE = """
kernel scale(y: f32* restrict, x: f32 const* restrict, a: f32, n: i32)
  launch grid(cdiv(n, $B)) block($B)
  knob $B in {32, 64} default 64
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = a * x[i]
"""
REVERSE = """
kernel reverse(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(1) block(n) shared(4 * n)
  array s: shared f32[n] dynamic
  let t: i32 = threadIdx.x as i32
  s[t] = x[t]
  barrier
  y[t] = s[n - 1 - t]
"""


@pytest.fixture(params=OPENERS)
def runtime(request, tmp_path_factory, monkeypatch):
    """A device that has been tried, with an empty cache: what is built here is built anew."""
    opened = devices.working(request.param).device.extra["opened"]
    monkeypatch.setenv("KTC_CACHE", str(tmp_path_factory.mktemp("cache")))
    return open_device(opened)


@pytest.mark.parametrize("name", OPENERS)
def test_a_device_is_the_one_that_was_expected(name):
    opened = devices.working(name).device
    assert expected_device(opened.extra["opened"]) in (None, opened)


@pytest.mark.parametrize("name", ["opencl", "numba", "cuda:12345"])
def test_of_what_no_driver_describes_nothing_is_expected(name):
    assert expected_device(name) is None


def test_auto_takes_a_gpu_else_the_fastest_way_to_the_processor_and_says_why():
    device = open_runtime().device
    working = [open_device(devices.working(kind).device.extra["opened"]).device for kind in devices.kinds()]
    gpus = [d for d in working if not d.is_cpu]
    assert device.is_cpu == (not gpus)
    if gpus:
        assert device.backend == gpus[0].backend
    elif len(working) > 1:
        assert "cpu target: " in device.extra["contest"] and "chooses the other" in device.extra["contest"]
    missing = [kind for kind in OPENERS if kind not in devices.kinds()]
    assert all(name in device.extra["picked"] for name in missing[: 0 if gpus else None])


def test_probes_explain_what_is_missing():
    probes = [p for kind in OPENERS for p in probe(kind)]
    assert [*dict.fromkeys(p.name.partition(":")[0] for p in probes)] == list(OPENERS)
    assert all(p.why for p in probes)
    assert all(p.how_to_get for p in probes if not p.ok)


@pytest.mark.parametrize("name", ["tpu", "cuda:x"])
def test_unknown_device_is_a_usage_error(name):
    with pytest.raises(KtcError) as e:
        open_runtime(name)
    assert e.value.exit_code == 2


def test_opencl_devices_have_numbers_and_names():
    from ktc.backends.runtimes.opencl_runtime import choose, import_pyopencl
    from ktc.backends.runtimes.opencl_runtime import devices as listed

    devices.working("opencl")
    cl = import_pyopencl()
    found = listed(cl)
    assert [choose(cl, str(i)) for i in range(len(found))] == found and choose(cl, "") == found[0]
    assert choose(cl, found[-1].platform.version.split()[1].lower()) in found
    with pytest.raises(KtcError, match=f"matches '{len(found)}'") as e:
        choose(cl, str(len(found)))
    assert f"0: {found[0].name.strip()}" in e.value.hint


def test_opencl_device_that_is_not_there():
    with pytest.raises(KtcError) as e:
        open_runtime("opencl:no such device")
    assert e.value.code == "E-DEVICE-OPENCL" and e.value.exit_code == 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_arrays_come_back_as_they_went(runtime, dtype):
    a = np.arange(-6, 6).reshape(3, 4).astype(dtype)
    back = runtime.to_host(runtime.to_device(a), a)
    assert back.dtype == a.dtype and back.shape == a.shape and back.tobytes() == a.tobytes()
    empty = np.zeros((0, 4), dtype)
    assert runtime.to_host(runtime.to_device(empty), empty).shape == (0, 4)


def test_launch_geometry_follows_arguments_and_knobs(runtime):
    kernel = parse_kernel(SCALE)
    exe = runtime.compile(emit(kernel, runtime.device.backend))
    for n in (0, 1, 64, 65, 1000):
        x = np.arange(1000, dtype=np.float32)
        y = runtime.to_device(np.zeros_like(x))
        exe.launch({"y": y, "x": runtime.to_device(x), "a": 2.5, "n": n})
        runtime.synchronize()
        assert np.array_equal(runtime.to_host(y, x), np.where(np.arange(1000) < n, 2.5 * x, 0).astype(np.float32))


def test_dynamic_shared_memory(runtime):
    exe = runtime.compile(emit(parse_kernel(REVERSE), runtime.device.backend))
    x = np.arange(48, dtype=np.float32)
    y = runtime.to_device(np.zeros_like(x))
    exe.launch({"y": y, "x": runtime.to_device(x), "n": 48})
    runtime.synchronize()
    assert np.array_equal(runtime.to_host(y, x), x[::-1])


def test_missing_argument_is_named(runtime):
    exe = runtime.compile(emit(parse_kernel(SCALE), runtime.device.backend))
    with pytest.raises(KtcError, match=r"'y'|'x'"):
        exe.launch({"n": 4, "a": 1.0})


def test_text_that_does_not_compile(runtime):
    good = emit(parse_kernel(SCALE), runtime.device.backend)
    text = re.sub(r"\bx\[", "no_such_name[", good.text)
    assert text != good.text
    with pytest.raises(CompileFailure, match="no_such_name"):
        runtime.compile(Emitted(text, good.entry, good.target, good.kernel, good.options))


def test_timing_orders_kernels_by_work(runtime):
    exe = runtime.compile(emit(parse_kernel(SCALE), runtime.device.backend))

    def sets(n):
        x = np.ones(n, np.float32)
        return [{"y": runtime.to_device(x), "x": runtime.to_device(x), "a": 1.0, "n": n} for _ in range(2)]

    for _ in range(4):  # a busy machine stops either of them for longer than both take
        small, large, ratio = runtime.time_pair((exe, sets(64)), (exe, sets(1 << 20)), budget_s=0.3)
        assert 0 < small.low <= small.median <= small.high and small.cold
        assert ratio[1] <= ratio[0] <= ratio[2]
        if large.median > small.median and ratio[0] < 1:
            break
    else:
        pytest.fail(f"64 elements took {small.median} s and a million {large.median} s")
    assert not runtime.time(exe, sets(64)[:1], budget_s=0.02).cold


# --------------------------------------------------------------------------------------------------- no device needed


def test_geometry_without_launch_or_value():
    kernel = parse_kernel(SCALE)
    assert geometry(kernel, {"n": 130}).grid == (3, 1, 1)
    assert [geometry(kernel, {"n": n}).empty for n in (1, 0, -64)] == [False, True, True]
    for broken, args in ((kernel.with_(launch=None), {"n": 1}), (kernel, {})):
        with pytest.raises(KtcError) as e:
            geometry(broken, args)
        assert e.value.code == "E-LAUNCH-UNKNOWN"


def test_scalars_in_machine_types():
    assert scalar(7, U64) == np.uint64(7) and scalar(7, U64).dtype == np.uint64
    assert scalar(1.0, BF16) == np.uint16(0x3F80)


def test_graphs_hold_whole_rounds():
    assert graph_launches(2e-6, 3, once_each=False) % 3 == 0
    assert graph_launches(1e-6, 150, once_each=False) == 150
    assert graph_launches(1e-6, 50, once_each=True) == 50


@pytest.mark.parametrize("once_each", [False, True])
def test_long_launches_are_timed_a_few_at_a_time(once_each: bool) -> None:
    """Ten sets of a launch of a third of a second took more than a search has."""
    assert graph_launches(0.35, 10, once_each=once_each) == 1
    assert graph_launches(150e-6, 10, once_each=once_each) == 2


def test_cache_entries_are_whole_or_missing(tmp_path):
    cache, key = Cache("x", tmp_path), key_of("a", "b")
    assert key != key_of("ab", "") and cache.get(key) is None
    cache.put(key, b"code", {"symbol": "f"})
    assert cache.get(key) == (b"code", {"symbol": "f", "sha256": cache.get(key)[1]["sha256"]})
    (tmp_path / "x" / f"{key}.bin").write_bytes(b"cod")
    assert cache.get(key) is None


def test_unwritable_cache_is_an_environment_error(tmp_path):
    (tmp_path / "x").write_text("a file, not a folder")
    with pytest.raises(KtcError) as e:
        Cache("x", tmp_path).put("k", b"", {})
    assert e.value.exit_code == 3


@pytest.mark.parametrize(("n", "ranks"), [(1, (0, 0)), (5, (0, 4)), (6, (0, 5)), (10, (1, 8)), (100, (39, 60))])
def test_order_statistics_match_the_binomial_tables(n, ranks):
    assert order_ranks(n) == ranks


def test_interval_of_the_median_covers(seed=3):
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(400):
        i = median_interval(list(rng.lognormal(0, 1, 25)))
        inside += i.low <= 1.0 <= i.high
    assert 0.92 <= inside / 400 <= 0.995


def test_pairs_cancel_drift():
    drift = np.linspace(1, 2, 60)
    i = ratio_interval(list(3 * drift), list(2 * drift))
    assert i.median == pytest.approx(1.5) and i.precision < 1e-9


def test_collect_stops_when_precise_or_when_time_is_over():
    assert len(collect(lambda: (1.0,), 10.0)[0]) == 8
    now = [0.0]

    def noisy():
        now[0] += 0.1
        return (1.0 + (now[0] * 10 % 2),)

    assert 1 <= len(collect(noisy, 2.0, clock=lambda: now[0])[0]) <= 20

    def slow():
        now[0] += 5.0
        return (5.0,)

    assert collect(slow, 1.0, clock=lambda: now[0]) == [[5.0]]
    measured_before = iter([5.0])
    assert collect(lambda: (next(measured_before),), 1.0, clock=lambda: 0.0) == [[5.0]]
    assert Interval(0.0, 0.0, 0.0).precision == float("inf")


@pytest.mark.parametrize(("seconds", "pairs"), [(0.4, 5), (1.1, 4), (3.0, 2), (5.0, 1)])
def test_long_launches_are_compared_several_times_unless_that_takes_too_long(seconds: float, pairs: int) -> None:
    now = [0.0]

    def pair() -> tuple[float, float]:
        now[0] += seconds
        return 0.7 * seconds, 0.3 * seconds

    found = collect(pair, 0.8, least=FEW, clock=lambda: now[0])
    assert [len(column) for column in found] == [pairs, pairs]


def test_a_few_pairs_prove_only_what_is_far_from_one():
    """One launch that another program disturbed is no gain of 5 %, and hides none of 2x."""
    assert ratio_interval([1.05], [1.0]).low < 1 < ratio_interval([0.95], [1.0]).high
    assert ratio_interval([1.05] * 4, [1.0] * 4).low == pytest.approx(1.0)
    assert ratio_interval([1.05] * 5, [1.0] * 5) == Interval(1.05, 1.05, 1.05)
    assert ratio_interval([2.0], [1.0]).low > 1.3


def test_device_table_is_found_by_reported_names():
    assert peaks_of("NVIDIA H200").dram_bytes_per_s == 4.8e12
    assert peaks_of("NVIDIA A100-SXM4-80GB").dram_bytes_per_s == 2.039e12
    assert peaks_of("NVIDIA GeForce RTX 4090").f32_flops == 82.6e12
    assert peaks_of("AMD EPYC") is None
    assert all(row.source and row.dram_bytes_per_s > 1e11 for row in DEVICES)


@pytest.mark.parametrize("dtype", ["float32", "uint8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("n", [3, 7, 20, 21, 50])
def test_arrays_that_repeat_a_block_and_copies_are_what_they_say(runtime, dtype, n):
    block, like = np.arange(7).astype(dtype), np.empty(n, dtype)
    array = runtime.repeated(block, n)
    assert np.array_equal(runtime.to_host(array, like), np.resize(block, n))
    other = runtime.copy(array)
    runtime.copy_into(array, runtime.repeated(np.zeros(1, dtype), n))
    assert not runtime.to_host(array, like).any() and np.array_equal(runtime.to_host(other, like), np.resize(block, n))


def test_arrays_are_filled_on_the_device() -> None:
    runtime = open_runtime("numba")
    array = runtime.full(5, np.float32(1.5))
    assert runtime.to_host(array, np.empty(5, np.float32)).tolist() == [1.5] * 5
