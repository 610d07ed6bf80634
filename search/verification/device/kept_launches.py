"""What the original gave on inputs that one candidate after another meets: a launch of it may take seconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from .arena import Launched

MOST_BYTES = 1 << 30
"""Of outputs that are kept; those that were asked for longest ago go first."""


@dataclass
class KeptLaunches:
    """Launches by what determines them: the program, its inputs, what was in its outputs before."""

    most_bytes: int = MOST_BYTES
    _known: OrderedDict[Hashable, Launched] = field(default_factory=OrderedDict)

    def get(self, key: Hashable, launch: Callable[[], Launched]) -> Launched:
        """What ``launch`` gives, or gave when it was asked for under this ``key`` before. Nobody may change it."""
        if key not in self._known:
            self._known[key] = launch()
            while sum(map(_bytes, self._known.values())) > self.most_bytes:
                oldest, launched = self._known.popitem(last=False)
                if oldest == key:  # it is too large by itself
                    return launched
        self._known.move_to_end(key)
        return self._known[key]


def _bytes(launched: Launched) -> int:
    return sum(x.nbytes for x in launched.outputs.values())


__all__ = ["KeptLaunches"]
