"""Names in a generated numba module: unique, legal Python, the same everywhere."""

from __future__ import annotations

import builtins
import keyword

from ktc.ir.nodes import Sym

from .numba_prelude import HELPERS

_IMPORTED = "np math njit prange intrinsic types ir cgutils arrayobj numpy_support CPUTargetOptions TargetOptions"
_RESERVED = f"{_IMPORTED} get_host_cpu_features f32 i64 u64 OPTIONS LANES t threads block shared_bytes first last"
_TAKEN = (
    set(keyword.kwlist)
    | set(dir(builtins))
    | set(_RESERVED.split())
    | set(HELPERS)
    | {f"{level}_{axis}" for level in ("thread", "block", "grid", "dim") for axis in "xyz"}
)


class Names:
    """``helpers`` collects the prelude functions the text uses. Where a symbol is spelled differently in some region (a
    per-thread array ``x[t]``), ``spell`` holds the replacement. ``at_top``: lines of the module behind its helpers;
    ``on_stack``: bytes of arrays there."""

    def __init__(self) -> None:
        self.helpers: set[str] = set()
        self.names: dict[int, str] = {}
        self.spell: dict[int, str] = {}
        self.at_top: list[str] = []
        self.on_stack = 0
        self._taken = set(_TAKEN)

    def reserve(self, name: str) -> str:
        """A name not used in the module yet: ``name``, ``name_1``, ..."""
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name).lstrip("_") or "v"
        out, n = clean, 0
        while out in self._taken:
            n += 1
            out = f"{clean}_{n}"
        self._taken.add(out)
        return out

    def name(self, s: Sym) -> str:
        """The variable (or array) name of ``s``, the same everywhere in the module."""
        if s.id not in self.names:
            self.names[s.id] = self.reserve(s.name)
        return self.names[s.id]

    def ref(self, s: Sym) -> str:
        """How the current region reads ``s``."""
        return self.spell.get(s.id) or self.name(s)

    def need(self, helper: str) -> str:
        self.helpers.add(helper)
        return helper
