"""pad-shared: longer rows in shared memory, so that elements of one column lie in different banks.

before                                      after pad-shared{array=A_s by=$PAD}
    array A_s: shared f32[8, 128]               array A_s: shared f32[8, 128 + $PAD]

Indices stay: an element's row and column do not change, only where rows start. Vectors along a row stay aligned when
the padding is a multiple of their lanes; otherwise lowering moves elements one by one, and accesses that are of
vectors already (asynchronous copies) refuse it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.fold import add
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import fresh
from ktc.ir.types import Array
from ktc.passes.core.base import Arg, KnobRef, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.knobs import size_argument

from .shared_arrays import rows_aligned, shared_array, shared_arrays, with_array

DOMAIN = (0, 1, 2, 4, 8)


class PadShared(Pass):
    name = "pad-shared"
    summary = "longer rows in shared memory against bank conflicts"
    params = (
        ParamSpec("array", "a shared array of two dimensions or more", required=True),
        ParamSpec("by", "elements to add to each row", default="$PAD"),
    )
    knobs = ("PAD: 0,1,2,4,8: elements added to each row",)
    refusals = ("E-PLACE", "E-PAD-ARRAY", "E-PAD-ROWS", "E-PAD-ALIGN")

    def sites(self, kernel: Kernel) -> list[Site]:
        names = [s.sym.name for s in shared_arrays(kernel) if len(s.sym.type.shape) > 1]  # type: ignore[attr-defined]
        return [Site(f"pad-shared{{array={n} by=$PAD}}", "columns in different banks") for n in dict.fromkeys(names)]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        alloc = shared_array(kernel, args["array"], "E-PAD-ARRAY")
        if isinstance(alloc, Refused):
            return alloc
        t = alloc.sym.type
        assert isinstance(t, Array)
        if len(t.shape) < 2:
            return Refused("E-PAD-ROWS", f"'{alloc.sym.name}' has one row only: padding would not move anything")
        by = args.get("by", KnobRef("PAD"))
        if by == 0:
            return Result(kernel, ("no padding",))
        sized = size_argument(kernel, by, DOMAIN, "elements added to each row", self.name, wish=4)
        if isinstance(sized, Refused):
            return sized
        kernel, n = sized
        assert n is not None
        new = fresh(alloc.sym.name, dataclasses.replace(t, shape=(*t.shape[:-1], add(t.shape[-1], n))))
        padded = rows_aligned(with_array(kernel, alloc.sym, new), new, "E-PAD-ALIGN")
        return padded if isinstance(padded, Refused) else Result(padded, (f"{alloc.sym.name}: rows are longer",))
