"""What a model may look up before it answers: analyses, legality, code and expected time of scripts it thinks of.

Questions and answers are part of the conversation's JSON, not of the endpoint's own protocol for tools: many local
servers have none, and a record of the conversation replays anywhere. Nothing that is looked up is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktc.agent.exploring.moves import Moves, measured
from ktc.agent.planner import MAX_SCRIPT_CHARS, Observation
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.diagnostics import KtcError

from .prompts import cut, expected_line, facts_json, ir_text

MOST_ASKED = 4
"""Questions that are answered at a time."""

ANSWER_CHARS = 1500
"""Of one answer: about 400 tokens."""


@dataclass(frozen=True)
class Tool:
    """``answer(moves, script, about)``: text for the model; ``doc``: one line of the prompt."""

    doc: str
    answer: Callable[[Moves, str, str], str]


def _facts(moves: Moves, script: str, about: str) -> str:
    kernel = moves.kernel(script)
    if kernel is None:
        return _refusal(moves, script)
    return facts_json(facts(kernel, f.sizes) for f in moves.observation.facts)


def _sites(moves: Moves, script: str, about: str) -> str:
    from ktc.passes.core.pipeline import sites

    kernel = moves.kernel(script)
    if kernel is None:
        return _refusal(moves, script)
    found = [s for group in sites(kernel).values() for s in group if not about or s.step.name == about]
    return "\n".join(f"{s.step}  # {s.doc}" for s in found) or "nothing applies"


def _apply(moves: Moves, script: str, about: str) -> str:
    kernel = moves.kernel(script)
    refused = _refusal(moves, script)
    return refused if kernel is None or refused else ir_text(kernel, ANSWER_CHARS)


def _lower(moves: Moves, script: str, about: str) -> str:
    from ktc.driver.printing import printed

    kernel = moves.kernel(script)
    if kernel is None:
        return _refusal(moves, script)
    return printed(kernel.with_(name="kernel"), moves.observation.device.profile, "template").text


def _cost(moves: Moves, script: str, about: str) -> str:
    said = expected_line(moves, script, measured(moves.observation.history))
    return said or _refusal(moves, script) or "the cost model knows nothing of this device or launch"


def _profile(moves: Moves, script: str, about: str) -> str:
    found = moves.observation.profile_of(script)
    return "\n".join(found.lines()) if found is not None else "it was not measured, or the device is not known"


TOOLS: dict[str, Tool] = {
    "facts": Tool("loops, buffers, traffic and operations of the kernel after the script", _facts),
    "sites": Tool("steps that apply after the script; `about` names a pass, or is empty", _sites),
    "apply": Tool("the IR after the script, or why it is refused", _apply),
    "lower": Tool("the code that the script leads to, knobs open", _lower),
    "cost": Tool("the time expected of the script at its knobs (fix them: $V=4), and why", _cost),
    "profile": Tool("what limits a script that was measured", _profile),
}
"""By name."""

ASK: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["tool", "script", "about"],
        "properties": {
            "tool": {"type": "string", "enum": list(TOOLS)},
            "script": {"type": "string"},
            "about": {"type": "string"},
        },
    },
}
"""The schema of questions."""


def listing() -> str:
    """The tools, one a line."""
    return "\n".join(f"{name}: {tool.doc}" for name, tool in TOOLS.items())


def questions(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """What a model's answer asks for, as far as it can be read."""
    asked = answer.get("ask")
    rows = asked if isinstance(asked, list) else []
    return [r for r in rows if isinstance(r, dict) and isinstance(r.get("tool"), str)][:MOST_ASKED]


def answers(o: Observation, asked: Sequence[Mapping[str, Any]]) -> str:
    """The answers to ``asked`` as text; what cannot be answered says why."""
    moves = Moves(o, np.random.default_rng(0))
    return "\n".join(_answer(moves, q) for q in asked)


def _answer(moves: Moves, q: Mapping[str, Any]) -> str:
    name, script, about = str(q["tool"]), str(q.get("script") or "").strip(), str(q.get("about") or "").strip()
    if name not in TOOLS:
        said = f"there is no tool '{name[:40]}'; there are: {', '.join(TOOLS)}"
    elif len(script) > MAX_SCRIPT_CHARS:
        said = f"the script is longer than {MAX_SCRIPT_CHARS} characters"
    else:
        try:
            said = TOOLS[name].answer(moves, script, about)
        except KtcError as e:
            said = f"{e.message} [{e.code}]"
    return f'<answer tool="{name[:40]}" script="{script[:200]}">\n{cut(said, ANSWER_CHARS)}\n</answer>'


def _refusal(moves: Moves, script: str) -> str:
    """Why a script does not apply; '' if it does."""
    refused = moves.observation.attempt(script)
    return f"refused: {refused.why} [{refused.code}]" if refused is not None else ""
