"""The ``llm`` planner: prompts in, pass scripts out, nothing trusted in between.

A prompt holds the IR without comments, facts, the catalogue, the sites and the history. The answer is JSON by schema;
its scripts pass through the closed grammar of the pipeline language, and those that are refused go back to the model
once, with the reasons. When the endpoint fails, the planner has no ideas and says why in ``notes``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ktc.agent.planner import MAX_SCRIPT_CHARS, Observation, Outcome, Proposal
from ktc.agent.relief import FEW, RELIEF
from ktc.ir.kernel import Kernel
from ktc.ir.support.quantities import duration

from .call_ledger import CallLedger
from .chat import Chat, LlmConfig, LlmError

MAX_IR_CHARS = 24_000
MAX_HISTORY = 20
TEXT = {"type": "string"}

PROPOSALS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["proposals"],
    "properties": {
        "proposals": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["script", "predicted_speedup", "reason"],
                "properties": {"script": TEXT, "predicted_speedup": {"type": "number"}, "reason": TEXT},
            },
        }
    },
}
CRITIQUE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["bottleneck", "change"],
    "properties": {"bottleneck": TEXT, "change": TEXT},
}
LESSON: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["rule"],
    "properties": {"rule": TEXT},
}


class LlmPlanner:
    """Asks a language model. ``notes`` collects what went wrong, one sentence each."""

    name = "llm"

    def __init__(self, chat: Chat, intent: str = "") -> None:
        """``intent``: what matters to the user, in words; it reaches the planner and the critic."""
        self.chat, self.intent = chat, intent
        self.notes: list[str] = []

    @property
    def spending(self) -> str:
        """What the calls of this run cost, one sentence; '' while there were none."""
        spent = self.chat.ledger.spent
        usd = f", {spent.usd:.4f} USD" if spent.usd else ""
        return f"{self.chat.config.model}: {spent.calls} calls, {spent.tokens} tokens{usd}" if spent.calls else ""

    @classmethod
    def from_config(cls, config: LlmConfig, folder: Path | None = None, intent: str = "") -> LlmPlanner:
        """Calls are recorded in ``folder``/llm-calls.jsonl; what is recorded there already is not asked again."""
        path = config.record or (folder / "llm-calls.jsonl" if folder is not None else None)
        return cls(Chat(replace(config, record=path), CallLedger(path, secrets=(config.api_key,))), intent)

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        """Once something was measured, the critic's one change to the best of it comes first."""
        asked = prompt("planner", k=k, goal=self._goal, **_context(observation))
        try:
            found = self._improved(observation) + self._proposals(self.chat.ask("planner", asked, PROPOSALS), k)
            good, bad = _tried(found, observation)
            if bad:
                good += self._second_chance(asked, bad, observation, k)
        except LlmError as e:
            self.notes.append(f"{e.message} [{e.code}]")
            return []
        return list({p.script: p for p in good}.values())[:k]

    @property
    def _goal(self) -> str:
        return "the least time, verified" + (f". In the user's words: {self.intent}" if self.intent else "")

    def _second_chance(
        self, asked: list[dict[str, str]], bad: Sequence[Outcome], observation: Observation, k: int
    ) -> list[Proposal]:
        """Refusals go back once; what is refused again stays refused."""
        refusals = "\n".join(f"- {o.script[:400]}\n  refused: {o.detail} [{o.code}]" for o in bad)
        again = [*asked, {"role": "user", "content": _fill("refused", refusals=refusals, k=k)}]
        try:
            return _tried(self._proposals(self.chat.ask("planner", again, PROPOSALS), k), observation)[0]
        except LlmError as e:
            self.notes.append(f"{e.message} [{e.code}]")
            return []

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

    # ----------------------------------------------------------------------------------------------------- other roles

    def _improved(self, observation: Observation) -> list[Proposal]:
        measured = [h for h in observation.history if h.gain is not None and h.script]
        said = self.critique(observation, max(measured, key=lambda h: h.gain or 0.0)) if measured else None
        return [Proposal(said[1].strip(), f"limited by: {said[0]}", None, self.name)] if said and said[1] else []

    def critique(self, observation: Observation, outcome: Outcome) -> tuple[str, str] | None:
        """(bottleneck, change): the one thing to fix next about a measured script; None when there is no answer."""
        asked = prompt(
            "critic", goal=self._goal, script=outcome.script, outcome=_line(outcome), **_context(observation)
        )
        try:
            answer = self.chat.ask("critic", asked, CRITIQUE)
        except LlmError as e:
            self.notes.append(f"{e.message} [{e.code}]")
            return None
        return str(answer.get("bottleneck", ""))[:500], str(answer.get("change", ""))[:MAX_SCRIPT_CHARS]

    def summarise(self, observation: Observation) -> str:
        """One rule of thumb from the history, for people to read; '' when there is no answer."""
        try:
            return str(
                self.chat.ask("summariser", prompt("summariser", **_context(observation)), LESSON).get("rule", "")
            )
        except LlmError as e:
            self.notes.append(f"{e.message} [{e.code}]")
            return ""


def _tried(found: Sequence[Proposal], observation: Observation) -> tuple[list[Proposal], list[Outcome]]:
    """Proposals that apply, and refusals of the rest; what the history has already is neither."""
    known = {o.script for o in observation.history}
    good: list[Proposal] = []
    bad: list[Outcome] = []
    for p in found:
        if p.script in known:
            continue
        refused = observation.attempt(p.script)
        if refused is None:
            good.append(p)
        else:
            bad.append(Outcome(p.script, "refused", refused.why, code=refused.code, planner=p.planner))
    return good, bad


# --------------------------------------------------------------------------------------------------------- prompts


def prompt(role: str, **values: Any) -> list[dict[str, str]]:
    """The messages of a role: rules of the house, then the role's question."""
    return [{"role": "system", "content": _fill("system")}, {"role": "user", "content": _fill(role, **values)}]


def _fill(name: str, **values: Any) -> str:
    text = files("ktc.agent.llm").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return Template(text).substitute({k: str(v) for k, v in values.items()})


def _context(o: Observation) -> dict[str, str]:
    d = o.device
    return {
        "device": f"{d.backend}, {d.compute_units} compute units, warp {d.warp}, "
        f"{d.max_threads_per_block} threads and {d.shared_per_block} bytes of shared memory a block",
        "facts": json.dumps([asdict(f) for f in o.facts], default=str),
        "ir": ir_text(o.raised or o.kernel),
        "catalogue": catalogue(_concerned(o)),
        "estimates": expectations(o),
        "limits": limits(o),
        "sites": "\n".join(f"{s.step}  # {s.doc}" for s in o.sites) or "none",
        "history": "\n".join(_line(h) for h in o.history[-MAX_HISTORY:]) or "none yet",
        "remembered": "\n".join(f"{p.script}  # {p.reason}" for p in o.remembered) or "none",
    }


def _line(o: Outcome) -> str:
    gain = f", {o.gain:.3f}x with {dict(o.knobs)}" if o.gain is not None else ""
    return f"{o.script or '(identity)'} -> {o.status}{gain}: {o.detail[:200]}"


def _concerned(o: Observation) -> frozenset[str]:
    """Passes that have a site, or that a script of the history or of memory uses."""
    import re

    scripts = [*(h.script for h in o.history), *(p.script for p in o.remembered)]
    used = {w for script in scripts for w in re.findall(r"(?:^|\| )([a-z][\w-]*)", script)}
    return frozenset({s.step.name for s in o.sites} | used)


SHORT = 70
"""Characters of the summary of a pass that does not concern the kernel as it is."""


def catalogue(concerned: frozenset[str] | None = None) -> str:
    """Every pass, one a line: those ``concerned`` (None: all) with their parameters explained, the others in short."""
    from ktc.passes.core.catalogue import PASSES

    rows = []
    for name in PASSES:
        p = PASSES[name]
        if concerned is None or name in concerned:
            args = ", ".join(s.name + ("" if s.required else "?") + f" ({s.doc}: {s.takes})" for s in p.parameters)
            rows.append(f"{name}{{{args}}}: {p.summary}")
        else:
            args = ", ".join(s.name + ("" if s.required else "?") for s in p.parameters)
            rows.append(f"{name}{{{args}}}: {p.summary[:SHORT]}")
    return "\n".join(rows)


def expectations(o: Observation) -> str:
    """What the cost model expects of the kernel as it is, and of the best script so far, and why; where the model was
    wrong is for the reader to see from the history."""
    import numpy as np

    from ktc.agent.exploring.moves import Moves, measured, root

    moves = Moves(o, np.random.default_rng(0))
    gains = measured(o.history)
    best = max(gains, key=lambda s: gains[s])
    lines = []
    for script in dict.fromkeys(["", best or root(o)]):
        found = moves.explained(script)
        if found is not None:
            measured_as = f", measured {gains[script]:.2f}x" if script in gains and script else ""
            lines.append(
                f"{script or '(identity)'}: {duration(found.seconds)} expected{measured_as}; {'; '.join(found.why)}"
            )
    return "\n".join(lines) or "no model of this device"


def limits(o: Observation) -> str:
    """What limits the fastest script so far, with its numbers, and the passes that address it."""
    if o.profile is None:
        return "not known on this device"
    addressing = dict.fromkeys(p for limiter in o.limiters[:FEW] for p in RELIEF.get(limiter, ()))
    found = [f"{o.leader or '(identity)'} is limited by", *o.profile.lines()]
    return "\n".join([*found, *([f"passes that address it: {', '.join(addressing)}"] if addressing else [])])


def ir_text(kernel: Kernel) -> str:
    """The IR without comments, places or the source's own spelling, cut at a fixed length."""
    from ktc.ir.text import print_kernel
    from ktc.ir.walk import map_body

    bare = kernel.with_(comments=(), body=map_body(kernel.body, lambda s: replace(s, comments=()) if s.comments else s))
    text = print_kernel(bare.with_(name="kernel"))
    return text if len(text) <= MAX_IR_CHARS else text[:MAX_IR_CHARS] + "\n... (cut)"
