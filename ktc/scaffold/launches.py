"""A launch for a kernel whose source shows none: a usual block, and a grid that the guards ask for."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir import intexpr
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Binary, Cast, Const, Expr, For, HwIndex, If, Sym, Var, While, fresh, i32
from ktc.ir.relaunch import launched
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr
from ktc.ir.workload import LaunchSpec

from .roles import definitions

BLOCKS = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}
"""Block shapes by how many axes of threads the kernel uses."""

DYNAMIC_SHARED = "16384"
"""Bytes, where the kernel declares dynamic shared memory and no launch says how much."""


def needs_launch(k: Kernel) -> str:
    """Why a launch has to be guessed: the source has none, or one of so many blocks, for one size. '' if not."""
    if k.launch is None:
        return "the source has no <<<>>> of this kernel"
    fixed = not any(used(e) for e in k.launch.grid) and any(not is_const(e, 1) for e in k.launch.grid)
    if fixed and any(used_by_bound for _, (_, used_by_bound) in _bounds(k)):
        return "the source launches a fixed number of blocks; this grid follows the guards"
    return ""


def guessed(k: Kernel) -> tuple[Kernel, LaunchSpec]:
    """``k`` with a launch, and that launch as a workload's text. Axes that no guard bounds get a size of their own."""
    hardware = {x for e in all_exprs(k.body) for x in walk_expr(e) if isinstance(x, HwIndex)}
    axes = {"x"} | {x.axis for x in hardware if x.level == "thread"}
    shape = BLOCKS[3 if "z" in axes else 2 if "y" in axes else 1]
    if k.launch is not None and all(isinstance(evaluate(e, {}), int) for e in k.launch.block):
        shape = tuple(int(evaluate(e, {}) or 1) for e in k.launch.block)  # type: ignore[assignment]
    block = dict(zip("xyz", shape))
    grid = dict.fromkeys("xyz", "1")
    bounds = dict(_bounds(k))
    idle = [p.sym.name for p in k.params if _idle(p, k)]
    params = list(k.params)
    for axis in sorted(x.axis for x in hardware if x.level == "block"):
        if axis in bounds:
            bound, strided = bounds[axis]
            grid[axis] = f"cdiv({bound}, {block[axis]})" if strided else bound
            continue
        name = idle.pop(0) if idle else f"blocks_{axis}"
        grid[axis] = name
        if all(p.sym.name != name for p in params):
            params.append(Param(fresh(name, I32), host=True, range=(1, 1 << 20)))
    dynamic = any(getattr(s, "dynamic", False) for s in walk(k.body))
    shared = DYNAMIC_SHARED if dynamic else "0"
    if k.launch is not None and k.launch.dynamic_shared is not None:
        shared = str(evaluate(k.launch.dynamic_shared, {}) or shared)
    spec = LaunchSpec(tuple(grid[a] for a in "xyz"), tuple(str(block[a]) for a in "xyz"), shared)
    symbols: dict[str, Expr] = {p.sym.name: Var(p.sym) for p in params if _integer(p)}
    gx, gy, gz = (intexpr.to_ir(grid[a], symbols) for a in "xyz")
    bx, by, bz = (i32(block[a]) for a in "xyz")
    launch = Launch((gx, gy, gz), (bx, by, bz), i32(int(shared)) if dynamic else None)
    return launched(k.with_(params=tuple(params)), launch), spec


def _integer(p: Param) -> bool:
    return isinstance(p.sym.type, Scalar) and p.sym.type.is_int


def _idle(p: Param, k: Kernel) -> bool:
    """An integer that the body does not use can only be meant for the launch."""
    return _integer(p) and not any(p.sym in used(e) for e in all_exprs(k.body))


def _bounds(k: Kernel) -> Iterator[tuple[str, tuple[str, bool]]]:
    """For axes of the grid: what the index made of it is compared with, and whether the block's threads are in it.

    The first comparison of the body comes last, so that a dict keeps it.
    """
    sources = definitions(k)
    found: list[tuple[str, tuple[str, bool]]] = []
    for s in walk(k.body):
        conditions = [s.cond] if isinstance(s, If | For | While) else list(stmt_exprs(s))
        for c in (x for e in conditions for x in walk_expr(e)):
            if not isinstance(c, Binary) or c.op not in ("<", "<=", ">", ">="):
                continue
            index, bound = (c.a, c.b) if c.op[0] == "<" else (c.b, c.a)
            inside = _hardware(index, sources)
            text = spelled(bound, {p.sym for p in k.params if _integer(p)}) if used(bound) else None
            blocks = sorted({x.axis for x in inside if x.level == "block"})
            if text is not None and len(blocks) == 1:
                found.append((blocks[0], (text, any(x.level == "thread" and x.axis == blocks[0] for x in inside))))
    yield from reversed(found)


def _hardware(e: Expr, sources: dict[Sym, list[Expr]]) -> set[HwIndex]:
    left, seen, out = [e], set(), set()
    while left:
        for x in walk_expr(left.pop()):
            if isinstance(x, HwIndex):
                out.add(x)
            elif isinstance(x, Var) and x.sym not in seen:
                seen.add(x.sym)
                left += sources.get(x.sym, [])
    return out


def spelled(e: Expr, params: set[Sym]) -> str | None:
    """An integer expression over parameters as a workload writes it; None for anything else."""
    match e:
        case Const(int() as v, _):
            return str(int(v))
        case Var(s) if s in params:
            return s.name
        case Cast(_, x):
            return spelled(x, params)
        case Binary(op, a, b) if op in ("+", "-", "*", "/"):
            left, right = spelled(a, params), spelled(b, params)
            return f"({left} {op} {right})" if left and right else None
    return None
