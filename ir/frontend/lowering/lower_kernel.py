"""Lowering one ``__global__`` function to a kernel in SPMD form."""

from __future__ import annotations

import dataclasses
from typing import Any

from ktc.ir.arith.integer_casts import without_implicit, without_integer_casts
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.frontend.context import Frame, Retry
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.lowering.declarations.parameters import Parameters
from ktc.ir.frontend.lowering.expressions.bit_moves import plain_moves
from ktc.ir.frontend.lowering.memory.cached_loads import plainly_loaded
from ktc.ir.frontend.lowering.memory.copied_members import without_unseen_copies
from ktc.ir.frontend.lowering.memory.field_arrays import with_field_arrays
from ktc.ir.frontend.lowering.memory.followed_pointers import with_rows
from ktc.ir.frontend.lowering.memory.member_arrays import without_member_arrays
from ktc.ir.frontend.lowering.memory.null_uses import needed_only
from ktc.ir.frontend.lowering.memory.object_elements import with_object_elements
from ktc.ir.frontend.lowering.memory.read_copies import without_read_copies
from ktc.ir.frontend.lowering.memory.table_parts import with_table_parts
from ktc.ir.frontend.lowering.retries.retry_loops import with_updates
from ktc.ir.frontend.meaning.cxx_types import size_of
from ktc.ir.frontend.meaning.values import ArrayVal, Value
from ktc.ir.frontend.preprocess.preprocessor import Preprocessed
from ktc.ir.frontend.ptx.awaited_loads import any_awaited
from ktc.ir.frontend.ptx.shared_addresses import without_unused_addresses
from ktc.ir.frontend.syntax.cxx_ast import qualifiers
from ktc.ir.frontend.syntax.program import Entity, Program
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Alloc, Binary, Body, Const, Expr, HwIndex, Stmt, Sym, fresh, i32
from ktc.ir.types import Array, Ptr, Type
from ktc.ir.walk import all_exprs, assigned, map_body, rename, used_in, walk


class Awaited(Exception):
    """Lowering must start again, with PTX statements that loops may be waiting by left as they are."""


class KernelLowering(Parameters):
    """Lowers one kernel for given template bindings and, if known, a launch."""

    def __init__(self, program: Program, source: Preprocessed, file: str) -> None:
        super().__init__(program, source, file)
        self._facts = {}
        self._layouts = {}
        self._vectors = {}
        self._inside = {}
        self._fields = {}
        self.constructed = {}
        self._late = {}
        self._end_runs = {}
        self.globals: dict[str, Param] = {}
        self._starts: list[list[Stmt]] = []
        self._use_scope = self.scope
        self.hoisted: list[Alloc] = []
        self.tables: dict[Any, Value] = {}
        self.references = {}
        self.may_wait = set()
        self.member_elements = set()
        self.object_arrays = set()
        self.shared_bytes: Expr | None = None
        self.dynamic: dict[Sym, Type] = {}
        self.pointees = {}
        self.lists = {}
        self.by_value = set()

    def lower(
        self, entity: Entity, bindings: dict[str, Value], params: tuple[Param, ...], launch: Launch | None
    ) -> Kernel:
        """The kernel's body over the parameters ``params`` (see :meth:`parameters`).

        How a buffer is used may show that it must be declared as an array of smaller elements: then the lowering
        starts again with that knowledge, at most a few times for each declaration. So it does where a loop may be
        waiting by a load that a PTX statement makes: such statements then stay as they are.
        """
        attempt = self
        while True:
            try:
                return attempt._lower(entity, bindings, params, launch)
            except (Retry, Awaited) as again:
                hints = {**attempt.hints, again.key: again.unit} if isinstance(again, Retry) else attempt.hints
                waits = attempt.waits or isinstance(again, Awaited)
                attempt = KernelLowering(self.program, self.source, self.file)
                attempt.hints, attempt.waits = hints, waits
                attempt.lists, attempt.by_value = self.lists, self.by_value

    def _lower(
        self, entity: Entity, bindings: dict[str, Value], params: tuple[Param, ...], launch: Launch | None
    ) -> Kernel:
        fn = entity.node
        self.shared_bytes = launch.dynamic_shared if launch is not None else None
        facts = self.facts_for(fn)
        self.loc = self.place(fn)
        with self.scoped(namespace=entity.namespace) as scope, self.capture() as out:
            scope.names.update(bindings)
            self.frame = Frame(fn.name, True, None, facts)
            params = tuple(map(self._hinted_param, params))
            self.kernel = entity, bindings, params
            given = {p.sym.name: p for p in sorted(params, key=lambda p: not p.host)}
            for node in params_of(fn):
                if getattr(node, "name", None):
                    scope.names[node.name] = self.parameter(node, given, node.name in facts.mutated)
            comments = self.take_comments(self.loc)
            self._starts.append([])
            with self.lifetimes(fn.body.block_items or []):
                self.items(fn.body.block_items or [])
            self._starts.pop()
            bounds = self._bounds(fn.bounds.get("__launch_bounds__", []))
        body = (*self.hoisted, *out)
        if any_awaited(body, self.may_wait):
            raise Awaited
        body, params = self._retyped(body, params)
        body = without_unseen_copies(_without_idle(body), self.copied_members, params)
        body = with_object_elements(without_member_arrays(body, self.member_elements), self.object_arrays)
        body = needed_only(body) if self.null_uses else body
        body = without_unused_addresses(body) if self.shared_places else body
        body = plain_moves(with_updates(plainly_loaded(body) if self.read_only_hints else body))
        body = without_read_copies(with_field_arrays(body), [p for p in params if p.sym.name in self.by_value])
        body, params = with_rows(*with_table_parts(body, params, self.lists))
        if launch is not None:
            launch = dataclasses.replace(launch, **bounds)  # type: ignore[arg-type]
        params, body = _writable((*params, *self.globals.values()), body, self.const_cast_away)
        used = used_in(body) if any(p.host for p in params) else set()
        kept = tuple(p for p in params if not p.host or p.sym in used or _in_launch(p.sym, launch))
        kept = (*kept, *self.texture_params())
        return Kernel(fn.name, kept, launch, body, loc=self.place(fn), comments=comments)

    def _bounds(self, args: list) -> dict[str, Expr]:
        names = ("max_threads", "min_blocks")
        return {n: i32(self.const_int(a, "a launch bound")) for n, a in zip(names, args)}

    # ------------------------------------------------------------------ dynamic shared memory
    def dynamic_extent(self, elem: Type) -> Expr:
        """Elements of dynamic shared memory: the launch's bytes over the element size (1 if not known)."""
        size = size_of(elem) or 1
        if self.shared_bytes is None:
            return i32(1)
        known = evaluate(self.shared_bytes, {})
        if known is not None:
            return i32(max(1, int(known) // size))
        return elements_of(self.shared_bytes, size)

    def retype_dynamic(self, buffer: Sym, elem: Type) -> None:
        """Remember as what type dynamic shared memory is used: if only one, it is declared as that."""
        t = buffer.type
        if isinstance(t, Array) and any(isinstance(v, ArrayVal) and v.buffer == buffer for v in self.shared.values()):
            self.dynamic.setdefault(buffer, elem)

    def _retyped(self, body: tuple[Stmt, ...], params: tuple[Param, ...]) -> tuple[tuple[Stmt, ...], tuple[Param, ...]]:
        """Declare byte-typed shared memory with the one element type it is accessed as, and parameters as the source
        does that are bytes only where places in them are computed."""
        from ktc.ir.frontend.lowering.declarations.retype import retype_as_declared, retype_bytes, shared_bytes

        body = retype_bytes(body, dict.fromkeys(self.dynamic, self.dynamic_extent) | shared_bytes(body))
        body, renamed = retype_as_declared(body, self.pointees)
        new = (dataclasses.replace(p, sym=renamed[p.sym], align=0) if p.sym in renamed else p for p in params)
        return body, tuple(new)


def elements_of(bytes_: Expr, size: int) -> Expr:
    """``bytes / size``, cancelling a factor ``size`` that is visible."""
    e = without_integer_casts(bytes_)
    if isinstance(e, Binary) and e.op == "*":
        for x, y in ((e.a, e.b), (e.b, e.a)):
            if isinstance(y, Const) and int(y.value) % size == 0:
                x, n = without_implicit(x), int(y.value) // size
                return x if n == 1 else Binary("*", x, Const(n, x.type))  # type: ignore[arg-type]
    return Binary("/", e, Const(size, e.type))  # type: ignore[arg-type]


def _without_idle(body: Body) -> Body:
    """``body`` without dynamic shared memory that nothing in it speaks of: what an instance does not need is declared
    all the same, and its launch has no bytes for it."""
    declared = {s.sym for s in walk(body) if isinstance(s, Alloc) and s.dynamic}
    if not declared:
        return body
    rest = map_body(body, lambda s: None if isinstance(s, Alloc) and s.sym in declared else s)
    idle = declared - used_in(rest) - assigned(rest)
    return map_body(body, lambda s: None if isinstance(s, Alloc) and s.sym in idle else s) if idle else body


def _writable(params: tuple[Param, ...], body: Body, cast_away: set[Sym]) -> tuple[tuple[Param, ...], Body]:
    """Parameters that ``const`` was cast away of and that are written, as what they are then: no pointers to const."""
    written = assigned(body) & cast_away if cast_away else set()
    new = {s: fresh(s.name, dataclasses.replace(s.type, const=False)) for s in written if isinstance(s.type, Ptr)}
    if not new:
        return params, body
    kept = tuple(dataclasses.replace(p, sym=new[p.sym], readonly=False) if p.sym in new else p for p in params)
    return kept, rename(body, new)


def _in_launch(sym: Sym, launch: Launch | None) -> bool:
    from ktc.ir.walk import used

    if launch is None:
        return False
    parts = [*launch.grid, *launch.block, *([launch.dynamic_shared] if launch.dynamic_shared is not None else [])]
    return any(sym in used(e) for e in parts)


__all__ = ["HwIndex", "KernelLowering", "KtcError", "all_exprs", "elements_of", "qualifiers", "rename"]
