"""Rewrites of the IR. ``core`` has their protocol, the pipeline language and the catalogue; each family a folder.

What a pass from outside needs can be imported from here, whatever the folders are called:

>>> from ktc.passes import Loop, Pass, Refusal, Result, Site, knob, option, required
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.argument_kinds import Arrays, Factor, KnobSpec, Loop, Loops, Place, Size
    from .core.arguments import NoArguments, knob, knobs, option, required, rest
    from .core.base import Pass, Site
    from .core.refusals import Refusal, Refused, Result, accepted, allowed, attempted
    from .core.script import DistSpec, KnobRef, Step

_HOMES = {
    "core.argument_kinds": ("Arrays", "Factor", "KnobSpec", "Loop", "Loops", "Place", "Size"),
    "core.arguments": ("NoArguments", "knob", "knobs", "option", "required", "rest"),
    "core.base": ("Pass", "Site"),
    "core.refusals": ("Refusal", "Refused", "Result", "accepted", "allowed", "attempted"),
    "core.script": ("DistSpec", "KnobRef", "Step"),
}

__all__ = [
    "Arrays", "DistSpec", "Factor", "KnobRef", "KnobSpec", "Loop", "Loops", "NoArguments", "Pass", "Place", "Refusal",
    "Refused", "Result", "Site", "Size", "Step", "accepted", "allowed", "attempted", "knob", "knobs", "option",
    "required", "rest",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
