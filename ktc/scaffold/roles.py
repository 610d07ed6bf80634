"""Which integer parameters are sizes, which shape the block, and which only carry a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Assign, AsyncCopy, Atomic, Binary, Decl, Expr, For, If, Load, Store, Sym, Var, While
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr

BLOCK_EXTENTS = {1: 256, 2: 16, 3: 8}
"""Value of a parameter that is the block's extent, by how many axes are open."""

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


@dataclass(frozen=True)
class Roles:
    """``sizes`` in the order of the parameters; ``fixed``: what the source's launch passes a constant for, and extents
    of the block that only the launcher knows, with a usual value; ``flags``: integers that choose or scale and decide
    no extent."""

    sizes: tuple[str, ...]
    fixed: Mapping[str, int]
    flags: tuple[str, ...]


def roles_of(k: Kernel) -> Roles:
    """The roles of the integer parameters of ``k``."""
    integers = [p for p in k.params if _is_integer(p)]
    fixed = _fixed(k, integers)
    matter = shaping(k)
    sizes = [p.sym.name for p in integers if p.sym in matter and p.sym.name not in fixed]
    flags = [p.sym.name for p in integers if p.sym.name not in fixed and p.sym.name not in sizes]
    return Roles(tuple(sizes), fixed, tuple(flags))


def _is_integer(p: Param) -> bool:
    return isinstance(p.sym.type, Scalar) and p.sym.type.is_int and p.sym.type.kind != "bool"


def _fixed(k: Kernel, integers: Iterable[Param]) -> dict[str, int]:
    """What the launch passes a constant for; extents of the block that only the launcher knows, or nobody in the body
    uses: block_size of a benchmark."""
    if k.launch is None:
        return {}
    inside = {s for e in all_exprs(k.body) for s in used(e)}
    mine = {p.sym for p in integers if p.host or p.sym not in inside}
    chosen = [e.sym for e in map(_bare, k.launch.block) if isinstance(e, Var) and e.sym in mine]
    passed = {n: v for n, v in k.launch.given if any(p.sym.name == n for p in integers)}
    return {s.name: BLOCK_EXTENTS[len(chosen)] for s in chosen} | passed


def _bare(e: Expr) -> Expr:
    from ktc.ir.nodes import Cast

    while isinstance(e, Cast):
        e = e.x
    return e


def shaping(k: Kernel) -> set[Sym]:
    """Everything that an index, a loop's range, a guard or the launch depends on, through variables."""
    wanted: list[Expr] = [] if k.launch is None else [*k.launch.grid, *k.launch.block]
    if k.launch is not None and k.launch.dynamic_shared is not None:
        wanted.append(k.launch.dynamic_shared)
    for s in walk(k.body):
        wanted += s.index if isinstance(s, Store | Atomic) else ()
        wanted += (*s.src_index, *s.dst_index) if isinstance(s, AsyncCopy) else ()
        for e in stmt_exprs(s):
            wanted += [i for x in walk_expr(e) if isinstance(x, Load) for i in x.index]
        if isinstance(s, For):
            wanted += [s.init, s.cond, s.step]
        if isinstance(s, If | While):
            wanted += [x for x in walk_expr(s.cond) if isinstance(x, Binary) and x.op in COMPARISONS and _ranges(x)]
    return reached(k, wanted)


def _ranges(e: Binary) -> bool:
    """Whether a comparison relates two variable things: with a constant it rather chooses a way."""
    return bool(_places(e.a)) and bool(_places(e.b))


def _places(e: Expr) -> bool:
    from ktc.ir.nodes import HwIndex

    return any(isinstance(x, Var | HwIndex) for x in walk_expr(e))


def reached(k: Kernel, wanted: Iterable[Expr]) -> set[Sym]:
    """Symbols that the expressions depend on, through the variables of the body."""
    sources = definitions(k)
    left, seen = list(wanted), set()
    while left:
        for s in used(left.pop()):
            if s not in seen:
                seen.add(s)
                left += sources.get(s, [])
    return seen


def definitions(k: Kernel) -> dict[Sym, list[Expr]]:
    """What each variable of the body is given, loop variables by their range."""
    sources: dict[Sym, list[Expr]] = {}
    for s in walk(k.body):
        if isinstance(s, Decl) and s.init is not None:
            sources.setdefault(s.sym, []).append(s.init)
        elif isinstance(s, Assign):
            sources.setdefault(s.sym, []).append(s.value)
        elif isinstance(s, For):
            sources.setdefault(s.var, []).extend([s.init, s.cond])
    return sources


def access_role(p: Param, k: Kernel) -> str:
    """in | out | inout, from the loads, stores and atomics of the body."""
    read = written = False
    for s in walk(k.body):
        if isinstance(s, Store | Atomic) and s.buffer == p.sym:
            written, read = True, read or isinstance(s, Atomic)
        elif isinstance(s, AsyncCopy):
            written, read = written or s.dst == p.sym, read or s.src == p.sym
        read |= any(isinstance(x, Load) and x.buffer == p.sym for e in stmt_exprs(s) for x in walk_expr(e))
    return "inout" if read and written else "out" if written else "in"


def buffers_of(k: Kernel) -> list[Param]:
    """The parameters that a caller passes an array for."""
    return [p for p in k.params if isinstance(p.sym.type, Ptr) and p.scratch is None]
