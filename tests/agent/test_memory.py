"""The knowledge base: nearest features, no names, merging, damage."""

import json
import sqlite3
from functools import cache

import pytest

from ktc.agent.memory import SCALES, Lesson, Memory, distance, features
from ktc.backends.base import DeviceInfo
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.diagnostics import KtcError
from ktc.ir.text import parse_kernel
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise
from tests.agent.agent_kernels import SHAPES, SIZES

H = DeviceInfo("cuda", "H", "cuda-sm90", 132, 1024, 1 << 17)
G = DeviceInfo("opencl", "G", "opencl", 16, 1024, 1 << 16)


@cache
def raised(name):
    kernel = parse_kernel(SHAPES[name])
    outcome = Raise().run(kernel)
    return outcome.kernel if isinstance(outcome, Result) else kernel


def facts_of(name, **sizes):
    return facts(raised(name), {**SIZES[name], **sizes})


@pytest.fixture
def memory(tmp_path):
    m = Memory(tmp_path / "deep" / "memory.sqlite")
    for name in ("stream", "rows", "reduction", "stencil"):
        m.add(Lesson("cuda", "H", features(facts_of(name)), f"script for {name}", {"V": 4}, 2.0))
    return m


def test_a_loop_that_ends_before_it_begins_has_no_iterations():
    """As between a constant and a smaller size."""
    seen = facts_of("rows", d=-8)
    assert 0 in [x.trip for x in seen.loops] and all((x.trip or 0) >= 0 for x in seen.loops)
    assert features(seen)["log_trip"] < features(facts_of("rows"))["log_trip"]


@pytest.mark.parametrize("name", ["stream", "rows", "reduction", "stencil"])
def test_the_nearest_lesson_is_of_the_same_kind_at_another_size(memory, name):
    sizes = {k: v // 2 for k, v in SIZES[name].items()}
    assert memory.nearest(facts_of(name, **sizes), H, 1)[0].script == f"script for {name}"


def test_kinds_are_apart_and_sizes_are_near():
    kinds = [features(facts_of(n)) for n in ("stream", "rows", "reduction", "product")]
    apart = min(distance(a, b) for i, a in enumerate(kinds) for b in kinds[:i])
    near = distance(features(facts_of("rows")), features(facts_of("rows", d=2048)))
    assert near < 0.5 < apart


def test_features_are_numbers_with_a_scale():
    f = features(facts_of("rows"))
    assert set(f) == set(SCALES) and all(isinstance(v, float) for v in f.values())


def test_losers_and_strangers_are_not_suggested(memory):
    f = facts_of("rows")
    memory.add(Lesson("cuda", "H", features(f), "slower", {}, 0.9))
    assert "slower" not in [x.script for x in memory.nearest(f, H, 10)]
    assert not memory.nearest(facts_of("product"), G, 10, within=0.5)


def test_the_best_gain_of_a_script_is_kept(memory):
    f = features(facts_of("rows"))
    memory.add(Lesson("cuda", "H", f, "script for rows", {"V": 8}, 3.0))
    memory.add(Lesson("cuda", "H", f, "script for rows", {"V": 1}, 1.5))
    (found,) = [x for x in memory.lessons() if x.script == "script for rows"]
    assert (found.gain, dict(found.knobs), found.tries) == (3.0, {"V": 8}, 3)


def test_export_and_merge_lose_nothing_and_skip_junk(memory):
    rows = json.loads(json.dumps(memory.export()))
    other = Memory(":memory:")
    assert other.merge([*rows, {"script": 3}, {"features": 1}, 5]) == len(rows)
    assert other.lessons() == memory.lessons()


def test_damage_is_an_environment_error(tmp_path):
    path = tmp_path / "memory.sqlite"
    path.write_bytes(b"not a database, certainly not one of ours" * 100)
    with pytest.raises(KtcError) as e:
        Memory(path)
    assert e.value.code == "E-MEMORY" and e.value.exit_code == 3


def test_the_file_holds_no_source_text(memory, tmp_path):
    rows = sqlite3.connect(memory.path).execute("SELECT * FROM lesson").fetchall()
    text = repr(rows)
    assert "kernel" not in text and "f32*" not in text
