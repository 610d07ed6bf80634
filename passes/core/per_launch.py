"""Passes on a sequence of launches: most are about one kernel, and rewrite the launches that have what they name."""

from __future__ import annotations

from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.sequences import alone, launches, put_back

from .base import Pass, Site
from .refusals import Refusal, Refused, Result, attempted

ELSEWHERE = frozenset({"E-PLACE", "E-PLACE-SPMD"})
"""What a launch that lacks what a step names says."""

NOTHING = ("-NOTHING", "-NONE")
"""What the codes of refusals end in that say that there is nothing to do."""


def applied(p: Pass[Any], kernel: Kernel, args: Any) -> Result:
    """What ``p`` makes of ``kernel``: of a sequence it does not take as a whole, of each launch that has the places
    which ``args`` name.

    Raises:
        Refusal: by one of those launches, or by all.
    """
    if p.sequences or not kernel.is_sequence:
        return p.apply(kernel, args)
    notes: list[str] = []
    refused: dict[str, Refused] = {}
    changed = False
    for s in launches(kernel):
        outcome = attempted(p.apply, alone(kernel, s), args)
        if isinstance(outcome, Refused):
            refused[s.kernel] = outcome
            continue
        kernel = put_back(kernel, s, outcome.kernel)
        notes += [f"{s.kernel}: {note}" for note in outcome.notes]
        changed = True
    said = {name: r for name, r in refused.items() if r.code not in ELSEWHERE and not r.code.endswith(NOTHING)}
    name, why = next(iter((said if changed else said or refused).items()), ("", None))
    if why is not None:
        raise Refusal(why.code, f"in the launch of '{name}': {why.why}", why.locs, why.hint)
    return Result(kernel, tuple(notes))


def sites_of(p: Pass[Any], kernel: Kernel) -> list[Site]:
    """Where ``p`` applies to ``kernel``, in any of its launches."""
    if p.sequences or not kernel.is_sequence:
        return p.sites(kernel)
    found = [site for s in launches(kernel) for site in p.sites(alone(kernel, s))]
    return list({str(site.step): site for site in found}.values())


__all__ = ["applied", "sites_of"]
