"""Which overload of an OpenCL C built-in a call means (OpenCL C 3.0, 6.15), as Clang decides it.

A row of a table stands for one function per type that its letters may be: ``F`` is a floating-point type, ``I`` an
integer of 8 to 64 bits, ``T`` either, ``C`` an integer as wide as ``T``. So ``pow(x, 2)`` of a float ``x`` is the
function of floats, not of doubles: no other overload needs fewer conversions. Where two are as good, the call is
ambiguous, and no compiler takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ktc.ir.builtins import Builtin
from ktc.ir.frontend.meaning.cxx_types import show
from ktc.ir.frontend.meaning.row_signatures import row_signature
from ktc.ir.types import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar, Type, Vec

if TYPE_CHECKING:
    from ktc.ir.frontend.lowering.calls.calls import Calls

_FLOATS = (F16, F32, F64)
_INTEGERS = (I8, U8, I16, U16, I32, U32, I64, U64)
_LETTERS: Mapping[str, tuple[Scalar, ...]] = {"F": _FLOATS, "I": _INTEGERS, "T": (*_FLOATS, *_INTEGERS)}
_KINDS = frozenset({"call", "cast", "binary", "body", "round", "mul24", "select", "any", "all"})
"""Kinds of rows that are functions of numbers."""


@dataclass(frozen=True)
class Overload:
    """A row with its letters decided: the types of one lane of each parameter and of the result."""

    row: Builtin
    letters: Mapping[str, Scalar]

    @property
    def parameters(self) -> tuple[Scalar, ...]:
        return tuple(self._of(p.type) for p in self.row.params)

    @property
    def result(self) -> Scalar:
        """``U`` is the unsigned type of ``I``; ``R`` a truth value, whose type depends on the lanes."""
        ret = self.row.ret
        if ret == "U":
            return Scalar("uint", self.letters["I"].bits)
        return BOOL if ret == "R" else self._of(ret)

    def concrete(self) -> Builtin:
        """The row with these types: of halves as one of floats, which compute what the half nearest to is wanted."""
        params = tuple(replace(p, type=_computed(t)) for p, t in zip(self.row.params, self.parameters))
        ret = self.letters["I"] if self.row.ret == "U" else self.result
        return replace(self.row, params=params, ret=_computed(ret))

    def _of(self, t: Type | str) -> Scalar:
        found = self.letters[t] if isinstance(t, str) else t
        assert isinstance(found, Scalar)
        return found


def has_overloads(rows: Sequence[Builtin]) -> bool:
    """Whether all ``rows`` are functions of numbers, which have overloads for vectors."""
    return all(
        row.kind in _KINDS and not any(p.pointer or (isinstance(p.type, str) and p.type not in "FITC") or
                                       isinstance(p.type, Vec) for p in row.params)
        for row in rows
    )  # fmt: skip


def overload(low: Calls, rows: Sequence[Builtin], given: Sequence[Type], node: Any) -> Overload:
    """The overload of ``rows`` for arguments of the types ``given``, scalars and vectors of one length."""
    halves = any(_element(t) == F16 for t in given)
    ranked = [
        (ranks, found)
        for row in rows
        if len(row.params) == len(given)
        for found in _overloads(row, halves)
        if (ranks := _ranks(given, found.parameters)) is not None
    ]
    best = [found for ranks, found in ranked if all(ranks == r or _better(ranks, r) for r, _ in ranked)]
    if len(best) == 1:
        return best[0]
    types = ", ".join(show(t) for t in given)
    if ranked:
        low.fail("E-SEMA-AMBIGUOUS", f"the call of '{rows[0].name}' with ({types}) is ambiguous", node,
                 hint="convert the arguments to one type: several overloads are as near")  # fmt: skip
    low.fail("E-SEMA-OVERLOAD", f"no built-in '{rows[0].name}' accepts ({types})", node,
             hint=f"it is {row_signature(rows[0])}")  # fmt: skip


def _overloads(row: Builtin, halves: bool) -> Iterator[Overload]:
    """Every overload that ``row`` stands for; those of halves only where a half is given."""
    letters = {p.type for p in row.params if isinstance(p.type, str)} - {"C"}
    assert len(letters) <= 1
    if not letters:
        yield Overload(row, {})
        return
    letter = str(letters.pop())
    for t in _LETTERS[letter]:
        if t == F16 and not halves:
            continue
        if any(p.type == "C" for p in row.params):
            for kind in ("int", "uint"):
                yield Overload(row, {letter: t, "C": Scalar(kind, t.bits)})
        else:
            yield Overload(row, {letter: t})


def _element(t: Type) -> Type:
    return t.elem if isinstance(t, Vec) else t


def _computed(t: Scalar) -> Scalar:
    return F32 if t == F16 else t


def _ranks(given: Sequence[Type], wanted: Sequence[Scalar]) -> tuple[int, ...] | None:
    """How far each argument is from its parameter; None if one does not convert."""
    vectors = any(isinstance(t, Vec) for t in given)
    ranks = [_rank(t, to, vectors) for t, to in zip(given, wanted)]
    return None if None in ranks else tuple(r for r in ranks if r is not None)


def _rank(t: Type, to: Scalar, spread: bool) -> int | None:
    """0 the same, 1 a promotion, 2 another conversion, 3 a scalar in every lane; vectors do not convert."""
    if isinstance(t, Vec):
        return 0 if t.elem == to else None
    if not isinstance(t, Scalar):
        return None
    if spread:
        return 3
    if t == to:
        return 0
    promoted = to == I32 if t == BOOL or (t.is_int and t.bits < 32) else (t, to) == (F32, F64)
    return 1 if promoted else 2


def _better(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether conversions ``a`` are no worse for any argument than ``b``, and better for one."""
    return a != b and all(x <= y for x, y in zip(a, b))
