"""A workload's facts on a kernel: alignment, ranges, launcher-only parameters, launch geometry, assumptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from ktc.ir.analysis.touched_ranges import touched_by_launches
from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.kernel import TESTABLE, Assume, Kernel, Launch, Param, Repeat
from ktc.ir.nodes import Expr, Var, fresh, i32
from ktc.ir.null_pointers import null_test, pointers_asked_about
from ktc.ir.types import I32, SCALARS, Ptr, Scalar
from ktc.ir.walk import used, used_in

from . import size_expressions
from .reference import names
from .relaunch import launched
from .stated_sizes import given_in, passed_in
from .workloads import ArgSpec, LaunchSpec, Workload


def attach(kernel: Kernel, workload: Workload, variant: str | None = None) -> Kernel:
    """``kernel`` with what the workload file promises about its arguments.

    Raises:
        KtcError: E-WORKLOAD-ARGS when the file's arguments are not the kernel's.
    """
    known = {a.name for a in workload.args}
    missing = [p.sym.name for p in kernel.params if _given(p) and p.sym.name not in known]
    if missing:
        what = f"{workload.path.name} says nothing about these parameters of {kernel.name}: {', '.join(missing)}"
        raise _mismatch(workload, what, hint="add an [[args]] table for each")
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
    known_ids = {p.sym.id for p in params}
    new = [e.sym for e in symbols.values() if isinstance(e, Var) and e.sym.id not in known_ids]
    params += [Param(sym, host=True) for sym in new]
    launch = _launch(workload.launch, symbols) if workload.launch else kernel.launch
    if launch is not None:
        told = {"passed": passed_in(launch, params, workload), "given": given_in(launch, params, workload)}
        launch = dataclasses.replace(launch, **told)  # type: ignore[arg-type]
    origin = "guessed" if workload.assume_guessed else "declared"
    facts = tuple(Assume(size_expressions.to_ir(text, symbols), origin) for text in workload.assume)
    pointers = {p.sym.name: p.sym for p in kernel.params if isinstance(p.sym.type, Ptr)}
    asked = pointers_asked_about(kernel)
    promised = ((pointers[a.name], a.null) for a in workload.args if a.null in ("true", "false") and a.name in pointers)
    facts += tuple(Assume(null_test(s, null == "true")) for s, null in promised if s in asked)
    repeat = Repeat(workload.swap) if workload.swap else None
    kernel = launched(kernel, launch) if launch is not None and workload.launch is not None else kernel
    kernel = kernel.with_(params=tuple(params), launch=launch, assumptions=(*kernel.assumptions, *facts), repeat=repeat)
    if workload.launch is not None:
        kernel = _without_replaced_launch(kernel, {*known, *workload.scenarios[0].sizes})
    origins = {a.name: a.origin("noalias") for a in workload.args if a.noalias}
    return _with_testable_noalias(kernel, {n: o for n, o in origins.items() if o != "declared"})


def _given(p: Param) -> bool:
    """Whether the caller passes it."""
    return not (p.host or p.init or p.temporary)


def _without_replaced_launch(kernel: Kernel, described: Collection[str]) -> Kernel:
    """``kernel`` without the host's variables that only the source's launch was made of, which the file's is in place
    of: nothing tells their values. ``described``: the names that the file knows."""
    launch = kernel.launch
    assert launch is not None
    shared = () if launch.dynamic_shared is None else (launch.dynamic_shared,)
    own = (*launch.grid, *launch.block, *shared, *(e for _, e in launch.passed))
    sizes = (e for p in kernel.params for e in (*p.touches, *(() if p.scratch is None else (p.scratch,))))
    read = {s for e in (*own, *sizes, *(a.expr for a in kernel.assumptions)) for s in used(e)} | used_in(kernel.body)
    gone = {p.sym for p in kernel.params if p.host and p.sym not in read and p.sym.name not in described}
    return kernel.with_(params=tuple(p for p in kernel.params if p.sym not in gone))


def _with_testable_noalias(kernel: Kernel, origins: Mapping[str, str]) -> Kernel:
    """``kernel`` whose buffers named by ``origins`` overlap no other one, as far as a launcher can test that: it has to
    be known, from the code alone, which elements of them and of all others the kernel (of a sequence: any launch)
    touches; temporaries aside, which no caller has. ``origins``: whether that was guessed or observed."""
    wanted = [p for p in kernel.params if p.sym.name in origins and not p.noalias]
    ranges = touched_by_launches(kernel) if wanted else {}
    own = {p.sym for p in kernel.params if p.temporary}
    constant = {p.sym for p in kernel.params if p.symbol == "constant"}
    anywhere = {p.sym for p in kernel.params if p.rows}  # of which launchers say that they cannot test it
    nowhere = {p.sym for p in kernel.params if p.symbol} - constant  # host code has no address of a device variable
    if not wanted or any(r is None or b in nowhere for b, r in ranges.items() if b not in constant | own | anywhere):
        return kernel

    def on(p: Param) -> Param:
        r = ranges.get(p.sym) if p.sym not in constant | own else None
        p = p if r is None else dataclasses.replace(p, touches=(r.low, r.high, *r.least_zero))
        if p.sym.name not in origins or p.noalias:
            return p
        return dataclasses.replace(p, noalias=True, origins=(*p.origins, ("noalias", origins[p.sym.name])))

    return kernel.with_(params=tuple(map(on, kernel.params)))


def _host_param(spec: ArgSpec, dtype: str, workload: Workload) -> Param:
    if spec.role != "scalar":
        hint = (
            "if the kernel has changed since the file was drafted, delete it and it is drafted again; only scalars "
            '(role = "scalar") may be known to the launcher alone'
        )
        raise _mismatch(workload, f"{workload.kernel_name} has no parameter '{spec.name}'", hint)
    return _with_facts(Param(fresh(spec.name, SCALARS[dtype]), host=True), spec)


def _with_facts(p: Param, spec: ArgSpec) -> Param:
    lo, hi = p.range
    if spec.role == "scalar" and spec.range:
        lo, hi = (v if isinstance(v, int) else None for v in spec.range)
    found = dataclasses.replace(
        p,
        align=max(p.align, spec.align),
        divisible_by=max(p.divisible_by, spec.divisible_by),
        range=(lo, hi),
        noalias=p.noalias or (spec.noalias and spec.origin("noalias") == "declared"),
    )
    changed = {kind for kind in TESTABLE if getattr(found, kind) != getattr(p, kind)}
    unpromised = sorted(changed & (spec.guessed | spec.observed))
    return dataclasses.replace(found, origins=tuple((kind, spec.origin(kind)) for kind in unpromised))


def _check_type(kernel: Kernel, p: Param, spec: ArgSpec, dtype: str, workload: Workload) -> None:
    """The dtype the file gives must be the one the source declares: a mistake here would look like a wrong kernel."""
    t = p.sym.type
    declared = t.elem if isinstance(t, Ptr) else t
    if (spec.role == "scalar") == isinstance(t, Ptr):
        kind = "a pointer" if isinstance(t, Ptr) else "a scalar"
        raise _mismatch(workload, f"'{spec.name}' is {kind} in {kernel.name}, its role here is {spec.role}")
    if isinstance(declared, Scalar) and declared.name != dtype:
        raise _mismatch(workload, f"'{spec.name}' is {declared.name} in {kernel.name}, {dtype} in {workload.path.name}")


def _mismatch(workload: Workload, message: str, hint: str = "") -> KtcError:
    return KtcError("E-WORKLOAD-ARGS", message, Loc(str(workload.path), 1), hint)


def _size_symbols(params: list[Param], workload: Workload) -> dict[str, Expr]:
    """Sizes as IR expressions: the parameter that carries a size's value, else a new host parameter of its name."""
    symbols: dict[str, Expr] = {
        p.sym.name: Var(p.sym) for p in params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int
    }
    for spec in workload.args:
        if spec.role == "scalar" and isinstance(spec.value, str) and spec.value.isidentifier() and spec.name in symbols:
            symbols.setdefault(spec.value, symbols[spec.name])
    if workload.launch or workload.assume:
        used = set().union(*(names(t) for t in _texts(workload)))
        for name in workload.scenarios[0].sizes:
            if name in used:
                symbols.setdefault(name, Var(fresh(name, I32)))
    return symbols


def _texts(workload: Workload) -> list[str]:
    launch = [*workload.launch.grid, *workload.launch.block, workload.launch.shared] if workload.launch else []
    return [*launch, *workload.assume]


def _launch(spec: LaunchSpec, symbols: dict[str, Expr]) -> Launch:
    def three(texts: tuple[str, ...]) -> tuple[Expr, Expr, Expr]:
        x, y, z = ([size_expressions.to_ir(t, symbols) for t in texts] + [i32(1)] * 3)[:3]
        return x, y, z

    shared = size_expressions.to_ir(spec.shared, symbols)
    return Launch(three(spec.grid), three(spec.block), None if spec.shared == "0" else shared)
