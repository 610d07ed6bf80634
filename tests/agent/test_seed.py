"""A seed decides all that is drawn: a run is the same twice, in another process too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ktc.agent.planners import EMBEDDED, make_planner
from tests.agent.agent_kernels import STREAM
from tests.agent.exploring.test_exploring import on_h100, tuned

DRAWING = ["beam", "mcts", "map-elites", "ensemble"]


def printed(planner: str, seed: int, folder: Path, hashes: str) -> str:
    """What a run prints in a process of its own, in which sets have the order that ``hashes`` gives them."""
    command = [sys.executable, "-m", "tests.agent.seeded_run", planner, str(seed), str(folder)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONHASHSEED": hashes}, text=True, capture_output=True, check=True
    )
    return done.stdout


@pytest.fixture(autouse=True)
def no_llm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KTC_LLM_BASE_URL", "OPENAI_BASE_URL", "KTC_LLM_API_KEY", "OPENAI_API_KEY", "KTC_LLM_REPLAY"):
        monkeypatch.delenv(name, raising=False)


def test_a_run_is_the_same_twice(tmp_path: Path) -> None:
    first, again = (printed("mcts", 3, tmp_path / hashes, hashes) for hashes in ("1", "2"))
    assert first == again and len(first) > 1000


@pytest.mark.parametrize("name", ["mcts", "map-elites"])
def test_another_seed_draws_other_scripts(name: str) -> None:
    start = on_h100(STREAM)
    history = tuple(tuned(p.script, 2.0) for p in EMBEDDED[name](0).propose(start, 2))
    drawn = [EMBEDDED[name](seed).propose(on_h100(STREAM, history), 4) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("name", DRAWING)
def test_the_seed_reaches_the_planner(name: str) -> None:
    planners = [make_planner(name, seed=seed)[1] for seed in (5, 5, 6)]
    same, equal, other = ([_state(p) for p in getattr(planner, "parts", (planner,))] for planner in planners)
    assert same == equal != other


def _state(planner: object) -> str:
    """What a planner is made of, as text: generators by their state."""
    return str({k: getattr(getattr(v, "bit_generator", None), "state", v) for k, v in vars(planner).items()})


def test_every_embedded_planner_takes_a_seed() -> None:
    assert {name: make(1).name for name, make in EMBEDDED.items()} == {name: name for name in EMBEDDED}
