"""cache-hints: say how global memory is used, so that caches keep what is reused.

before                                          after cache-hints{loads=in stores=out}
    kernel k(out: f32* noalias, in: f32 const*)     kernel k(out: f32* restrict noalias, in: f32 const*)
      par i in 0..n @ [...]                           par i in 0..n @ [...]
        out[i] = in[i]                                  out.cs[i] = in.ldg[i]

``ldg`` takes the read-only path: nothing may write the buffer while the kernel runs, neither through its own name nor
through another that may alias it. ``cs`` (streaming), ``cg`` (L2 only) and ``lu`` (last use) only change what stays
cached. ``restrict`` is added to pointers whose ``noalias`` fact is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AsyncCopy, Atomic, Call, Expr, Load, RawStmt, Stmt, Store, Sym
from ktc.ir.purity import is_volatile
from ktc.ir.types import Ptr
from ktc.ir.walk import all_exprs, map_body, rename, walk
from ktc.passes.core.base import Arg, ParamSpec, Pass, Refused, Result, Site

LOAD_HINTS = ("ldg", "cs", "cg", "ca", "lu")
STORE_HINTS = ("cs", "cg", "wb", "wt")


class CacheHints(Pass):
    name = "cache-hints"
    summary = "read-only, streaming and no-allocate hints on global accesses; restrict where no alias is known"
    params = (
        ParamSpec("loads", "buffers whose loads get the hint, all (that may), or none", default="all"),
        ParamSpec("stores", "buffers whose stores get the hint, all, or none", default="all"),
        ParamSpec("load", f"hint for loads: {', '.join(LOAD_HINTS)}", default="ldg"),
        ParamSpec("store", f"hint for stores: {', '.join(STORE_HINTS)}", default="cs"),
    )
    refusals = ("E-CACHE-BUFFER", "E-CACHE-HINT", "E-CACHE-WRITTEN", "E-CACHE-ALIAS", "E-CACHE-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        loads = [s.name for s in _accessed(kernel, Load) if why_not_read_only(kernel, s) is None]
        stores = [s.name for s in _accessed(kernel, Store)]
        if not loads and not stores:
            return []
        text = f"cache-hints{{loads={','.join(loads) or 'none'} stores={','.join(stores) or 'none'}}}"
        return [Site(text, "read-only path for inputs, streaming stores for outputs")]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        load, store = args.get("load", "ldg"), args.get("store", "cs")
        if load not in LOAD_HINTS or store not in STORE_HINTS:
            hint = f"loads: {', '.join(LOAD_HINTS)}; stores: {', '.join(STORE_HINTS)}"
            return Refused("E-CACHE-HINT", f"no such hint: {load if load not in LOAD_HINTS else store}", hint=hint)
        loads = self._buffers(kernel, args.get("loads", "all"), Load, str(load))
        stores = self._buffers(kernel, args.get("stores", "all"), Store, str(store))
        for chosen in (loads, stores):
            if isinstance(chosen, Refused):
                return chosen
        assert not isinstance(loads, Refused) and not isinstance(stores, Refused)
        if not loads and not stores:
            return Refused("E-CACHE-NONE", "no buffer can take these hints", hint="name buffers, as in loads=in")
        return Result(_hinted(kernel, loads, str(load), stores, str(store)))

    def _buffers(self, kernel: Kernel, asked: Arg, kind: type[Load] | type[Store], hint: str) -> set[Sym] | Refused:
        """The buffers named by ``asked``; ``all`` leaves out those that may not have the hint."""
        accessed = _accessed(kernel, kind)
        if asked == "none":
            return set()
        if asked == "all":
            return {s for s in accessed if hint != "ldg" or why_not_read_only(kernel, s) is None}
        out: set[Sym] = set()
        for name in asked if isinstance(asked, tuple) else (asked,):
            sym = next((s for s in accessed if isinstance(name, str) and s.name == name.removeprefix("array:")), None)
            if sym is None:
                verb = "loaded" if kind is Load else "stored"
                known = ", ".join(s.name for s in accessed) or "none"
                return Refused(
                    "E-CACHE-BUFFER", f"no global buffer '{name}' is {verb} here", hint=f"there are: {known}"
                )
            refused = why_not_read_only(kernel, sym) if hint == "ldg" else None
            if refused:
                return refused
            out.add(sym)
        return out


def why_not_read_only(kernel: Kernel, buffer: Sym) -> Refused | None:
    """Why ``buffer`` cannot use the read-only path; None if it can."""
    written = _written(kernel)
    if buffer in written:
        locs = tuple(s.loc for s in walk(kernel.body) if getattr(s, "buffer", None) == buffer and s.loc is not None)
        return Refused(
            "E-CACHE-WRITTEN", f"'{buffer.name}' is written by the kernel", locs[:1], "use load=cs or load=cg"
        )
    if _may_write_anything(kernel):
        return Refused("E-CACHE-ALIAS", f"opaque code may write '{buffer.name}'")
    aliases = [w.name for w in written if not _apart(kernel, buffer) and not _apart(kernel, w)]
    if aliases:
        hint = "state noalias for it in the workload, or write __restrict__ in the source"
        return Refused("E-CACHE-ALIAS", f"'{aliases[0]}' is written and may alias '{buffer.name}'", hint=hint)
    return None


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

    body = map_body(kernel.body, on_stmt, on_expr)
    restricted: dict[Sym, Sym] = {}
    for p in kernel.params:
        t = p.sym.type
        if isinstance(t, Ptr) and p.noalias and not t.restrict:
            restricted[p.sym] = dataclasses.replace(p.sym, type=dataclasses.replace(t, restrict=True))
    params = tuple(dataclasses.replace(p, sym=restricted.get(p.sym, p.sym)) for p in kernel.params)
    return kernel.with_(params=params, body=rename(body, restricted) if restricted else body)
