"""Variables that must lie in memory: their address is used for more than to reach them whole.

A variable is first lowered to a value (a struct to one for each member), and its address to the variable itself. Where
the program indexes that address, sees it as another type, or keeps it, the lowering starts again with the variable
declared as a private array that has its layout.
"""

from __future__ import annotations

from typing import Any

from ktc.ir.frontend.context import Retry
from ktc.ir.frontend.lowering.expressions.convert import Converter
from ktc.ir.frontend.meaning.cxx_types import RecordType
from ktc.ir.frontend.meaning.values import (
    LaneArray,
    LanePlace,
    PtrToPlace,
    RecordVal,
    SubVec,
    Value,
    VarPlace,
    ViewPlace,
)
from ktc.ir.types import VOID, Scalar, Type, Vec


class Addressed(Converter):
    """Variables by declaration, and their move into memory."""

    def variable_key(self, name: str, node: Any) -> tuple[str, str, str]:
        """What a later attempt at lowering finds the variable by."""
        return ("variable", name, str(self.place(node)))

    def variable_in_memory(self, name: str, t: Type, value: Value | None, node: Any) -> Value | None:
        """The variable as an object in memory with the value ``value``, if an attempt found that it must be one."""
        key = self.variable_key(name, node)
        if key not in self.hints:
            return None
        place = self.in_array(name, t, "local", node, key=key)
        if value is not None:
            self.store(place, value, node)
        return place

    def need_memory(self, p: PtrToPlace, node: Any) -> None:
        """Start again with the variable that ``p`` points to in memory; returns if that cannot be or was done.

        Raises:
            Retry: that.
        """
        place = p.place
        while isinstance(place, LanePlace):
            place = place.base
        if isinstance(place, VarPlace | ViewPlace | SubVec):
            key = self.origin.get(place.sym)
        else:
            key = place.key if isinstance(place, RecordVal) else None
        if key is None or key in self.hints:
            return
        kinds = [t for t in (self.type_of(place), p.elem) if t != VOID and isinstance(t, Scalar | Vec | RecordType)]
        raise Retry(key, min((self.unit(t, node) for t in kinds), key=lambda u: u.bytes))

    def declared(self, v: Value, key: Any) -> None:
        """Note of the variables that ``v`` consists of that they are parts of the one with ``key``."""
        if isinstance(v, LaneArray):
            v = v.base
        if isinstance(v, VarPlace | ViewPlace):
            self.origin.setdefault(v.sym, key)
        elif isinstance(v, RecordVal) and v.at is None:
            v.key = key
            for member in v.fields.values():
                self.declared(member, key)

    def in_array(self, name: str, t: Type, space: str, node: Any, align: int = 0, key: Any = None) -> Value:
        raise NotImplementedError

    def store(self, place: Value, v: Value, node: Any) -> None:
        raise NotImplementedError
