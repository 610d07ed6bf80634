"""Launches by functions of the runtime API, read as what ``<<<>>>`` says.

    cudaLaunchConfig_t config = {};                     k<<<grid, block, bytes>>>(x, n)
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = bytes;
    cudaLaunchKernelEx(&config, k, x, n);

    void* args[] = {&x, &n};                            k<<<grid, block, bytes>>>(x, n)
    cudaLaunchKernel((void*)k, grid, block, args, bytes, stream);

The stream and attributes (clusters, programmatic dependent launch) change nothing of what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import CxxCast, Launch, QualName
from ktc.ir.frontend.syntax.variable_uses import init_args

from .host_assignments import Env

FIELDS = ("gridDim", "blockDim", "dynamicSmemBytes")
"""The members of ``cudaLaunchConfig_t`` that ``<<<>>>`` gives, in their order; ``stream`` follows."""


def as_launch(call: Any, env: Env) -> Launch | None:
    """``call``, where it launches a kernel by a function of the API, as that launch; ``env`` is what the names in scope
    hold. None for any other call, and for one whose geometry is not given in sight."""
    if not isinstance(call, c_ast.FuncCall) or call.args is None:
        return None
    read = API.get(_called(call))
    return read(call, list(call.args.exprs), env) if read is not None else None


def _by_config(call: c_ast.FuncCall, args: list, env: Env) -> Launch | None:
    """``cudaLaunchKernelEx(&config, kernel, arguments...)``."""
    if len(args) < 2:
        return None
    config = _behind(args[0])
    if not isinstance(config, c_ast.ID):
        return None
    grid, block, shared = (_member(config.name, k, env) for k in range(len(FIELDS)))
    if grid is None or block is None:
        return None
    extents = [grid, block, *([shared] if shared is not None else [])]
    return Launch(args[1], extents, args[2:], coord=call.coord)


def _by_array(call: c_ast.FuncCall, args: list, env: Env) -> Launch | None:
    """``cudaLaunchKernel(kernel, grid, block, arguments, bytes, stream)``: the arguments are an array of addresses."""
    if len(args) < 4:
        return None
    held = _behind(args[3])
    held = env.get(held.name) if isinstance(held, c_ast.ID) else held
    passed = [_behind(a) for a in init_args(held.init if isinstance(held, c_ast.Decl) else held)]
    return Launch(args[0], [args[1], args[2], *args[4:5]], passed, coord=call.coord)


def each_kernel(launch: Launch, env: Env) -> list[Launch]:
    """``launch``, for each of the kernels that it may be of: those of a table ``void* all[] = {(void*)a, (void*)b}`` of
    which an index chooses one, and both sides of a condition."""
    found = _kernels(launch.callee, env, MOST_NAMES)
    return [launch] if found == [launch.callee] else [
        Launch(k, launch.config, launch.args, coord=launch.coord) for k in found
    ]  # fmt: skip


MOST_NAMES = 4
"""Variables that are looked through, one after the other, for the kernels that one of them is."""


def _kernels(node: Any, env: Env, depth: int) -> list[Any]:
    inner = _behind(node)
    if isinstance(inner, c_ast.TernaryOp):
        return [*_kernels(inner.iftrue, env, depth), *_kernels(inner.iffalse, env, depth)]
    table = inner.name if isinstance(inner, c_ast.ArrayRef) else inner
    held = env.get(table.name) if isinstance(table, c_ast.ID) and depth else None
    held = held.init if isinstance(held, c_ast.Decl) else None  # what branches assign is followed with their conditions
    if isinstance(inner, c_ast.ArrayRef):
        return [_behind(k) for k in init_args(held)] if isinstance(held, c_ast.InitList) else [node]
    choice = _behind(held) if held is not None else None
    return _kernels(held, env, depth - 1) if isinstance(choice, c_ast.TernaryOp | c_ast.ArrayRef) else [node]


API: dict[str, Callable[[c_ast.FuncCall, list, Env], Launch | None]] = {
    "cudaLaunchKernelEx": _by_config, "hipLaunchKernelEx": _by_config,
    "cudaLaunchKernel": _by_array, "cudaLaunchCooperativeKernel": _by_array,
    "hipLaunchKernel": _by_array, "hipLaunchCooperativeKernel": _by_array,
}  # fmt: skip
"""Functions that launch a kernel, with how to read a call. ``cudaLaunchKernelExC`` takes its configuration by address,
as ``cudaLaunchKernelEx`` does, and an array; nobody was seen to call it with a kernel of the file."""


def _member(config: str, place: int, env: Env) -> Any:
    """What the member of that ``place`` of the configuration holds: what was assigned to it, or it began with."""
    assigned = env.get(f"{config}.{FIELDS[place]}")
    if assigned is not None:
        return assigned
    held = env.get(config)
    args = init_args(held.init) if isinstance(held, c_ast.Decl) else []
    named = {a.name[0].name: a.expr for a in args if isinstance(a, c_ast.NamedInitializer)}
    return named.get(FIELDS[place]) if named or place >= len(args) else args[place]


def _behind(node: Any) -> Any:
    """``node`` without the casts around it and the ``&`` before it."""
    while isinstance(node, c_ast.Cast | CxxCast) or (isinstance(node, c_ast.UnaryOp) and node.op == "&"):
        node = node.expr
    return node


def _called(call: c_ast.FuncCall) -> str:
    name = call.name
    if isinstance(name, QualName):
        return str(name.parts[-1].name)
    return str(name.name) if isinstance(name, c_ast.ID) else ""


__all__ = ["API", "as_launch", "each_kernel"]
