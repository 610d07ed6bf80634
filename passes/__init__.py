"""Rewrites of the IR. ``core`` has their protocol, the pipeline language and the catalogue; each family a folder.

What a pass from outside needs can be imported from here, whatever the folders are called:

>>> from ktc.passes import Pass, ParamSpec, Refused, Result, Site, resolve_place
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.base import Arg, ParamSpec, Pass, Refused, Result, Site
    from .core.places import resolve_place

_HOMES = {
    "Arg": "core.base",
    "ParamSpec": "core.base",
    "Pass": "core.base",
    "Refused": "core.base",
    "Result": "core.base",
    "Site": "core.base",
    "resolve_place": "core.places",
}

__all__ = ["Arg", "ParamSpec", "Pass", "Refused", "Result", "Site", "resolve_place"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
