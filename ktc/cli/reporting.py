"""``ktc report`` and ``ktc replay``: what a run found, as a page; and a recipe made true again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.quantities import duration, times

from .command_parser import Argument, Option
from .options import OUTPUT, Device, Json, OutPath
from .output import as_json, ended, print_json, progress, put, styled, table, write_file

if TYPE_CHECKING:
    from ktc.replay import Replayed
    from ktc.runs import Run


class Format(StrEnum):
    html = "html"
    md = "md"
    csv = "csv"
    json = "json"


def report(
    runs: Annotated[list[str], Argument(metavar="RUN", help="Folders of optimize or tune runs, ended or not.")],
    format: Annotated[
        Format, Option("--format", help="html: a page; md: Markdown; csv: every configuration; json: all data.")
    ] = Format.html,
    output: Annotated[
        str,
        Option(
            *OUTPUT,
            metavar="FILE",
            help="Write there; - is standard output.",
            unset="report.FORMAT in RUN",
        ),
    ] = "",
    json_: Json = False,
) -> None:
    """Write a report of a run, or of several side by side: times, bounds, search, passes, verdicts.

    A run that goes on or was killed has one too.

    Examples:
      ktc report ktc-out/silu_and_mul
      ktc report runs/first runs/second -o both.html
      ktc report ktc-out/silu_and_mul --format md -o -
      ktc report ktc-out/silu_and_mul --format csv -o configurations.csv
    """
    from ktc.runs import load_run

    found = [load_run(Path(run)) for run in runs]
    if json_:
        return print_json(_data(found))
    folder = Path(runs[0]) if Path(runs[0]).is_dir() else Path(runs[0]).parent
    name = "report-data" if format is Format.json else "report"
    target = output or str(folder / f"{name}.{format.value}")
    text = _WRITERS[format](found)
    if target == "-":
        return put(text, "")
    write_file(target, text)
    print(target)


def _html(runs: list[Run]) -> str:
    from ktc.page.document import html
    from ktc.page.run_report import report_of

    return html(report_of(runs))


def _markdown(runs: list[Run]) -> str:
    from ktc.page.plain_texts import markdown
    from ktc.page.run_report import report_of

    return markdown(report_of(runs))


def _csv(runs: list[Run]) -> str:
    from ktc.page.plain_texts import configurations_csv

    return configurations_csv(runs)


def _data(runs: list[Run]) -> Any:
    """The report of a run with all that was measured; of several, a list of them."""
    said = [
        {"folder": str(r.folder), "state": r.state, **r.data, "configurations": [asdict(c) for c in r.configurations]}
        for r in runs
    ]
    return said[0] if len(said) == 1 else said


_WRITERS: Mapping[Format, Callable[[list[Run]], str]] = {
    Format.html: _html,
    Format.md: _markdown,
    Format.csv: _csv,
    Format.json: lambda runs: as_json(_data(runs)) + "\n",
}


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
        print_json(result.to_json() | ({} if result.verdict.ok else {"text": None}))
    else:
        _show(result, output)
    if not result.verdict.ok:
        raise ended(KtcError("E-VERIFY-FAILED", result.verdict.reason), json_)


def _show(result: Replayed, output: str) -> None:
    if output and result.verdict.ok:
        put(result.text, output)
    rows = [
        (r.name, styled(r.status, "green" if r.status == "pass" else "red"), r.detail) for r in result.verdict.rungs
    ]
    print(table(["rung", "verdict", "detail"], rows))
    same = {True: "the same text as then", False: "text DIFFERENT from then", None: "no text to compare with"}
    print(f"source {result.source_state}; {same[result.same_text]}")
    for name, before, after, ratio in result.times:
        print(f"{name}: {duration(before)} -> {duration(after)} ({times(*ratio)})")
