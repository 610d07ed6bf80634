"""What a model is shown: the templates of the roles, filled with what an observation holds.

A prompt has the IR without comments or names of the source, facts, the passes that concern the kernel, what the cost
model expects, what limits the fastest so far, and what became of earlier ideas; never a path or source text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from string import Template
from textwrap import shorten
from typing import Any

from ktc.agent.planner import Observation, Outcome
from ktc.agent.relief import FEW, RELIEF
from ktc.driver.printing import prints_loops
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.support.quantities import duration

MAX_IR_CHARS = 24_000
MAX_HISTORY = 20
SHORT = 70
"""Characters of the summary of a pass that does not concern the kernel as it is."""

GPU_LEVELS = (
    "thread.x: neighbouring threads, whose accesses are coalesced along the loop with unit stride; vec: elements of a "
    "wide access; unroll, seq: a thread's, one after another; lane, warp: of a warp, of a block's warps; block: those, "
    "of which a compute unit wants several"
)
CPU_LEVELS = (
    "block: tasks that cores take one after another; vec: lanes of a SIMD register, for the innermost loop with unit "
    "stride; thread, unroll, seq: loops of one task"
)
"""What the levels of a distribution mean on the two kinds of devices."""


def prompt(role: str, **values: Any) -> list[dict[str, str]]:
    """The messages of a role: rules of the house, then the role's question."""
    return [{"role": "system", "content": filled("system")}, {"role": "user", "content": filled(role, **values)}]


def filled(name: str, **values: Any) -> str:
    """The template ``name`` with ``values``; all of its places must be among them."""
    text = files("ktc.agent.llm").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return Template(text).substitute({k: str(v) for k, v in values.items()})


def context(o: Observation, intent: str = "", *, others: bool = True) -> dict[str, str]:
    """The places that templates have in common. ``others``: see :func:`catalogue`."""
    return {
        "goal": goal(o, intent),
        "device": device_text(o),
        "facts": facts_text(o),
        "ir": ir_text(o.raised or o.kernel),
        "catalogue": catalogue(_concerned(o), others=others),
        "estimates": expectations(o),
        "limits": limits(o),
        "sites": "\n".join(f"{s.step}  # {s.doc}" for s in o.sites) or "none",
        "history": history(o) or "none yet",
        "remembered": "\n".join([*(f"{p.script}  # {p.reason}" for p in o.remembered), *o.rules]) or "none",
    }


def device_text(o: Observation) -> str:
    """The device, and what levels mean on it."""
    d = o.device
    if prints_loops(d.profile):
        return f"{d.name} ({d.backend}), {d.compute_units} cores. Levels: {CPU_LEVELS}."
    return (
        f"{d.name} ({d.backend}), {d.compute_units} compute units, warps of {d.warp}. A block: at most "
        f"{d.max_threads_per_block} threads, {d.shared_per_block} bytes of shared memory. Levels: {GPU_LEVELS}."
    )


def history(o: Observation) -> str:
    """What became of earlier scripts, the last of them last; and the best of the other scenarios."""
    return "\n".join([*map(outcome_line, o.history[-MAX_HISTORY:]), *o.elsewhere])


def goal(o: Observation, intent: str = "") -> str:
    """What is wanted, at which sizes, how far it is, and what may still be measured."""
    lines = ["The least time, verified." + (f" In the user's words: {intent}" if intent else "")]
    lines += [o.scenario] if o.scenario else []
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
    return facts_json(o.facts)


def facts_json(facts: Iterable[KernelFacts]) -> str:
    """One object for each, without what is zero or empty in it."""
    return json.dumps([_said(asdict(f)) for f in facts], default=str)


def _said(value: Any) -> Any:
    """``value`` without what is zero, empty or not known inside."""
    if isinstance(value, Mapping):
        return {k: _said(v) for k, v in value.items() if v or k in ("trip", "depth")}
    return [_said(v) for v in value] if isinstance(value, list | tuple) else value


def limits(o: Observation) -> str:
    """What limits the fastest script so far, with its numbers, and the passes that address it."""
    if o.profile is None:
        return "not known on this device"
    addressing = dict.fromkeys(p for limiter in o.limiters[:FEW] for p in RELIEF.get(limiter, ()))
    found = [f"{o.leader or '(identity)'} is limited by", *o.profile.lines()]
    return "\n".join([*found, *([f"passes that address it: {', '.join(addressing)}"] if addressing else [])])


def _concerned(o: Observation) -> frozenset[str]:
    """Passes that have a site, that address what limits the fastest, or that a script of the history or of memory
    uses."""
    scripts = [*(h.script for h in o.history), *(p.script for p in o.remembered)]
    used = {w for script in scripts for w in re.findall(r"(?:^|\| )([a-z][\w-]*)", script)}
    relief = {p for limiter in o.limiters[:FEW] for p in RELIEF.get(limiter, ())}
    return frozenset({s.step.name for s in o.sites} | used | relief)


def catalogue(concerned: frozenset[str] | None = None, *, others: bool = True) -> str:
    """Passes on kernels, one a line: those ``concerned`` (None: all) with their parameters explained, the ``others`` in
    short, or by name alone."""
    from ktc.passes.core.catalogue import PASSES

    rows, rest = [], []
    for name in PASSES:
        p = PASSES[name]
        if p.sequences and concerned is not None and name not in concerned:
            continue
        if concerned is None or name in concerned:
            args = ", ".join(s.name + ("" if s.required else "?") + f" ({s.doc}: {s.takes})" for s in p.parameters)
            rows.append(f"{name}{{{args}}}: {p.summary}")
        elif not others:
            rest.append(name)
        else:
            args = ", ".join(s.name + ("" if s.required else "?") for s in p.parameters)
            rows.append(f"{name}{{{args}}}: {shorten(p.summary, SHORT, placeholder=' ...')}")
    return "\n".join([*rows, *([f"and {', '.join(rest)}"] if rest else [])])


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
    """The IR without comments, places, the source's own spelling and what only launchers need, cut at ``most``
    characters."""
    from ktc.ir.text import print_kernel
    from ktc.ir.walk import map_body

    bare = kernel.with_(comments=(), body=map_body(kernel.body, lambda s: replace(s, comments=()) if s.comments else s))
    params = tuple(replace(p, touches=(), origins=()) for p in bare.params)
    return cut(print_kernel(bare.with_(name="kernel", params=params, trace=())), most)


def cut(text: str, most: int) -> str:
    """``text``, or its beginning and a line that says so."""
    return text if len(text) <= most else text[:most] + "\n... (cut)"
