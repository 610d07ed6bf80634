"""``ktc update``: a recipe for its source as it is now."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from ktc.ir.diagnostics import KtcError

from .command_parser import Argument, Option
from .options import Device, Json
from .output import ended, note, print_json, progress


def update(
    recipe: Annotated[str, Argument(metavar="RECIPE", help="A recipe.json, or the folder of a run.")],
    source: Annotated[
        str, Option("--source", metavar="FILE", help="The source now.", unset="where the recipe says it was")
    ] = "",
    check: Annotated[
        bool, Option("--check", help="Write nothing; exit code 1 if the recipe is not up to date. For CI.")
    ] = False,
    time_it: Annotated[
        bool, Option("--time/--no-time", help="Time every scenario again where a text has changed.")
    ] = True,
    device: Device = "",
    json_: Json = False,
) -> None:
    """Bring a recipe up to its source: apply its scripts to the source as it is now, verify, time, write.

    Where a step no longer applies, that step is named, with the reason, and nothing is written.

    Examples:
      ktc update ktc-out/silu_and_mul
      ktc update tuned/silu.json --source src/silu.cu
      ktc update tuned/silu.json --check
    """
    from ktc.updating import update as bring_up

    with progress("updating", quiet=json_) as bar:
        found = bring_up(Path(recipe), source, device or None, check, time_it, bar.say)
    if json_:
        print_json({"path": str(found.path), "changed": list(found.changed), "notes": list(found.notes)})
    if found.changed and check:
        said = f"{found.path} is not up to date: {'; '.join(found.changed)}"
        again = shlex.join(["ktc", "update", recipe, *(["--source", source] if source else [])])
        hint = f"{again}; its scripts apply to the source as it is now"
        raise ended(KtcError("E-UPDATE-NEEDED", said, hint=hint), json_)
    if found.changed:
        found.recipe.save(found.path)
    if not json_:
        for line in (*found.changed, *found.notes):
            note(f"note: {line}")
        print(f"{found.path} {'written' if found.changed else 'is up to date'}")
