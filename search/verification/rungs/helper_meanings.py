"""Helper functions of the emitter in HIP's text: each that is there letter by letter is read as what it computes.

The exact domains know numbers, not formats: a conversion that the IR has as one operation and the text as arithmetic on
bits would be two values there. What the functions compute is tested elsewhere, for every value of the narrow types
(``tests/backends``). A function that is not the emitter's stays as it is, and is judged by what it does.
"""

from __future__ import annotations

from ktc.backends.hip.hip_helpers import HALVES, HELPERS, SATURATED, saturated
from ktc.ir.types import E4M3, E5M2

_CUDA = {E4M3: "__nv_fp8_e4m3", E5M2: "__nv_fp8_e5m2"}


def _meanings() -> dict[str, str]:
    """The emitter's text of a function, and the text that says what it means (8-bit floats are bytes)."""
    out = {HELPERS["double_to_half"]: "__device__ inline __half double_to_half(double x) { return __double2half(x); }"}
    for t, cuda in _CUDA.items():
        out[HELPERS[f"{t}_to_float"]] = (
            f"__device__ inline float {t}_to_float({t} code) {{ {cuda} x; x.__x = code; return float(x); }}"
        )
        out[HELPERS[f"float_to_{t}"]] = f"__device__ inline {t} float_to_{t}(float x) {{ return {cuda}(x).__x; }}"
    for source, (_, taken, _) in HALVES.items():
        for to, (_, given, _, _) in SATURATED.items():
            name = saturated(source, to)
            out[HELPERS[name]] = f"__device__ inline {given} {name}({taken} h) {{ return ({given})h; }}"
    return out


MEANINGS = _meanings()


def with_meanings(text: str) -> str:
    """HIP's ``text`` with what the emitter's helpers mean in their places."""
    for emitted, meant in MEANINGS.items():
        text = text.replace(emitted, meant)
    return text


__all__ = ["with_meanings"]
