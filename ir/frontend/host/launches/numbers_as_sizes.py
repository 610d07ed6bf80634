"""A launch with its host function's numbers as sizes: ``int m = 4096;`` as if a caller had passed ``m``.

    int n = 4096, batch = 8;
    scale<<<dim3((n + 255) / 256, batch), 256>>>(x, n);        // as it stands: 16 x 8 blocks, and 4096 is passed

A program that has its sizes written in it launches a kernel that could take others: read so, its grid and the lengths
of its buffers are formulas. Sizes are numbers that are passed to the kernel by name, and those that its grid is a
product of. What the threads of a block are made of stays a number, and so does what the grid divides by, and what only
shared memory is made of: the kernel has been written for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.host.host_assignments import key_of
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.frontend.syntax.cxx_ast import Construct, CxxCast
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.frontend.syntax.variable_uses import init_args


def with_numbers_as_sizes(site: LaunchSite) -> LaunchSite:
    """``site`` with nothing known of the numbers that are sizes; ``site`` itself where there are none."""
    opened = numbers_as_sizes(site)
    return dataclasses.replace(site, env={**site.env, **dict.fromkeys(opened)}) if opened else site


def numbers_as_sizes(site: LaunchSite) -> dict[str, int]:
    """The host's numbers that are sizes of the launch at ``site``, by the names of what holds them."""
    if site.node is None:
        return {}
    grid, *block = site.node.config or [None]
    threads, room = (set(_names_behind(part, site.env)) for part in (block[:1], block[1:2]))
    passed = {name for a in site.node.args if (name := _name(a)) in site.env}
    sizes = (passed | {*_factors(grid, site.env)} - room) - threads
    found = {n: _number(site.env.get(n)) for n in sorted(sizes)}
    return {n: v for n, v in found.items() if v}


def _name(node: Any) -> str:
    """The variable, or the member of one, that ``node`` is, as the scope has it; '' for anything else."""
    while isinstance(node, c_ast.Cast | CxxCast):
        node = node.expr
    return (key_of(node) if isinstance(node, c_ast.ID | c_ast.StructRef) else None) or ""


def _given(held: Any) -> list[Any]:
    """What a variable is given, in its declaration or later."""
    init = held.init if isinstance(held, c_ast.Decl) else held
    return init_args(init) if init is not None else []


def _names_behind(nodes: Iterable[Any], env: dict[str, Any]) -> Iterator[str]:
    """The names that ``nodes`` are made of, through variables."""
    left, seen = [n for n in nodes if n is not None], set[str]()
    while left:
        node = left.pop()
        for x in (node, *descendants(node)):
            name = _name(x) if isinstance(x, c_ast.ID | c_ast.StructRef) else ""
            if name and name not in seen:
                seen.add(name)
                yield name
                left += _given(env.get(name))


def _factors(node: Any, env: dict[str, Any], depth: int = 8) -> Iterator[str]:
    """The names that the extents of a grid are products of, through variables; nothing that something is divided by,
    or that quotients are rounded up with."""
    if depth == 0 or node is None:
        return
    if name := _name(node):
        given = _given(env.get(name))
        if not given or _number(env.get(name)):
            yield name
        for x in given:
            yield from _factors(x, env, depth - 1)
    elif isinstance(node, c_ast.BinaryOp) and node.op == "*":
        yield from _factors(node.left, env, depth - 1)
        yield from _factors(node.right, env, depth - 1)
    elif isinstance(node, c_ast.BinaryOp) and node.op == "/":
        yield from _factors(_dividend(node.left), env, depth - 1)
    else:
        for x in _dimensions(node):
            yield from _factors(x, env, depth - 1)


def _dimensions(node: Any) -> list[Any]:
    """The extents of ``dim3(a, b)``; none of anything else."""
    if isinstance(node, Construct):
        return list(node.args)
    if isinstance(node, c_ast.FuncCall) and isinstance(node.name, c_ast.ID) and node.name.name == "dim3":
        return list(node.args.exprs) if node.args is not None else []
    return init_args(node) if isinstance(node, c_ast.InitList) else []


def _dividend(node: Any) -> Any:
    """``n`` of ``n + 255`` and of ``n + by - 1``."""
    while isinstance(node, c_ast.BinaryOp) and node.op in "+-":
        node = node.left
    return node


def _number(held: Any) -> int:
    """The whole number above 0 that a variable holds; 0 for any other."""
    given = _given(held)
    node = given[0] if len(given) == 1 else None
    digits = node.value.rstrip("uUlL") if isinstance(node, c_ast.Constant) else ""
    return int(digits) if digits.isdigit() else 0


__all__ = ["numbers_as_sizes", "with_numbers_as_sizes"]
