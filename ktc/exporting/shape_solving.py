"""Sizes of a call from the shapes of its arrays: ``input`` of ``[n, 2 * d]`` gives ``n`` and ``d``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from ktc.backends.launchers.cuda_launcher import python_text
from ktc.backends.launchers.cupy_launcher import python_name
from ktc.ir.nodes import Var, fresh
from ktc.ir.types import I64
from ktc.ir.workload import real_expressions, size_expressions
from ktc.ir.workload.workloads import Workload

from .artefact import SizeFrom

READ = ("in", "inout")
"""Roles of the buffers that a caller always has: outputs may be made for it."""


def over_sizes(text: str, sizes: Collection[str]) -> str:
    """An expression of a workload over its sizes, as Python."""
    return python_text(size_expressions.to_ir(text, {s: Var(fresh(s, I64)) for s in sizes}))


def real_over_sizes(text: str, sizes: Collection[str]) -> str:
    """The value of a floating-point scalar over sizes, as Python."""
    return real_expressions.python(text, {s: python_name(s) for s in sizes})


def sizes_from(work: Workload, names: Mapping[str, str], also: Collection[str]) -> tuple[SizeFrom, ...]:
    """How each size that occurs in ``work``, or is one of ``also``, follows from a call. ``names``: parameters as the
    callable has them."""
    wanted = list(work.scenarios[0].sizes)
    found: dict[str, SizeFrom] = {}
    dims = [
        (names[a.name], axis, text)
        for a in work.args
        if a.role in READ and (a.null is None or a.null == "false")
        for axis, text in enumerate(a.shape)
    ]
    for name, axis, text in dims:
        if text in wanted:
            found.setdefault(text, SizeFrom(text, name, axis))
    grew = True
    while grew:
        before = len(found)
        for name, axis, text in dims:
            solved = _solved(text, found, wanted)
            if solved is not None:
                found[solved[0]] = SizeFrom(solved[0], name, axis, solved[1])
        grew = len(found) > before
    texts = [t for a in work.args for t in a.shape]
    texts += [a.value for a in work.args if a.role == "scalar" and isinstance(a.value, str)]
    used = {n.id for t in texts for n in ast.walk(ast.parse(t, mode="eval")) if isinstance(n, ast.Name)} | {*also}
    return (*(SizeFrom(s) for s in wanted if s in used and s not in found), *found.values())


def _solved(text: str, known: Collection[str], sizes: Collection[str]) -> tuple[str, str] | None:
    """The one size in ``text`` that is not known, and what it is where ``text`` is ``dim``; None where that is not
    plain to see. Shapes are compared whole afterwards, so a remainder is found."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    open_ = [n for n in names if n not in known]
    if len(open_) != 1 or open_[0] not in sizes:
        return None
    inverse = "dim"
    while not isinstance(node, ast.Name):
        if not isinstance(node, ast.BinOp):
            return None
        left = any(isinstance(n, ast.Name) and n.id == open_[0] for n in ast.walk(node.left))
        inside, other = (node.left, node.right) if left else (node.right, node.left)
        by = f"({over_sizes(ast.unparse(other), sizes)})"
        match node.op, left:
            case ast.Mult(), _:
                inverse = f"({inverse}) // {by}"
            case ast.Add(), _:
                inverse = f"({inverse}) - {by}"
            case ast.Sub(), True:
                inverse = f"({inverse}) + {by}"
            case ast.Sub(), False:
                inverse = f"{by} - ({inverse})"
            case _:
                return None
        node = inside
    return open_[0], inverse
