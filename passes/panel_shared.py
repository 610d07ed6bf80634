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

from ktc.ir.analysis.affine import multiple_of
from ktc.ir.fold import binary, evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    AsyncCopy,
    Atomic,
    Expr,
    InlineAsm,
    Load,
    MatrixLoad,
    RawStmt,
    Stmt,
    Store,
    Sym,
    TileMma,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array
from ktc.ir.walk import all_exprs, map_body, used_in, walk

from .base import Arg, ParamSpec, Pass, Refused, Result, Site
from .loops import required
from .places import find_places


class PanelShared(Pass):
    name = "panel-shared"
    summary = "keep a shared tile as panels of a few columns, one after another"
    params = (
        ParamSpec("array", "the shared array", required=True),
        ParamSpec("width", "columns of a panel", default="64"),
    )
    refusals = ("E-PLACE", "E-PANEL-ARRAY", "E-PANEL-WIDTH", "E-PANEL-ACCESS", "E-PANEL-OPAQUE")

    def sites(self, kernel: Kernel) -> list[Site]:
        arrays = [s.sym for s in walk(kernel.body) if isinstance(s, Alloc)]
        bound = _bound(kernel)
        fits = [
            a
            for a in arrays
            if isinstance(a.type, Array) and _refused(kernel, a, 64) is None and evaluate(a.type.shape[-1], bound) != 64
        ]
        return [
            Site(f"panel-shared{{array={a.name}}}", "rows of one panel, as tile instructions read them") for a in fits
        ]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        bad = required(args, "array")
        if bad:
            return bad
        place, width = args["array"], args.get("width", 64)
        found = find_places(kernel, place if isinstance(place, str) and ":" in place else f"array:{place}")
        if isinstance(found, Refused):
            return found
        sym = found[0].sym
        assert sym is not None
        if not isinstance(width, int) or width < 1:
            return Refused("E-PANEL-WIDTH", f"a panel has a number of columns, not {width!r}")
        refused = _refused(kernel, sym, width)
        if refused is not None:
            return refused
        t = sym.type
        assert isinstance(t, Array)
        *outer, rows, columns = t.shape
        shape = (*outer, binary("/", columns, i32(width)), rows, i32(width))
        new = fresh(sym.name, dataclasses.replace(t, shape=shape))

        def split(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
            *head, row, column = index
            return (*head, binary("/", column, i32(width)), row, binary("%", column, i32(width)))

        def on(s: Stmt) -> Stmt:
            if isinstance(s, Store | Atomic) and s.buffer == sym:
                return dataclasses.replace(s, buffer=new, index=split(s.index))
            if isinstance(s, AsyncCopy) and s.dst == sym:
                return dataclasses.replace(s, dst=new, dst_index=split(s.dst_index))
            return dataclasses.replace(s, sym=new) if isinstance(s, Alloc) and s.sym == sym else s

        def read(e: Expr) -> Expr:
            return (
                dataclasses.replace(e, buffer=new, index=split(e.index))
                if isinstance(e, Load) and e.buffer == sym
                else e
            )

        return Result(kernel.with_(body=map_body(kernel.body, on, read)), (f"{sym.name}: panels of {width} columns",))


def _bound(kernel: Kernel) -> dict[str, int]:
    return {k.name: k.value for k in kernel.knobs if k.value is not None}


def _refused(kernel: Kernel, sym: Sym, width: int) -> Refused | None:
    t = sym.type
    if not (isinstance(t, Array) and t.space == "shared" and len(t.shape) >= 2):
        return Refused("E-PANEL-ARRAY", f"'{sym.name}' is not a shared array of rows and columns")
    columns = evaluate(t.shape[-1], _bound(kernel))
    if columns is None or int(columns) % width:
        return Refused("E-PANEL-WIDTH", f"'{sym.name}' does not hold whole panels of {width} columns")
    opaque = any(
        isinstance(s, RawStmt | InlineAsm | MatrixLoad | TileMma) and sym in used_in((s,)) for s in walk(kernel.body)
    )
    if opaque or any(isinstance(e, AddrOf) and e.buffer == sym for e in all_exprs(kernel.body)):
        return Refused("E-PANEL-OPAQUE", f"'{sym.name}' is used in a way that is not followed")
    wide: list[tuple[int | Expr, Expr]] = [
        (e.width, e.index[-1]) for e in all_exprs(kernel.body) if isinstance(e, Load) and e.buffer == sym
    ]
    wide += [(s.width, s.index[-1]) for s in walk(kernel.body) if isinstance(s, Store) and s.buffer == sym]
    wide += [(s.width, s.dst_index[-1]) for s in walk(kernel.body) if isinstance(s, AsyncCopy) and s.dst == sym]
    for w, at in wide:
        n = w if isinstance(w, int) else evaluate(w, _bound(kernel))
        if n is None or width % int(n) or not multiple_of(at, int(n)):
            return Refused(
                "E-PANEL-ACCESS", f"an access of {n or 'open'} elements of '{sym.name}' may cross a panel's edge"
            )
    return None
