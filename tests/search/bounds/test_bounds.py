"""The speed of light: bytes, operations, ceilings, alarms; and how many buffers make a measurement cold."""

from dataclasses import replace
from pathlib import Path

import pytest

from ktc.backends.base import DeviceInfo, Timing
from ktc.backends.runtimes import open_runtime
from ktc.backends.timing_stats import Interval
from ktc.search.bounds import cpu_rates
from ktc.search.bounds.attained_rates import attained_rates
from ktc.search.bounds.compulsory_work import Work
from ktc.search.bounds.cpu_rates import measure_cores
from ktc.search.bounds.operations import Operations
from ktc.search.bounds.rates import Rates
from ktc.search.bounds.speed_of_light import Ceilings, bound, ceilings, datasheet
from ktc.search.workers.timing import Comparison, rotation

H200 = DeviceInfo("cuda", "NVIDIA H200", "cuda-sm90", 132, 1024, 227 << 10, l2_bytes=60 << 20, global_bytes=140 << 30)


def test_the_largest_term_is_the_bound():
    c = Ceilings(4e12, 4e12, {"f32": 60e12}, 2e-6, "test")
    big = bound(Work(3 << 30, 1 << 30), c)
    assert big.limiter == "memory" and big.seconds == pytest.approx((4 << 30) / 4e12)
    assert bound(Work(100, 100), c).limiter == "launch"
    assert bound(Work(100, 100, Operations(f32=1e12)), c).limiter == "f32"
    assert bound(Work(1 << 30, 0), Ceilings(0.0, 0.0, {}, 1e-6)).limiter == "launch"


def test_operations_of_several_units_share_the_issue_slots():
    c = datasheet("H100")
    one = Operations(f32=1e12, special=1e10, compare=1e12)
    found = bound(Work(0, 0, one), c)
    assert found.limiter == "issue" and found.seconds == pytest.approx((0.5e12 + 1e10 + 0.5e12) / (67e12 / 2))
    assert bound(Work(0, 0, Operations(special=1e12)), c).limiter == "special"
    narrow = bound(Work(0, 0, Operations(matrix=1e15)), c)
    assert narrow.limiter == "matrix" and narrow.seconds == pytest.approx(1e15 / 989e12)


def test_products_of_loaded_integers_take_their_unit_and_indices_none():
    wide, other = ceilings(H200), ceilings(replace(H200, profile="cuda-sm80"))
    assert other.rates["integer"] == 2 * wide.rates["integer"] == wide.rates["f32"] / 2
    assert "integer" not in ceilings(replace(H200, backend="opencl", profile="opencl-nvidia")).rates
    found = bound(Work(0, 0, Operations(integer=1e12)), wide)
    assert found.limiter == "integer" and found.seconds == pytest.approx(1e12 / wide.rates["integer"])


def test_faster_than_light_is_an_alarm():
    b = bound(Work(4_000_000, 0), Ceilings(4e12, 4e12, {}, 1e-7))
    assert b.fraction(2e-6) == pytest.approx(0.5) and b.alarm(2e-6) == ""
    assert "2.00 times" in b.alarm(0.5e-6)


def test_measured_rates_lower_the_ceilings_and_never_raise_them():
    assert ceilings(H200).read == ceilings(H200).write == pytest.approx(4.8e12)
    copied = ceilings(H200, Rates(copy_bytes=4.3e12))
    assert copied.read == pytest.approx(4.3e12) and "measured" in copied.source
    assert ceilings(H200, Rates(copy_bytes=9e12)).read == 4.8e12
    assert ceilings(H200, Rates(f32_flops=55e12)).rates["f32"] == 55e12
    unknown = DeviceInfo("numba", "some CPU", "numba", 2, 1024, 1 << 20)
    assert ceilings(unknown).read == 0 and ceilings(unknown, Rates(1e10)).read == 1e10


def test_a_copy_takes_the_time_of_a_copy_and_a_read_that_of_a_read():
    c = ceilings(H200, Rates(copy_bytes=4.0e12, read_bytes=4.5e12))
    assert bound(Work(4 << 30, 4 << 30), c).seconds == pytest.approx((8 << 30) / 4.0e12)
    assert bound(Work(8 << 30, 0), c).seconds == pytest.approx((8 << 30) / 4.5e12)


def test_what_is_written_beyond_what_is_read_takes_the_time_of_a_fill():
    c = ceilings(H200, Rates(copy_bytes=4.0e12, read_bytes=4.5e12, fill_bytes=4.4e12))
    assert bound(Work(0, 8 << 30), c).seconds == pytest.approx((8 << 30) / 4.4e12)
    assert bound(Work(1 << 30, 3 << 30), c).seconds == pytest.approx((2 << 30) / 4.0e12 + (2 << 30) / 4.4e12)
    assert bound(Work(3 << 30, 1 << 30), c) == bound(Work(3 << 30, 1 << 30), replace(c, fill=0.0))
    assert ceilings(H200, Rates(copy_bytes=4.0e12, fill_bytes=3.0e12)).fill == 4.0e12
    assert Rates(fill_bytes=2.0).better(Rates(fill_bytes=3.0)).fill_bytes == 3.0


def test_a_launch_takes_what_one_that_does_nothing_was_seen_to_take() -> None:
    """A device may be faster than the number that stands for all."""
    assert ceilings(H200).launch_s > ceilings(H200, Rates(launch_s=1.1e-6)).launch_s == 1.1e-6
    c = ceilings(H200, Rates(launch_s=0.7e-6, trip_s=1.2e-6))
    assert bound(Work(4, 4), c).seconds == 1.2e-6 and bound(Work(0, 4), c).seconds == 0.7e-6
    assert Rates(launch_s=1.1e-6).better(Rates()).better(Rates(launch_s=1.0e-6)).launch_s == 1.0e-6


def test_rates_of_this_machine_are_plausible():
    found = measure_cores(open_runtime("numba"), megabytes=16, budget_s=0.02)
    assert 1e8 < found.copy_bytes < 1e13 and 1e8 < found.read_bytes < 1e13
    assert 1e9 < found.f32_flops < 1e15


def test_the_best_rates_of_a_machine_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other programs on the cores only slow them down: what was reached once can be reached."""
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    runtime = open_runtime("numba")
    measured = iter([Rates(2.0, 5.0, 9.0), Rates(3.0, 4.0, 8.0), Rates(1.0, 1.0, 10.0)])
    monkeypatch.setattr(cpu_rates, "measure_cores", lambda runtime: next(measured))
    assert cpu_rates.rates_of_today(runtime.device) is None
    assert attained_rates(runtime) == attained_rates(runtime) == Rates(2.0, 5.0, 9.0)
    monkeypatch.setattr(cpu_rates, "A_DAY", 0.0)
    assert attained_rates(runtime) == Rates(3.0, 5.0, 9.0)
    assert attained_rates(runtime) == Rates(3.0, 5.0, 10.0)
    assert cpu_rates.rates_of_today(runtime.device) is None  # a day is over at once
    monkeypatch.setattr(cpu_rates, "A_DAY", 3600.0)
    assert attained_rates(runtime) == cpu_rates.rates_of_today(runtime.device) == Rates(3.0, 5.0, 10.0)


def test_damaged_rates_are_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    runtime = open_runtime("numba")
    monkeypatch.setattr(cpu_rates, "measure_cores", lambda runtime: Rates(2.0, 5.0, 9.0))
    attained_rates(runtime)
    (file,) = (tmp_path / "rates").iterdir()
    for text in ("", "[]", '{"copy_bytes": "many"}', '{"other": 1.0}'):
        file.write_text(text)
        assert attained_rates(runtime) == Rates(2.0, 5.0, 9.0)


def test_cores_issue_other_instructions_beside_products() -> None:
    cores = DeviceInfo("numba", "some CPU", "numba", 2, 1024, 1 << 20)
    limits = ceilings(cores, Rates(4e10, 5e10, 2e11))
    assert limits.rates["f32"] == 2e11 and limits.rates["issue"] == 2e11
    adds = Work(4, 4, Operations(f32=1e9))
    assert bound(adds, limits).seconds == pytest.approx(1e9 / 2e11)


def test_rotation_leaves_the_cache():
    l2 = 60 << 20
    assert rotation(1 << 20, l2) == 121
    assert rotation(1 << 30, l2) == rotation(8 * l2 - 1, l2, alone=True) == 2
    assert rotation(8 * l2, l2, alone=True) == 1  # it has left the cache when its turn comes again
    assert rotation(1 << 10, l2) == 128
    assert rotation(1 << 28, l2, memory_bytes=1 << 29) == 1
    assert rotation(0, l2) == rotation(1 << 20, 0) == 1


def test_a_comparison_names_its_verdict():
    t = Timing(1.0, 1.0, 1.0, 9)
    assert Comparison(t, t, Interval(1.1, 1.05, 1.2)).verdict == "faster"
    assert Comparison(t, t, Interval(1.0, 0.99, 1.2)).verdict == "same"
    assert Comparison(t, t, Interval(0.9, 0.8, 0.95)).verdict == "slower"
