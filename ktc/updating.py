"""A recipe brought up to its source: the scripts applied to the source as it is now, verified, timed again."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.search.records.recipe import FORMAT, Recipe, ktc_version, sha256
from ktc.search.records.recipe_sources import Sources, gathered, parsed

from .api import Program, load, program_of
from .contest import Contest
from .recipes import OpenedRecipe, open_recipe

Say = Callable[[str], None]


@dataclass(frozen=True)
class Update:
    """``changed``: what of the recipe is not as its source is now, for people to read; nothing: it is up to date.
    ``recipe`` is the one that is."""

    path: Path
    recipe: Recipe
    changed: tuple[str, ...]
    notes: tuple[str, ...] = ()


def update(path: Path, source: str, device: str | None, check: bool, time_it: bool, say: Say) -> Update:
    """The recipe at ``path`` for its source as it is now, or for the file ``source``. Nothing is written.

    ``check``: say what has changed and whether the scripts still apply, without verifying or timing.

    Raises:
        KtcError: E-UPDATE-SOURCE (the source is gone), E-UPDATE-STEP (a step no longer applies), E-VERIFY-FAILED.
    """
    opened = open_recipe(path)
    before = parsed(opened.recipe.sources) if opened.recipe.sources else None
    program = _now(opened, source)
    after = _gathered(opened, program)
    changed = tuple(_changes(opened, before, after))
    if not changed:
        return Update(opened.path, opened.recipe, ())
    recipe = dataclasses.replace(
        opened.recipe, source=str(Path(source or opened.recipe.source).resolve()),
        source_sha256=sha256(after.source_bytes), sources=after.to_json(), written_as=FORMAT,
    )  # fmt: skip
    scripts = [(recipe.script, recipe.knobs), *((t["script"], t["knobs"]) for t in _winners(recipe))]
    programs = {s: _applied(program, s) for s in dict.fromkeys(s for s, _ in scripts)}
    if check:
        return Update(opened.path, recipe, changed)
    text = programs[recipe.script].lower(recipe.target, **recipe.knobs).text
    recipe = dataclasses.replace(recipe, output_sha256=sha256(text), versions={**recipe.versions, "ktc": ktc_version()})
    if before is not None and _same_texts(program_of(opened), program, scripts, recipe.target):
        return Update(opened.path, recipe, changed, ("every text is the same: measurements and verdicts stand",))
    return _measured_again(Update(opened.path, recipe, changed), program, programs, scripts, device, time_it, say)


def _now(opened: OpenedRecipe, source: str) -> Program:
    """The kernel in its source as it is now, with the workload as it is now, or the recipe's where that is gone."""
    path = Path(source or opened.recipe.source)
    if not path.is_file():
        raise KtcError(
            "E-UPDATE-SOURCE", f"the source of {opened.path} is not at {path}", hint="--source FILE says where it is",
            exit_code=2,
        )  # fmt: skip
    variant = opened.recipe.variant or None
    sheet = Path(opened.recipe.workload)
    if opened.recipe.workload and sheet.is_file() and Workload.load(sheet).source.resolve() == path.resolve():
        return load(str(path), variant=variant, workload=str(sheet))
    if opened.workload is None:
        return load(str(path), variant=variant)
    old = opened.workload
    include = tuple(str(_moved(Path(d), old.source, path)) for d in old.include_dirs)
    work = dataclasses.replace(old, source=path.resolve(), include_dirs=include)
    start = program_of(dataclasses.replace(opened, kernel=work.load_kernel(variant), workload=work))
    return dataclasses.replace(start, preset=None)


def _moved(path: Path, old_source: Path, source: Path) -> Path:
    """Where ``path``, which lay somewhere seen from ``old_source``, lies seen from ``source``."""
    return Path(os.path.normpath(source.resolve().parent / os.path.relpath(path, old_source.parent)))


def _gathered(opened: OpenedRecipe, program: Program) -> Sources:
    """The texts of ``program``; the recipe's own workload keeps its place beside the source."""
    work, old = program.workload, opened.workload
    assert work is not None
    own = old is not None and work.path == old.path
    sheet = _moved(work.path, old.source, work.source) if own and old is not None else None
    return gathered(work, program.variant, sheet)


def _changes(opened: OpenedRecipe, before: Sources | None, after: Sources) -> Iterator[str]:
    if opened.notes:  # on what it was read from
        yield f"the recipe is of format {opened.recipe.written_as}, and holds no texts"
    if before is None:
        yield "its source has changed since"
        return
    if before.source_bytes != after.source_bytes:
        yield "the source has changed"
    for what, old, new in (
        ("the workload", before.files[before.workload], after.files[after.workload]),
        ("the headers", _headers(before), _headers(after)),
        ("template arguments or macros", (before.template, before.defines), (after.template, after.defines)),
    ):
        if old != new:
            yield f"{what} {'has' if what == 'the workload' else 'have'} changed"


def _headers(s: Sources) -> list[str]:
    """The texts of the headers, in order: where they lie may differ."""
    return sorted(text for name, text in s.files.items() if name not in (s.source, s.workload))


def _winners(recipe: Recipe) -> Iterator[Mapping[str, Any]]:
    return (t for t in (*recipe.timings.values(), *recipe.heldout.values()) if t.get("script"))


def _applied(program: Program, script: str) -> Program:
    """``program`` after ``script``.

    Raises:
        KtcError: E-UPDATE-STEP: which step no longer applies, and why.
    """
    from ktc.passes.core.language import parse_script
    from ktc.passes.core.pipeline import apply_script

    if not script:
        return program
    asked = parse_script(script)
    applied = apply_script(program.kernel, asked)
    if applied.refused is not None:
        r, number = applied.refused, len(applied.results) + 1
        raise KtcError(
            "E-UPDATE-STEP", f"step {number} of {len(asked.steps)}, {applied.step}, no longer applies: {r.why}",
            r.locs[0] if r.locs else None, hint=r.hint or "`ktc optimize` finds another script",
        )  # fmt: skip
    return program.apply(script)


def _same_texts(old: Program, new: Program, scripts: list[tuple[str, Mapping[str, int]]], target: str) -> bool:
    """Whether the original and every winner print as before."""

    def texts(p: Program) -> list[str]:
        return [(p.apply(s).ok if s else p).lower(target, **k).text for s, k in [("", {}), *scripts]]

    try:
        return texts(old) == texts(new)
    except KtcError:
        return False


def _measured_again(
    update: Update, program: Program, programs: Mapping[str, Program], scripts: list[tuple[str, Mapping[str, int]]],
    device: str | None, time_it: bool, say: Say,
) -> Update:  # fmt: skip
    """``update`` with verdicts on every configuration, and times of every scenario; without ``time_it``, with none."""
    from ktc.backends.profiles import profile_for

    where = device or profile_for(update.recipe.target).backend
    seen: list[tuple[str, dict[str, int]]] = []
    verdicts = []
    for script, knobs in scripts:
        if not script or (script, dict(knobs)) in seen:
            continue
        seen.append((script, dict(knobs)))
        say(f"verifying {script}{''.join(f' {k}={v}' for k, v in knobs.items())}")
        verdict = programs[script].verify(values=knobs, device=where, say=say)
        if not verdict.ok:
            raise KtcError("E-VERIFY-FAILED", f"{script} on the source as it is now: {verdict.reason}")
        verdicts.append({"script": script, "knobs": dict(knobs), "verdict": verdict.status})
    recipe = dataclasses.replace(update.recipe, verdicts=verdicts)
    if not time_it:
        recipe = dataclasses.replace(recipe, timings={}, heldout={})
        note = "not timed: the recipe has no measurements, and an export of it runs the original"
        return dataclasses.replace(update, recipe=recipe, notes=(note,))
    timed = _timed(recipe, program, where, say)
    recipe = dataclasses.replace(
        recipe,
        timings={n: timed[n] for n in recipe.timings if n in timed},
        heldout={n: timed[n] for n in recipe.heldout if n in timed},
    )
    return dataclasses.replace(update, recipe=recipe)


def _timed(recipe: Recipe, program: Program, device: str, say: Say) -> dict[str, dict[str, Any]]:
    """Each scenario's winner against the original, interleaved, as the recipe keeps it."""
    work = program.workload
    assert work is not None
    sizes = {s.name: s.sizes for s in work.scenarios}
    found: dict[str, dict[str, Any]] = {}
    with Contest(program, device, say) as contest:
        for name, t in {**recipe.timings, **recipe.heldout}.items():
            at = t.get("sizes") or sizes.get(name)
            if at is not None:  # else a scenario that the workload no longer has
                found[name] = contest.timed(t["script"], t["knobs"], name, at)
    return found
