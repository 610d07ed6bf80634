"""Functions of the file that call what they are passed with one of several tags, as a value chooses at run time:

    template <typename F> void by_type(Type t, F&& f) {
      switch (t) { case f32: f(tag<float>{}); break; case f16: f(tag<half>{}); break; }
    }
    by_type(x.type, [&](auto t) { k<typename decltype(t)::type><<<1, 32>>>(p); });

What the lambda mentions is mentioned once for each of its calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Construct, Function, Lambda, NamePart
from ktc.ir.frontend.syntax.program import Program, name_parts
from ktc.ir.frontend.syntax.syntax_walk import children, descendants

from .host_lambdas import generic_parameters

MOST = (4, 2)
"""Tags that are told apart, of the outermost such function and of each within it: they multiply."""

_USUAL = (r"float", r"\w*half\w*|float16_t", r"\w*bfloat16\w*|bf16", r"int|int32_t|long|int64_t", r"\w*(Sum|Add)\w*")
"""Types that programs run in, and what they make of their elements, the most usual first."""


def dispatched(call: Any, program: Program, inside: bool = False) -> list[tuple[Lambda, list[Any]]]:
    """The calls of a generic lambda that ``call`` is known to make, each with the lambda and what it is passed: the
    most usual of the tags that the function has. ``inside``: within another such lambda."""
    args = list(call.args.exprs) if isinstance(call, c_ast.FuncCall) and call.args is not None else []
    passed = [(k, a) for k, a in enumerate(args) if isinstance(a, Lambda) and generic_parameters(a)]
    if len(passed) != 1:
        return []
    at, handed = passed[0]
    name = name_parts(call.name)[1] if isinstance(call.name, c_ast.ID | c_ast.Node) else ""
    for e in program.functions.get(name, ()):
        own = params_of(e.node) if isinstance(e.node, Function) else []
        if len(own) == len(args) and (made := list(_tags(e.node, getattr(own[at], "name", None)))):
            return [(handed, tags) for tags in sorted(made, key=_usual)[: MOST[inside]]]
    return []


def _tags(f: Function, name: str | None) -> Iterator[list[Any]]:
    """What ``f`` passes where it calls its parameter ``name``: objects that are made there of nothing, tags."""
    try:
        nodes = _in_order(f.body)
    except KtcError:
        return
    for call in (n for n in nodes if isinstance(n, c_ast.FuncCall)):
        given = list(call.args.exprs) if call.args is not None else []
        mine = isinstance(call.name, c_ast.ID) and call.name.name == name
        if mine and given and all(isinstance(a, Construct) and not a.args for a in given):
            yield given


def _in_order(node: Any) -> list[Any]:
    """``node`` and all below it, as they are written."""
    return [node, *(x for c in children(node) for x in _in_order(c))] if node is not None else []


def _usual(tags: Sequence[Any]) -> int:
    """The place of the types that ``tags`` are of among the usual ones."""
    words = [w for n in descendants(list(tags)) for w in _words(n)]
    return min((k for k, usual in enumerate(_USUAL) for w in words if re.fullmatch(usual, w)), default=len(_USUAL))


def _words(n: Any) -> Sequence[str]:
    if isinstance(n, c_ast.IdentifierType):
        return list(n.names)
    return [n.name] if isinstance(n, NamePart | c_ast.ID) else []


__all__ = ["dispatched"]
