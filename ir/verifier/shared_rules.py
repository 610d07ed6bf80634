"""Rules that statements and expressions share: types that are the same, conditions, subscripts, memory spaces."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.fold import evaluate
from ktc.ir.nodes import Const, Expr, Sym
from ktc.ir.types import BOOL, Array, Ptr, Scalar, Type, Vec

Complaint = tuple[str, str]
"""(code, message)"""


def access(buffer: Sym, index: tuple[Expr, ...]) -> Iterator[Complaint]:
    """Problems of subscripting ``buffer`` with ``index``."""
    allowed = _index_counts(buffer.type)
    if not allowed:
        yield "V-INDEX", f"'{buffer.name}' is not a buffer"
    elif len(index) not in allowed:
        wants = " or ".join(map(str, allowed))
        yield "V-INDEX", f"'{buffer.name}' takes {wants} indices, not {len(index)}"
    for i in index:
        if not isinstance(i.type, Scalar) or not i.type.is_int:
            yield "V-INDEX", f"an index of '{buffer.name}' is not an integer"
    if allowed and len(index) == allowed[-1]:
        yield from lane(
            buffer.type if isinstance(buffer.type, Vec) else getattr(buffer.type, "elem", buffer.type), index[-1]
        )


def lane(t: Type, lane: Expr) -> Iterator[Complaint]:
    """A lane that a vector of type ``t`` does not have."""
    if isinstance(t, Vec) and isinstance(t.n, int) and isinstance(lane, Const) and not 0 <= lane.value < t.n:
        yield "V-INDEX", f"a vector of {t.n} elements has no element {lane.value}"


def _index_counts(t: Type) -> tuple[int, ...]:
    if isinstance(t, Ptr):
        return (1, 2) if isinstance(t.elem, Vec) else (1,)
    if isinstance(t, Array):
        return (len(t.shape), len(t.shape) + 1) if isinstance(t.elem, Vec) else (len(t.shape),)
    return (1,) if isinstance(t, Vec) else ()


def condition(e: Expr) -> Iterator[Complaint]:
    """``e`` must be a truth value."""
    if e.type != BOOL:
        yield "V-TYPE", f"a condition of type {_called(e.type)}, not bool"


def same(what: str, a: Type, b: Type) -> Iterator[Complaint]:
    """Scalars must agree exactly, vectors in how many elements they have, where that is known; other types are the
    printers' business."""
    if isinstance(a, Scalar) and isinstance(b, Scalar) and a != b:
        yield "V-TYPE", f"{what} differ in type: {a} and {b}"
    if isinstance(a, Vec) and isinstance(b, Vec):
        mine, theirs = (evaluate(t.n, {}) if isinstance(t.n, Expr) else t.n for t in (a, b))
        if None not in (mine, theirs) and mine != theirs:
            yield "V-TYPE", f"{what} are vectors of {mine} and of {theirs} elements"


def is_global(t: Type) -> bool:
    """Whether ``t`` points to global memory, or may."""
    return isinstance(t, Ptr) and t.space in ("global", "const", "generic")


def _called(t: Type) -> str:
    return str(t) if isinstance(t, Scalar) else type(t).__name__
