"""Kernels that no workload describes: refused with what to write instead, before anything is drafted."""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.interp.memory.textures import is_texture_call
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Call, Decl, Load, Var
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import stmt_exprs, walk, walk_expr

from ..given_values import definitions, made_of

ADDRESS = 8
"""Bytes of a pointer."""


def refuse_undescribed(k: Kernel) -> None:
    """Raises E-SCAFFOLD for a kernel that reads or writes where pointers point that it loads from a buffer, or that
    reads textures or surfaces."""
    _refuse_arrays_of_pointers(k)
    _refuse_textures(k)


def _refuse_arrays_of_pointers(k: Kernel) -> None:
    params = {p.sym for p in k.params}
    for s in walk(k.body):
        value = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
        if value is None or not isinstance(s, Decl | Assign) or not isinstance(s.sym.type, Ptr):
            continue
        for x in walk_expr(value):
            if isinstance(x, Load) and x.buffer in params:
                if scalar_of(x.buffer.type).bytes < ADDRESS:  # of an object, with other members beside them
                    what = f"'{x.buffer.name}' holds pointers"
                    raise _undescribed(what, s.loc, "pass each of them as a parameter of the kernel")
                what = f"'{x.buffer.name}' is an array of pointers"
                raise _undescribed(
                    what, s.loc, "pass the rows in one buffer, with how far they are apart, or a parameter for each"
                )


def _refuse_textures(k: Kernel) -> None:
    params, sources = {p.sym for p in k.params}, definitions(k)
    for s in walk(k.body):
        for x in (x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Call) and is_texture_call(x.fn)):
            handle = x.args[1 if "write" in x.fn else 0]
            named = [y.sym.name for y in made_of([handle], sources) if isinstance(y, Var) and y.sym in params]
            memory = "linear memory" if x.fn == "tex1Dfetch" else "memory that it is bound to"
            what = f"'{named[0]}' is a texture or surface object" if named else "it reads a texture or a surface"
            raise _undescribed(
                what, s.loc, f"pass the {memory} as a buffer, const float*, and read its elements by index"
            )


def _undescribed(what: str, loc: Loc | None, hint: str) -> KtcError:
    return KtcError("E-SCAFFOLD", f"{what}, which a workload cannot describe", loc, hint=hint)


__all__ = ["refuse_undescribed"]
