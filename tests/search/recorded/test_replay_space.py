"""Recorded spaces and Kernel Tuner's files: read, written, and refused with a reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import KnobDecl
from ktc.ir.nodes import Binary, Knob, i32
from ktc.search.recorded.replay_space import SCENARIO, load_recorded, load_t1, write_t1, write_t4
from ktc.search.records.outcome import Outcome
from ktc.search.space.knob_space import Space
from ktc.search.tuning.tune import tune

CACHE = {
    "device_name": "A100",
    "kernel_name": "conv",
    "tune_params_keys": ["x", "y"],
    "tune_params": {"x": [16, 32], "y": [1, 2, 4]},
    "cache": {
        "16,1": {"x": 16, "y": 1, "time": 4.0},
        "16,2": {"x": 16, "y": 2, "time": "RuntimeFailedConfig"},
        "32,1": {"x": 32, "y": 1, "time": 2.0},
        "32,4": {"x": 32, "y": 4, "time": "CompilationFailedConfig"},
    },
}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_cache_is_a_simulated_device(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "cache.json"
    raw = json.dumps(CACHE).encode()
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    recorded = load_recorded(path)
    assert (recorded.device, recorded.kernel, recorded.space.size, recorded.best) == ("A100", "conv", 4, 2e-3)
    assert recorded.evaluate({"x": 32, "y": 1}).seconds == {SCENARIO: 2e-3}
    statuses = [recorded.evaluate({"x": x, "y": y}).status for x, y in ((16, 2), (32, 4), (32, 2))]
    assert statuses == ["crash", "compile-error", "infeasible"]
    assert "not among the recorded" in recorded.space.why_not({"x": 32, "y": 2})[0]
    result = tune(None, recorded.evaluate, recorded.space, budget=10)
    assert len(result.trials) == 4 and result.best and result.best.config == {"x": 32, "y": 1}
    assert result.failures == {"crash": 1, "compile-error": 1}


def test_t4_round_trip(tmp_path: Path) -> None:
    results = [
        ({"V": 1, "T": 32}, Outcome("ok", {"only": 1.5e-5})),
        ({"V": 2, "T": 32}, Outcome("wrong")),
        ({"V": 4, "T": 64}, Outcome("hang")),
        ({"V": 4, "T": 32}, Outcome("compile-error")),
    ]
    write_t4(tmp_path / "t4.json", results)
    back = load_recorded(tmp_path / "t4.json")
    assert [back.evaluate(c).status for c, _ in results] == [o.status for _, o in results]
    assert back.best == pytest.approx(1.5e-5) and back.space.size == 4


def test_t1_round_trip(tmp_path: Path) -> None:
    knobs = [KnobDecl("V", (1, 2, 4, 8), 4), KnobDecl("T", (32, 64, 128), 64), KnobDecl("U", (0, 1), 0)]
    conditions = [
        Binary("<=", Binary("*", Knob("V"), Knob("T")), i32(512)),
        Binary("||", Binary("==", Knob("U"), i32(0)), Binary("==", Binary("%", Knob("T"), Knob("V")), i32(0))),
        Binary("==", Binary("/", Binary("-", Knob("V"), Knob("T")), i32(50)), i32(-1)),
    ]
    space = Space(knobs, conditions)
    write_t1(tmp_path / "t1.json", space, name="k")
    back = load_t1(tmp_path / "t1.json")
    assert list(back) == list(space) and back.domains == space.domains and back.default() == space.default()
    document = json.loads((tmp_path / "t1.json").read_text())
    assert document["ConfigurationSpace"]["Conditions"][0] == {
        "Expression": "((V * T) <= 512)",
        "Parameters": ["T", "V"],
    }


def test_results_in_the_space_that_they_were_measured_in(tmp_path: Path) -> None:
    """Results name what was measured; what may be measured says the space."""
    knobs = [KnobDecl("V", (1, 2, 4), 1), KnobDecl("T", (32, 64), 32)]
    space = Space(knobs, [Binary("<=", Binary("*", Knob("V"), Knob("T")), i32(128))])
    write_t1(tmp_path / "t1.json", space, name="k")
    measured = [({"V": 1, "T": 32}, Outcome("ok", {"s": 2e-3})), ({"V": 4, "T": 32}, Outcome("ok", {"s": 1e-3}))]
    write_t4(tmp_path / "t4.json", measured)
    alone, found = load_recorded(tmp_path / "t4.json"), load_recorded(tmp_path / "t4.json", tmp_path / "t1.json")
    assert alone.space.size == 2 and found.space.size == space.size == 5 and found.best == 1e-3
    assert found.evaluate({"T": 32, "V": 4}).ok and found.evaluate({"T": 64, "V": 2}).status == "infeasible"
    write_t1(tmp_path / "other.json", Space(knobs[:1], []), name="k")
    with pytest.raises(KtcError, match="has measurements of V, T, the space has V"):
        load_recorded(tmp_path / "t4.json", tmp_path / "other.json")


def test_t1_of_others(tmp_path: Path) -> None:
    """True division and chained conditions, values as text, a default in a list."""
    parameters = [
        {"Name": "K", "Type": "int", "Values": "[16, 32]", "Default": [32]},
        {"Name": "M", "Type": "int", "Values": [8, 16, 32], "Default": 99},
    ]
    conditions = [{"Expression": "K % ((M * 8)/16) == 0 and 8 < M", "Parameters": ["K", "M"]}]
    document = {"ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions}}
    (tmp_path / "t1.json").write_text(json.dumps(document))
    space = load_t1(tmp_path / "t1.json")
    assert [tuple(c.values()) for c in space] == [(16, 16), (16, 32), (32, 16), (32, 32)]
    assert [k.default for k in space.knobs] == [32, 8]


@pytest.mark.parametrize(
    ("text", "code", "exit_code"),
    [
        ("{", "E-REPLAY-FORMAT", 2),
        ("[1]", "E-REPLAY-FORMAT", 2),
        ('{"cache": {}, "tune_params": {}}', "E-SPACE-EMPTY", 1),
        ('{"results": []}', "E-SPACE-EMPTY", 1),
        ('{"cache": {"a": {"x": "fast", "time": 1}}, "tune_params": {"x": ["fast"]}}', "E-REPLAY-FORMAT", 2),
        ('{"cache": {"a": {"time": 1}}, "tune_params": {"x": [1]}}', "E-REPLAY-FORMAT", 2),
        ('{"cache": 3, "tune_params": {"x": [1]}}', "E-REPLAY-FORMAT", 2),
    ],
)
def test_bad_files(tmp_path: Path, text: str, code: str, exit_code: int) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(KtcError) as info:
        load_recorded(path)
    assert info.value.code == code and info.value.exit_code == exit_code


def test_unreadable_and_unwritable(tmp_path: Path) -> None:
    with pytest.raises(KtcError, match="E-REPLAY-READ"):
        load_recorded(tmp_path / "absent.json")
    with pytest.raises(KtcError, match="E-REPLAY-FORMAT"):
        (tmp_path / "x.json").write_text("{}")
        load_t1(tmp_path / "x.json")
    with pytest.raises(KtcError) as info:
        write_t4(tmp_path / "absent" / "t4.json", [])
    assert info.value.code == "E-WRITE" and info.value.exit_code == 3
