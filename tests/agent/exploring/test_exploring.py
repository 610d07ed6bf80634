"""Planners that search among scripts: they begin with the rules, what they propose applies, they follow the rewards."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.agent.embedded.rules import Rules
from ktc.agent.exploring.map_elites import MapElites, cell
from ktc.agent.exploring.mcts import Mcts, _prefixes
from ktc.agent.exploring.moves import Moves
from ktc.agent.planner import Observation, Outcome, Planner
from ktc.agent.planners import EMBEDDED, make_planner
from ktc.backends.base import DeviceInfo
from tests.agent.agent_kernels import ROWS, STREAM, TRANSPOSE
from tests.agent.embedded.test_rules import observe

SIZES = {"n": 1 << 20, "d": 4096, "h": 4096, "w": 4096}
H100 = DeviceInfo("cuda", "NVIDIA H100 80GB HBM3", "cuda-sm90", 132, 1024, 227 << 10)
SEARCHING = ["beam", "mcts", "map-elites"]


def on_h100(source: str, history: tuple[Outcome, ...] = ()) -> Observation:
    return dataclasses.replace(observe(source, SIZES, history)[1], device=H100)


def tuned(script: str, gain: float) -> Outcome:
    return Outcome(script, "tuned", gain=gain)


@pytest.mark.parametrize("name", SEARCHING)
def test_the_first_ideas_are_the_rules_by_expected_time(name: str) -> None:
    o = on_h100(TRANSPOSE)
    found = EMBEDDED[name](0).propose(o, 4)
    assert {p.script for p in found} <= {p.script for p in Rules().propose(o, 4)}
    times = [t for p in found if (t := Moves(o, np.random.default_rng(0)).expected(p.script)) is not None]
    assert len(times) > 1 and times == sorted(times)


@pytest.mark.parametrize("name", SEARCHING)
def test_later_ideas_are_new_apply_and_are_the_same_for_one_seed(name: str) -> None:
    first = [p.script for p in EMBEDDED[name](0).propose(on_h100(STREAM), 3)]
    history = tuple(tuned(s, 1.5 - 0.1 * i) for i, s in enumerate(first))
    o = on_h100(STREAM, history)
    runs = []
    for _ in range(2):
        planner: Planner = EMBEDDED[name](0)
        runs.append([p.script for p in planner.propose(o, 4)])
    assert runs[0] == runs[1] and len(runs[0]) == len(set(runs[0])) > 0
    assert not set(runs[0]) & set(first) and all(o.attempt(s) is None for s in runs[0])


def test_the_beam_extends_the_best() -> None:
    a, b = [p.script for p in Rules().propose(on_h100(STREAM), 2)]
    o = on_h100(STREAM, (tuned(a, 3.0), tuned(b, 0.5)))
    found = [p.script for p in EMBEDDED["beam"](0).propose(o, 6)]
    assert any(s.startswith(a.split(" where ")[0]) for s in found)


def test_the_tree_goes_where_rewards_are_and_not_where_scripts_were_refused() -> None:
    good, bad = "raise | simplify", "raise | licm"
    o = on_h100(ROWS, (tuned(good, 4.0), Outcome(bad, "rejected")))
    top = Mcts()._tree(o)
    assert top.children is not None
    children = {c.script: c for c in top.children}
    assert children[good].mean > 0 == children[bad].mean and children[bad].closed and not children[good].closed
    assert (top.visits, top.total) == (2, children[good].total)


def test_prefixes_have_no_constraints() -> None:
    assert _prefixes("raise | simplify | licm where A < 4") == ["", "raise", "raise | simplify"]


def test_kinds_of_kernels_differ_by_where_reuse_lives() -> None:
    o = on_h100(TRANSPOSE)
    moves = Moves(o, np.random.default_rng(0))
    staged = next(p.script for p in Rules().propose(o, 8) if "stage-shared" in p.script)
    plain, shared = moves.lowered("raise"), moves.lowered(staged)
    assert plain is not None and shared is not None
    assert cell(plain, o)[:2] == ("no reuse", "threads alone")
    assert cell(shared, o)[:2] == ("shared memory", "blocks that meet")
    archive = MapElites().archive(on_h100(TRANSPOSE, (tuned(staged, 2.0), tuned("raise", 1.1))), moves)
    assert staged in archive.values() and "raise" in archive.values(), "the slower one is the best of its kind"


def test_a_device_that_the_model_does_not_know_keeps_the_order_of_the_rules() -> None:
    o = dataclasses.replace(on_h100(STREAM), device=DeviceInfo("numba", "a CPU", "numba", 2, 1024, 0))
    found = EMBEDDED["beam"](0).propose(o, 4)
    assert [p.script for p in found] == [p.script for p in Rules().propose(o, 4)]


def test_without_an_llm_the_ensemble_is_of_embedded_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KTC_LLM_BASE_URL", "OPENAI_BASE_URL", "KTC_LLM_API_KEY", "OPENAI_API_KEY", "KTC_LLM_REPLAY"):
        monkeypatch.delenv(name, raising=False)
    name, planner, said = make_planner("ensemble")
    o = on_h100(STREAM)
    found = planner.propose(o, 4)
    assert (name, said) == ("ensemble", "") and len(found) == 4
    assert [p.script for p in found[:2]] == [p.script for p in Rules().propose(o, 2)]
