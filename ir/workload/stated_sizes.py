"""Parameters that a workload makes of others: ``rows`` has the value ``batch * length``, two parameters' own values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Launch, Param
from ktc.ir.nodes import Const, Expr, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import used

from . import size_expressions
from .reference import names
from .workloads import ArgSpec, Workload

Passed = tuple[tuple[str, Expr], ...]


def passed_in(launch: Launch, params: Sequence[Param], workload: Workload) -> Passed:
    """What parameters are passed: as ``launch`` shows it, as far as all scenarios have it so, and as the values of
    arguments are written, in terms of parameters that carry the sizes they are made of: where the launch has numbers of
    the host that are none of those, these say more."""
    shown, mine = tuple(x for x in launch.passed if _holds(x, workload)), {p.sym for p in params}
    told = {name for name, e in shown if used(e) <= mine}
    open_ = {name for name, _ in shown} - told
    stated = tuple(x for x in _stated(params, workload, open_) if x[0] not in told)
    said = {name for name, _ in stated}
    return *(x for x in shown if x[0] not in said), *stated


def given_in(launch: Launch, params: Sequence[Param], workload: Workload) -> tuple[tuple[str, int | float], ...]:
    """What parameters are passed as numbers: as ``launch`` shows it, and as the values of arguments are written of
    which the extents of its block are made."""
    known = {name for name, _ in launch.given}
    block = {s.name for e in launch.block for s in used(e)} & {p.sym.name for p in params if p.host}
    stated = ((a.name, a.value) for a in workload.args if a.name in block - known and isinstance(a.value, int))
    return *launch.given, *stated


def _stated(params: Sequence[Param], workload: Workload, alike: Collection[str]) -> Iterator[tuple[str, Expr]]:
    """What the file makes of others; of ``alike``, those as well that have the size which another one carries."""
    integers = {p.sym.name: p.sym for p in params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
    specs = [a for a in workload.args if a.role == "scalar" and isinstance(a.value, str) and a.name in integers]
    carriers: dict[str, Expr] = {}
    for a in sorted(specs, key=lambda a: a.name != a.value):  # a stride may be as long as a row, but is not the row
        if _is_size(a):
            carriers.setdefault(str(a.value), Var(integers[a.name]))
    for a in specs:
        if (not _is_size(a) or a.name in alike) and names(str(a.value)) <= carriers.keys():
            value = size_expressions.to_ir(str(a.value), carriers)
            if not isinstance(value, Const) and integers[a.name] not in used(value):
                yield a.name, value


def _is_size(a: ArgSpec) -> bool:
    return isinstance(a.value, str) and a.value.isidentifier()


def _holds(passed: tuple[str, Expr], workload: Workload) -> bool:
    """Whether no scenario has another value for a parameter than is passed."""
    name, e = passed
    for s in workload.scenarios:
        numbers = workload.scalars(s.sizes)
        whole = {n: v for n, v in numbers.items() if isinstance(v, int)}
        if name in numbers and evaluate(e, whole) not in (None, numbers[name]):
            return False
    return True


__all__ = ["given_in", "passed_in"]
