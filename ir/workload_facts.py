"""A workload's facts on a kernel: alignment, ranges, parameters only the launcher knows, launch geometry, assumptions."""

from __future__ import annotations

import dataclasses

from . import intexpr
from .diagnostics import KtcError, Loc
from .kernel import Assume, Kernel, Launch, Param
from .nodes import Expr, Var, fresh, i32
from .types import I32, SCALARS, Ptr, Scalar
from .workload import ArgSpec, LaunchSpec, Workload


def attach(kernel: Kernel, workload: Workload, variant: str | None = None) -> Kernel:
    """``kernel`` with what the workload file promises about its arguments.

    Raises:
        KtcError: E-WORKLOAD-ARGS when the file's arguments are not the kernel's.
    """
    missing = [p.sym.name for p in kernel.params if not p.host and p.sym.name not in {a.name for a in workload.args}]
    if missing:
        raise KtcError(
            "E-WORKLOAD-ARGS",
            f"{workload.path.name} says nothing about {kernel.name}'s parameter{'s' * (len(missing) > 1)} {', '.join(missing)}",
            Loc(str(workload.path), 1),
            hint="add an [[args]] table for each",
        )
    params = list(kernel.params)
    for spec in workload.args:
        at = next((i for i, p in enumerate(params) if p.sym.name == spec.name), None)
        dtype = workload.dtype(spec, variant)
        if at is None:
            params.append(_host_param(spec, dtype, workload))
        else:
            _check_type(kernel, params[at], spec, dtype, workload)
            params[at] = _with_facts(params[at], spec)
    symbols = _size_symbols(params, workload)
    params += [
        Param(e.sym, host=True)
        for n, e in symbols.items()
        if isinstance(e, Var) and all(p.sym != e.sym for p in params)
    ]
    launch = _launch(workload.launch, symbols) if workload.launch else kernel.launch
    facts = tuple(Assume(intexpr.to_ir(text, symbols)) for text in workload.assume)
    return kernel.with_(params=tuple(params), launch=launch, assumptions=(*kernel.assumptions, *facts))


def _host_param(spec: ArgSpec, dtype: str, workload: Workload) -> Param:
    if spec.role != "scalar":
        raise KtcError(
            "E-WORKLOAD-ARGS",
            f"{workload.kernel_name} has no parameter '{spec.name}'",
            Loc(str(workload.path), 1),
            hint='only scalars (role = "scalar") may be known to the launcher alone',
        )
    return _with_facts(Param(fresh(spec.name, SCALARS[dtype]), host=True), spec)


def _with_facts(p: Param, spec: ArgSpec) -> Param:
    lo, hi = p.range
    if spec.role == "scalar" and spec.range:
        lo, hi = (v if isinstance(v, int) else None for v in spec.range)
    return dataclasses.replace(
        p, align=max(p.align, spec.align), divisible_by=max(p.divisible_by, spec.divisible_by), range=(lo, hi)
    )


def _check_type(kernel: Kernel, p: Param, spec: ArgSpec, dtype: str, workload: Workload) -> None:
    """The dtype the file gives must be the one the source declares: a mistake here would look like a wrong kernel."""
    t = p.sym.type
    declared = t.elem if isinstance(t, Ptr) else t
    if (spec.role == "scalar") == isinstance(t, Ptr):
        raise KtcError("E-WORKLOAD-ARGS", f"'{spec.name}' is {'a pointer' if isinstance(t, Ptr) else 'a scalar'} in {kernel.name}, its role here is {spec.role}", Loc(str(workload.path), 1))  # fmt: skip
    if isinstance(declared, Scalar) and declared.name != dtype:
        raise KtcError("E-WORKLOAD-ARGS", f"'{spec.name}' is {declared.name} in {kernel.name}, {dtype} in {workload.path.name}", Loc(str(workload.path), 1))  # fmt: skip


def _size_symbols(params: list[Param], workload: Workload) -> dict[str, Expr]:
    """Sizes as IR expressions: the parameter that carries a size's value, else a new host parameter of its name."""
    symbols: dict[str, Expr] = {
        p.sym.name: Var(p.sym) for p in params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int
    }
    for spec in workload.args:
        if spec.role == "scalar" and isinstance(spec.value, str) and spec.value.isidentifier() and spec.name in symbols:
            symbols.setdefault(spec.value, symbols[spec.name])
    if workload.launch or workload.assume:
        used = set().union(*(reference_names(t) for t in _texts(workload)))
        for name in workload.scenarios[0].sizes:
            if name in used:
                symbols.setdefault(name, Var(fresh(name, I32)))
    return symbols


def _texts(workload: Workload) -> list[str]:
    launch = [*workload.launch.grid, *workload.launch.block, workload.launch.shared] if workload.launch else []
    return [*launch, *workload.assume]


def reference_names(text: str) -> set[str]:
    from .reference import names

    return names(text)


def _launch(spec: LaunchSpec, symbols: dict[str, Expr]) -> Launch:
    def three(texts: tuple[str, ...]) -> tuple[Expr, Expr, Expr]:
        x, y, z = ([intexpr.to_ir(t, symbols) for t in texts] + [i32(1)] * 3)[:3]
        return x, y, z

    shared = intexpr.to_ir(spec.shared, symbols)
    return Launch(three(spec.grid), three(spec.block), None if spec.shared == "0" else shared)
