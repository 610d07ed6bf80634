"""Arguments of a launch as text, by the types that the kernel's name has."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.captured import spelled

from .profile_format import Shape

_FORMATS = {
    "bool": "?", "char": "b", "signed char": "b", "unsigned char": "B", "short": "h", "unsigned short": "H", "int": "i",
    "unsigned int": "I", "unsigned": "I", "long": "q", "unsigned long": "Q", "long long": "q",
    "unsigned long long": "Q", "float": "f", "double": "d", "__half": "e",
}  # fmt: skip
"""C++'s arithmetic types as a demangler spells them, and as :mod:`struct` does."""

_PLAIN = {1: "B", 2: "H", 4: "i", 8: "q"}


LIKE_FLOAT = 1 << 25
"""Four bytes of unknown type from which on they are read as a float: 0.5 is 1056964608."""


def arguments_text(kernel: str, parameters: Sequence[tuple[int, int]], shape: Shape) -> str:
    """``n: 1000`` is unknown to a binary: ``1000, 0.5, float* 4096 B`` of ``kernel(int, float, float*)``."""
    if shape.others:
        return "(various)"
    pointers = {p.offset: p for p in shape.pointers}
    types = _types(kernel, len(parameters))
    parts = []
    for (offset, size), kind in zip(parameters, types):
        if offset + size > len(shape.arguments):
            return ""
        raw = shape.arguments[offset : offset + size]
        p = pointers.get(offset) if size == 8 else None
        if p is not None:
            held = f" {in_bytes(p.bytes)}" if p.bytes > 0 else "" if p.address else " null"
            parts.append(f"{kind or 'pointer'}{held}")
        else:
            parts.append(_value(raw, kind))
    return ", ".join(parts) + (" (and others)" if shape.varies else "")


def _types(kernel: str, n: int) -> Sequence[str]:
    try:
        params = spelled(kernel).params
    except KtcError:
        params = None
    return params if params is not None and len(params) == n else [""] * n


def _value(raw: bytes, kind: str) -> str:
    plain = re.sub(r"\bconst\b", "", kind).strip()
    form = _FORMATS.get(plain) if struct.calcsize(_FORMATS.get(plain, "x")) == len(raw) else None
    form = form or ("" if plain else _PLAIN.get(len(raw), ""))
    if not form:
        return f"{plain or 'struct'} ({len(raw)} B)"
    value = struct.unpack(f"<{form}", raw)[0]
    if not plain and form == "i" and abs(value) >= LIKE_FLOAT:
        value = struct.unpack("<f", raw)[0]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def in_bytes(n: int) -> str:
    """``n`` bytes in the unit that suits."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n} B"
