"""``for (x : range)``: over arrays by index, over objects by their iterators, as the standard says it is rewritten."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.cxx_types import CArray
from ktc.ir.frontend.meaning.values import ArrayVal, FlatArray, LaneArray, ListVal, RecordVal, Value, describe
from ktc.ir.frontend.syntax.cxx_ast import AutoType, CtorInit, RangeFor

from .loop_statements import Loops
from .stmts import _HANDLERS


class RangeLoops(Loops):
    """Range-based loops are ordinary loops over names that no program can spell."""

    def _range_for(self, node: RangeFor, pragma: Any) -> None:
        with self.scoped() as scope:
            v = self.eval(node.range)
            if isinstance(v, ListVal) and not v.items:
                return
            if isinstance(v, ListVal):
                v = self._list_range(v, node)
            scope.names["range "] = v
            if isinstance(v, ArrayVal | FlatArray | LaneArray) and isinstance(v.type, CArray) and v.type.n is not None:
                self._over_array(node, v.type.n, pragma)
            elif isinstance(v, RecordVal):
                self._over_iterators(node, pragma)
            else:
                self.fail("E-UNSUPPORTED-RANGE-FOR", f"a range-based for loop over {describe(v)}", node,
                          hint="write it with an index")  # fmt: skip

    def _list_range(self, v: ListVal, node: RangeFor) -> Value:
        first = self.load(self.initial_value(self.type_of(v.items[0]), [v.items[0]], False, node))
        t = CArray(self.type_of(first), len(v.items))
        array = self.declare_array("items", t, node)
        self.fill_array(array, t, list(v.items), node)
        return array

    def _over_array(self, node: RangeFor, n: int, pragma: Any) -> None:
        at = node.coord
        index, zero = c_ast.ID("index ", at), c_ast.Constant("int", "0", at)
        i = _declared("index ", c_ast.IdentifierType(["int"], at), zero, at)
        cond = c_ast.BinaryOp("<", index, c_ast.Constant("int", str(n), at), at)
        element = c_ast.ArrayRef(c_ast.ID("range ", at), index, at)
        body = c_ast.Compound([_initialised(node.decl, element), node.stmt], at)
        loop = c_ast.For(c_ast.DeclList([i], at), cond, c_ast.UnaryOp("p++", index, at), body, at)
        self.statement(loop, pragma)

    def _over_iterators(self, node: RangeFor, pragma: Any) -> None:
        at = node.coord
        here, stop = c_ast.ID("position ", at), c_ast.ID("stop ", at)
        self.frame.facts.mutated.add("position ")
        decls = [_declared(x.name, AutoType(None, coord=at), _method("range ", m, at), at)
                 for x, m in ((here, "begin"), (stop, "end"))]  # fmt: skip
        body = c_ast.Compound([_initialised(node.decl, c_ast.UnaryOp("*", here, at)), node.stmt], at)
        step = c_ast.UnaryOp("++", here, at)
        self.statement(
            c_ast.For(c_ast.DeclList(decls, at), c_ast.BinaryOp("!=", here, stop, at), step, body, at), pragma
        )


def _declared(name: str, t: Any, init: Any, at: Any) -> c_ast.Decl:
    return c_ast.Decl(name, [], [], [], [], c_ast.TypeDecl(name, [], None, t, at), init, None, at)


def _method(name: str, method: str, at: Any) -> c_ast.FuncCall:
    return c_ast.FuncCall(c_ast.StructRef(c_ast.ID(name, at), ".", c_ast.ID(method, at), at), None, at)


def _initialised(decl: c_ast.Decl, init: Any) -> c_ast.Decl:
    return c_ast.Decl(
        decl.name, decl.quals, decl.align, decl.storage, decl.funcspec, decl.type,
        CtorInit([init], False, coord=decl.coord), None, decl.coord,
    )  # fmt: skip


_HANDLERS[RangeFor] = RangeLoops._range_for
