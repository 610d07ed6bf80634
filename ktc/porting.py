"""What of a CUDA kernel needs more than renaming in another language, construct by construct.

One row a construct: how to recognise it in the IR, and what each target makes of it (the emitters' own lowering rules).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ktc.ir import nodes as n
from ktc.ir import types as t
from ktc.ir.kernel import Kernel, Param
from ktc.ir.verifier import unproved
from ktc.ir.walk import stmt_exprs, walk, walk_expr

Node: TypeAlias = n.Stmt | n.Expr | n.Sym | Param


@dataclass(frozen=True)
class Construct:
    """A CUDA construct: its CUDA name, whether a node is one, and what hip | opencl | numba get instead."""

    name: str
    matches: Callable[[Any], bool]
    hip: str
    opencl: str
    numba: str


def _scalar_is(kind: str, bits: int) -> Callable[[Any], bool]:
    def matches(x: Any) -> bool:
        return (
            isinstance(x, n.Sym) and isinstance(x.type, t.Ptr | t.Array) and t.scalar_of(x.type) == t.Scalar(kind, bits)
        )

    return matches


def _shared(x: Any) -> bool:
    return isinstance(x, n.Alloc) and isinstance(x.sym.type, t.Array) and x.sym.type.space == "shared"


def _warp(*kinds: str) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, n.WarpOp) and x.kind.startswith(kinds)


def _call(*prefixes: str) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, n.Call) and x.fn.startswith(prefixes)


def _is(*classes: type) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, classes)


def _float_atomic(x: Any) -> bool:
    return isinstance(x, n.Atomic) and isinstance(x.value.type, t.Scalar) and x.value.type.is_float


LIBM = frozenset({
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "rsqrt", "cbrt", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "asin", "acos", "atan", "atan2", "pow", "erf", "erfc", "lgamma", "tgamma", "hypot",
})  # fmt: skip
"""Functions whose last bits are the library's own; division and square root are rounded correctly everywhere."""

CONSTRUCTS: tuple[Construct, ...] = (
    Construct(
        "__half buffers",
        _scalar_is("float", 16),
        "the same",
        "half; vload_half/vstore_half without cl_khr_fp16",
        "numpy.float16",
    ),
    Construct(
        "__nv_bfloat16 buffers",
        _scalar_is("bfloat", 16),
        "__hip_bfloat16 or 16-bit words",
        "ushort with round-to-nearest-even converters",
        "uint16 with exact converters",
    ),
    Construct(
        "fp8 buffers",
        lambda x: _scalar_is("e4m3", 8)(x) or _scalar_is("e5m2", 8)(x),
        "bytes with exact converters",
        "uchar with exact converters",
        "uint8 with converters",
    ),
    Construct("double", _scalar_is("float", 64), "the same", "double, needs cl_khr_fp64", "float64"),
    Construct(
        "variable at file scope (__constant__, __device__)",
        lambda x: isinstance(x, Param) and bool(x.symbol),
        "the same; the host copies to it with hipMemcpyToSymbol",
        "BY HAND: an argument behind the others: the host passes a buffer for cudaMemcpyToSymbol",
        "an argument behind the others",
    ),
    Construct(
        "initial values of such a variable",
        lambda x: isinstance(x, Param) and bool(x.init),
        "the same",
        "BY HAND: the buffer holds at first what the comment above the kernel says",
        "the argument's default",
    ),
    Construct(
        "texture",
        _call("tex1D", "tex2D", "tex3D", "texCube"),
        "the same; the host makes a hipTextureObject_t of the same description",
        "BY HAND: an image and a sampler: the host makes them of what its texture description says",
        "refused",
    ),
    Construct(
        "surface",
        _call("surf1D", "surf2D", "surf3D", "surfCube"),
        "the same; the host makes a hipSurfaceObject_t",
        "BY HAND: an image: the host makes it",
        "refused",
    ),
    Construct("printf", _call("printf"), "the same", "the same", "refused"),
    Construct(
        "clock",
        _call("clock", "globaltimer"),
        "the same; ticks of another clock",
        "refused where OpenCL has none",
        "refused",
    ),
    Construct("__shared__ array", _shared, "the same", "__local, hoisted to kernel scope", "a per-block array"),
    Construct(
        "dynamic shared memory",
        lambda x: isinstance(x, n.Alloc) and x.dynamic,
        "the same",
        "a __local argument behind the others; the host gives its size",
        "a per-block array",
    ),
    Construct(
        "__syncthreads",
        lambda x: isinstance(x, n.Barrier) and x.scope == "block",
        "the same",
        "barrier(CLK_LOCAL_MEM_FENCE)",
        "the loop over threads is split there",
    ),
    Construct(
        "__syncwarp",
        lambda x: isinstance(x, n.Barrier) and x.scope == "warp",
        "wavefront fence",
        "sub_group_barrier",
        "the loop over lanes is split there",
    ),
    Construct(
        "__shfl_*",
        _warp("shfl"),
        "__shfl_* of logical width 32, mask dropped",
        "sub-group shuffle, PTX, or a local-memory exchange",
        "a lane array",
    ),
    Construct(
        "ballot, any, all",
        _warp("ballot", "any", "all"),
        "half of the 64-lane ballot",
        "sub-group ballot or a local-memory vote",
        "a lane array",
    ),
    Construct(
        "atomic on float",
        _float_atomic,
        "the same",
        "cl_ext_float_atomics, else a compare-and-swap loop",
        "sequential within a block",
    ),
    Construct(
        "atomic of system scope (atomicAdd_system, ...)",
        lambda x: isinstance(x, n.Atomic) and x.scope == "system",
        "the same; the memory must be fine-grained (hipHostMallocCoherent, hipMallocManaged)",
        "BY HAND: atomics of OpenCL 1.2 are for one device; the host and others see them when the kernel has ended",
        "sequential within a block",
    ),
    Construct(
        "atomic",
        lambda x: isinstance(x, n.Atomic) and not _float_atomic(x) and x.scope != "system",
        "the same",
        "atomic_* of OpenCL 1.2",
        "sequential within a block",
    ),
    Construct("__threadfence", _is(n.Fence), "the same", "mem_fence; device scope needs OpenCL 2", "nothing"),
    Construct("programmatic dependent launch", _is(n.GridDependency), "nothing", "nothing", "nothing"),
    Construct("cp.async", _is(n.AsyncCopy, n.AsyncCommit, n.AsyncWait), "a plain copy", "a plain copy", "a plain copy"),
    Construct("tensor cores (mma, ldmatrix)", _is(n.Mma, n.MatrixLoad, n.TileMma), "refused", "refused", "refused"),
    Construct("bulk copies by a producer", _is(n.Produce, n.BulkCopy), "refused", "refused", "refused"),
    Construct(
        "async_work_group_copy",
        _is(n.GroupCopy, n.GroupWait),
        "a loop of the threads, a barrier at the wait",
        "the same",
        "a loop of the threads",
    ),
    Construct("fast intrinsics (__expf, ...)", _call("fast_"), "the same", "native_*", "the precise function"),
    Construct(
        "math library (exp, ...)",
        lambda x: isinstance(x, n.Call) and x.fn in LIBM,
        "ROCm's library: last bits may differ",
        "OpenCL's library: last bits may differ",
        "the host's library: last bits may differ",
    ),
    Construct(
        "directed rounding (__fadd_rn, ...)",
        lambda x: isinstance(x, n.Call) and x.fn.endswith(("_rn", "_rz", "_ru", "_rd")),
        "the same where there is one",
        "refused but for _rn",
        "refused but for _rn",
    ),
    Construct(
        "cache hints (__ldg, __ldcs, ...)",
        lambda x: isinstance(x, n.Load | n.Store) and bool(x.cache),
        "plain or nontemporal",
        "plain",
        "plain",
    ),
    Construct("inline PTX", _is(n.InlineAsm), "refused", "refused", "refused"),
    Construct("source text carried through", _is(n.Raw, n.RawStmt), "refused", "refused", "refused"),
)


ATTENTION = {"V-BARRIER": "needs attention: the same, right only in launches where all threads of the block get there"}
"""What an unproved rule means to whoever launches the kernel, by the verifier's code."""


def report(kernel: Kernel, target: str) -> list[dict[str, str]]:
    """Rows (construct, place, becomes) for every construct of ``kernel`` that ``target`` spells or does differently.

    ``place`` is the first occurrence, with a count when there are more. For CUDA only what needs attention gives rows:
    those come first everywhere.
    """
    attention = [
        {"construct": q.message, "place": str(q.loc or kernel.loc or ""), "becomes": ATTENTION[q.code]}
        for q in unproved(kernel)
    ]
    if target == "cuda":
        return attention
    seen: dict[str, list[str]] = {}
    for node, loc in _nodes(kernel):
        for c in CONSTRUCTS:
            if c.matches(node):
                seen.setdefault(c.name, []).append(loc)
    rows = attention
    for c in CONSTRUCTS:
        becomes = getattr(c, target)
        if c.name in seen and becomes != "the same":
            places = [p for p in seen[c.name] if p]
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            rows.append({"construct": c.name, "place": (places[0] if places else "") + more, "becomes": becomes})
    return rows


def _nodes(kernel: Kernel) -> Iterator[tuple[Node, str]]:
    """Every parameter, statement and expression with the line it stands on."""
    home = str(kernel.loc) if kernel.loc else ""
    for p in kernel.params:
        yield p, home
        yield p.sym, home
    for s in walk(kernel.body):
        place = str(s.loc) if s.loc else home
        yield s, place
        for e in stmt_exprs(s):
            for x in walk_expr(e):
                yield x, place
