"""What other files of the project call the function with that launches a kernel, as what its launch passes.

Wrappers around launches, ``extern "C" void scale_f(dim3 grid, dim3 block, float* x, int n)``, are called from files
that know what sizes are made of, and what the grid is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.called_elsewhere import launch_as_called
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Sym, Var
from ktc.ir.walk import substitute_expr
from ktc.project.calling_units import units_calling
from ktc.project.project_roots import project_root
from ktc.sources import IR_SUFFIX

if TYPE_CHECKING:
    from ktc.sources import SourceSpec


def with_project_callers(k: Kernel, source: SourceSpec) -> Kernel:
    """``k`` with what its project's other files say of its launch, beside what its own says."""
    path = source.kernel
    root = project_root(path) if Path(path).is_file() and Path(path).suffix != IR_SUFFIX else ""
    if k.launch is None or not root:
        return k
    try:
        called = launch_as_called(
            path,
            lambda function: units_calling(path, root, function),
            kernel=source.name,
            template=source.template,
            defines=source.defines,
            include_dirs=tuple(source.include_dirs),
            dialect=source.dialect,
        )
    except KtcError:
        return k  # it could be read before, which is enough
    if called is None:
        return k
    launch, params = called
    own = {p.sym.name: p.sym for p in k.params}
    to: Mapping[Sym, Expr] = {s: Var(own[n]) for n, s in params.items() if n in own}
    known = {n for n, _ in (*k.launch.passed, *k.launch.given)}
    passed = tuple((n, substitute_expr(e, to)) for n, e in launch.passed if n not in known)
    given = tuple((n, v) for n, v in launch.given if n not in known)
    return k.with_(launch=replace(k.launch, passed=(*k.launch.passed, *passed), given=(*k.launch.given, *given)))


__all__ = ["with_project_callers"]
