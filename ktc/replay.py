"""A recipe made true again: the same source and script give the same text; it is verified and timed anew."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .api import Program, load
from .ir.diagnostics import KtcError
from .runs import load_json

if TYPE_CHECKING:
    from .search.gate import Verdict

Times = tuple[str, float, float, tuple[float, float, float]]
"""Scenario, seconds of the original and of the recipe's kernel, their ratio with its 95 % interval."""


@dataclass(frozen=True)
class Replayed:
    """``source_state`` is ``unchanged`` or ``CHANGED``; ``same_text`` compares with the kernel beside the recipe."""

    text: str
    verdict: Verdict
    source_state: str
    same_text: bool | None
    times: tuple[Times, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict.to_json()}


def replay(path: Path, device: str | None, time_it: bool, say: Callable[[str], None]) -> Replayed:
    """Regenerate, verify and time the recipe at ``path`` (a file, or a run's folder).

    The language is the recipe's, or ``device``'s when one is named.

    Raises:
        KtcError: unreadable recipe, missing source, a script that no longer applies, no device.
    """
    file = path / "recipe.json" if path.is_dir() else path
    recipe = load_json(file, "a recipe")
    for key in ("source", "script", "knobs", "device"):
        if key not in recipe:
            raise KtcError("E-RECIPE", f"{file} is not a recipe: no '{key}'", exit_code=2)
    source = Path(recipe["source"])
    start = load(str(source), variant=recipe.get("variant") or None)
    target = device or recipe["device"]["backend"]
    say(f"replaying {recipe['script'] or '(no passes)'} on {source}")
    text = _applied(start, recipe["script"]).lower(target.partition(":")[0], **recipe["knobs"]).text
    kept = next((p for p in file.parent.glob("kernel.out.*") if p.suffix != ".part"), None)
    verdict = _applied(start, recipe["script"]).verify(values=recipe["knobs"], device=target, say=say)
    return Replayed(
        text=text,
        verdict=verdict,
        source_state="unchanged"
        if _sha(source) == recipe.get("source_sha256")
        else "CHANGED since the recipe was written",
        same_text=kept.read_text(encoding="utf-8") == text if kept and target == recipe["device"]["backend"] else None,
        times=_times(start, recipe, target, say) if time_it and verdict.ok else (),
    )


def _applied(start: Program, script: str) -> Program:
    return start.apply(script).ok if script else start


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _times(start: Program, recipe: Mapping[str, Any], target: str, say: Callable[[str], None]) -> tuple[Times, ...]:
    """Each tuned scenario's winner against the original, interleaved."""
    from .agent.bench import Bench
    from .agent.build import Builder, Candidate
    from .agent.planner import Proposal
    from .verification import need_workload

    workload = need_workload(start, "timing")
    builder = Builder(start.kernel)
    found: list[Times] = []
    lab = Bench(workload, start.kernel, variant=start.variant, device=target)
    try:
        for name, winner in recipe.get("scenarios", {}).items():
            built = builder.build(Proposal(winner["script"], ""))
            if not isinstance(built, Candidate):
                raise KtcError(built.code, f"{winner['script']}: {built.detail}")
            say(f"timing {name}")
            c = lab.compare(built, winner["knobs"], workload.scenario(name))
            found.append((name, c.before.median, c.after.median, c.ratio))
    finally:
        lab.close()
    return tuple(found)
