"""Functions of the host that fill what they are passed, as statements of their callers.

    void strides_of(const Shape* x, int64_t* strides) { for (int i = ..) strides[i] = ..; }
    strides_of(x, params.strides);          for (int i = ..) params.strides[i] = ..;

So that what they assign is seen where a launch passes it. Names of their own do not meet those of the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Function, QualName
from ktc.ir.frontend.syntax.program import Program, name_parts
from ktc.ir.frontend.syntax.syntax_walk import descendants, replaced

DEEPEST = 2
"""Functions within one another that are followed."""


def with_fillings(items: list[Any], names: frozenset[str], program: Program, deepest: int = DEEPEST) -> list[Any]:
    """Statements of a function with such calls as what they do; ``names``: the function's parameters."""
    taken = names | frozenset(d.name for x in items for d in descendants(x) if isinstance(d, c_ast.Decl) and d.name)

    def spliced(block: list[Any]) -> list[Any]:
        out: list[Any] = []
        for item in block:
            found = _filling(item, taken, program) if deepest else None
            out += [replaced(item, inside)] if found is None else with_fillings(found, taken, program, deepest - 1)
        return out

    def inside(n: Any) -> Any | None:
        if isinstance(n, c_ast.Compound):
            return c_ast.Compound(spliced(n.block_items or []), n.coord)
        if isinstance(n, c_ast.FuncCall) and (found := _filling(n, taken, program)) is not None:
            return c_ast.Compound(spliced([n]), n.coord) if deepest and found else n
        return None if any(isinstance(x, c_ast.Compound | c_ast.FuncCall) for x in descendants(n)) else n

    return spliced(items)


def _filling(call: Any, taken: frozenset[str], program: Program) -> list[Any] | None:
    """The statements of the function that ``call`` calls, with what it is passed in the place of its parameters; None
    where that is not one of the file that is passed an array or an object to fill."""
    if not isinstance(call, c_ast.FuncCall) or not isinstance(call.name, c_ast.ID | QualName) or call.args is None:
        return None
    if not any(map(_is_filled, call.args.exprs)):
        return None
    found = [e.node for e in program.functions.get(name_parts(call.name)[1], ())]
    functions = [f for f in found if isinstance(f, Function) and f.body is not None and "__global__" not in f.specs]
    own = [getattr(p, "name", None) or "" for p in params_of(functions[0])] if len(functions) == 1 else []
    if len(call.args.exprs) > len(own) or not _returns_nothing(functions[0]):
        return None
    try:
        items = functions[0].body.block_items or []
    except KtcError:
        return None
    return _as_called(items, dict(zip(own, call.args.exprs)), functions[0].name, taken)


def _returns_nothing(f: Function) -> bool:
    """Whether a call of it is a statement."""
    return "void" in getattr(getattr(f.decl.type.type, "type", None), "names", ())


def _is_filled(arg: Any) -> bool:
    """Whether it may be an array in an object, or the address of an object."""
    return isinstance(arg, c_ast.StructRef) or (isinstance(arg, c_ast.UnaryOp) and arg.op == "&")


def _as_called(items: list[Any], given: Mapping[str, Any], function: str, taken: frozenset[str]) -> list[Any]:
    mine = {d.name for item in items for d in descendants(item) if isinstance(d, c_ast.Decl) and d.name}
    own = {n: f"{function}_{n}" if n in taken else n for n in mine}

    def named(n: Any) -> Any | None:
        if isinstance(n, c_ast.StructRef):
            of, kind = n.name, n.type
            arg = given.get(of.name) if isinstance(of, c_ast.ID) and of.name not in own else None
            if kind == "->" and isinstance(arg, c_ast.UnaryOp) and arg.op == "&":
                return c_ast.StructRef(arg.expr, ".", n.field, n.coord)
            return c_ast.StructRef(replaced(of, named), kind, n.field, n.coord)
        if isinstance(n, c_ast.Decl) and n.name in own:
            out = [replaced(x, named) for x in (n.type, n.init, n.bitsize)]
            return c_ast.Decl(own[n.name], n.quals, n.align, n.storage, n.funcspec, *out, n.coord)
        if isinstance(n, c_ast.ID):
            return c_ast.ID(own[n.name], n.coord) if n.name in own else given.get(n.name)
        return None

    return [replaced(item, named) for item in items]


__all__ = ["with_fillings"]
