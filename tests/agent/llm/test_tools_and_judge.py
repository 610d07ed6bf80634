"""What a model may look up, and the judge that may end a run: over the real protocol, against a local server."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ktc.agent.llm.config import RUN_TOKENS, LlmConfig
from ktc.agent.llm.judge import CREDIBLE, Judgement, judgement, why_enough
from ktc.agent.llm.llm_planner import PROPOSALS, TOOL_ROUNDS, LlmPlanner
from ktc.agent.llm.replies import LlmError
from ktc.agent.llm.tools import ANSWER_CHARS, MOST_ASKED, TOOLS, answers, questions
from ktc.agent.memory import Memory
from ktc.agent.optimize import optimize
from ktc.agent.planner import Observation, Outcome, Score
from ktc.search.bounds.speed_of_light import Bound
from ktc.search.limiters.limiter import Limiter, Profile
from tests.agent.agent_kernels import ROWS, SIZES
from tests.agent.embedded.test_rules import observe
from tests.agent.fake_lab import FakeLab
from tests.agent.llm.llm_server import Server, completion
from tests.agent.llm.test_llm import BAD, GOOD, OTHER, judges, planner, says
from tests.agent.seeded_run import H100, WORKLOAD


@pytest.fixture
def observation() -> Observation:
    return dataclasses.replace(observe(ROWS, SIZES["rows"])[1], device=H100)


def asks(*rows: tuple[str, str, str], proposals: tuple[str, ...] = ()) -> tuple[int, dict, dict]:
    ask = [{"tool": tool, "script": script, "about": about} for tool, script, about in rows]
    found = [{"script": s, "predicted_speedup": 2, "reason": ""} for s in proposals]
    return 200, {}, completion(json.dumps({"ask": ask, "proposals": found}))


def told(o: Observation, tool: str, script: str, about: str = "") -> str:
    return answers(o, [{"tool": tool, "script": script, "about": about}])


def last_said(s: Server) -> str:
    return s.requests[-1]["body"]["messages"][-1]["content"]


# ----------------------------------------------------------------------------------------------------------- the tools


@pytest.mark.parametrize(
    "tool, about, part",
    [
        ("facts", "", '"loops"'),
        ("sites", "row-cache", "nothing applies"),
        ("sites", "unroll", "unroll{loop="),
        ("apply", "", "par i in"),
        ("lower", "", "load_vec<V>"),
        ("cost", "", " expected; "),
        ("profile", "", "not measured"),
    ],
)
def test_each_tool_answers_about_a_script(observation: Observation, tool: str, about: str, part: str) -> None:
    said = told(observation, tool, GOOD, about)
    assert said.startswith(f'<answer tool="{tool}" script="raise |') and part in said
    assert len(said) < ANSWER_CHARS + 300


@pytest.mark.parametrize("tool", [t for t in TOOLS if t != "profile"])
def test_a_script_that_does_not_apply_is_refused_with_the_reason(observation: Observation, tool: str) -> None:
    assert "refused: " in told(observation, tool, BAD) and "E-PLACE" in told(observation, tool, BAD)


@pytest.mark.parametrize(
    "row",
    [("rm", GOOD), ("apply", "$(rm -rf /)"), ("cost", "raise" * 1000), ("lower", ""), ("sites", "raise | where ((")],
)
def test_anything_may_be_asked(observation: Observation, row: tuple[str, str]) -> None:
    assert told(observation, *row).startswith("<answer tool=")


def test_a_measured_script_has_a_profile(observation: Observation) -> None:
    found = Profile("counters", (Limiter("memory", 0.9, "90 % of its peak"),))
    o = dataclasses.replace(observation, profile_of=lambda script: found if script == GOOD else None)
    assert "memory 90%: 90 % of its peak\nby hardware counters" in told(o, "profile", GOOD)


@pytest.mark.parametrize("ask", [None, "cost", [5, {"tool": 3}, {"script": GOOD}], {}])
def test_questions_that_cannot_be_read_are_none(ask: Any) -> None:
    assert list(questions({"ask": ask})) == [] == list(questions({}))


def test_the_answers_come_before_the_proposals(observation: Observation) -> None:
    many = asks(*[("cost", GOOD, "")] * (MOST_ASKED + 3))
    with Server(many, says(GOOD)) as s:
        found = planner(s, wall_s=60).propose(observation, 4)
    assert [p.script for p in found] == [GOOD] and len(s.requests) == 2
    assert [m["role"] for m in s.requests[1]["body"]["messages"]] == ["system", "user", "assistant", "user"]
    assert last_said(s).count("<answer") == MOST_ASKED and " expected; " in last_said(s)
    schema = s.requests[0]["body"]["response_format"]["json_schema"]["schema"]
    assert schema == PROPOSALS and "cost: the time expected" in s.requests[0]["body"]["messages"][1]["content"]


def test_a_model_that_only_asks_is_told_when_it_was_the_last_time(observation: Observation) -> None:
    with Server(asks(("cost", GOOD, ""))) as s:
        assert planner(s, wall_s=60).propose(observation, 4) == []
    assert len(s.requests) == 1 + TOOL_ROUNDS and "no more answers" in last_said(s)


def test_who_asks_and_proposes_is_taken_at_the_proposals(observation: Observation) -> None:
    with Server(asks(("cost", GOOD, ""), proposals=(OTHER,))) as s:
        assert [p.script for p in planner(s).propose(observation, 4)] == [OTHER]
    assert len(s.requests) == 1


@pytest.mark.parametrize("limit", [{"max_calls": 2}, {"total_tokens": 5000}])
def test_questions_are_answered_while_the_budget_has_room_for_proposals(observation: Observation, limit: dict) -> None:
    with Server(asks(("cost", GOOD, ""))) as s:
        p = planner(s, **limit)
        assert p.propose(observation, 4) == [] and not p.notes
    assert len(s.requests) == 1


def test_a_conversation_with_questions_replays(observation: Observation, tmp_path: Path) -> None:
    with Server(asks(("apply", GOOD, "")), says(GOOD)) as s:
        first = planner(s, tmp_path, wall_s=60).propose(observation, 4)
    again = LlmPlanner.from_config(LlmConfig("m", replay=tmp_path / "llm-calls.jsonl"))
    assert again.propose(observation, 4) == first != []


# ----------------------------------------------------------------------------------------------------------- the judge

SCORE = Score(original=100e-6, best=25e-6, bound=20e-6, unit="the memory", left=10, budget=40)


def test_the_judges_word_counts_where_the_numbers_agree() -> None:
    near = Judgement(True, "memory", "")
    assert why_enough(near, SCORE) == ("the judge says that the bound is near (80%): memory", "")
    far = dataclasses.replace(SCORE, best=20e-6 / CREDIBLE * 1.1)
    assert why_enough(near, far)[0] == "" and "68% of it is verified" in why_enough(near, far)[1]
    assert why_enough(near, dataclasses.replace(SCORE, bound=0.0))[1].endswith("no bound is known")
    assert why_enough(near, None)[0] == "" and why_enough(Judgement(False, "x", ""), SCORE) == ("", "")


@pytest.mark.parametrize("answer", [{}, {"near_the_bound": "true"}, {"near_the_bound": 1, "change": None}])
def test_only_a_plain_true_is_near(answer: dict) -> None:
    assert not judgement(answer).near and judgement(answer).change == ""


def test_the_judge_sees_the_numbers_and_is_asked_once_for_a_state(observation: Observation) -> None:
    o = dataclasses.replace(observation, history=(Outcome(OTHER, "tuned", gain=4.0, predicted=1.5),), score=SCORE)
    with Server(judges(GOOD), says(GOOD)) as s:
        p = planner(s)
        p.intent = "small batches matter most"
        assert p.enough(o) == "" and [x.script for x in p.propose(o, 4)] == [GOOD]
    assert len(s.requests) == 2
    text = s.requests[0]["body"]["messages"][1]["content"]
    assert "the memory allows 20.0 µs: 80%. 10 of 40 measurements left" in text
    assert "4.000x (predicted 1.50x)" in text and "small batches matter most" in text


def test_before_anything_was_measured_there_is_nothing_to_judge(observation: Observation) -> None:
    with Server(judges(GOOD, near=True)) as s:
        assert planner(s).enough(dataclasses.replace(observation, score=SCORE)) == ""
    assert s.requests == []


class Bounded(FakeLab):
    """The least time is 0.9 ms."""

    def bound(self, scenario: object, beaten_by: float = 0.0) -> Bound:
        return Bound(0.9e-3, "memory", {"memory": 0.9e-3})


def run(folder: Path, server: Server, memory: Memory | None = None, budget: int = 20, **limits: Any):
    folder.mkdir(exist_ok=True)
    (folder / "kernel.ktir").write_text(ROWS)
    (folder / "workload.toml").write_text(WORKLOAD)
    lab = Bounded(lambda script, knobs, at: 1e-3 if "vec" in script else 4e-3, device=H100)
    p = planner(server, folder, **{"wall_s": 60.0, **limits})
    report = optimize(
        folder / "workload.toml", planner=p, lab=lab, out_dir=folder / "out", budget=budget, memory=memory
    )
    return report, lab, p


def by_role(near: bool, change: str = ""):
    """Answers each role as it wants to be answered; requests say which it is by their schema."""

    def answer(body: dict) -> tuple[int, dict, dict]:
        wanted = body["response_format"]["json_schema"]["schema"]["required"]
        if "near_the_bound" in wanted:
            return judges(change, near)
        return (
            (200, {}, completion(json.dumps({"rule": "wide rows", "passes": ["distribute"]})))
            if "rule" in wanted
            else says(GOOD)
        )

    return answer


def test_a_judge_that_says_near_the_bound_ends_the_run(tmp_path: Path) -> None:
    with Server(by_role(near=True)) as s:
        ended, lab, _ = run(tmp_path / "near", s)
    assert ended.scenarios[0].script == GOOD
    assert any("many: stopped: the judge says that the bound is near (90%): latency" in n for n in ended.notes)
    with Server(by_role(near=False)) as s:
        _, other, _ = run(tmp_path / "far", s)
    assert len(lab.measured) < len(other.measured) == 21


def test_a_judge_that_is_wrong_about_the_bound_ends_nothing(tmp_path: Path) -> None:
    class Far(Bounded):
        def bound(self, scenario: object, beaten_by: float = 0.0) -> Bound:
            return Bound(1e-5, "memory", {"memory": 1e-5})

    (tmp_path / "kernel.ktir").write_text(ROWS)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    lab = Far(lambda script, knobs, at: 1e-3 if "vec" in script else 4e-3, device=H100)
    with Server(by_role(near=True)) as s:
        p = planner(s, wall_s=60.0)
        report = optimize(tmp_path / "workload.toml", planner=p, lab=lab, out_dir=tmp_path / "out", budget=20)
    assert len(lab.measured) == 21 and any("but 1% of it is verified" in n for n in report.notes)


# -------------------------------------------------------------------------------------------------------- what it costs


def test_what_is_learnt_is_kept_and_what_was_spent_is_said(tmp_path: Path) -> None:
    memory = Memory(":memory:")
    with Server(by_role(near=False)) as s:
        report, _, p = run(tmp_path, s, memory, price_in=1.0, price_out=2.0)
    assert "learnt: wide rows" in report.notes
    spent = p.chat.ledger.spent
    assert spent.calls == len(s.requests) and spent.tokens == 120 * spent.calls
    longest = "(the longest question 100)"
    assert f"spent on m: {spent.calls} calls, {spent.tokens} tokens {longest}, {spent.usd:.4f} USD" in report.notes
    with Server(by_role(near=False)) as s:
        run(tmp_path / "later", s, memory)
    assert "wide rows (held on 0 of 0 kernels)" in s.requests[0]["body"]["messages"][1]["content"]


def test_a_run_of_forty_measurements_stays_within_its_tokens(tmp_path: Path) -> None:
    """The server charges what the questions are long, at four characters a token; twice as many are allowed."""

    def charging(body: dict) -> tuple[int, dict, dict]:
        status, headers, answer = by_role(near=False, change=OTHER)(body)
        asked = sum(len(m["content"]) for m in body["messages"]) // 4
        answer["usage"] = {"prompt_tokens": asked, "completion_tokens": 200}
        return status, headers, answer

    with Server(charging) as s:
        _, _, p = run(tmp_path, s, budget=40, total_tokens=2 * RUN_TOKENS)
    assert p.chat.ledger.spent.calls >= 4 and p.chat.ledger.spent.tokens < RUN_TOKENS, p.spending


def test_limits_are_set_by_option_by_environment_or_by_the_size_of_the_run() -> None:
    config = LlmConfig("m")
    assert config.for_run(40, env={}).total_tokens == RUN_TOKENS
    assert config.for_run(400, env={}).total_tokens == 10 * RUN_TOKENS
    found = dataclasses.replace(config, total_tokens=5000).for_run(400, env={"KTC_LLM_MAX_TOKENS": "5000"})
    assert found.total_tokens == 5000
    given = config.for_run(400, "calls=3, tokens=900 usd=0.5", env={})
    assert (given.max_calls, given.total_tokens, given.max_usd) == (3, 900, 0.5)
    for text, part in (("cost=3", "known: calls"), ("calls=many", "KTC_LLM_MAX_CALLS")):
        with pytest.raises(LlmError) as caught:
            config.for_run(40, text, env={})
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "limit", [{"max_calls": 1}, {"total_tokens": 100}, {"max_usd": 1e-9, "price_in": 1.0}, {"wall_s": 1e-9}]
)
def test_each_limit_ends_the_calls_and_not_the_run(tmp_path: Path, limit: dict) -> None:
    with Server(by_role(near=False)) as s:
        report, _, _ = run(tmp_path, s, **limit)
    assert len(s.requests) <= 1 and any("E-LLM-BUDGET" in n for n in report.notes)
