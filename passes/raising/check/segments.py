"""Buffers that hold where the parts of something begin: sparse rows, sequences of a batch, tokens by expert.

Parts that overlap are a race in the source wherever they are written, and no instance of such a source is clean;
parts that are empty or of one length leave loops over them unchecked.
"""

from __future__ import annotations

import numpy as np

from ktc.ir.analysis.defs import definitions
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For, Load, Sym, Var
from ktc.ir.walk import walk, walk_expr

LONGEST = 5
"""Elements of a part, at most: the interpreter goes through all of them."""


def bounds_of_parts(kernel: Kernel) -> frozenset[Sym]:
    """Buffers from which a loop takes both its beginning and its end: ``for (j = first[r]; j < first[r + 1]; ++j)``."""
    given = definitions(kernel.body, loads=True)
    loops = [s for s in walk(kernel.body) if isinstance(s, For)]
    return frozenset(b for s in loops for b in _loaded(s.init, given) & _loaded(s.cond, given))


def ascending(elements: int, rng: np.random.Generator) -> np.ndarray:
    """Parts of no to ``LONGEST`` elements, one behind the other, from 0 on."""
    return np.concatenate(([0], np.cumsum(rng.integers(0, LONGEST + 1, elements - 1))))


def _loaded(e: Expr, given: dict[Sym, Expr]) -> set[Sym]:
    """Buffers that ``e`` has elements of, through variables."""
    left, seen, out = [e], set[Sym](), set[Sym]()
    while left:
        for x in walk_expr(left.pop()):
            if isinstance(x, Load):
                out.add(x.buffer)
            elif isinstance(x, Var) and x.sym in given and x.sym not in seen:
                seen.add(x.sym)
                left.append(given[x.sym])
    return out
