"""What a run leaves behind: the recipe, the kernels it found, the template with its space, and the report's data."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from ktc.driver.printing import printed
from ktc.driver.reliance import least_assuming
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.ir.workload import Workload
from ktc.search.records.recipe import Recipe, ktc_version, sha256
from ktc.search.records.recipe_sources import gathered
from ktc.search.target import Emitted
from ktc.search.verification.fewer_promises import alike_with_less

from .build import Builder, Candidate
from .planner import Proposal
from .report import OptimizeReport, ScenarioResult

LEAST_SECONDS, SHARE_OF_RUN = 2.0, 0.1
"""Seconds for finding out which guesses of a draft the winner needs: so many at least, or a share of the run's."""

EXTENSIONS = {"cuda": "cu", "hip": "hip", "opencl": "cl", "numba": "py"}


def write(report: OptimizeReport, out: Path, builder: Builder, work: Workload) -> OptimizeReport:
    """Write every file; the report that is returned knows where they are.

    ``kernel.out.<ext>`` is the best overall, ``kernel.<scenario>.<ext>`` the winner of each tuned scenario,
    ``template.<ext>`` and ``space.json`` the best template with its open knobs, ``recipe.json`` what ``ktc replay``
    needs, ``report.json`` everything.
    """
    ext = EXTENSIONS.get(str(report.device["backend"]), "txt")
    profile = str(report.device["profile"])
    emitted = _emit(builder, report.best_script, report.best_knobs, profile)
    code = emitted.text
    files = {"kernel": _put(out / f"kernel.out.{ext}", code)}
    seconds = max(LEAST_SECONDS, SHARE_OF_RUN * report.seconds)
    alike = partial(alike_with_less, workload=work, variant=report.variant or None)
    rests = least_assuming(builder.original, report.best_script, emitted, profile, alike, seconds)
    guesses = rests.conditions
    if guesses and report.best_script:
        most = "" if rests.least else "no more than this of "
        why = f"the winner rests on {most}what the draft guessed, and its launcher tests it: {'; '.join(guesses)}"
        report = replace(report, notes=(*report.notes, why), guesses=guesses)
    sweeps = emitted.kernel.sweeps // builder.original.sweeps
    if sweeps > 1:
        swap = " and ".join(emitted.kernel.repeat.swap) if emitted.kernel.repeat is not None else ""
        why = f"a launch of the winner does {sweeps} launches of the source: launch it 1/{sweeps} as often"
        report = replace(report, notes=(*report.notes, f"{why}, and swap {swap} after each; exports do not take it"))
    scenarios = []
    for s in report.scenarios:
        path = out / f"kernel.{s.name}.{ext}"
        if not s.heldout:
            s = replace(s, file=_put(path, _emit(builder, s.script, s.knobs, profile).text))
        scenarios.append(s)
    best = _candidate(builder, report.best_script)
    if best.kernel.knobs:
        try:
            files["template"] = _put(out / f"template.{ext}", printed(best.kernel, profile, "template").text)
            files["space"] = _put(out / "space.json", json.dumps(space_of(best.kernel), indent=1) + "\n")
        except KtcError as e:
            report = replace(report, notes=(*report.notes, f"no template: {e.message} [{e.code}]"))
    files |= {"recipe": str(out / "recipe.json"), "report": str(out / "report.json")}
    report = replace(report, scenarios=tuple(scenarios), files=files)
    texts: Mapping[str, object] = {}
    try:
        texts = gathered(work, report.variant or None).to_json()
    except KtcError as e:  # what was found is worth more than where it can be read
        why = f"the recipe names its source instead of holding it: {e.message} [{e.code}]"
        report = replace(report, notes=(*report.notes, why))
    recipe(report, code, texts).save(out / "recipe.json")
    _put(out / "report.json", report.dumps())
    return report


def recipe(report: OptimizeReport, code: str, texts: Mapping[str, object]) -> Recipe:
    """(source, script, knob values, target): enough to regenerate ``code``'s bytes anywhere; and the evidence.
    ``texts``: :class:`~ktc.search.records.recipe_sources.Sources` as JSON."""
    source = Path(report.source)
    device = report.device
    return Recipe(
        kernel=report.kernel,
        source=str(source.resolve()),
        workload=str(Path(report.workload).resolve()) if report.workload else "",
        source_sha256=sha256(source.read_bytes()) if source.exists() else "",
        script=report.best_script,
        knobs=dict(report.best_knobs),
        target=str(device["profile"]),
        variant=report.variant,
        output_sha256=sha256(code),
        verdicts=[{"scenario": s.name, "verdict": s.verdict} for s in report.scenarios],
        timings={s.name: _timing(s) for s in report.scenarios if not s.heldout},
        heldout={s.name: _timing(s) for s in report.scenarios if s.heldout},
        sources=texts,
        versions={"ktc": ktc_version(), "device": str(device["name"]), "backend": str(device["backend"])},
    )


def _timing(s: ScenarioResult) -> dict[str, object]:
    """The winner of one scenario: what it is, and its seconds beside the original's."""
    return {
        "sizes": dict(s.sizes),
        "script": s.script,
        "knobs": dict(s.knobs),
        "seconds": s.after.median,
        "low": s.after.low,
        "high": s.after.high,
        "baseline_seconds": s.before.median,
        "ratio": list(s.ratio),
    }


def space_of(kernel: Kernel) -> dict:
    """The search space of a template: domains, defaults and constraints, as text."""
    from ktc.ir.text import print_expr

    return {
        "knobs": {k.name: {"domain": list(k.domain), "default": k.default, "doc": k.doc} for k in kernel.knobs},
        "constraints": [print_expr(c) for c in kernel.constraints],
        "assumptions": [{"expr": print_expr(a.expr), "origin": a.origin} for a in kernel.assumptions],
    }


def _candidate(builder: Builder, script: str) -> Candidate:
    built = builder.build(Proposal(script, ""))
    assert isinstance(built, Candidate), "a winner was built before"
    return built


def _emit(builder: Builder, script: str, knobs: Mapping[str, int], target: str) -> Emitted:
    return printed(bind(_candidate(builder, script).kernel, knobs), target)


def _put(path: Path, text: str) -> str:
    """Write whole or not at all: a reader never sees half a file."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
    return str(path)
