"""What a model is shown: the templates of the roles, filled with what an observation holds.

A prompt has the IR without comments or names of the source, facts, the passes that concern the kernel, what the cost
model expects, what limits the fastest so far, and what became of earlier ideas; never a path or source text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from string import Template
from typing import Any

from ktc.agent.planner import Observation, Outcome
from ktc.agent.relief import FEW, RELIEF
from ktc.ir.kernel import Kernel
from ktc.ir.support.quantities import duration

MAX_IR_CHARS = 24_000
MAX_HISTORY = 20
SHORT = 70
"""Characters of the summary of a pass that does not concern the kernel as it is."""


def prompt(role: str, **values: Any) -> list[dict[str, str]]:
    """The messages of a role: rules of the house, then the role's question."""
    return [{"role": "system", "content": filled("system")}, {"role": "user", "content": filled(role, **values)}]


def filled(name: str, **values: Any) -> str:
    """The template ``name`` with ``values``; all of its places must be among them."""
    text = files("ktc.agent.llm").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return Template(text).substitute({k: str(v) for k, v in values.items()})


def context(o: Observation, intent: str = "") -> dict[str, str]:
    """The places that templates have in common."""
    d = o.device
    return {
        "goal": goal(o, intent),
        "device": f"{d.backend}, {d.compute_units} compute units, warp {d.warp}, "
        f"{d.max_threads_per_block} threads and {d.shared_per_block} bytes of shared memory a block",
        "facts": facts_text(o),
        "ir": ir_text(o.raised or o.kernel),
        "catalogue": catalogue(_concerned(o)),
        "estimates": expectations(o),
        "limits": limits(o),
        "sites": "\n".join(f"{s.step}  # {s.doc}" for s in o.sites) or "none",
        "history": "\n".join(outcome_line(h) for h in o.history[-MAX_HISTORY:]) or "none yet",
        "remembered": "\n".join([*(f"{p.script}  # {p.reason}" for p in o.remembered), *o.rules]) or "none",
    }


def goal(o: Observation, intent: str = "") -> str:
    """What is wanted, how far it is, and what may still be measured."""
    lines = ["The least time, verified." + (f" In the user's words: {intent}" if intent else "")]
    if o.score is not None:
        lines.append(str(o.score))
    return "\n".join(lines)


def outcome_line(o: Outcome) -> str:
    """A script and what became of it, one line."""
    predicted = f" (predicted {o.predicted:.2f}x)" if o.predicted else ""
    gain = f", {o.gain:.3f}x{predicted} with {dict(o.knobs)}" if o.gain is not None else ""
    return f"{o.script or '(identity)'} -> {o.status}{gain}: {o.detail[:200]}"


def facts_text(o: Observation) -> str:
    """The facts as JSON, without what is zero or empty."""
    return json.dumps([{k: v for k, v in asdict(f).items() if v} for f in o.facts], default=str)


def limits(o: Observation) -> str:
    """What limits the fastest script so far, with its numbers, and the passes that address it."""
    if o.profile is None:
        return "not known on this device"
    addressing = dict.fromkeys(p for limiter in o.limiters[:FEW] for p in RELIEF.get(limiter, ()))
    found = [f"{o.leader or '(identity)'} is limited by", *o.profile.lines()]
    return "\n".join([*found, *([f"passes that address it: {', '.join(addressing)}"] if addressing else [])])


def _concerned(o: Observation) -> frozenset[str]:
    """Passes that have a site, or that a script of the history or of memory uses."""
    scripts = [*(h.script for h in o.history), *(p.script for p in o.remembered)]
    used = {w for script in scripts for w in re.findall(r"(?:^|\| )([a-z][\w-]*)", script)}
    return frozenset({s.step.name for s in o.sites} | used)


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
    lines = [expected_line(moves, script, gains) for script in dict.fromkeys(["", best or root(o)])]
    return "\n".join(filter(None, lines)) or "no model of this device"


def expected_line(moves: Any, script: str, gains: Mapping[str, float]) -> str:
    """What the model (a :class:`ktc.agent.exploring.moves.Moves`) expects of ``script``; '' if it knows nothing."""
    found = moves.explained(script)
    if found is None:
        return ""
    measured_as = f", measured {gains[script]:.2f}x" if script in gains and script else ""
    return f"{script or '(identity)'}: {duration(found.seconds)} expected{measured_as}; {'; '.join(found.why)}"


def ir_text(kernel: Kernel, most: int = MAX_IR_CHARS) -> str:
    """The IR without comments, places or the source's own spelling, cut at ``most`` characters."""
    from ktc.ir.text import print_kernel
    from ktc.ir.walk import map_body

    bare = kernel.with_(comments=(), body=map_body(kernel.body, lambda s: replace(s, comments=()) if s.comments else s))
    return cut(print_kernel(bare.with_(name="kernel")), most)


def cut(text: str, most: int) -> str:
    """``text``, or its beginning and a line that says so."""
    return text if len(text) <= most else text[:most] + "\n... (cut)"
