"""Whether a kernel is the one that runs for a workload's sizes, or the launcher falls back on the source's: what the
kernel takes for granted, against the numbers of a scenario."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Cast, Const, Expr, Knob, i32
from ktc.ir.null_pointers import known_nulls
from ktc.ir.text import print_expr
from ktc.ir.walk import map_expr

from .reference import FormulaError
from .workloads import Workload


def scalars_of(workload: Workload, sizes: Mapping[str, int]) -> dict[str, int | float]:
    """The scalar arguments for these sizes, without making arrays."""
    return workload.scalars(sizes)


def integers_of(workload: Workload, sizes: Mapping[str, int]) -> dict[str, int]:
    """Those of them that are integers: a factor may have no value where these have."""
    whole = (a for a in workload.args if a.role == "scalar" and a.value is not None and not workload.is_real(a))
    return {a.name: int(workload.value(a, sizes)) for a in whole}


def runnable(
    kernel: Kernel, workload: Workload, sizes: Mapping[str, int], known: Mapping[str, int | float] | None = None
) -> bool:
    """Whether the kernel itself (not its fall-back) runs for these sizes: no assumption, guard or fact is false, and
    every argument has a value (``1.0 / (n - 1)`` has none where n is 1).

    ``known``: the scalar arguments for them, if somebody has them already.
    """
    return not unmet(kernel, workload, sizes, known)


def has_values(workload: Workload, sizes: Mapping[str, int]) -> bool:
    """Whether each scalar argument has a value at these sizes."""
    try:
        scalars_of(workload, sizes)
    except FormulaError:
        return False
    return True


def is_launched(
    kernel: Kernel, workload: Workload, sizes: Mapping[str, int], known: Mapping[str, int | float] | None = None
) -> bool:
    """Whether the source's host code comes to the launch of ``kernel`` for these sizes, as far as its conditions and
    assertions say; what it says of the workload's scenarios is not doubted. ``known``: as above."""
    asked = () if kernel.launch is None else kernel.launch.reached
    if not asked:
        return True
    holding = (e for e in asked if all(_holds(e, kernel, scalars_of(workload, s.sizes)) for s in workload.scenarios))
    try:
        scalars = scalars_of(workload, sizes) if known is None else known
    except FormulaError:
        return False
    return all(_holds(e, kernel, scalars) for e in holding)


def _holds(e: Expr, kernel: Kernel, scalars: Mapping[str, int | float]) -> bool:
    """Whether ``e`` is not known to be false."""
    env = kernel.environment({k: v for k, v in scalars.items() if isinstance(v, int)})
    return evaluate(e, env) in (True, 1, None)


def unmet(
    kernel: Kernel, workload: Workload, sizes: Mapping[str, int], known: Mapping[str, int | float] | None = None
) -> str:
    """What ``kernel`` takes for granted that is not so for these sizes; '' if it runs for them. ``known``: as above."""
    try:
        scalars = scalars_of(workload, sizes) if known is None else known
    except FormulaError as e:
        return f"a value of every argument ({e.message})"
    env = kernel.environment({**sizes, **{k: v for k, v in scalars.items() if isinstance(v, int)}})
    for p in kernel.params:
        v = env.get(p.sym.name)
        low, high = p.range
        if v is None:
            continue
        if v % max(p.divisible_by, 1):
            return f"{p.sym.name} % {p.divisible_by} == 0"
        if (low is not None and v < low) or (high is not None and v > high):
            within = f"{'' if low is None else low}..{'' if high is None else high}"
            return f"{p.sym.name} == {low}" if low == high else f"{p.sym.name} in {within}"
    nulls = {a.name: a.is_null(sizes) for a in workload.args}
    for s, null in known_nulls(kernel).items():
        if nulls.get(s.name, null) != null:
            return f"{s.name} {'==' if null else '!='} null"
    return next((_said(a.expr, kernel) for a in kernel.assumptions if evaluate(a.expr, env) in (False, 0)), "")


def _said(e: Expr, kernel: Kernel) -> str:
    """``e`` for a reader: knobs by their values, integers without their types."""

    def on(x: Expr) -> Expr:
        if isinstance(x, Knob):
            return i32(kernel.knob_values[x.name])
        if isinstance(x, Const) and is_const(x) and x.ty.is_int:
            return i32(int(x.value))
        return x.x if isinstance(x, Cast) and x.style == "implicit" else x

    return print_expr(map_expr(e, on))


__all__ = ["is_launched", "runnable", "scalars_of", "unmet"]
