"""Which variables a statement of host code changes: those it assigns or takes the address of, those that it passes to a
function of the file by reference, and those that a stream is read into (``in >> n``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import IfConstexpr, Lambda, QualName, RangeFor
from ktc.ir.frontend.syntax.reference_arguments import Positions
from ktc.ir.frontend.syntax.syntax_walk import children, descendants
from ktc.ir.frontend.syntax.variable_uses import base_name

from .host_assignments import key_of
from .host_lambdas import parameters

STATEMENTS = (c_ast.Compound, c_ast.If, c_ast.For, c_ast.While, c_ast.DoWhile, c_ast.Switch, c_ast.Case, c_ast.Default,
              IfConstexpr, RangeFor)  # fmt: skip
"""Statements that have statements inside."""

Inside = dict[int, tuple[Any, frozenset[str]]]
"""What is changed inside of statements, by identity, each with the statement."""


def changed_names(item: Any, by_reference: Positions, known: Inside) -> frozenset[str]:
    """The variables that ``item`` changes, as far as the file shows; ``by_reference``: see
    :func:`~ktc.ir.frontend.syntax.reference_arguments.reference_positions`. ``known`` is looked at, and added to."""
    return _changed_inside(item, by_reference, known) | _names(_extracted(item))


def _changed_inside(item: Any, by_reference: Positions, known: Inside) -> frozenset[str]:
    if id(item) in known:
        return known[id(item)][1]
    found, stack = set[str](), [item]
    while stack:
        n = stack.pop()
        if isinstance(n, c_ast.Assignment):
            found |= _names([n.lvalue])
        elif isinstance(n, c_ast.UnaryOp) and n.op in ("++", "--", "p++", "p--", "&"):
            found |= _names([n.expr])
        found |= _names([*_passed(n, by_reference), *_read_into(n)])
        for c in children(n):
            if isinstance(c, STATEMENTS):
                found |= _changed_inside(c, by_reference, known)
            else:
                stack.append(c)
    known[id(item)] = item, frozenset(found)
    return known[id(item)][1]


def _names(places: Iterable[Any]) -> frozenset[str]:
    return frozenset(n for x in places if (n := base_name(x)) is not None)


def _handed_out(item: Any, by_reference: Positions) -> list[Any]:
    """What ``item`` passes by reference, or a stream is read into."""
    places = [x for n in (item, *descendants(item)) for x in (*_passed(n, by_reference), *_read_into(n))]
    return [*places, *_extracted(item)]


def changed_keys(item: Any, name: str, by_reference: Positions) -> set[str]:
    """What ``item``, which changes the variable ``name``, changes of it: members by their keys, ``grid.x``, where it
    assigns nothing else, else all of it. Who is given a member's address has that member's alone."""
    changed, keys = _handed_out(item, by_reference), set[str]()
    for n in (item, *descendants(item)):
        if isinstance(n, c_ast.Assignment):
            changed.append(n.lvalue)
        elif (isinstance(n, c_ast.UnaryOp) and n.op in ("++", "--", "p++", "p--")) or (
            isinstance(n, c_ast.UnaryOp) and n.op == "&"
        ):
            changed.append(n.expr)
    for place in (x for x in changed if base_name(x) == name):
        key = key_of(place)
        if key is None or "." not in key:
            return {name}
        keys.add(key)
    return keys or {name}


def whole_arrays(item: Any, arrays: Collection[str]) -> set[str]:
    """The ``arrays`` that ``item`` names other than by an element: what it hands them to may change them."""
    left, found, stack = set(arrays), set[str](), [item] if arrays else []
    while stack and left:
        n = stack.pop()
        if isinstance(n, c_ast.ID) and n.name in left:
            found.add(n.name)
            left.discard(n.name)
        elif isinstance(n, c_ast.ArrayRef) and isinstance(n.name, c_ast.ID):
            stack.append(n.subscript)
        elif isinstance(n, Lambda):  # its parameters are others, whatever they are called
            found |= whole_arrays(n.body, left - {p.name for p in parameters(n)})
            left -= found
        elif not (isinstance(n, c_ast.UnaryOp) and n.op == "sizeof"):
            stack.extend(children(n))
    return found


def _passed(node: Any, by_reference: Positions) -> Iterator[Any]:
    """What a call of a function passes by reference."""
    if not isinstance(node, c_ast.FuncCall) or node.args is None or not isinstance(node.name, c_ast.ID | QualName):
        return
    name = node.name.name if isinstance(node.name, c_ast.ID) else node.name.parts[-1].name
    yield from (a for i, a in enumerate(node.args.exprs) if i in by_reference.get(name, ()))


def _read_into(node: Any) -> Iterator[Any]:
    """What a statement, or a condition, that is a ``>>`` reads: of a number it would be no use, or hardly any."""
    if isinstance(node, c_ast.Compound):
        for item in node.block_items or ():
            yield from _extracted(item)
    elif isinstance(node, c_ast.If | c_ast.While | c_ast.DoWhile | c_ast.For):
        yield from _extracted(node.cond)
        for part in (node.iftrue, node.iffalse) if isinstance(node, c_ast.If) else (node.stmt,):
            yield from _extracted(part)


def _extracted(node: Any) -> Iterator[Any]:
    """The right sides of a chain of ``>>``, negated or not."""
    while isinstance(node, c_ast.UnaryOp) and node.op == "!":
        node = node.expr
    while isinstance(node, c_ast.BinaryOp) and node.op == ">>":
        yield node.right
        node = node.left


__all__ = ["changed_keys", "changed_names", "whole_arrays"]
