"""Scalar types: one object of each, however it is made."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from ktc.ir.types import BOOL, F32, I8, SCALARS, U32, Scalar, Vec

ALL = sorted(SCALARS)


@pytest.mark.parametrize("name", ALL)
def test_there_is_one_object_of_each(name: str) -> None:
    t = SCALARS[name]
    again = Scalar(t.kind, t.bits)
    assert again is t and again == t and hash(again) == hash(t)
    assert pickle.loads(pickle.dumps(t)) is t
    assert copy.deepcopy(t) is t and copy.copy(t) is t and dataclasses.replace(t) is t


def test_different_ones_differ() -> None:
    assert len({*SCALARS.values()}) == len(ALL)
    assert all((SCALARS[a] == SCALARS[b]) == (a == b) for a in ALL for b in ALL)
    assert Vec(F32, 4) == Vec(Scalar("float", 32), 4) != Vec(U32, 4)


def test_what_follows_from_the_kind() -> None:
    assert (F32.name, F32.bytes, F32.is_float, F32.is_int, F32.is_signed) == ("f32", 4, True, False, True)
    assert (U32.name, U32.bytes, U32.is_float, U32.is_int, U32.is_signed) == ("u32", 4, False, True, False)
    assert (BOOL.bytes, BOOL.is_int, I8.bytes) == (1, False, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        F32.bits = 16  # type: ignore[misc]
