"""The ``llm`` planner: prompts in, pass scripts out, nothing trusted in between.

The answer is JSON by schema; its scripts pass through the closed grammar of the pipeline language, and those that are
refused go back to the model once, with the reasons. Before it proposes, a model may look things up (:mod:`.tools`). A
judge (:mod:`.judge`) names one bottleneck and one change to the best script so far, and may end the run. When the
endpoint fails, the planner has no ideas and says why in ``notes``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktc.agent.learnt_rules import LearntRule
from ktc.agent.planner import Observation, Outcome, Proposal

from .call_ledger import CallLedger
from .chat import Chat
from .config import LlmConfig
from .judge import JUDGEMENT, Judgement, judgement, why_enough
from .prompts import context, filled, outcome_line, prompt
from .replies import LlmError
from .tools import ASK, MOST_ASKED, answers, listing, questions

TEXT = {"type": "string"}
TOOL_ROUNDS = 2
"""Times that questions of one call for proposals are answered."""

PROPOSALS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["ask", "proposals"],
    "properties": {
        "ask": ASK,
        "proposals": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["script", "predicted_speedup", "reason"],
                "properties": {"script": TEXT, "predicted_speedup": {"type": "number"}, "reason": TEXT},
            },
        },
    },
}
LESSON: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["rule", "passes"],
    "properties": {"rule": TEXT, "passes": {"type": "array", "items": TEXT}},
}


class LlmPlanner:
    """Asks a language model. ``notes`` collects what went wrong, one sentence each."""

    name = "llm"
    reads_bound = True

    def __init__(self, chat: Chat, intent: str = "") -> None:
        """``intent``: what matters to the user, in words; it reaches the planner and the judge."""
        self.chat, self.intent = chat, intent
        self.notes: list[str] = []
        self._judged: dict[tuple[str, int], Judgement | None] = {}  # by the best script and the length of the history

    @property
    def spending(self) -> str:
        """What the calls of this run cost, one sentence; '' while there were none."""
        spent = str(self.chat.ledger.spent)
        return f"{self.chat.config.model}: {spent}" if spent else ""

    @classmethod
    def from_config(cls, config: LlmConfig, folder: Path | None = None, intent: str = "") -> LlmPlanner:
        """Calls are recorded in ``folder``/llm-calls.jsonl; what is recorded there already is not asked again."""
        path = config.record or (folder / "llm-calls.jsonl" if folder is not None else None)
        return cls(Chat(replace(config, record=path), CallLedger(path, secrets=(config.api_key,))), intent)

    # ------------------------------------------------------------------------------------------------------ proposing

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        """Once something was measured, the judge's one change to the best of it comes first."""
        shown = context(observation, self.intent)
        asked = prompt("planner", k=k, tools=listing(), asks=MOST_ASKED, rounds=TOOL_ROUNDS, **shown)
        try:
            asked, answer = self._after_questions(asked, observation, k)
            found = self._improved(observation) + self._proposals(answer, k)
            good, bad = _tried(found, observation)
            if bad:
                good += self._second_chance(asked, bad, observation, k)
        except LlmError as e:
            return self._failed(e, [])
        return list({p.script: p for p in good}.values())[:k]

    def _after_questions(
        self, asked: list[dict[str, str]], observation: Observation, k: int
    ) -> tuple[list[dict[str, str]], Mapping[str, Any]]:
        """The conversation, and the model's answer once its questions are answered."""
        answer = self.chat.ask("planner", asked, PROPOSALS)
        for n in range(TOOL_ROUNDS):
            wanted = questions(answer)
            if not wanted or answer.get("proposals") or not self.chat.affords(asked):
                break
            last = " There are no more answers to questions." if n + 1 == TOOL_ROUNDS else ""
            told = filled("answered", answers=answers(observation, wanted), k=k, last=last)
            said = {"role": "assistant", "content": json.dumps(answer)}
            asked = [*asked, said, {"role": "user", "content": told}]
            answer = self.chat.ask("planner", asked, PROPOSALS)
        return asked, answer

    def _second_chance(
        self, asked: list[dict[str, str]], bad: Sequence[Outcome], observation: Observation, k: int
    ) -> list[Proposal]:
        """Refusals go back once; what is refused again stays refused."""
        refusals = "\n".join(f"- {o.script[:400]}\n  {o.detail} [{o.code}]" for o in bad)
        again = [*asked, {"role": "user", "content": filled("refused", refusals=refusals, k=k)}]
        try:
            return _tried(self._proposals(self.chat.ask("planner", again, PROPOSALS), k), observation)[0]
        except LlmError as e:
            return self._failed(e, [])

    def _proposals(self, answer: Mapping[str, Any], k: int) -> list[Proposal]:
        rows = answer.get("proposals")
        if not isinstance(rows, list):
            raise LlmError("E-LLM-REPLY", "the answer has no list of proposals")
        out = []
        for row in rows[: 2 * k]:
            if not isinstance(row, dict) or not isinstance(row.get("script"), str):
                continue
            predicted = row.get("predicted_speedup")
            gain = float(predicted) if isinstance(predicted, int | float) and 0 < predicted < 1e4 else None
            out.append(Proposal(row["script"].strip(), str(row.get("reason", ""))[:500], gain, self.name))
        return out

    # -------------------------------------------------------------------------------------------------------- judging

    def enough(self, observation: Observation) -> str:
        """Why nothing more is worth a measurement, by the judge; '' to go on."""
        said = self.judged(observation)
        why, doubt = why_enough(said, observation.score) if said is not None else ("", "")
        self.notes += [doubt] if doubt else []
        return why

    def judged(self, observation: Observation) -> Judgement | None:
        """The judgement on the run so far, asked for once; None before anything was measured, or without an answer."""
        measured = [h for h in observation.history if h.gain is not None and h.script]
        if not measured:
            return None
        best = max(measured, key=lambda h: h.gain or 0.0)
        key = (best.script, len(observation.history))
        if key not in self._judged:
            shown = context(observation, self.intent, others=False)
            asked = prompt("judge", script=best.script, outcome=outcome_line(best), **shown)
            try:
                self._judged[key] = judgement(self.chat.ask("judge", asked, JUDGEMENT))
            except LlmError as e:
                self._judged[key] = self._failed(e, None)
        return self._judged[key]

    def _improved(self, observation: Observation) -> list[Proposal]:
        said = self.judged(observation)
        if said is None or not said.change:
            return []
        return [Proposal(said.change, f"limited by: {said.bottleneck}", None, self.name)]

    # --------------------------------------------------------------------------------------------------------- lessons

    def learn(self, observation: Observation) -> LearntRule | None:
        """A rule of thumb from the history, with the passes by which it is tested; None when there is no answer."""
        from ktc.passes.core.catalogue import PASSES

        try:
            answer = self.chat.ask("summariser", prompt("summariser", **_lesson_context(observation)), LESSON)
        except LlmError as e:
            return self._failed(e, None)
        rule, passes = str(answer.get("rule") or "").strip()[:500], answer.get("passes")
        names = [p for p in passes if p in PASSES] if isinstance(passes, list) else []
        return LearntRule(rule, tuple(dict.fromkeys(names))) if rule else None

    def _failed(self, e: LlmError, instead: Any) -> Any:
        self.notes.append(f"{e.message} [{e.code}]" + (f"; {e.hint}" if e.hint else ""))
        return instead


def _lesson_context(o: Observation) -> dict[str, str]:
    return {k: v for k, v in context(o).items() if k in ("device", "facts", "history")}


def _tried(found: Sequence[Proposal], observation: Observation) -> tuple[list[Proposal], list[Outcome]]:
    """Proposals that apply, and refusals of the rest; what the history has already is refused where nothing is new."""
    known = {o.script: o for o in observation.history}
    good: list[Proposal] = []
    bad: list[Outcome] = []
    old: list[Outcome] = []
    for p in found:
        if p.script in known:
            old.append(replace(known[p.script], detail="the history has it", code=known[p.script].status))
            continue
        refused = observation.attempt(p.script)
        if refused is None:
            good.append(p)
        else:
            bad.append(Outcome(p.script, "refused", refused.why, code=refused.code, planner=p.planner))
    return good, bad if good or bad else old
