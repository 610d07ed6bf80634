"""A run's winners built again, a pass at a time, from the source that its recipe holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.runs import Run

if TYPE_CHECKING:
    from ktc.api import Program


@dataclass(frozen=True)
class Stage:
    """The kernel after one more pass (``step`` '' for the original): IR with its knobs open, and code with the knobs as
    they won ('' where it cannot be printed yet)."""

    step: str
    ir: str
    code: str
    program: Program


@dataclass(frozen=True)
class Winner:
    """A script that won, its knobs, and on which scenarios."""

    script: str
    knobs: Mapping[str, int]
    scenarios: tuple[str, ...]


def winners(run: Run) -> list[Winner]:
    """Each pair of script and knobs that won somewhere, the overall one first."""
    data = run.data
    found: dict[tuple[str, tuple[tuple[str, int], ...]], list[str]] = {}
    for s in data["scenarios"]:
        if s["script"]:
            found.setdefault((s["script"], tuple(s["knobs"].items())), []).append(s["name"])
    best = (data.get("best_script") or "", tuple((data.get("best_knobs") or {}).items()))
    order = sorted(found.items(), key=lambda x: x[0] != best)
    return [Winner(script, dict(knobs), tuple(names)) for (script, knobs), names in order]


def original(run: Run) -> Program:
    """The program that the run began with.

    Raises:
        KtcError: there is no recipe yet and the source is gone, or either cannot be read.
    """
    from ktc.api import load, program_of
    from ktc.recipes import NAME, open_recipe

    recipe = run.folder / NAME
    if recipe.is_file() and run.state == "finished":
        return dataclasses.replace(program_of(open_recipe(recipe)), preset=None)
    workload = run.data.get("workload") or None
    return load(str(Path(run.data["source"])), variant=run.data.get("variant") or None, workload=workload)


def stages(start: Program, winner: Winner, target: str) -> list[Stage]:
    """The original, then the kernel after each step of the script.

    Raises:
        KtcError: the script is malformed.
    """
    from ktc.passes.core.language import parse_script

    out = [_stage("", start, winner.knobs, target)]
    program = start
    for step in parse_script(winner.script).steps:
        program = program.apply(step)
        if program.refused:
            break
        out.append(_stage(str(step), program, winner.knobs, target))
    return out


def _stage(step: str, program: Program, knobs: Mapping[str, int], target: str) -> Stage:
    names = {k.name for k in program.knobs}
    try:
        code = program.lower(target, **{k: v for k, v in knobs.items() if k in names}).text
    except KtcError:
        code = ""
    return Stage(step, program.text(), code, program)


def target_of(device: Mapping[str, Any]) -> str:
    """What the run printed for: the device's profile."""
    return str(device.get("profile") or device.get("backend"))


__all__ = ["Stage", "Winner", "original", "stages", "target_of", "winners"]
