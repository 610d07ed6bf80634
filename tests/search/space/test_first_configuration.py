"""What is measured first leaves no unit of a device idle, where the knobs allow it."""

from __future__ import annotations

import pytest

from ktc.ir.fold import cdiv
from ktc.ir.kernel import Kernel, KnobDecl, Launch
from ktc.ir.nodes import Binary, Expr, Knob, Var, fresh, i32
from ktc.ir.types import I32
from ktc.search.space.device_limits import space_of
from ktc.search.space.first_configuration import LOOKS, faster_configuration, first_configuration

C = Var(fresh("C", I32))
PER_BLOCK = Binary("*", Knob("V"), Knob("TX"))


def kernel(grid: Expr, constraints: tuple[Expr, ...] = ()) -> Kernel:
    """Columns, ``V`` a thread, ``TX`` threads across and ``TY`` down a block."""
    knobs = (KnobDecl("V", (1, 2, 4), 4), KnobDecl("TX", (8, 16, 32, 64), 32), KnobDecl("TY", (4, 8, 16, 32), 16))
    launch = Launch(grid=(grid, i32(1), i32(1)), block=(Knob("TX"), Knob("TY"), i32(1)))
    return Kernel("k", (), launch, (), knobs, constraints=constraints)


def begun(k: Kernel, columns: int, units: int = 132) -> dict[str, int]:
    sizes = {"C": columns, "eps": 1e-5}
    return first_configuration(space_of(k, None, [sizes]), k, sizes, units)


@pytest.mark.parametrize("columns", [132 * 128, 1 << 20])
def test_defaults_where_every_unit_has_a_block(columns: int) -> None:
    assert begun(kernel(cdiv(C, PER_BLOCK)), columns) == {"V": 4, "TX": 32, "TY": 16}


def test_smaller_blocks_where_there_are_few_columns() -> None:
    """2048 columns are 16 blocks of 128, and 256 of 8."""
    found = begun(kernel(cdiv(C, PER_BLOCK)), 2048)
    assert 2048 / (found["V"] * found["TX"]) >= 128 and found["TX"] * found["TY"] >= 64


def test_no_unit_is_kept_busy_by_blocks_of_a_few_threads() -> None:
    """Columns for fewer blocks than units: as many as there may be, of no fewer threads than keep one busy."""
    found = begun(kernel(cdiv(C, PER_BLOCK)), 64)
    assert found == {"V": 1, "TX": 8, "TY": 16}


def test_constraints_hold_on_the_way() -> None:
    wide = Binary(">=", PER_BLOCK, i32(64))
    found = begun(kernel(cdiv(C, PER_BLOCK), (wide,)), 2048)
    assert found["V"] * found["TX"] == 64


def test_grids_that_no_knob_changes_begin_with_the_defaults() -> None:
    assert begun(kernel(i32(3)), 5) == {"V": 4, "TX": 32, "TY": 16}


def under_way(config: dict[str, int]) -> float:
    """Time of a schedule that waits for what is under way: blocks of 2048 columns, and what their threads ask for."""
    blocks = 2048 // (config["V"] * config["TX"])
    return 1 / (min(blocks, 132) * config["V"] * config["TX"] * config["TY"])


def test_blocks_for_every_unit_may_have_more_under_way() -> None:
    k = kernel(cdiv(C, PER_BLOCK))
    space = space_of(k, None, [{"C": 2048}])
    found = faster_configuration(space, begun(k, 2048), under_way)
    assert found["TY"] == 32 and under_way(found) == min(map(under_way, space))


def test_what_is_expected_to_be_little_faster_is_not_worth_it() -> None:
    space = space_of(kernel(i32(3)), None, [{}])
    first = space.default()
    assert faster_configuration(space, first, lambda c: 1.0 if c == first else 0.8) == first
    assert faster_configuration(space, first, lambda c: None) == first


def test_few_configurations_are_asked_about_and_each_once() -> None:
    k = kernel(i32(3))
    space = space_of(k, None, [{}])
    asked: list[tuple[int, ...]] = []

    def expected(config: dict[str, int]) -> float:
        asked.append(tuple(config.values()))
        return 1 / (config["TX"] * config["TY"] * config["V"])

    assert faster_configuration(space, space.default(), expected) == {"V": 4, "TX": 64, "TY": 32}
    assert len(asked) == len(set(asked)) <= LOOKS
