"""Names of raised loops: none is called what a loop that it goes around is called.

Loops over threads are named after coordinates, and ``i`` where the source has no name for one. A kernel of which two
such loops go around a ``for (int i ...)`` of the source would have three loops called ``i``, and ``i.*``, which names
the parts of *one* loop of the source, would name all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, Par, Reduce, Scan, Stmt, Sym, bodies
from ktc.ir.symbols import fresh
from ktc.ir.text.naming import symbols
from ktc.ir.walk import map_body, rename

LETTERS = "ijklmnpqrstuvw"
"""Names of indices, in the order in which they are given to loops that need one."""


def called_apart(kernel: Kernel, before: Kernel) -> Kernel:
    """``kernel``, raised from ``before``, with new names for parallel loops that go around others of the same name."""
    shared = list(dict.fromkeys(_namesakes(kernel.body, ())))
    taken = {n for k in (kernel, before) for s in symbols(k) for n in (s.name, s.stem)}
    free = (x for x in LETTERS if x not in taken)
    names = dict(zip(shared, (fresh(x, v.type) for v, x in zip(shared, free))))
    if not names:
        return kernel

    def tagged(s: Stmt) -> Stmt:
        new = names.get(s.var) if isinstance(s, Par) else None
        return dataclasses.replace(s, tags=frozenset({f"loop:{new.name}"})) if new is not None else s

    return dataclasses.replace(kernel, body=rename(map_body(kernel.body, tagged), names))


def _namesakes(body: Body, around: tuple[Par, ...]) -> Iterator[Sym]:
    """Variables of parallel loops around ``body`` or in it that go around a loop of the same name."""
    for s in body:
        if isinstance(s, For | Par | Reduce | Scan):
            yield from (p.var for p in around if p.var.stem == s.var.stem)
        for inner in bodies(s):
            yield from _namesakes(inner, (*around, s) if isinstance(s, Par) else around)
