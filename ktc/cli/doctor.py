"""``ktc doctor``: which devices, compilers and services are there, and how to get the missing ones."""

from __future__ import annotations

from .options import Json
from .output import print_json, styled, table

_COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}


def doctor(json_: Json = False) -> None:
    """Show which devices, compilers and services ktc can use here, and how to get the others.

    Examples:
      ktc doctor
      ktc doctor --json
    """
    from ktc import health

    found = [*health.examine(), health.chosen_device()]
    if json_:
        return print_json([vars(f) for f in found])
    print(table(["area", "what", "status", "found"], [(f.area, f.name, f.status, f.detail) for f in found]))
    missing = [f for f in found if f.remedy]
    if missing:
        print("\nTo get what is missing (all optional but one device):")
        for f in missing:
            print(f"  {styled(f.name, _COLOURS[f.status])}: {f.remedy}")
    steps = health.next_steps(found)
    if steps:
        print("\nTo begin:")
        width = max(len(command) for command, _ in steps)
        print("\n".join(f"  {styled(command.ljust(width), 'bold')}  {what}" for command, what in steps))
