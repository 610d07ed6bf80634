"""Schedules that won on other kernels: what a lesson says of a kernel that is not like its own.

A whole script applies to few other kernels. Its schedule does to many: the same steps over loops of the same roles,
with the same knobs. Where a planner has an idea of such a schedule anyway, it comes before ideas that won nowhere, and
the values that won there are measured after its defaults. A wrong precedent so costs one measurement, and no idea.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ktc.ir.analysis.planner_facts import KernelFacts

from .build import Candidate
from .features import distance, features
from .loop_roles import Roles
from .memory import Lesson
from .scripts import parsed

FAR = 5.0
"""Distance of kernels (:func:`.features.distance`) from which on what won on one is no reason to begin with it on the
other."""

FINISHING = frozenset(
    {
        "fast-math",
        "cache-hints",
        "launch-bounds",
        "simplify",
        "cse",
        "licm",
        "narrow-index",
        "strength-reduce",
        "divisible-by",
        "enough-threads",
        "specialize",
    }
)
"""Passes that change no schedule."""

_KNOB = re.compile(r"\$(\w+)(?::\([^)]*\)|:\d+(?:,\d+)*|=\d+)")
_ROLE = re.compile(r"\b_([a-z]+)_\d+(?:_\d+)?")


@dataclass(frozen=True)
class Precedents:
    """The ``lessons`` that may be precedents of a kernel with ``roles``, by schedule: that of the nearest kernel, and
    of that the one that gained most; the best precedent first."""

    roles: Roles
    lessons: Mapping[str, Lesson] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.lessons)

    @staticmethod
    def of(seen: KernelFacts, lessons: Sequence[Lesson], backend: str) -> Precedents:
        """Of what won at all on ``backend``, and at least as often as it did not."""
        mine, found = features(seen), dict[str, Lesson]()
        far = {id(x): distance(mine, x.features) for x in lessons}
        good = (x for x in lessons if x.backend == backend and x.gain > 1.0 and x.misses <= x.tries)
        for x in sorted(good, key=lambda x: (far[id(x)], -x.gain)):
            if far[id(x)] < FAR and schedule(x.script):
                found.setdefault(schedule(x.script), x)
        return Precedents(Roles.of(seen), found)

    def place(self, script: str) -> int | None:
        """How many better precedents there are than that of ``script``, which names this kernel's loops; None where it
        has none."""
        if not self.lessons:
            return None
        mine = schedule(self.roles.abstract(script))
        return list(self.lessons).index(mine) if mine in self.lessons else None

    def knobs(self, c: Candidate) -> dict[str, int] | None:
        """The values that won with the schedule of ``c``, or those of its knobs' domains that are nearest, and defaults
        for knobs that were not there; None where it has no precedent."""
        place = self.place(c.script)
        if place is None or not c.kernel.knobs:
            return None
        won = list(self.lessons.values())[place].knobs
        wanted = {k.name: won.get(k.name, k.default) for k in c.kernel.knobs}
        return {k.name: min(k.domain, key=lambda v: abs(v - wanted[k.name])) for k in c.kernel.knobs}


@lru_cache(4096)
def schedule(script: str) -> str:
    """``script`` (by roles, :mod:`.loop_roles`) without ordinals of roles, domains and values of knobs, conditions, and
    what changes no schedule; '' where nothing is left but ``raise``."""
    steps = [str(s) for s in parsed(script).steps if s.name not in FINISHING]
    return "" if steps in ([], ["raise"]) else _ROLE.sub(r"\1", _KNOB.sub(r"$\1", " | ".join(steps)))
