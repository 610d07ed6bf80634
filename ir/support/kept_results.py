"""Results that one piece of work asks for again and again, as a command does for what a source file says."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")

_KEPT: ContextVar[dict[Hashable, Any] | None] = ContextVar("kept", default=None)


@contextmanager
def results_kept() -> Iterator[None]:
    """Inside, :func:`kept` works each result out once: for work during which no file changes."""
    token = _KEPT.set({}) if _KEPT.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _KEPT.reset(token)


def kept(key: Hashable, make: Callable[[], _T]) -> _T:
    """What ``make`` gives, which ``key`` determines; outside of :func:`results_kept` it is made anew."""
    results = _KEPT.get()
    if results is None:
        return make()
    if key not in results:
        results[key] = make()
    return results[key]  # type: ignore[no-any-return]


__all__ = ["kept", "results_kept"]
