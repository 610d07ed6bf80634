"""Values of threads that live from one parallel loop to the next."""

from __future__ import annotations

from ktc.ir.nodes import Alloc, Assign, Binary, Const, Decl, Store, Var, fresh
from ktc.ir.types import F32, Array, Scalar
from ktc.ir.walk import walk
from ktc.passes.raising.recognise.items import Segment, Team
from ktc.passes.raising.recognise.split_programs import Emitter


def test_a_block_of_one_thread_keeps_its_values_in_rows_of_one() -> None:
    number = F32
    assert isinstance(number, Scalar)
    kept = fresh("kept", number)
    first = Decl(kept, Const(1.0, number))
    later = Assign(kept, Binary("+", Var(kept), Const(2.0, number)))
    emitter = Emitter(Team(()), frozenset({kept}))
    body = emitter.emit([Segment([first]), Segment([later])], (first, later))
    rows = [s.sym.type for s in walk(body) if isinstance(s, Alloc)]
    stores = [s for s in walk(body) if isinstance(s, Store)]
    assert len(rows) == 1 and isinstance(rows[0], Array) and len(rows[0].shape) == 1
    assert len(stores) == 2 and all(len(s.index) == 1 for s in stores)
