"""Frozen classes behave as frozen dataclasses do, and every node is one."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
from threading import Thread

import pytest

from ktc.ir import device_nodes, expr_nodes, loop_nodes, stmt_nodes, symbols
from ktc.ir.fields import children
from ktc.ir.nodes import Binary, Decl, Load, Var, fresh, i32
from ktc.ir.support.collector import NEW_OBJECTS, collect_seldom, collector_at_rest
from ktc.ir.support.frozen import frozen, replaced, values_of
from ktc.ir.types import F32, Ptr
from ktc.ir.walk import map_expr, walk_expr


@frozen(kw_only=True)
class Base:
    note: str = dataclasses.field(default="", compare=False)


@frozen
class Point(Base):
    x: int
    y: int = 2
    rest: list[int] = dataclasses.field(default_factory=list)


def test_initialisers_take_positions_keywords_defaults_and_factories() -> None:
    p, q = Point(1), Point(1, y=3, note="n")
    assert (p.x, p.y, p.rest, p.note) == (1, 2, [], "")
    assert (q.y, q.note) == (3, "n")
    assert p.rest is not q.rest
    for wrong in (lambda: Point(), lambda: Point(1, 2, [], "n"), lambda: Point(1, z=1)):  # type: ignore[call-arg,misc]
        with pytest.raises(TypeError):
            wrong()


def test_fields_cannot_be_set_and_notes_do_not_count() -> None:
    p = Point(1, note="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.x = 2  # type: ignore[misc]
    assert p == Point(1, note="b")
    assert p != Point(2)


def test_they_print_compare_and_hash_as_dataclasses_do() -> None:
    class Ours:
        x: int
        note: str = dataclasses.field(default="", compare=False)
        key: int = dataclasses.field(default=0, repr=False)

    theirs: type = dataclasses.dataclass(frozen=True)(type("Ours", (), dict(vars(Ours))))
    theirs.__qualname__ = Ours.__qualname__
    ours: type = frozen(Ours)
    for given in ((1,), (1, "a"), (2, "a", 3)):
        assert repr(ours(*given)) == repr(theirs(*given))
        assert hash(ours(*given)) == hash(theirs(*given))
        assert (ours(*given) == ours(1)) == (theirs(*given) == theirs(1))
    assert ours(1) != theirs(1)


def test_methods_of_their_own_stay() -> None:
    @frozen
    class Named:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named) and other.name.lower() == self.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return self.name

    assert {Named("A")} == {Named("a")} and repr(Named("A")) == "A"


def test_dataclasses_may_be_made_of_them() -> None:
    @dataclasses.dataclass(frozen=True)
    class Named(Point):
        name: str = ""

    assert Named(1, name="a") == Named(1, name="a") != Named(1, name="b")


def test_each_class_compares_its_own_fields() -> None:
    @frozen
    class Labelled(Point):
        label: str = ""

    a, b = Labelled(1, label="a"), Labelled(1, label="b")
    assert Point(1) == Point(1) != Point(2)
    assert a != b and hash(Labelled(1, 2, (), "a")) != hash(Labelled(1, 2, (), "b"))  # type: ignore[arg-type]
    assert a != Point(1)


def test_copies() -> None:
    e = Binary("+", i32(1), Var(fresh("v", F32)))
    assert pickle.loads(pickle.dumps(e)) == e == copy.deepcopy(e)
    assert replaced(e, {"op": "-"}) == dataclasses.replace(e, op="-")
    assert dict(values_of(e)) == {"op": "+", "a": e.a, "b": e.b}


@pytest.mark.parametrize("module", [device_nodes, expr_nodes, loop_nodes, stmt_nodes, symbols])
def test_every_node_has_slots(module) -> None:
    nodes = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    assert nodes
    assert [c for c in nodes if c.__dictoffset__] == []


def test_children_are_in_order_of_evaluation() -> None:
    buffer, v = fresh("p", Ptr(F32)), fresh("v", F32)
    load = Load(buffer, (Binary("+", i32(1), i32(2)),))
    e = Binary("*", load, Var(v))
    assert children(e) == [load, Var(v)]
    assert [type(x).__name__ for x in walk_expr(e)] == ["Binary", "Load", "Binary", "Const", "Const", "Var"]
    assert children(Decl(v, e)) == [e]
    assert map_expr(e, lambda x: x) is e


def test_very_long_expressions_can_be_walked() -> None:
    e = i32(0)
    for k in range(50_000):
        e = Binary("+", e, i32(k))  # type: ignore[assignment]
    assert sum(1 for _ in walk_expr(e)) == 100_001


def test_the_collector_rests_until_the_last_block_ends() -> None:
    assert gc.isenabled()
    with collector_at_rest():
        assert not gc.isenabled()
        with collector_at_rest():
            assert not gc.isenabled()
        assert not gc.isenabled()
        inner = []

        def elsewhere() -> None:
            with collector_at_rest():
                inner.append(gc.isenabled())

        t = Thread(target=elsewhere)
        t.start()
        t.join()
        assert inner == [False]
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_at_rest():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_process_of_our_own_looks_for_cycles_seldom_and_still_does() -> None:
    before = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_threshold() == (NEW_OBJECTS, *before[1:]) and gc.isenabled()
    finally:
        gc.set_threshold(*before)


def test_the_collector_works_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="x"), collector_at_rest():
        raise ValueError("x")
    assert gc.isenabled()
