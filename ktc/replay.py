"""A recipe made true again: the same source and script give the same text; it is verified and timed anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.search.records.recipe import Recipe, sha256

from .api import Program, program_of
from .recipes import open_recipe

if TYPE_CHECKING:
    from ktc.search.verification import Verdict

Times = tuple[str, float, float, tuple[float, float, float]]
"""Scenario, seconds of the original and of the recipe's kernel, their ratio with its 95 % interval."""


@dataclass(frozen=True)
class Replayed:
    """``source_state``: what has become of the source's file since, of which the recipe holds a copy; ``same_text``:
    whether the bytes are those of then."""

    text: str
    verdict: Verdict
    source_state: str
    same_text: bool | None
    times: tuple[Times, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict.to_json()}


def replay(path: Path, device: str | None, time_it: bool, say: Callable[[str], None]) -> Replayed:
    """Regenerate, verify and time the recipe at ``path`` (a file, or a run's folder).

    The target is the recipe's, or ``device``'s when one is named.

    Raises:
        KtcError: unreadable, changed or foreign recipe, missing source, a script that no longer applies, no device.
    """
    from ktc.backends.profiles import profile_for
    from ktc.backends.runtimes import open_runtime
    from ktc.search.records.recipe import OLDEST

    opened = open_recipe(path)
    recipe, start = opened.recipe, program_of(opened)
    target = open_runtime(device).device.profile if device else recipe.target
    where = device or profile_for(target).backend
    for note in opened.notes:
        say(f"note: {note}")
    say(f"replaying {recipe.script or '(no passes)'} on {recipe.source or recipe.kernel}")
    program = start.apply(recipe.script).ok if recipe.script else start
    text = program.lower(target, **recipe.knobs).text
    same = sha256(text) == recipe.output_sha256 if recipe.output_sha256 and target == recipe.target else None
    if recipe.written_as == OLDEST and not same:
        raise KtcError(
            "E-RECIPE-VERSION",
            f"{opened.path} is of format {OLDEST}, whose scripts name loops in another way, and what its script prints "
            "now cannot be shown to be the same text",
            hint="make it again: ktc optimize, or ktc tune -p with the script as `ktc sites` names the loops",
            exit_code=2,
        )
    verdict = program.verify(values=recipe.knobs, device=where, say=say)
    return Replayed(
        text=text,
        verdict=verdict,
        source_state=opened.state,
        same_text=same,
        times=_times(start, recipe, where, say) if time_it and verdict.ok else (),
    )


def _times(start: Program, recipe: Recipe, device: str, say: Callable[[str], None]) -> tuple[Times, ...]:
    """Each tuned scenario's winner against the original, interleaved."""
    from ktc.agent.bench import Bench
    from ktc.agent.build import Builder, Candidate
    from ktc.agent.planner import Proposal

    from .verification import need_workload

    workload = need_workload(start, "timing")
    builder = Builder(start.kernel)
    found: list[Times] = []
    lab = Bench(workload, start.kernel, variant=start.variant, device=device)
    try:
        for name, winner in recipe.timings.items():
            built = builder.build(Proposal(winner["script"], ""))
            if not isinstance(built, Candidate):
                raise KtcError(built.code, f"{winner['script']}: {built.detail}")
            say(f"timing {name}")
            c = lab.compare(built, winner["knobs"], workload.scenario(name))
            if c.verdict != "ok":
                raise KtcError("E-VERIFY-FAILED", f"{name}: what the timed launch left is wrong: {c.verdict}")
            found.append((name, c.before.median, c.after.median, c.ratio))
    finally:
        lab.close()
    return tuple(found)
