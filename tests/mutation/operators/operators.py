"""What a mutation operator is, and how one is applied to the n-th place it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.walk import keep, map_body


@dataclass(frozen=True)
class Operator:
    """One way to be wrong.

    ``kind`` says what ``change`` rewrites: ``stmt`` and ``expr`` one node of a lowered kernel (``change(node)`` gives a
    new node, for statements also a tuple or None; the node itself where the operator does not fit), ``kernel``
    the whole (``change(kernel)`` gives every mutant). ``blind``: written before the checks it must trip, and never
    tuned to.
    """

    name: str
    family: str
    kind: str
    change: Callable[[Any], Any]
    blind: bool = False


def places(kernel: Kernel, op: Operator) -> int:
    """At how many places of ``kernel`` the operator fits."""
    if op.kind == "kernel":
        return len(op.change(kernel))
    count = [0]

    def look(node: Any) -> Any:
        count[0] += op.change(node) is not node
        return node

    _rewrite(kernel, op.kind, look)
    return count[0]


def apply(kernel: Kernel, op: Operator, place: int) -> Kernel:
    """``kernel`` with the operator applied at its ``place``-th place only."""
    if op.kind == "kernel":
        found: Sequence[Kernel] = op.change(kernel)
        return found[place]
    seen = [-1]

    def visit(node: Any) -> Any:
        new = op.change(node)
        if new is node:
            return node
        seen[0] += 1
        return new if seen[0] == place else node

    return _rewrite(kernel, op.kind, visit)


def _rewrite(kernel: Kernel, kind: str, visit: Callable[[Any], Any]) -> Kernel:
    body = map_body(kernel.body, visit) if kind == "stmt" else map_body(kernel.body, keep, visit)
    return kernel.with_(body=body)
