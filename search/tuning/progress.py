"""What a run of the tuner reports while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ktc.search.records.outcome import Outcome
from ktc.search.space.knob_space import Config

KINDS = ("start", "measured", "improved", "polish", "shootout", "done")


@dataclass(frozen=True)
class Event:
    """One step of a tuning run.

    ``kind``: ``start`` (``done`` of the ``budget`` were there already), ``measured`` or ``improved`` (``config``
    finished with ``outcome``; improved: it is the new best), ``polish`` and ``shootout`` (that stage begins), ``done``.
    ``best`` is the best objective so far in seconds. ``failures`` counts outcomes by status.
    """

    kind: str
    done: int
    budget: int
    config: Config | None = None
    outcome: Outcome | None = None
    objective: float | None = None
    best: float | None = None
    failures: Mapping[str, int] | None = None
    note: str = ""


Progress = Callable[[Event], None]
"""Called from the thread that called ``tune``; it must not raise."""


def silent(event: Event) -> None:
    """The default: nothing is shown."""
