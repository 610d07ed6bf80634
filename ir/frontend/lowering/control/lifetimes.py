"""The end of objects: destructors run where a block ends, the last object first.

Known are objects that a block declares and leaves at its end. Where a destructor would run elsewhere (a block that is
left by a jump, temporaries, parameters and results by value, arrays) the object is refused, never left without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.declarations.record_inits import RecordInits
from ktc.ir.frontend.meaning.conversions import functions_of
from ktc.ir.frontend.meaning.cxx_types import RecordType, innermost
from ktc.ir.frontend.meaning.values import RecordVal, Value
from ktc.ir.frontend.syntax.syntax_walk import contains

EXITS = (c_ast.Return, c_ast.Break, c_ast.Continue, c_ast.Goto)


class Lifetimes(RecordInits):
    """Which objects have an end that does something, and when it comes."""

    _end_runs: dict[RecordType, bool]

    @cached_property
    def destructors(self) -> bool:
        """Whether the file may declare any."""
        return re.search(r"~\s*\w+\s*\(\s*(void)?\s*\)", self.source.text) is not None

    def ends_with_code(self, t: Any) -> bool:
        """Whether a destructor runs when an object of type ``t`` ends: its own, a member's or a base's."""
        t = innermost(t)
        if not isinstance(t, RecordType) or t.decl is None or not self.destructors:
            return False
        if t not in self._end_runs:
            own = [f for f, _ in functions_of(t.decl[0].node.items) if f.kind == "dtor"]
            self._end_runs[t] = any(f.body is None or f.body.block_items for f in own)
            self._end_runs[t] = self._end_runs[t] or any(map(self.ends_with_code, self._parts(t)))
        return self._end_runs[t]

    def _parts(self, t: RecordType) -> list[Any]:
        return [*self.bases_of(t), *(field_type for _, field_type, _, _ in self.fields_of(t, None))]

    @contextmanager
    def lifetimes(self, nodes: list[Any]) -> Iterator[None]:
        """A block with the statements ``nodes`` in the present scope: at its end its objects do."""
        scope = self.scope
        if self.destructors and not any(contains(n, EXITS, ()) for n in nodes):
            scope.objects = []
        yield
        for record, node in reversed(scope.objects or ()):
            self.run_destructor(record, node)

    def will_end(self, v: Value, t: Any, node: Any) -> None:
        """``v`` was declared in the present block, with type ``t``."""
        t = v.type if isinstance(v, RecordVal) else t
        if not self.ends_with_code(t):
            return
        if self.scope.objects is None or not isinstance(v, RecordVal):
            self.refuse_end(t, node)
        else:
            self.scope.objects.append((v, node))

    def refuse_end(self, t: Any, node: Any) -> None:
        """Refuse an object whose destructor would have to run elsewhere than at the end of a block."""
        if self.ends_with_code(t):
            self.fail(
                "E-UNSUPPORTED-DESTRUCTOR", f"the end of this '{t}' runs code where that is not followed", node,
                hint="declare it in a block that is left at its end only, or call what its destructor does",
            )  # fmt: skip

    def run_destructor(self, record: RecordVal, node: Any) -> None:
        """The destructor of the object, then those of its members and bases, last first."""
        t = record.type
        if not isinstance(t, RecordType) or not self.ends_with_code(t):
            return
        found = self.own_functions(t, "dtor")
        if found:
            self.call_own(t, found, record, [], node)
        for item in reversed(t.decl[0].node.items):
            member = record.fields.get(getattr(item, "name", None) or "") if isinstance(item, c_ast.Decl) else None
            if isinstance(member, RecordVal):
                self.run_destructor(member, node)
            elif isinstance(item, c_ast.Decl) and member is not None:
                self.refuse_end(self.type_of(member), node)
        for base in reversed(self.bases_of(t)):
            self.run_destructor(self.upcast(record, base), node)
