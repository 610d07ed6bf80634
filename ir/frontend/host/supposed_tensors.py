"""What host code asks of its tensors, where they are supposed to have a number of dimensions.

x->GetDimCount(), x.dim(), dims.size()      that number
y.numel()                                   y.size(0) * y.size(1) * .., where the function asks for some extent of it
perm[2]                                     dimensions are permuted: taken to be reversed
y.size(0), beside that                      x.size(3), of four dimensions: extents of what is written are permuted
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import QualName
from ktc.ir.frontend.syntax.syntax_walk import alike, descendants, replaced

RANK_NAMES = frozenset({
    "num_dims", "ndim", "ndims", "n_dims", "rank", "num_axes", "numDims", "numDimensions", "nbDims", "dim_count",
    "dimCount",
})  # fmt: skip
"""What parameters are called that say how many dimensions a tensor has."""

RANKS = RANK_NAMES | {"GetDimCount", "GetRealDimCount", "dim", "ndimension", "dims", "NumDimensions", "dimension"}
"""What methods are called that do: ``x.dim()``; a parameter ``dim`` may be how long one is."""

COUNTS = frozenset({
    "CalcElementsExcludingPadding", "CalcElementsIncludingPadding", "GetElementsCount", "numel", "num_elements",
    "NumElements", "count", "element_count", "elements",
})  # fmt: skip
"""What methods are called that say how many elements a tensor has."""

EXTENTS = re.compile(r"(?:get_?)?(?:dim|size|shape|extent)(?:_?size)?\Z", re.I)
"""What methods are called that say how long a tensor is in a dimension."""

USUAL = re.compile(r"\w*(?:ND_?ARRAY|NCHW|CONTIGUOUS|ROW_?MAJOR|LINEAR|DENSE)\Z", re.I)
"""What layouts are called that tensors usually have."""

SHAPES = re.compile(r"\w*(?:shape|dims|sizes|strides|perm|axes)_?\Z", re.I)
"""What containers are called that have an element for each dimension."""

PERMUTED = re.compile(r"\w*perm\w*\Z", re.I)
"""What arrays are called that say which dimension comes where."""

WRITTEN = re.compile(r"(?:out|dst|dest|result|y(?:_|\Z))", re.I)
"""What tensors are called that are written."""


def with_rank(items: list[Any], parameters: frozenset[str], rank: int) -> list[Any]:
    """Statements of a function with what they ask of tensors of ``rank`` dimensions as above; ``parameters``: the
    function's."""
    asked = sorted(_extents(items), key=lambda n: (_name(n.name.name) not in parameters, *_place(n)))
    permuted = any(is_permuted(n) for item in items for n in descendants(item))
    alike_extents = _asked_in_loops(asked)

    def told(n: Any) -> Any | None:
        if _asks_for_rank(n) or (isinstance(n, c_ast.ID) and n.name in parameters & RANK_NAMES):
            return _number(rank)
        if (of := _counted(n)) is not None:
            return next((_elements(e, rank, permuted, asked) for e in asked if alike(e.name.name, of)), None)
        return _read_instead(n, rank, asked) if permuted else _first_instead(n, alike_extents)

    def kept(n: Any) -> Any | None:
        found = told(n)
        return found if found is not None or any(told(x) is not None for x in descendants(n)) else n

    return [replaced(item, kept) for item in items]


def is_permuted(n: Any) -> bool:
    """Whether it is ``perm[i]``, which dimension comes where."""
    array = n.name if isinstance(n, c_ast.ArrayRef) else None
    return PERMUTED.match(_name(array)) is not None if array is not None else False


def _extents(items: list[Any]) -> Iterator[c_ast.FuncCall]:
    """The calls that ask a tensor for one of its extents by a number."""
    for n in (n for item in items for n in descendants(item)):
        called = isinstance(n, c_ast.FuncCall) and isinstance(n.name, c_ast.StructRef) and n.args is not None
        if called and len(n.args.exprs) == 1 and EXTENTS.match(_name(n.name)):
            yield n


def _place(n: Any) -> tuple[int, int]:
    return (n.coord.line, n.coord.column or 0) if n.coord is not None else (0, 0)


def _asks_for_rank(n: Any) -> bool:
    of = _asked_without_arguments(n)
    return of is not None and (_name(n.name) in RANKS or (_name(n.name) == "size" and bool(SHAPES.match(_name(of)))))


def _counted(n: Any) -> Any:
    """The tensor that is asked how many elements it has; None of anything else."""
    of = _asked_without_arguments(n)
    return of if of is not None and _name(n.name) in COUNTS else None


def _asked_without_arguments(n: Any) -> Any:
    """The object that a method without arguments is called on."""
    if not isinstance(n, c_ast.FuncCall) or not isinstance(n.name, c_ast.StructRef) or (n.args and n.args.exprs):
        return None
    return n.name.name


def _elements(extent: c_ast.FuncCall, rank: int, permuted: bool, asked: list[c_ast.FuncCall]) -> Any:
    """The product of all extents of the tensor that is asked for one by ``extent``."""
    each = [c_ast.FuncCall(extent.name, c_ast.ExprList([_number(k)])) for k in range(rank)]
    instead = (_read_instead(e, rank, asked) if permuted else _first_instead(e, _asked_in_loops(asked)) for e in each)
    of = [other or e for other, e in zip(instead, each)]
    product = of[0]
    for e in of[1:]:
        product = c_ast.BinaryOp("*", product, e)
    return product


def _read_instead(n: Any, rank: int, asked: list[c_ast.FuncCall]) -> Any | None:
    """An extent of a tensor that is read, in the place of that of one that is written; None of anything else."""
    if not any(n is e for e in asked) and not _is_extent(n, asked):
        return None
    if not WRITTEN.match(_name(n.name.name)):
        return None
    reads = (e for e in asked if _name(e.name) == _name(n.name) and not WRITTEN.match(_name(e.name.name)))
    read = next(reads, None)
    if read is None:
        return None
    (at,) = n.args.exprs
    known = isinstance(at, c_ast.Constant) and at.value.isdigit()
    other = _number(rank - 1 - int(at.value)) if known else c_ast.BinaryOp("-", _number(rank - 1), at)
    return c_ast.FuncCall(read.name, c_ast.ExprList([other]))


def _asked_in_loops(asked: list[c_ast.FuncCall]) -> list[Any]:
    """What asks for extents of tensors of which loops ask for every one in turn and nothing else for a single one."""
    single = [e.name for e in asked if isinstance(e.args.exprs[0], c_ast.Constant)]
    return [e.name for e in asked if not any(alike(e.name, s) for s in single)]


def _first_instead(n: Any, loops: list[Any]) -> Any | None:
    """An extent of the first of such tensors in the place of that of another; None of anything else."""
    if not isinstance(n, c_ast.FuncCall) or not any(alike(n.name, other) for other in loops):
        return None
    first = next(other for other in loops if _name(other) == _name(n.name))
    return None if alike(first, n.name) else c_ast.FuncCall(first, n.args)


def usual_way(node: Any) -> Any:
    """A copy of an expression without choices that a name in a scope decides, an enumeration's: as if it is not so."""

    def chosen(n: Any) -> Any | None:
        if not isinstance(n, c_ast.TernaryOp) or not any(isinstance(x, QualName) for x in descendants(n.cond)):
            return None
        named = [x for x in descendants(n.cond) if isinstance(x, QualName)]
        usual = isinstance(n.cond, c_ast.BinaryOp) and n.cond.op == "==" and USUAL.match(named[0].parts[-1].name)
        return usual_way(n.iftrue if usual else n.iffalse)

    return replaced(node, chosen)


def _is_extent(n: Any, asked: list[c_ast.FuncCall]) -> bool:
    called = isinstance(n, c_ast.FuncCall) and n.args is not None and len(n.args.exprs) == 1
    return called and any(alike(n.name, e.name) for e in asked)


def _number(value: int) -> c_ast.Constant:
    return c_ast.Constant("int", str(value))


def _name(node: Any) -> str:
    """The last name of ``x``, ``x.shape``, ``x->shape()``."""
    node = node.name if isinstance(node, c_ast.FuncCall) else node
    node = node.field if isinstance(node, c_ast.StructRef) else node
    return str(getattr(node, "name", "") or "")


__all__ = ["is_permuted", "usual_way", "with_rank"]
