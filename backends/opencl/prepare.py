"""Rewrites of the kernel that OpenCL C asks for before printing."""

from __future__ import annotations

from dataclasses import replace

from ktc.backends.c_family.conversion_rules import is_constant
from ktc.backends.c_family.protocol import const_int
from ktc.ir.interp.domains.realmath import plain_name
from ktc.ir.nodes import Alloc, Binary, Body, Call, Const, Decl, Expr, Stmt, Sym, Var
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import keep, map_body, map_expr, walk


def hoist_shared(body: Body) -> Body:
    """Shared arrays to kernel scope, where OpenCL wants them; extents that name constants get their values."""
    constants: dict[Sym, Expr] = {}
    for s in walk(body):
        if (
            isinstance(s, Decl)
            and s.const
            and s.init is not None
            and isinstance(s.sym.type, Scalar)
            and s.sym.type.is_int
        ):
            init = map_expr(s.init, lambda e: constants.get(e.sym, e) if isinstance(e, Var) else e)
            if const_int(init) is not None or is_constant(init):
                constants[s.sym] = init
    hoisted: list[Alloc] = []
    renamed: dict[Sym, Sym] = {}

    def take(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and isinstance(s.sym.type, Array):
            t = s.sym.type
            shape = tuple(map_expr(n, lambda e: constants.get(e.sym, e) if isinstance(e, Var) else e) for n in t.shape)
            sym = replace(s.sym, type=Array(t.elem, shape, t.space))
            if t.space != "shared":
                return Alloc(sym, s.dynamic, s.align, loc=s.loc, comments=s.comments)
            hoisted.append(Alloc(sym, s.dynamic, s.align, loc=s.loc, comments=s.comments))
            renamed[s.sym] = sym
            return None
        return s

    rest = map_body(body, take)
    return (*hoisted, *rest)


def without_approximations(body: Body) -> Body:
    """``__expf`` and its like as the functions they approximate.

    CUDA documents their errors; those of ``native_exp`` and its like are implementation-defined (OpenCL C 6.15.2), and
    on CPUs in the fourth digit.
    """

    def plain(e: Expr) -> Expr:
        if not isinstance(e, Call) or not e.fn.startswith("fast_") or not isinstance(e.ty, Scalar):
            return e
        if e.fn == "fast_div":
            return Binary("/", *e.args)
        return Binary("/", Const(1.0, e.ty), *e.args) if e.fn == "fast_rcp" else Call(plain_name(e.fn), e.args, e.ty)

    return map_body(body, keep, plain)
