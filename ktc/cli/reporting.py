"""``ktc report`` and ``ktc replay``: what a run found, as a page; and a recipe made true again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.quantities import duration, times

from .command_parser import Argument, Option
from .options import Device, Json, OutPath
from .output import print_json, progress, put, styled, table, write_file

if TYPE_CHECKING:
    from ktc.replay import Replayed


def report(
    run: Annotated[str, Argument(metavar="RUN", help="The folder of an optimize or tune run.")],
    output: Annotated[
        str, Option("-o", "--output", metavar="FILE", help="Write there.", unset="report.html in RUN")
    ] = "",
    json_: Json = False,
) -> None:
    """Write an HTML page about a run: times, trajectory, code side by side, what was refused or rejected.

    Examples:
      ktc report ktc-out/silu_and_mul
      ktc report runs/first -o first.html
    """
    from ktc.page import render
    from ktc.runs import load_run, page_of

    found = load_run(Path(run))
    if json_:
        return print_json(found.data)
    target = output or str(Path(run) / "report.html")
    write_file(target, render(page_of(found)))
    print(target)


def replay(
    recipe: Annotated[str, Argument(metavar="RECIPE", help="A recipe.json, or the folder of a run.")],
    device: Device = "",
    time_it: Annotated[bool, Option("--time/--no-time", help="Time it against the original again.")] = True,
    output: OutPath = "",
    json_: Json = False,
) -> None:
    """Regenerate a recipe's kernel, verify it and time it again.

    Examples:
      ktc replay ktc-out/silu_and_mul/recipe.json
      ktc replay recipe.json --device opencl -o silu.cl
    """
    from ktc.replay import replay as run_again

    with progress("replaying", quiet=json_) as bar:
        result = run_again(Path(recipe), device or None, time_it, bar.say)
    if json_:
        print_json(result.to_json())
    else:
        _show(result, output)
    if not result.verdict.ok:
        raise KtcError("E-VERIFY-FAILED", result.verdict.reason)


def _show(result: Replayed, output: str) -> None:
    if output:
        put(result.text, output)
    rows = [
        (r.name, styled(r.status, "green" if r.status == "pass" else "red"), r.detail) for r in result.verdict.rungs
    ]
    print(table(["rung", "verdict", "detail"], rows))
    same = {True: "the same text as then", False: "text DIFFERENT from then", None: "no text to compare with"}
    print(f"source {result.source_state}; {same[result.same_text]}")
    for name, before, after, ratio in result.times:
        print(f"{name}: {duration(before)} -> {duration(after)} ({times(*ratio)})")
