"""``switch`` as a chain of ``if``."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.case_labels import asked
from ktc.ir.frontend.syntax.syntax_walk import contains
from ktc.ir.nodes import Const, Var

from .gotos import Jump
from .returns import items_of, terminates
from .stmts import Stmts


class Switches(Stmts):
    """Switch statements."""

    def switch_as_ifs(self, node: c_ast.Switch) -> Any:
        """``switch`` as a chain of ``if``: groups of labels, each ended by break,
        return or continue (or falling through)."""
        value = self.promote(self.rval(node.cond))
        if not isinstance(value.expr, Var | Const):
            from ktc.ir.frontend.meaning.values import RVal

            value = RVal(self.temp(value.expr, "selector"))
        name = f"switch@{id(node)}"
        self.scope.names[name] = value
        groups = case_groups(node, self)
        default: list | None = None
        chain: list[tuple[list, list]] = []
        for labels, body in groups:
            if None in labels:
                default = body
            tests = [e for e in labels if e is not None]
            if tests and None not in labels:
                chain.append((tests, body))
        result: Any = c_ast.Compound(default or [], node.coord)
        for tests, body in reversed(chain):
            cond = None
            for e in tests:
                test = asked(c_ast.ID(name, node.coord), e, node.coord)
                cond = test if cond is None else c_ast.BinaryOp("||", cond, test, node.coord)
            result = c_ast.If(cond, c_ast.Compound(body, node.coord), result if items_of(result) else None, node.coord)
        return result


def case_groups(node: c_ast.Switch, ctx: Switches) -> list[tuple[list, list]]:
    """(labels, statements without the final break) of a switch body; falling through repeats the next group's code."""
    raw: list[tuple[list, list]] = []
    pending: list = []
    for item in items_of(node.stmt):
        stmts: list = []
        while isinstance(item, c_ast.Case | c_ast.Default):
            pending.append(item.expr if isinstance(item, c_ast.Case) else None)
            inner = item.stmts or []
            if len(inner) == 1 and isinstance(inner[0], c_ast.Case | c_ast.Default):
                item = inner[0]
                continue
            stmts = list(inner)
            raw.append((pending, []))
            pending = []
            break
        else:
            stmts = [item]
        if pending and not stmts:
            continue
        if not raw:  # never reached, but what it declares is visible in the cases
            if contains(item, (c_ast.Case, c_ast.Default, c_ast.Label), (c_ast.Switch,)):
                ctx.fail("E-UNSUPPORTED-SWITCH", "a case inside a nested statement", item, hint="use if/else")
            if isinstance(item, c_ast.Decl) and item.init is None:
                ctx.statement(item)
            continue
        raw[-1][1].extend(s for s in stmts if not isinstance(s, c_ast.EmptyStatement))
    merged: list[tuple[list, list]] = []
    for i, (labels, body) in enumerate(raw):
        if not body and i + 1 < len(raw):
            raw[i + 1][0][:0] = labels
            continue
        merged.append((labels, body))
    out: list[tuple[list, list]] = []
    for i, (labels, body) in enumerate(merged):
        full = list(body)
        k = i
        while not terminates(_flat(full)) and k + 1 < len(merged):
            k += 1
            full += merged[k][1]
        flat = _flat(full)
        if flat and isinstance(flat[-1], c_ast.Break):
            flat = flat[:-1]
        flags: list[Any] = []
        inner = list(flat)
        flat = ctx.structured(inner, lambda s, inner=inner, flags=flags: s.without(inner, Jump(), [], flags))  # type: ignore[misc]
        for s in flat:
            if contains(s, (c_ast.Case, c_ast.Default), (c_ast.Switch,)):
                ctx.fail("E-UNSUPPORTED-SWITCH", "a case inside a nested statement", s, hint="use if/else")
        flat = [*flags, *flat]
        out.append((labels, flat))
    return out


def _flat(items: list) -> list:
    """A case body that is one braced block, opened."""
    out: list = []
    for s in items:
        if isinstance(s, c_ast.Compound) and s is items[-1] and len(items) == 1:
            out.extend(_flat(items_of(s)))
        else:
            out.append(s)
        if isinstance(s, c_ast.Break):
            break
    return out
