"""Recipes opened: the kernel that a recipe begins with, from the texts in it or, for earlier formats, from where they
were."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload

from .sources import SourceSpec, resolve, unfinished

if TYPE_CHECKING:
    from ktc.ir.kernel import Kernel
    from ktc.search.records.recipe import Recipe

NAME = "recipe.json"
UNCHANGED, CHANGED, GONE = "unchanged", "CHANGED since the recipe was written", "not where it was"


@dataclass(frozen=True)
class OpenedRecipe:
    """``kernel``: as it is before the recipe's script, with its ``workload``; ``spec`` names its source. ``state``:
    what has become of the source's file. ``notes``: what was done to read an earlier format. ``recipe`` holds its texts
    whatever it was read from, where that can be."""

    path: Path
    recipe: Recipe
    spec: SourceSpec
    kernel: Kernel
    workload: Workload | None
    state: str
    notes: tuple[str, ...] = ()

    @property
    def preset(self) -> tuple[str, Mapping[str, int]]:
        """What the recipe does to its kernel: the script and its knobs."""
        return self.recipe.script, self.recipe.knobs


def recipe_file(path: Path) -> Path:
    """The recipe that ``path`` names: itself, or that of a run's folder."""
    return path / NAME if path.is_dir() else path


def is_recipe(path: Path) -> bool:
    """Whether ``path`` is a recipe, or a folder with one that is no folder of a workload."""
    if path.is_dir():
        return (path / NAME).is_file() and not (path / "workload.toml").is_file()
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True  # reading it says what is wrong
    return not isinstance(data, dict) or "script" in data or "format" in data


def open_recipe(path: Path) -> OpenedRecipe:
    """The recipe at ``path`` (a file, or a run's folder).

    Raises:
        KtcError: an unreadable or foreign recipe; E-RECIPE-SOURCE: one of an earlier format whose source is gone;
            what the source gets wrong.
    """
    from ktc.search.records.recipe import FORMAT, Recipe
    from ktc.search.records.recipe_sources import gathered, parsed

    if error := unfinished(path):
        raise error
    path = recipe_file(path)
    recipe = Recipe.load(path)
    variant = recipe.variant or None
    if recipe.sources:
        work = parsed(recipe.sources).opened(variant)
        spec = SourceSpec(str(work.source), work.kernel_name, variant=variant, workload=str(work.path))
        return OpenedRecipe(path, recipe, spec, work.load_kernel(variant), work, _state(Path(recipe.source), recipe))
    source = _old_source(path, recipe)
    spec = SourceSpec(str(source), variant=variant, workload=_old_workload(path, recipe, source))
    kernel, workload = resolve(spec)
    state = _state(source, recipe)
    said = f"{path} names its source instead of holding it (format {recipe.written_as})"
    if state != UNCHANGED or workload is None:
        why = f"{source} is {state}" if state != UNCHANGED else "it has no workload"
        note = f"{said}; not made portable, as {why}"
    else:
        recipe = dataclasses.replace(recipe, sources=gathered(workload, variant).to_json())
        note = f"{said}: read as format {FORMAT} from {source}; `ktc update {path}` writes that"
    return OpenedRecipe(path, recipe, spec, kernel, workload, state, (note,))


def _state(source: Path, recipe: Recipe) -> str:
    from ktc.search.records.recipe import sha256

    try:
        return UNCHANGED if sha256(source.read_bytes()) == recipe.source_sha256 else CHANGED
    except OSError:
        return GONE


def _old_source(path: Path, recipe: Recipe) -> Path:
    """The source of a recipe that does not hold it: where it was, or a file of its name beside the recipe."""
    places = [Path(recipe.source), path.parent / Path(recipe.source).name] if recipe.source else []
    for place in places:
        if place.is_file():
            return place
    name = Path(recipe.source).name or "the source"
    raise KtcError(
        "E-RECIPE-SOURCE",
        f"{path} (format {recipe.written_as}) does not hold its source: {recipe.source or 'that'} is gone",
        hint=f"put {name} (SHA-256 {recipe.source_sha256[:12]}...) and its workload.toml beside it, or make the recipe "
        "again: ktc optimize",
        exit_code=2,
    )


def _old_workload(path: Path, recipe: Recipe, source: Path) -> str | None:
    """The workload that was tuned for: beside the recipe, where `optimize` drafts one, or where it was."""
    beside = path.parent / "workload.toml"
    if beside.is_file():
        found = Workload.load(beside)
        if found.kernel_name == recipe.kernel and found.source.resolve() == source.resolve():
            return str(beside)
    return recipe.workload if recipe.workload and Path(recipe.workload).is_file() else None
