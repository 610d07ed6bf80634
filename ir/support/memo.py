"""Remembering what was said of an object that does not change.

Kernels are frozen, and large: comparing or hashing one costs as much as much of what is asked about it. The same object
is asked again and again, though (the original of every candidate of a search), so its identity is the key.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")


def by_identity(most: int, subjects: int = 1) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """A function of ``subjects`` immutable objects, and of hashable others, that keeps its ``most`` latest results.

    Who shares a result must not change it.
    """

    def remembering(f: Callable[P, Result]) -> Callable[P, Result]:
        kept: OrderedDict[tuple[Hashable, ...], tuple[tuple[object, ...], Result]] = OrderedDict()

        @functools.wraps(f)
        def remembered(*given: P.args, **named: P.kwargs) -> Result:
            assert not named, "arguments by position are the key"
            mine = given[:subjects]
            key = (*map(id, mine), *given[subjects:])
            found = kept.get(key)
            if found is None:
                found = kept[key] = mine, f(*given, **named)  # with the objects, so that no others get their ids
                while len(kept) > most:
                    kept.popitem(last=False)
            return found[1]

        return remembered

    return remembering


__all__ = ["by_identity"]
