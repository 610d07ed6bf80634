"""What is remembered of an object by its identity."""

from __future__ import annotations

import gc

import pytest

from ktc.ir.support.memo import by_identity


class Thing:
    """Equal to every other, as two kernels of one text are."""

    def __eq__(self, other: object) -> bool:
        return True


def test_one_object_is_asked_once_and_an_equal_one_for_itself() -> None:
    asked: list[tuple[int, int]] = []

    @by_identity(8)
    def about(thing: Thing, n: int) -> tuple[int, int]:
        asked.append((id(thing), n))
        return asked[-1]

    a, b = Thing(), Thing()
    assert [about(a, 1), about(a, 1), about(b, 1), about(a, 2)] == [(id(a), 1), (id(a), 1), (id(b), 1), (id(a), 2)]
    assert len(asked) == 3


def test_another_object_at_the_same_address_is_another() -> None:
    @by_identity(1000)
    def number(thing: list[int]) -> int:
        return thing[0]

    for k in range(200):
        assert number([k]) == k
        gc.collect(0)


@pytest.mark.parametrize("subjects", (1, 2))
def test_the_oldest_goes(subjects: int) -> None:
    asked: list[int] = []

    @by_identity(2, subjects)
    def about(thing: Thing, other: object) -> None:
        asked.append(id(thing))

    things = [Thing() for _ in range(3)]
    for t in (*things, things[2], things[0]):
        about(t, None)
    assert asked == [id(things[k]) for k in (0, 1, 2, 0)]
