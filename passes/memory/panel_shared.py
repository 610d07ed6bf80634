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
from collections.abc import Mapping

from ktc.ir.arith.polynomial import multiple_of
from ktc.ir.fold import binary, cast, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, fresh
from ktc.ir.types import I32, Array
from ktc.passes.core.base import Arg, ParamSpec, Pass, Refused, Result, Site

from .shared_arrays import Index, accesses_of, followed, known, shared_array, shared_arrays, with_array


class PanelShared(Pass):
    name = "panel-shared"
    summary = "keep a shared tile as panels of a few columns, one after another"
    params = (
        ParamSpec("array", "the shared array", required=True),
        ParamSpec("width", "columns of a panel", default="64"),
    )
    refusals = ("E-PLACE", "E-PANEL-ARRAY", "E-PANEL-WIDTH", "E-PANEL-ACCESS", "E-PANEL-OPAQUE")

    def sites(self, kernel: Kernel) -> list[Site]:
        fits = [s.sym for s in shared_arrays(kernel) if _refused(kernel, s, 64) is None]
        step, idea = "panel-shared{array=%s}", "rows of one panel, as tile instructions read them"
        return [Site(step % a.name, idea) for a in fits if known(kernel, a.type.shape[-1]) != 64]  # type: ignore[attr-defined]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        width = args.get("width", 64)
        if not isinstance(width, int) or width < 1:
            return Refused("E-PANEL-WIDTH", f"a panel has a number of columns, not {width!r}")
        alloc = shared_array(kernel, args["array"], "E-PANEL-ARRAY", "E-PANEL-OPAQUE")
        if isinstance(alloc, Refused):
            return alloc
        refused = _refused(kernel, alloc, width)
        if refused is not None:
            return refused
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


def _refused(kernel: Kernel, alloc: Alloc, width: int) -> Refused | None:
    bad = followed(kernel, alloc, "E-PANEL-ARRAY", "E-PANEL-OPAQUE")
    if bad is not None:
        return bad
    name, t = alloc.sym.name, alloc.sym.type
    assert isinstance(t, Array)
    columns = known(kernel, t.shape[-1]) if len(t.shape) > 1 else None
    if columns is None or columns % width:
        return Refused("E-PANEL-WIDTH", f"'{name}' does not hold whole panels of {width} columns")
    for n, index in accesses_of(kernel, alloc.sym):
        if n is None or width % n or not multiple_of(index[-1], n):
            why = f"an access of {n or 'open'} elements of '{name}' may cross a panel's edge"
            return Refused("E-PANEL-ACCESS", why)
    return None
