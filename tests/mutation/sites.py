"""The statements of a kernel, each with what is known where it stands."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.nodes import Body, Stmt
from ktc.search.verification.integers import smt

BRANCHES = ("then", "orelse", "body")


def branches(s: Stmt) -> tuple[str, ...]:
    """By what names ``s`` has statements inside it."""
    return tuple(name for name in BRANCHES if getattr(s, name, ()))


def sites(body: Body, context: smt.Context) -> Iterator[tuple[Stmt, smt.Context]]:
    """Every statement with what holds where it stands; ``context`` grows on the way."""
    for s in body:
        yield s, context
        for name in BRANCHES:
            inner = getattr(s, name, ())
            if inner:
                inside = context.branch()
                inside.enter(s, name)
                yield from sites(inner, inside)
        context.after(s)


__all__ = ["BRANCHES", "branches", "sites"]
