"""cache-hints: say how global memory is used, so that caches keep what is reused.

before                                          after cache-hints{loads=in stores=out}
    kernel k(out: f32* noalias, in: f32 const*)     kernel k(out: f32* restrict noalias, in: f32 const*)
      par i in 0..n @ [...]                           par i in 0..n @ [...]
        out[i] = in[i]                                  out.cs[i] = in.ldg[i]

``ldg`` takes the read-only path: nothing may write the buffer while the kernel runs, neither through its own name nor
through another that may alias it. ``cs`` (streaming), ``cg`` (L2 only) and ``lu`` (last use) only change what stays
cached. ``restrict`` is added to pointers whose ``noalias`` fact is known.

Sites ask for no ``ldg``: where it is allowed, ``restrict`` tells the compiler as much, and plain loads of neighbours
can share an address (with ``ldg``, fifty loads of a row computed one each, and took 1.75x the time on an H100).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AsyncCopy, Atomic, Call, Expr, Load, RawStmt, Stmt, Store, Sym
from ktc.ir.purity import is_volatile
from ktc.ir.types import Ptr
from ktc.ir.walk import all_exprs, map_body, walk
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import listed
from ktc.passes.shared.restricted import restricted


@dataclass(frozen=True)
class Arguments:
    loads: tuple[str, ...] = option(
        ("all",), "buffers whose loads get the hint, all (that may), or none", code="E-CACHE-BUFFER"
    )
    stores: tuple[str, ...] = option(("all",), "buffers whose stores get the hint, all, or none", code="E-CACHE-BUFFER")
    load: Literal["ldg", "cs", "cg", "ca", "lu"] = option("ldg", "hint for loads", code="E-CACHE-HINT")
    store: Literal["cs", "cg", "wb", "wt"] = option("cs", "hint for stores", code="E-CACHE-HINT")


class CacheHints(Pass[Arguments]):
    name = "cache-hints"
    summary = "read-only, streaming and no-allocate hints on global accesses; restrict where no alias is known"
    refusals = ("E-CACHE-BUFFER", "E-CACHE-HINT", "E-CACHE-WRITTEN", "E-CACHE-ALIAS", "E-CACHE-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        stores = [s.name for s in _accessed(kernel, Store)]
        if not stores:
            return []
        return [Site(self.step(loads="none", stores=listed(stores)), "streaming stores for outputs")]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loads = _buffers(kernel, args.loads, Load, args.load)
        stores = _buffers(kernel, args.stores, Store, args.store)
        if not loads and not stores:
            raise Refusal("E-CACHE-NONE", "no buffer can take these hints", hint="name buffers, as in loads=in")
        return Result(_hinted(kernel, loads, args.load, stores, args.store))


def _buffers(kernel: Kernel, asked: tuple[str, ...], kind: type[Load] | type[Store], hint: str) -> set[Sym]:
    """The buffers named by ``asked``; ``all`` leaves out those that may not have the hint."""
    accessed = _accessed(kernel, kind)
    if asked == ("none",):
        return set()
    if asked == ("all",):
        return {s for s in accessed if hint != "ldg" or allowed(check_read_only, kernel, s)}
    out: set[Sym] = set()
    for name in asked:
        sym = next((s for s in accessed if s.name == name.removeprefix("array:")), None)
        if sym is None:
            verb = "loaded" if kind is Load else "stored"
            known = ", ".join(s.name for s in accessed) or "none"
            raise Refusal("E-CACHE-BUFFER", f"no global buffer '{name}' is {verb} here", hint=f"there are: {known}")
        if hint == "ldg":
            check_read_only(kernel, sym)
        out.add(sym)
    return out


def check_read_only(kernel: Kernel, buffer: Sym) -> None:
    """``buffer`` can use the read-only path, or it is refused."""
    written = _written(kernel)
    if buffer in written:
        locs = tuple(s.loc for s in walk(kernel.body) if getattr(s, "buffer", None) == buffer and s.loc is not None)
        why = f"'{buffer.name}' is written by the kernel"
        raise Refusal("E-CACHE-WRITTEN", why, locs[:1], "use load=cs or load=cg")
    if _may_write_anything(kernel):
        raise Refusal("E-CACHE-ALIAS", f"opaque code may write '{buffer.name}'")
    aliases = [w.name for w in written if not _apart(kernel, buffer) and not _apart(kernel, w)]
    if aliases:
        hint = "state noalias for it in the workload, or write __restrict__ in the source"
        raise Refusal("E-CACHE-ALIAS", f"'{aliases[0]}' is written and may alias '{buffer.name}'", hint=hint)


def _apart(kernel: Kernel, buffer: Sym) -> bool:
    """Whether no other pointer reaches what ``buffer`` reaches."""
    t = buffer.type
    return (isinstance(t, Ptr) and t.restrict) or any(p.sym == buffer and p.noalias for p in kernel.params)


def _global(s: Sym) -> bool:
    return isinstance(s.type, Ptr) and s.type.space in ("global", "generic")


def _accessed(kernel: Kernel, kind: type[Load] | type[Store]) -> list[Sym]:
    """Global buffers with accesses of ``kind`` that say nothing about caching yet, in order of appearance.

    Not those with a volatile access: what changes under the kernel must not be read from a cache that does not see it.
    """
    nodes: Iterable[Any] = all_exprs(kernel.body) if kind is Load else walk(kernel.body)
    hits = [x for x in nodes if isinstance(x, kind)]
    changing = {x.buffer for x in hits if is_volatile(x)}
    return list(dict.fromkeys(x.buffer for x in hits if _global(x.buffer) and not x.cache and x.buffer not in changing))


def _written(kernel: Kernel) -> set[Sym]:
    out: set[Sym] = set()
    for s in walk(kernel.body):
        match s:
            case Store() | Atomic():
                out.add(s.buffer)
            case AsyncCopy():
                out.add(s.dst)
            case RawStmt():
                out.update(s.writes)
    return {s for s in out if isinstance(s.type, Ptr)}


def _may_write_anything(kernel: Kernel) -> bool:
    return any(isinstance(e, Call) and e.effects == "write" for e in all_exprs(kernel.body))


def _hinted(kernel: Kernel, loads: set[Sym], load: str, stores: set[Sym], store: str) -> Kernel:
    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in loads and not e.cache:
            return dataclasses.replace(e, cache=load)
        return e

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer in stores and not s.cache:
            return dataclasses.replace(s, cache=store)
        return s

    return restricted(kernel.with_(body=map_body(kernel.body, on_stmt, on_expr)))
