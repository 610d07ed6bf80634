"""Sizes are read off shapes where shapes tell them, and asked of the caller where they do not."""

from __future__ import annotations

import pytest

from ktc.exporting.shape_solving import sizes_from
from ktc.ir.workload import Workload
from ktc.ir.workload.workloads import ArgSpec, Scenario


def workload(*shapes: tuple[str, ...], sizes: dict[str, int], role: str = "in") -> Workload:
    from pathlib import Path

    args = tuple(ArgSpec(f"x{k}", "f32", role, shape) for k, shape in enumerate(shapes))
    return Workload(Path("w"), Path("k"), "k", args, (Scenario("s", sizes),))


def solved(work: Workload, sizes: dict[str, int]) -> dict[str, int | None]:
    from ktc.exporting.shipped.dispatch import Expression
    from ktc.ir.workload import size_expressions

    found: dict[str, int | None] = {}
    for s in sizes_from(work, {a.name: a.name for a in work.args}, ()):
        if not s.parameter:
            found[s.size] = None
            continue
        shape = work.arg(s.parameter).shape
        dim = size_expressions.evaluate(shape[s.axis], sizes)
        found[s.size] = Expression(s.text)({**found, "dim": dim})
    return found


@pytest.mark.parametrize(
    "shapes",
    [
        [("n", "d")],
        [("n", "2 * d")],
        [("d * 2 * n",), ("n + 1",)],
        [("h - 1", "n"), ("n * d * h",)],
        [("3 * (n + 2)",), ("d",)],
        [("100 - n",), ("n * (d + 4)",)],
    ],
)
def test_sizes_follow_from_shapes(shapes: list[tuple[str, ...]]) -> None:
    sizes = {"n": 7, "d": 12, "h": 3}
    found = solved(workload(*shapes, sizes=sizes), sizes)
    assert {"n", "d"} <= found.keys() and all(sizes[k] == v for k, v in found.items())


def test_what_shapes_do_not_tell_is_asked_for() -> None:
    sizes = {"n": 7, "d": 12}
    assert solved(workload(("n * d",), sizes=sizes), sizes) == {"n": None, "d": None}
    assert solved(workload(("n / d",), ("d",), sizes=sizes), sizes) == {"n": None, "d": 12}


def test_outputs_tell_nothing_as_they_may_not_be_there_yet() -> None:
    sizes = {"n": 7}
    assert solved(workload(("n",), sizes=sizes, role="out"), sizes) == {"n": None}


def test_values_of_floating_point_scalars_are_computed_in_real_numbers() -> None:
    from ktc.exporting.shape_solving import real_over_sizes
    from ktc.exporting.shipped.dispatch import Expression

    text = real_over_sizes("1 / sqrt(in / heads) if heads > 1 else in // 2", ["in", "heads"])
    assert Expression(text)({"in_": 8, "heads": 2}) == 0.5 and Expression(text)({"in_": 9, "heads": 1}) == 4
