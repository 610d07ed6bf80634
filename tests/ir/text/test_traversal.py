"""What traversals are written for by class reads and replaces what the fields of every node hold."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

from ktc.ir.fields import children, with_children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Acc, Expr, Level, Stmt, Sym, Unary
from ktc.ir.support.frozen import values_of
from ktc.ir.text.naming import symbols
from ktc.ir.types import Scalar, Type
from ktc.ir.walk import stmt_exprs, walk, walk_expr
from tests.ir.text.random_kernels import kernels

EACH = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def nodes_of(k: Kernel) -> list[Expr | Stmt]:
    return [x for s in walk(k.body) for x in (s, *(x for e in stmt_exprs(s) for x in walk_expr(e)))]


def operands(node: Expr | Stmt) -> list[Expr]:
    """The expressions in the fields of ``node``, whatever the fields say that they hold."""
    out: list[Expr] = []

    def collect(v: object) -> None:
        if isinstance(v, Expr):
            out.append(v)
        elif isinstance(v, tuple):
            for x in v:
                collect(x)
        elif isinstance(v, Level | Acc):
            for _, x in values_of(v):
                collect(x)

    for _, v in values_of(node):
        collect(v)
    return out


@EACH
@given(kernels())
def test_operands_are_those_in_the_fields(k: Kernel) -> None:
    for node in nodes_of(k):
        assert list(map(id, children(node))) == list(map(id, operands(node)))


@EACH
@given(kernels())
def test_nodes_are_rebuilt_with_other_operands_and_else_left(k: Kernel) -> None:
    for node in nodes_of(k):
        assert with_children(node, lambda e: e) is node
        negated = with_children(node, lambda e: Unary("~", e))
        assert children(negated) == [Unary("~", e) for e in children(node)]
        assert (negated is node) == (not children(node))
        kept = {name: v for name, v in values_of(node) if not isinstance(v, Expr | tuple)}
        assert kept.items() <= dict(values_of(negated)).items()


@EACH
@given(kernels())
def test_symbols_are_listed_once_in_the_order_of_their_appearance(k: Kernel) -> None:
    found: list[Sym] = []

    def visit(v: Any) -> None:
        if isinstance(v, Sym):
            if all(s is not v for s in found):
                found.append(v)
                visit(v.type)
        elif isinstance(v, tuple):
            for x in v:
                visit(x)
        elif isinstance(v, Expr | Stmt | Level | Acc | Type) and not isinstance(v, Scalar):
            for name, x in values_of(v):
                if name not in ("loc", "comments", "tags"):
                    visit(x)

    visit(k.body)
    for _ in range(2):  # the second time from what is remembered of statements
        assert list(map(id, symbols(k.body))) == list(map(id, found))
