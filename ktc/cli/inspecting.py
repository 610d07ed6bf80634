"""``ktc passes`` and ``ktc sites``: the catalogue, and what of it applies to a kernel."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

from .command_parser import Argument, Option
from .options import Json, Passes, apply_script, with_program
from .output import note, print_json, styled, table

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.passes.core.base import Pass

NO_SITE = "E-NO-SITE"
"""Why a pass that refuses nothing has no site."""


def passes(
    name: Annotated[str, Argument(metavar="PASS", help="Show one pass in full.")] = "",
    json_: Json = False,
) -> None:
    """List the passes, or show one: arguments, knobs, what it refuses.

    Examples:
      ktc passes
      ktc passes distribute
    """
    from ktc import api

    catalogue = api.list_passes()
    if name and name not in catalogue:
        raise api.unknown_pass(name)
    if json_:
        return print_json([_as_json(p) for n, p in catalogue.items() if name in ("", n)])
    if not name:
        print(table(["pass", "what it does"], [(n, p.summary) for n, p in catalogue.items()]))
        return
    p = catalogue[name]
    _show(p)


def _show(p: Pass) -> None:
    """One pass in full: its module's account of it, then tables of what it takes and refuses."""
    print(styled(p.name, "bold"), "-", p.summary)
    doc = sys.modules[type(p).__module__].__doc__
    if doc:
        print("\n" + doc.strip())
    arguments = []
    for a in p.parameters:
        default = f"; default: {a.default}" if a.default else ""
        arguments.append((a.name + (" (required)" if a.required else ""), f"{a.doc} ({a.takes}{default})"))
    knobs = [(k.partition(":")[0], k.partition(":")[2]) for k in p.knobs]
    plain = {"refusals": [(r, "") for r in p.refusals], "flags": [(f, "") for f in p.flags]}
    sections = {"arguments": arguments, "knobs": knobs, **plain}
    for title, rows in sections.items():
        if rows:
            print(f"\n{styled(title, 'bold')}")
            width = max(len(left) for left, _ in rows)
            for left, right in rows:
                first, hanging = f"  {left.ljust(width)}  ", " " * (width + 4)
                shown = textwrap.fill(right.strip(), 110, initial_indent=first, subsequent_indent=hanging)
                print((shown or first).rstrip())


def _as_json(p: Pass) -> dict[str, Any]:
    return {
        "name": p.name,
        "summary": p.summary,
        "params": [
            {"name": a.name, "doc": a.doc, "takes": a.takes, "required": a.required, "default": a.default}
            for a in p.parameters
        ],
        "knobs": list(p.knobs),
        "refusals": list(p.refusals),
        "flags": list(p.flags),
    }


@with_program
def sites(
    program: Program,
    only: Annotated[str, Option("--pass", metavar="PASS", help="Only this pass.")] = "",
    passes: Passes = "",
    json_: Json = False,
) -> None:
    """Where passes apply to a kernel, with arguments ready to use, and why the others do not.

    Examples:
      ktc sites kernels/serving/silu_and_mul
      ktc sites k.cu -p raise --pass distribute
    """
    program = apply_script(program, passes)
    found = program.sites(only or None)
    refused = {n: _why_not(program, n) for n, s in found.items() if not s}
    if json_:
        return print_json(
            {
                "sites": [{"pass": n, "step": str(s.step), "doc": s.doc} for n, all_ in found.items() for s in all_],
                "not_applicable": [{"pass": n, "code": code, "why": why} for n, (code, why) in refused.items()],
            }
        )
    for all_ in found.values():
        for s in all_:
            print(f"{styled(str(s.step), 'green')}" + (f"\n    {s.doc}" if s.doc else ""))
    rows = [(n, code, why) for n, (code, why) in refused.items() if code != NO_SITE or only]
    if rows:
        print("\n" + table(["not here", "code", "why"], rows))
    idle = [n for n, (code, _) in refused.items() if code == NO_SITE and not only]
    if idle:
        print(
            "\n"
            + textwrap.fill(
                f"nothing to work on: {', '.join(idle)}", 100, subsequent_indent="  ", break_on_hyphens=False
            )
        )
    if idle and not program.kernel.is_parallel and "raise" not in refused:
        note("most passes work on explicit loops: add -p raise")


def _why_not(program: Program, name: str) -> tuple[str, str]:
    """Code and sentence of a pass that has no site here: its refusal, unless it only asks for a place to work on."""
    refused = program.apply(name).refused
    if refused is None or refused.code in ("E-ARG-MISSING", "E-SPECIALIZE-PARAM"):
        return NO_SITE, "nothing in this kernel that it would work on"
    return refused.code, refused.why
