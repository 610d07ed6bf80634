"""Lowering: parallel form with distributions -> SPMD form with thread indices and derived barriers.

One place decides how a distribution becomes code (``materialise``); knobs stay symbolic, so the result is a template.
The steps, in the order of the modules: ``levels`` (index arithmetic), ``scope`` and ``runs`` (jam: unrolled and vector
levels pushed inward), ``owned`` (rows kept in registers), ``reduction`` (across threads), ``sync`` (derived barriers),
``hardware`` (launch geometry). ``vary`` and ``decide`` hold the facts.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import add, cast, i32, mul, product
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Expr, Stmt, Sym
from ktc.ir.types import I32, Array, scalar_of
from ktc.ir.walk import map_body, walk

from .cleanup import tidy
from .decide import Decider
from .errors import LoweringError
from .hardware import collect_geometry, host_parameters_used, launch_of, name_hardware, thread_axes
from .lower import lower_body
from .owned import reserve
from .parts import resolve_parts, split_axes
from .scope import Scope
from .state import State


def materialise(kernel: Kernel) -> Kernel:
    """``kernel`` in SPMD form, with its launch derived from the distributions. SPMD kernels come back unchanged.

    Bound knobs decide structure (a lane count of 1 needs no vector, 32 threads no shared memory); open ones stay
    symbolic.

    Raises:
        LoweringError: the distributions cannot be realised together (E-LOWER-*).
    """
    if not kernel.is_parallel:
        return kernel
    kernel = kernel.with_(body=split_axes(kernel.body, Decider(kernel)))
    st = State(kernel, thread_axes(kernel.body))
    collect_geometry(kernel.body, st)
    scope = Scope()
    body = tidy(
        name_hardware(resolve_parts(reserve(kernel.body, scope, st) + lower_body(kernel.body, scope, st), st.extents))
    )
    body = _aligned(body, st.matrix_buffers)
    launch = launch_of(st, _dynamic_bytes(body))
    return kernel.with_(body=body, params=host_parameters_used(kernel, body), launch=launch)


def _aligned(body: Body, buffers: set[Sym]) -> Body:
    """``body`` with the arrays ``buffers`` 16-byte aligned."""

    def on(s: Stmt) -> Stmt:
        return dataclasses.replace(s, align=max(s.align, 16)) if isinstance(s, Alloc) and s.sym in buffers else s

    return map_body(body, on) if buffers else body


def _dynamic_bytes(body: tuple) -> Expr | None:
    """Bytes of dynamic shared memory, the sum over dynamic allocations; None without any."""
    total: Expr | None = None
    for s in walk(body):
        if isinstance(s, Alloc) and s.dynamic:
            t = s.sym.type
            assert isinstance(t, Array)
            size = mul(product([cast(n, I32) for n in t.shape]), i32(scalar_of(t).bytes))
            total = size if total is None else add(total, size)
    return total


__all__ = ["LoweringError", "materialise"]
