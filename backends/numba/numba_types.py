"""How IR values live in generated numba code.

| IR type | value | element of a pointer parameter | element of a shared or private array |
|---|---|---|---|
| f32, f64 | float32, float64 | the same | the same |
| f16, bf16, fp8 | float32 holding a representable value | its bits, uint16 or uint8 | float32 |
| i8..i64, u8..u32 | an int64 within the type's range | the type | the type |
| u64 | uint64 | uint64 | uint64 |
| bool | bool | bool | bool |

Keeping every integer but u64 in int64 sidesteps numba's promotion rules (uint64 with int64 gives float64): unsigned
results are reduced explicitly where a range argument cannot show that they stay within 32 bits (:func:`span`).
"""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.types import SCALARS, Scalar, Type, scalar_of

NARROW_FLOATS = frozenset({"f16", "bf16", "e4m3", "e5m2"})
"""Float types without arithmetic on a CPU: computed in f32, then rounded."""

VALUE_DTYPE = {t.name: f"np.{'u' if t.kind == 'uint' else ''}int{t.bits}" for t in SCALARS.values() if t.is_int} | {
    "f32": "np.float32", "f64": "np.float64", "bool": "np.bool_",
} | dict.fromkeys(NARROW_FLOATS, "np.float32")  # fmt: skip
"""dtype of shared and private arrays."""

STORAGE_DTYPE = VALUE_DTYPE | {"f16": "np.uint16", "bf16": "np.uint16", "e4m3": "np.uint8", "e5m2": "np.uint8"}
"""dtype of the flat view of a pointer parameter."""

ZERO = {t.name: "f32(0.0)" for t in SCALARS.values() if t.is_float} | {
    t.name: "0" for t in SCALARS.values() if t.is_int
} | {"f64": "0.0", "bool": "False", "u64": "u64(0)"}  # fmt: skip


def unsupported(what: str, loc: Loc | None = None, hint: str = "") -> KtcError:
    """The error for a construct that has no CPU lowering."""
    hint = hint or "lower to cuda, hip or opencl instead"
    return KtcError("E-NUMBA-UNSUPPORTED", f"the numba backend cannot express {what}", loc, hint)


def storage_of(t: Type) -> str:
    """numpy spelling of the storage element of a pointer parameter."""
    return STORAGE_DTYPE[_scalar(t).name]


def value_dtype(t: Type) -> str:
    """numpy spelling of the element of a shared or private array of ``t``."""
    return VALUE_DTYPE[_scalar(t).name]


def _scalar(t: Type) -> Scalar:
    try:
        return scalar_of(t)
    except TypeError:
        raise unsupported(f"the type {t}") from None


def zero_of(t: Type) -> str:
    """Zero of a scalar (or of a vector's lanes), as Python text."""
    return ZERO[_scalar(t).name]
