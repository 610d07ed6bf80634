"""panel-shared: keep a shared tile as panels of a few columns, one panel after another.

before                                          after panel-shared{array=B_s width=64}
    array B_s: shared f16[64, 256]                  array B_s: shared f16[4, 64, 64]
    B_s[r, c] = ...                                 B_s[c / 64, r, c % 64] = ...
    ... B_s[k, j]                                   ... B_s[j / 64, k, j % 64]

Instructions that read shared tiles themselves want rows of 128 bytes (``wgmma``), whatever the tile's width. Dividing
the column is a bijection; every access of the array goes through it. An access of several elements must stay inside
one panel: its width divides the panel's, and it starts at a multiple of its width.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.arith.polynomial import multiple_of
from ktc.ir.fold import binary, cast, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, fresh
from ktc.ir.types import I32, Array
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, allowed

from .shared_arrays import Index, accesses_of, check_followed, known, shared_array, shared_arrays, with_array


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the shared array")
    width: int = option(64, "columns of a panel", code="E-PANEL-WIDTH", least=1)


class PanelShared(Pass[Arguments]):
    name = "panel-shared"
    summary = "keep a shared tile as panels of a few columns, one after another"
    refusals = ("E-PLACE", "E-PANEL-ARRAY", "E-PANEL-WIDTH", "E-PANEL-ACCESS", "E-PANEL-OPAQUE")

    def sites(self, kernel: Kernel) -> list[Site]:
        fits = [s.sym for s in shared_arrays(kernel) if allowed(_check, kernel, s, 64)]
        doc = "rows of one panel, as tile instructions read them"
        return [Site(self.step(array=a.name), doc) for a in fits if known(kernel, a.type.shape[-1]) != 64]  # type: ignore[attr-defined]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        width = args.width
        alloc = shared_array(kernel, args.array, "E-PANEL-ARRAY", "E-PANEL-OPAQUE")
        _check(kernel, alloc, width)
        t = alloc.sym.type
        assert isinstance(t, Array)
        *outer, rows, columns = t.shape
        shape = (*outer, binary("/", columns, i32(width)), rows, i32(width))
        new = fresh(alloc.sym.name, dataclasses.replace(t, shape=shape))

        def split(index: Index) -> Index:
            *head, row, column = index
            at = cast(column, I32)
            return (*head, binary("/", at, i32(width)), row, binary("%", at, i32(width)))

        return Result(with_array(kernel, alloc.sym, new, split), (f"{new.name}: panels of {width} columns",))


def _check(kernel: Kernel, alloc: Alloc, width: int) -> None:
    """The rows of ``alloc`` are whole panels, and no access crosses the edge of one, or it is refused."""
    check_followed(kernel, alloc, "E-PANEL-ARRAY", "E-PANEL-OPAQUE")
    name, t = alloc.sym.name, alloc.sym.type
    assert isinstance(t, Array)
    columns = known(kernel, t.shape[-1]) if len(t.shape) > 1 else None
    if columns is None or columns % width:
        have = "rows of an open length" if columns is None else f"rows of {columns} columns"
        raise Refusal("E-PANEL-WIDTH", f"'{name}' has {have}, which are no whole panels of {width}", places(alloc))
    for n, index in accesses_of(kernel, alloc.sym):
        if n is None or width % n or not multiple_of(index[-1], n):
            why = f"an access of {n or 'open'} elements of '{name}' may cross a panel's edge"
            raise Refusal("E-PANEL-ACCESS", why, places(alloc))
