"""Arrays of addresses for kernels that are passed where the rows of a buffer lie (:mod:`ktc.ir.pointer_rows`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.pointer_rows import takes_addresses
from ktc.ir.types import Ptr, Vec, scalar_of

from .common import need


class RowTables:
    """The tables of one executable: made when first asked for, kept as launches that are recorded read them again."""

    def __init__(self, kernel: Kernel, to_device: Callable[[np.ndarray], Any]) -> None:
        self._params = [p for p in kernel.params if takes_addresses(kernel, p)]
        self._to_device = to_device
        self._kept: dict[tuple[int, int, int], Any] = {}

    def complete(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """``args``, where buffers hold one row after the other, with the addresses of the rows in their place."""
        tables: dict[str, Any] = {}
        for p in self._params:
            name, t = p.sym.name, p.sym.type
            rows = need(args, name)
            if rows is None:
                continue
            assert isinstance(t, Ptr)
            lanes = t.elem.n if isinstance(t.elem, Vec) and isinstance(t.elem.n, int) else 1
            row = int(need(args, p.rows)) * scalar_of(t).bytes * lanes
            tables[name] = self._table(int(rows.data.ptr), int(rows.nbytes), row)
        return {**args, **tables} if tables else args

    def _table(self, start: int, size: int, row: int) -> Any:
        key = start, size, row
        if key not in self._kept:
            count = -(-size // row) if row > 0 else 0
            addresses = np.uint64(start) + np.arange(max(count, 1), dtype=np.uint64) * np.uint64(max(row, 0))
            self._kept[key] = self._to_device(addresses)
        return self._kept[key]


__all__ = ["RowTables"]
