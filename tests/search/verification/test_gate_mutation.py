"""Systematic mutation: each operator at each place of a candidate; every mutant is rejected or listed as equivalent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Barrier,
    Binary,
    Const,
    Expr,
    For,
    If,
    Load,
    Select,
    Stmt,
    Store,
    WarpOp,
)  # fmt: skip
from ktc.ir.text import canonical
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import keep, map_body
from ktc.search.verification import verify
from tests.ir.interp.interp_samples import COPY_WIDE, MATMUL_PARALLEL, MATMUL_TILED, ROWS_SHUFFLE, ROWS_TREE, kernel
from tests.search.verification.gate_samples import COPY, MATMUL, ROWS
from tests.search.verification.test_gate import COPY_PLAIN, reordered


def integer(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_int


def one_more(e: Expr) -> Expr:
    return Binary("+", e, Const(1, e.type))  # type: ignore[arg-type]


def swap_branches(s: If) -> If:
    return dataclasses.replace(s, then=s.orelse, orelse=s.then)


def one_further(s: Store) -> Store:
    return dataclasses.replace(s, index=(*s.index[:-1], one_more(s.index[-1])))


def compares(op: str) -> Callable[[Expr], bool]:
    return lambda e: isinstance(e, Binary) and e.op == op and integer(e.a)


def binary(ops: str) -> Callable[[Expr], bool]:
    return lambda e: isinstance(e, Binary) and e.op in ops


def with_op(op: str) -> Callable:
    return lambda e: dataclasses.replace(e, op=op)


def global_load(e: Expr) -> bool:
    return isinstance(e, Load) and isinstance(e.buffer.type, Ptr)


def float_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.ty.is_float and e.value == 0.0


def shuffle(e: Expr) -> bool:
    return isinstance(e, WarpOp)


STATEMENTS: dict[str, tuple[Callable[[Stmt], bool], Callable]] = {
    "drop barrier": (lambda s: isinstance(s, Barrier), lambda s: None),
    "drop store": (lambda s: isinstance(s, Store), lambda s: None),
    "drop assignment": (lambda s: isinstance(s, Assign), lambda s: None),
    "drop guard": (lambda s: isinstance(s, If), lambda s: s.then),
    "swap branches": (lambda s: isinstance(s, If) and bool(s.orelse), swap_branches),
    "start one later": (lambda s: isinstance(s, For), lambda s: dataclasses.replace(s, init=one_more(s.init))),
    "assign twice": (lambda s: isinstance(s, Assign), lambda s: (s, s)),
    "store one further": (lambda s: isinstance(s, Store), one_further),
}

EXPRESSIONS: dict[str, tuple[Callable[[Expr], bool], Callable]] = {
    "< to <=": (compares("<"), with_op("<=")),
    "<= to <": (compares("<="), with_op("<")),
    "+ to -": (binary("+"), with_op("-")),
    "drop addend": (binary("+"), lambda e: e.a),
    "drop factor": (binary("*"), lambda e: e.a),
    "swap operands": (binary("-/%"), lambda e: dataclasses.replace(e, a=e.b, b=e.a)),
    "load one further": (global_load, lambda e: dataclasses.replace(e, index=(one_more(e.index[0]),))),
    "other identity": (float_zero, lambda e: Const(1.0, e.ty)),
    "always the first arm": (lambda e: isinstance(e, Select), lambda e: e.a),
    "lanes up": (shuffle, lambda e: dataclasses.replace(e, kind="shfl_up")),
    "narrower segment": (shuffle, lambda e: dataclasses.replace(e, width=Const(16, e.width.type))),
}


def mutants(k: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Every single application of every operator, named ``operator#place``."""

    def at(place: int, applies: Callable, change: Callable) -> Callable:
        seen = [-1]

        def visit(node):
            if not applies(node):
                return node
            seen[0] += 1
            return change(node) if seen[0] == place else node

        return visit

    for table, rewrite in (
        (STATEMENTS, lambda f: map_body(k.body, f)),
        (EXPRESSIONS, lambda f: map_body(k.body, keep, f)),
    ):
        for name, (applies, change) in table.items():
            for place in range(100):
                body = rewrite(at(place, applies, change))
                if body is k.body:
                    break
                yield f"{name}#{place}", k.with_(body=body)


SUBJECTS = {
    "shuffles": (ROWS_TREE, ROWS_SHUFFLE, ROWS),
    "tiles": (MATMUL_PARALLEL, MATMUL_TILED, MATMUL),
    "wide copy": (COPY_PLAIN, COPY_WIDE, COPY),
}

EQUIVALENT = {
    ("shuffles", "start one later#1"): "17, 8, 4, 2, 1 still reach every lane",
    ("tiles", "< to <=#0"): "one more tile, all of padding",
    ("tiles", "other identity#1"): "the other factor of the padding is zero",
    ("tiles", "other identity#2"): "the other factor of the padding is zero",
    ("wide copy", "<= to <#0"): "the scalar tail copies what the wide path leaves",
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_only_equivalent_mutants_pass(subject: str) -> None:
    a, b, workload = SUBJECTS[subject]
    original, candidate = kernel(a), reordered(kernel(b))
    assert verify(original, candidate, workload).ok
    passed, tried = set(), 0
    for name, mutant in mutants(candidate):
        assert canonical(mutant) != canonical(candidate)
        tried += 1
        if verify(original, mutant, workload).ok:
            passed.add((subject, name))
    assert tried > 15
    assert passed == {e for e in EQUIVALENT if e[0] == subject}
