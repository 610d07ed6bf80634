"""``ktc parse``: what the front-end makes of a file, and coverage over a tree of sources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktc.ir.diagnostics import KtcError

from .command_parser import Argument, Option
from .options import Dialect, Json, usage
from .output import note, print_json, progress, table

if TYPE_CHECKING:
    from ktc.survey import Summary

MAX_ROWS = 40
OURS = ("E-INTERNAL", "E-CRASH", "E-SURVEY-LOST")
"""Codes of kernels that ktc itself failed on."""


def parse(
    path: Annotated[str, Argument(metavar="PATH", help="A source file, or with --stats a folder of them.")],
    stats: Annotated[bool, Option("--stats", help="Coverage: how far kernels get, and what stops the rest.")] = False,
    backend: Annotated[str, Option("--backend", metavar="LIST", help="Print and compile: cuda,hip,opencl.")] = "cuda",
    compile: Annotated[
        bool, Option("--compile/--no-compile", help="Ask the backends' compilers, not only their printers.")
    ] = True,
    define: Annotated[list[str], Option("-D", metavar="NAME[=V]", help="Define a macro (repeatable).")] = [],  # noqa: B006
    include: Annotated[list[str], Option("-I", metavar="DIR", help="Search DIR for includes (repeatable).")] = [],  # noqa: B006
    dialect: Annotated[Dialect, Option("--dialect", help="The language of the sources.")] = Dialect.auto,
    assume: Annotated[
        bool,
        Option("--assume/--no-assume", help="Try kernels whose macros or template arguments nothing gives with "
               "plausible ones; their records say so."),
    ] = True,
    jobs: Annotated[int, Option("--jobs", "-j", help="Worker processes; 0: one a processor.", least=0)] = 0,
    timeout: Annotated[int, Option("--timeout", metavar="SECONDS", help="For one kernel.", least=1)] = 60,
    json_: Json = False,
) -> None:  # fmt: skip
    """Parse a file and list its kernels with their types, or measure coverage over a tree.

    Examples:
      ktc parse k.cu
      ktc parse --stats ~/src/project -I ~/src/project/include
      ktc parse --stats project --backend cuda,hip,opencl --json > coverage.json
    """
    from ktc.survey import SurveyOptions, survey
    from ktc.survey.survey_options import BACKENDS

    if not Path(path).exists():
        raise KtcError("E-FILE", f"no such file or folder: '{path}'", exit_code=2)
    if Path(path).is_dir() and not stats:
        raise usage(f"{path} is a folder", hint="`ktc parse --stats` measures coverage over a folder")
    backends = tuple(b for b in backend.split(",") if b)
    if not backends or not set(backends) <= set(BACKENDS):
        raise usage(f"--backend takes a list of {', '.join(BACKENDS)}, not '{backend}'")
    options = SurveyOptions(
        os.path.abspath(path),
        backends,
        compile and stats,
        tuple((k, v if eq else "1") for k, eq, v in (d.partition("=") for d in define)),
        tuple(os.path.abspath(d) for d in include),
        "" if dialect is Dialect.auto else dialect.value,
        assume,
        float(timeout),
    )
    with progress("files", quiet=json_ and not stats) as bar:
        summary = survey(options, jobs or os.cpu_count() or 1, lambda n, total: bar.update(n, total, "files"))
    if stats:
        print_json(summary.to_json()) if json_ else _show(summary)
    else:
        _file(summary, json_)


def _percent(n: int | None, of: int) -> str:
    return "not asked" if n is None else f"{n} ({100 * n / of:.1f} %)" if of else str(n)


def _show(summary: Summary) -> None:
    totals = summary.totals()
    kernels = totals["kernels"]
    rows: list[tuple[str, object]] = [("files", totals["files"]), ("kernels", kernels)]
    rows += [(key, _percent(totals[key], kernels)) for key in ("parsed", "lowered")]
    for name, counts in totals["backends"].items():
        rows += [(f"{name} {what}", _percent(counts[what], kernels)) for what in ("printed", "compiled")]
        rows += [(f"  as {profile}", _percent(n, kernels)) for profile, n in counts.get("profiles", {}).items()]
    rows.append(("parsed with assumptions", totals["assumed"]))
    rows.append(("in need of attention", totals["attention"]))
    if summary.troubles:
        rows.append(("files that failed as a whole", len(summary.troubles)))
    print(table(["", ""], rows).lstrip("\n -"))
    refusals = summary.refusals()
    if refusals:
        examples = {t["code"]: (t["place"] or path, t["message"]) for path, t in reversed(summary.troubles.items())}
        for k in reversed(summary.kernels):
            if r := k.get("refusal"):
                examples[r["code"]] = (r["place"] or f"{k['file']}:{k['line']}", r["message"])
        codes = list(refusals.items())
        found = [(code, n, examples[code][0], examples[code][1][:90]) for code, n in codes[:MAX_ROWS]]
        print("\n" + table(["refusal", "kernels", "for example", "why"], found, right=(1,)))
        if codes[MAX_ROWS:]:
            rest = sum(n for _, n in codes[MAX_ROWS:])
            note(f"{rest} more, of {len(codes) - MAX_ROWS} rarer kinds: --json lists them")
    if ours := sum(refusals.get(code, 0) for code in OURS):
        note(f"{ours} of these are bugs in ktc ({', '.join(OURS)}): send the sources that show them")
    unknown = sorted({name for k in summary.kernels for name in k["assumed"]})
    if unknown:
        note(f"assumed, give them with -D or a launch: {', '.join(unknown[:20])}" + (" ..." if unknown[20:] else ""))


def _file(summary: Summary, json_: bool) -> None:
    for trouble in summary.troubles.values():
        raise KtcError(trouble["code"], trouble["message"], hint=trouble["hint"])
    if not summary.kernels:
        raise KtcError("E-NO-KERNEL", "no kernel in this file", hint="name a CUDA, HIP or OpenCL source with a kernel")
    if json_:
        return print_json(summary.to_json()["files"])
    rows: list[tuple[Any, ...]] = []
    for k in summary.kernels:
        state = "parsed" if k["parsed"] else k["refusal"]["code"]
        signature = ", ".join(k.get("params", ()))
        given = ", ".join(f"{a}={b}" for a, b in {**k["template"], **k["assumed"]}.items())
        rows.append(
            (k["kernel"], f"{k['file']}:{k['line']}", state, given, signature, ", ".join(k.get("launches", ())))
        )
    print(table(["kernel", "place", "state", "instance", "parameters", "launched"], rows))
    for k in summary.kernels:
        if "refusal" in k:
            r = k["refusal"]
            note(
                f"{r['place'] or k['file']}: {r['message']} [{r['code']}]"
                + (f"\n  hint: {r['hint']}" if r["hint"] else "")
            )
        for a in k.get("attention", ()):
            note(f"{a['place'] or k['file']}: needs attention: {a['message']} [{a['code']}]")
