"""``ktc passes`` and ``ktc sites``: the catalogue, and what of it applies to a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, Passes, apply_script, with_program
from .output import print_json, styled, table

if TYPE_CHECKING:
    from ktc.api import Program


def passes(
    name: Annotated[str, typer.Argument(metavar="[PASS]", help="Show one pass in full.")] = "",
    json_: Json = False,
) -> None:
    """List the passes, or show one: arguments, knobs, what it refuses.

    \b
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
    print(styled(p.name, "bold"), "-", p.summary)
    module = __import__("sys").modules[type(p).__module__]
    if module.__doc__:
        print("\n" + module.__doc__.strip())
    for title, rows in (
        ("arguments", [(a.name + (" (required)" if a.required else ""), a.doc + (f" [default: {a.default}]" if a.default else "")) for a in p.params]),
        ("knobs", [tuple(k.split(":", 1)) if ":" in k else (k, "") for k in p.knobs]),
        ("refusals", [(r, "") for r in p.refusals]),
        ("flags", [(f, "") for f in p.flags]),
    ):  # fmt: skip
        if rows:
            print(f"\n{styled(title, 'bold')}")
            width = max(len(r[0]) for r in rows)
            for left, right in rows:
                print(f"  {left.ljust(width)}  {right.strip()}".rstrip())


def _as_json(p: object) -> dict:
    params = [{"name": a.name, "doc": a.doc, "required": a.required, "default": a.default} for a in p.params]  # type: ignore[attr-defined]
    return {
        "name": p.name,  # type: ignore[attr-defined]
        "summary": p.summary,  # type: ignore[attr-defined]
        "params": params,
        "knobs": list(p.knobs),  # type: ignore[attr-defined]
        "refusals": list(p.refusals),  # type: ignore[attr-defined]
        "flags": list(p.flags),  # type: ignore[attr-defined]
    }


@with_program
def sites(
    program: Program,
    only: Annotated[str, typer.Option("--pass", metavar="PASS", help="Only this pass.")] = "",
    passes: Passes = "",
    json_: Json = False,
) -> None:
    """Where passes apply to a kernel, with arguments ready to use, and why the others do not.

    \b
    Examples:
      ktc sites kernels/serving/silu_and_mul
      ktc sites k.cu -p raise --pass distribute
    """
    program = apply_script(program, passes)
    found = program.sites(only or None)
    refused = {n: program.apply(n).refused for n, s in found.items() if not s}
    if json_:
        return print_json(
            {
                "sites": [{"pass": n, "step": s.step, "doc": s.doc} for n, all_ in found.items() for s in all_],
                "not_applicable": [
                    {"pass": n, "code": r.code, "why": r.why, "hint": r.hint} for n, r in refused.items() if r
                ],
            }
        )
    for name, all_ in found.items():
        for s in all_:
            print(f"{styled(s.step, 'green')}" + (f"\n    {s.doc}" if s.doc else ""))
    rows = [(n, r.code, r.why) for n, r in refused.items() if r]
    if rows:
        print("\n" + table(["not here", "code", "why"], rows))
