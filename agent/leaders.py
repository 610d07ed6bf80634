"""The fastest verified configuration of each scenario, as it was told; and what is taken back, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import Finalist


@dataclass
class Leaders:
    """Tells ``improvement`` when a verified configuration is faster than what was told before, and ``withdrawn`` when
    what was told is none any more."""

    tell: Callable[..., None]
    _told: dict[str, Finalist] = field(default_factory=dict)  # by scenario

    def update(self, at: str, original: Finalist, best: Finalist | None, why_out: Callable[[Finalist], str]) -> bool:
        """Hear that ``best`` is the fastest verified configuration of scenario ``at`` now (None: there is none).
        ``why_out``: why a configuration is out for good, '' where it is not. Returns whether ``best`` is news."""
        told = self._told.get(at)
        if told is not None and (why := why_out(told)):
            self.tell("withdrawn", scenario=at, original=original.seconds, why=why, **_said(told))
            del self._told[at]
            told = None
        if best is None or best.seconds >= (told or original).seconds:
            return False
        self._told[at] = best
        self.tell("improvement", scenario=at, original=original.seconds, **_said(best))
        return True


def _said(f: Finalist) -> Mapping[str, object]:
    return {"script": f.candidate.script, "knobs": dict(f.knobs), "seconds": f.seconds, "interval": f.interval}
