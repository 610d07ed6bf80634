"""Marks: integers that choose what is done with an element, ``if (state[v] != -2) return``.

Elements of a probe are zeros. Where a kernel does something only for elements that hold another number, it does nothing
then: they hold the number with which it does most, and in another run one after the other of all that it tells apart,
as an element may do something with those that hold another number than it does itself.
"""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.kernel import Kernel

from ..plain_integers import told_apart, values_compared
from ..probe import Prober
from ..roles import Mark, Roles, access_role, buffers_of

MOST_BUFFERS, MOST_NUMBERS = 4, 8
"""Buffers that are looked at, and numbers of each."""


def with_marks(k: Kernel, roles: Roles, places: frozenset[str]) -> Roles:
    """``roles`` with the number of each mark in probes; ``places``: the buffers whose elements say where something is,
    or how long a loop goes on."""
    spans = {
        p.sym.name: span
        for p in buffers_of(k)
        if access_role(p, k) != "out"
        and p.sym.name not in places
        and told_apart(k, p)
        and (span := values_compared(k, p, roles.fixed)) is not None
    }
    marks: dict[str, Mark] = {}
    most = _done(k, roles, marks) if spans else 0
    for name, (least, last) in [*spans.items()][:MOST_BUFFERS]:
        tried = [(n, least, last) for n in range(least, min(last, least + MOST_NUMBERS) + 1) if n]
        done = {mark: _done(k, roles, {**marks, name: mark}) for mark in tried}
        best = max(tried, key=lambda mark: done[mark])
        if done[best] > most:
            marks[name], most = best, done[best]
    return replace(roles, marks=marks)


def _done(k: Kernel, roles: Roles, marks: dict[str, Mark]) -> int:
    """How many scalars a run moves; -1 if there is none."""
    probe = Prober(k, replace(roles, marks=marks))
    seen = next((probe.look(sizes) for sizes in probe.sizes()[:1]), None)
    return seen.accesses if seen is not None else -1


__all__ = ["with_marks"]
