"""Out of the IR: emitters, runtimes, and what each target can do. Names are loaded when first used."""

from __future__ import annotations

import importlib

_EXPORTS = {
    "emit": ".emitter",
    "search_space": ".emitter",
    "check_compile": ".compile_check",
    "CompileReport": ".compile_check",
    "emit_launcher": ".launchers.cuda_launcher",
    "emit_program": ".launchers.program_text",
    "PROFILES": ".profiles",
    "Profile": ".profiles",
    "Emitted": ".base",
    "Runtime": ".base",
    "open_runtime": ".runtimes",
}


def __getattr__(name: str):
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])


__all__ = sorted(_EXPORTS)
