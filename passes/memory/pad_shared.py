"""pad-shared: longer rows in shared memory, so that elements of one column lie in different banks.

before                                      after pad-shared{array=A_s by=$PAD}
    array A_s: shared f32[8, 128]               array A_s: shared f32[8, 128 + $PAD]

Indices stay: an element's row and column do not change, only where rows start. Vectors along a row stay aligned when
the padding is a multiple of their lanes; otherwise lowering moves elements one by one, and accesses that are of
vectors already (asynchronous copies) refuse it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.fold import add
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import fresh
from ktc.ir.types import Array
from ktc.passes.core.argument_kinds import Arrays, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import KnobRef

from .shared_arrays import rows_aligned, shared_arrays, shared_tiles, with_array


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("shared arrays of two dimensions or more")
    by: Size = knob("PAD", (0, 1, 2, 4, 8), "elements added to each row", wish=4, least=0)


class PadShared(Pass[Arguments]):
    name = "pad-shared"
    summary = "longer rows in shared memory against bank conflicts"
    refusals = ("E-PLACE", "E-PAD-ARRAY", "E-PAD-ROWS", "E-PAD-ALIGN")

    def sites(self, kernel: Kernel) -> list[Site]:
        names = [s.sym.name for s in shared_arrays(kernel) if len(s.sym.type.shape) > 1]  # type: ignore[attr-defined]
        doc, by = "columns in different banks", KnobRef("PAD")
        return [Site(self.step(array=n, by=by), doc) for n in dict.fromkeys(names)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        tiles = shared_tiles(kernel, args.array, "E-PAD-ARRAY")
        for alloc in tiles:
            if len(alloc.sym.type.shape) < 2:  # type: ignore[attr-defined]
                raise Refusal("E-PAD-ROWS", f"'{alloc.sym.name}' has one row only: padding would not move anything")
        if args.by.written == 0:
            return Result(kernel, ("no padding",))
        kernel, n = args.by.declared(kernel, self.name)
        for alloc in tiles:
            t = alloc.sym.type
            assert isinstance(t, Array)
            new = fresh(alloc.sym.name, dataclasses.replace(t, shape=(*t.shape[:-1], add(t.shape[-1], n))))
            kernel = rows_aligned(with_array(kernel, alloc.sym, new), new, "E-PAD-ALIGN")
        return Result(kernel, tuple(f"{alloc.sym.name}: rows are longer" for alloc in tiles))
