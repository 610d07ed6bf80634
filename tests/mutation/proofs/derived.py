"""Guards of a step that left nothing else behind: the script without that step makes the same program.

A vector width needs whole vectors; tiles that are laid over the same loop afterwards do not, but the launcher asks for
both. Such a program is made, and held legal, by a script that never asked.
"""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import canonical
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise


def derived(original: Kernel, mutant: Kernel) -> str:
    """The step of ``mutant``'s script without which that script gives ``original`` the body and launch of ``mutant``,
    on no more assumptions; '' if there is none."""
    wanted = canonical(mutant)
    for k, step in enumerate(mutant.trace):
        made = _made(original, (*mutant.trace[:k], *mutant.trace[k + 1 :]), mutant)
        if made is None or (made.body, made.launch) != (wanted.body, wanted.launch):
            continue
        if all(a in wanted.assumptions for a in made.assumptions):
            return step
    return ""


def _made(original: Kernel, script: tuple[str, ...], like: Kernel) -> Kernel | None:
    """What ``script`` makes of ``original``, with the knobs of ``like``; None if it does not apply."""
    try:
        now = apply_script(original, parse_script(" | ".join(script))).kernel if script else original
        knobs = {k.name: like.knob_values[k.name] for k in now.knobs if k.name in like.knob_values}
        return canonical(materialise(bind(now, knobs)))
    except KtcError:
        return None


__all__ = ["derived"]
