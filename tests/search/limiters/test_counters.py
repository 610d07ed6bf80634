"""What ncu prints as numbers and limiters: both of its tables, units, unknown values; which limiter comes first."""

from __future__ import annotations

import pytest

from ktc.search.limiters.counters import METRICS, number, parse, profile_of
from ktc.search.limiters.limiter import KINDS, Limiter, Profile, strongest
from tests.search.limiters.recorded import FORBIDDEN, STREAM, changed, details_page, raw_page


def profile(values: dict[str, tuple[str, str]]) -> Profile:
    (launch,) = parse(raw_page(values))
    return profile_of(launch)


@pytest.mark.parametrize("page", [raw_page, details_page])
def test_both_tables_say_the_same(page) -> None:
    (launch,) = parse(page(STREAM))
    assert launch.kernel == "k" and len(launch.values) == len(STREAM)
    assert launch.values[METRICS["seconds"]] == pytest.approx(35.2e-6)
    assert launch.values[METRICS["memory"]] == pytest.approx(0.9125)
    assert launch.values[METRICS["bytes read"]] == 67108864


@pytest.mark.parametrize(
    "text, unit, value",
    [("1,234.5", "", 1234.5), ("1,234,567", "byte", 1234567), ("9,25", "%", 0.0925), ("12.5", "us", 12.5e-6),
     ("3", "Mbyte", 3e6), ("8", "cycle/instruction", 8.0), ("n/a", "%", None), ("", "", None)],
)  # fmt: skip
def test_numbers_come_in_base_units(text: str, unit: str, value: float | None) -> None:
    assert number(text, unit) == (pytest.approx(value) if value is not None else None)


def test_a_table_without_units_and_text_without_a_table() -> None:
    lines = raw_page(STREAM).splitlines()
    (launch,) = parse("\n".join([*lines[:-2], lines[-1]]))
    assert launch.values[METRICS["memory"]] == pytest.approx(91.25), "as it stands, where nothing says what it is"
    assert parse(FORBIDDEN) == [] and parse("") == []


def test_what_a_version_does_not_know_is_left_out() -> None:
    found = profile(STREAM | {"matrix": ("", "n/a")})
    assert "matrix" not in found.numbers and found.main == "memory"


def test_a_saturated_unit_limits_before_what_its_warps_wait_for() -> None:
    found = profile(STREAM)  # 80 % of the cycles are spent waiting for loads, and the memory does all it can
    assert [x.name for x in found.limiters[:2]] == ["memory", "latency"]
    assert "67.11 MB read" in found.limiters[0].what and found.source == "counters"
    assert found.lines(1) == [str(found.limiters[0]), "by hardware counters (35.2 µs measured)"]


@pytest.mark.parametrize(
    "values, main",
    [
        ({"memory": "20", "cache": "25"}, "latency"),
        ({"memory": "20", "cache": "85"}, "cache"),
        ({"memory": "20", "issue": "88"}, "issue"),
        ({"memory": "20", "matrix": "75"}, "matrix"),
        ({"memory": "20", "special": "92"}, "special"),
        ({"memory": "20", "stalled_on_loads": "3", "stalled_on_barriers": "40"}, "barriers"),
        ({"memory": "20", "waves": "0.1", "stalled_on_loads": "3", "cache": "10", "load_store": "9"}, "parallelism"),
        ({"memory": "20", "load_store": "95", "shared_turns": "1000", "bank_conflicts": "800"}, "load-store"),
        ({"memory": "5", "cache": "5", "issue": "90", "active_lanes": "4"}, "issue"),
        ({"memory": "5", "load_store": "90", "local_bytes_read": "9e8", "global_bytes": "1e8"}, "load-store"),
    ],
)  # fmt: skip
def test_the_main_limiter(values: dict[str, str], main: str) -> None:
    assert profile(changed(**values)).main == main


def test_wasted_work_is_named_beside_the_unit_that_does_it() -> None:
    conflicts = profile(changed(memory="20", load_store="95", shared_turns="1000", bank_conflicts="800"))
    assert [x.name for x in conflicts.limiters[:2]] == ["load-store", "bank conflicts"]
    idle = profile(changed(memory="5", cache="5", issue="90", active_lanes="4"))
    assert [x.name for x in idle.limiters[:2]] == ["issue", "divergence"] and "4.0 of 32" in idle.limiters[1].what
    spilled = profile(changed(memory="5", cache="70", load_store="90", local_bytes_read="9e8", global_bytes="1e8"))
    assert [x.name for x in spilled.limiters[:2]] == ["load-store", "spills"]


def test_every_limiter_is_explained_and_weak_ones_are_none() -> None:
    names = {x.name for values in (STREAM, changed(waves="0.5", memory="1")) for x in profile(values).limiters}
    assert names and names <= KINDS.keys()
    assert strongest([Limiter("issue", 0.05), Limiter("memory", 0.4)]) == (Limiter("memory", 0.4),)
