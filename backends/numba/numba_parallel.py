"""Parallel form on a CPU: ``par`` loops over blocks become ``prange``, all other ``par`` and ``reduce`` plain loops.

::

    par token in 0..n @ [block.x]                for token in prange(n):
      par i in 0..d @ [vec V, thread.x T, seq]       body(token, ...):  for i in range(d): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktc.ir.analysis.accumulators import is_own_place, joins, together
from ktc.ir.analysis.block_tiles import over_blocks, tile_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Body,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    Par,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    While,
    fresh,
)
from ktc.ir.types import F64, Array, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import all_exprs, declared, used_in, walk

from .disjoint_arrays import as_views
from .lane_helpers import TREES
from .local_arrays import stack_bytes
from .numba_expressions import ExprPrinter
from .numba_statements import StmtPrinter
from .numba_types import NARROW_FLOATS, storage_of, unsupported, value_dtype
from .partial_results import NEUTRAL, begins_with_a_number, has_lanes, is_costly, pays
from .streamed_stores import streamed

LOOPS = (For, While, Par, Reduce, Scan)
VECTOR = 8
"""Iterations of a loop that LLVM had better vectorise than write out."""

ONE_COMPARISON = {"min": "smaller", "max": "larger"}
"""Helpers of extremes that are numbers."""

_COMBINE = {"+": "{0} + {1}", "*": "{0} * {1}", "&": "{0} & {1}", "|": "{0} | {1}", "^": "{0} ^ {1}"}


def is_pure_parallel(kernel: Kernel) -> bool:
    """Whether nothing of SPMD form is left (thread indices, barriers, warp operations)."""
    from ktc.ir.nodes import Barrier

    return not any(isinstance(x, HwIndex | WarpOp) for x in all_exprs(kernel.body)) and not any(
        isinstance(s, Barrier) for s in walk(kernel.body)
    )


class ParallelPrinter(StmtPrinter):
    """Statements plus ``par`` and ``reduce``."""

    def __init__(self, exprs: ExprPrinter) -> None:
        super().__init__(exprs)
        self.allocated: set[Sym] = set()
        self.streams = False
        """Whether some loop so far has stores past the caches, which the task says are done at its end."""

    def stmt(self, s: Stmt) -> None:
        if isinstance(s, Par):
            self._par(s)
        elif isinstance(s, Reduce):
            self._reduce(s)
        elif isinstance(s, Scan):
            self._scan(s)
        elif isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array | Vec) and s.sym not in self.allocated:
            self.allocate(s.sym)
            super().stmt(s)
        else:
            super().stmt(s)

    def _range(self, lo: Expr, hi: Expr) -> str:
        start = self.x.text(lo)
        return f"range({self.x.text(hi)})" if start == "0" else f"range({start}, {self.x.text(hi)})"

    def _par(self, s: Par) -> None:
        if stores := streamed(self.x.facts.kernel, s.var, s.body):
            self.streaming(s, self.x.text(s.lo), self.x.text(s.hi), stores)
            return
        over = self._range(s.lo, s.hi)
        with self.block(f"for {self.x.ref(s.var)} in {self._rolled(s) or over}:"):
            self.body(s.body)

    def streaming(self, s: Par, lo: str, hi: str, stores: Sequence[Store]) -> None:
        """The iterations of ``s`` from ``lo`` to ``hi``, in rounds whose ``stores`` go past the caches
        (:mod:`.streamed_stores`)."""
        x, i = self.x, self.x.ref(s.var)
        begin, rounds, start, lane, part = (x.reserve(n) for n in ("begin", "rounds", "start", "lane", "part"))
        self.line(f"{i} = {lo}")
        place = f"{x.ref(stores[0].buffer)}, {x.text(stores[0].index[0])}"
        self.line(f"{begin} = {i} + {x.need('before_line')}({place}, {hi} - {i})")
        self.line(f"{rounds} = {begin} + ({hi} - {begin}) // LANES * LANES")
        lanes = {t.buffer: x.reserve(f"{x.name(t.buffer)}_lanes") for t in stores}
        for buffer, name in lanes.items():
            self.line(f"{name} = {self.local(name, ['LANES'], storage_of(buffer.type))}")
        with self.block(f"for {start} in range({begin}, {rounds}, LANES):"):
            with self.block(f"for {lane} in range({x.need('rolled')}(LANES)):"):
                self.line(f"{i} = {start} + {lane}")
                self.held = {buffer: f"{name}[u64({lane})]" for buffer, name in lanes.items()}
                self.body(s.body)
                self.held = {}
            self.line(f"{i} = {start}")
            for t in stores:
                self.line(f"{x.need('stream')}({x.ref(t.buffer)}, {x.text(t.index[0])}, {lanes[t.buffer]})")
        self.streams = True
        rest = f"range({rounds} if {part} else {lo}, {hi} if {part} else {begin})"
        with self.block(f"for {part} in range(2):"), self.block(f"for {i} in {rest}:"):
            self.body(s.body)

    def finish(self) -> None:
        """The end of what one thread does."""
        if self.streams:
            self.line(f"{self.x.need('stores_done')}()")

    def _rolled(self, s: Par) -> str | None:
        """The range of an innermost loop with a constant number of iterations, enough to fill a vector register. One
        that fills an array on the heap is a call, if LLVM knows it early, with the loops around it."""
        n = self.x.constant(s.hi)
        innermost = not any(isinstance(x, LOOPS) for x in walk(s.body))
        if not innermost or n is None or n < VECTOR or self.x.text(s.lo) != "0" or all(map(self._fills, s.body)):
            return None
        return f"range({self.x.need('rolled')}({self.x.text(s.hi)}))"

    def _fills(self, s: Stmt) -> bool:
        t = s.buffer.type if isinstance(s, Store) and isinstance(s.value, Const) else None
        return isinstance(t, Array) and stack_bytes(t.shape, scalar_of(t).bytes, self.x.knobs) is None

    def _reduce(self, s: Reduce) -> None:
        """Sums and products of floats in double, rounded once: what a device combines as a tree, and so with an error
        that hardly grows, is one chain here, or a few of them."""
        wide = {a.sym: fresh(f"{a.sym.name}_wide", F64) for a in s.accs if a.op in "+*" and _is_rounded(a.sym.type)}
        totals = {a.sym: wide.get(a.sym, a.sym) for a in s.accs}
        for a in s.accs:
            init = f"np.float64({self.x.text(a.init)})" if a.sym in wide else self.x.text(a.init)
            self.line(f"{self.x.ref(totals[a.sym])} = {init}")
        rest = self._whole_lanes(s, totals) if pays(s, self.x) else self._range(s.lo, s.hi)
        with self.block(f"for {self.x.ref(s.var)} in {rest}:"):
            self.body(s.body)
            for group in together(s.accs):
                if len(group) == 2:
                    self._first_best(s, *group)
                else:
                    a, total = group[0], totals[group[0].sym]
                    self._accumulate(self.x.ref(total), total.type, a.op, self.x.text(a.value, 12))
        for sym, sum_ in wide.items():
            self.line(f"{self.x.ref(sym)} = {self.x.text(Cast(sym.type, Var(sum_), 'implicit'))}")

    def _whole_lanes(self, s: Reduce, totals: dict[Sym, Sym]) -> str:
        """The iterations that partial results take (:mod:`.partial_results`); the range of those that are left."""
        x, kept = self.x, [(a, totals[a.sym]) for a in s.accs]
        whole, start, lane = (x.reserve(n) for n in ("whole", "start", "lane"))
        lanes = {total: x.reserve(f"{a.sym.name}_lanes") for a, total in kept if has_lanes(a)}
        first, hi = x.text(s.lo), x.text(s.hi)
        count, last = (hi, whole) if first == "0" else (f"{hi} - {x.text(s.lo, 11)}", f"{x.text(s.lo, 10)} + {whole}")
        self.line(f"{whole} = {x.need('whole_lanes')}({count})")
        with self.block(f"if {whole} > 0:"):
            for a, total in kept:
                if total in lanes:
                    neutral = NEUTRAL.get(a.op, x.ref(total))
                    self.line(f"{lanes[total]} = {self.local(lanes[total], ['LANES'], value_dtype(total.type))}")
                    self.line(f"{lanes[total]}[:] = {neutral}")
            apart = [a for a, total in kept if total != a.sym and is_costly(s, a)]
            values = {a.sym: x.reserve(f"{a.sym.name}_values") for a in apart}
            for a in apart:
                self.line(f"{values[a.sym]} = {self.local(values[a.sym], ['LANES'], value_dtype(a.sym.type))}")
            with self.block(f"for {start} in range({first}, {last}, LANES):"):
                with self.block(f"for {lane} in range({x.need('rolled')}(LANES)):"):
                    self.line(f"{x.ref(s.var)} = {start} + {lane}")
                    self.body(s.body)
                    for a, total in kept:
                        target = f"{lanes[total]}[u64({lane})]" if total in lanes else x.ref(total)
                        if a.sym in values:
                            self.line(f"{values[a.sym]}[u64({lane})] = {x.text(a.value)}")
                        elif a.op in ONE_COMPARISON and total in lanes and begins_with_a_number(a, x.facts.kernel.body):
                            self.line(f"{target} = {x.need(ONE_COMPARISON[a.op])}({target}, {x.text(a.value)})")
                        else:
                            self._accumulate(target, total.type, a.op, x.text(a.value, 12))
                for a in apart:
                    lanes_of = lanes[totals[a.sym]]
                    with self.block(f"for {lane} in range({x.need('rolled')}(LANES)):"):
                        self._accumulate(f"{lanes_of}[u64({lane})]", F64, a.op, f"{values[a.sym]}[u64({lane})]")
            for a, total in kept:
                if total in lanes:
                    combined = f"{x.need(f'{TREES[a.op]}_of_lanes')}({lanes[total]})"
                    self._accumulate(x.ref(total), total.type, a.op, combined)
        return f"range({last}, {hi})"

    def _first_best(self, s: Reduce, key: Acc, at: Acc) -> None:
        value, place = fresh(key.sym.name, key.sym.type), fresh(at.sym.name, at.sym.type)
        for sym, a in ((value, key), (place, at)):
            self.line(f"{self.x.ref(sym)} = {self.x.text(a.value)}")
        won = joins(key, (Var(key.sym), Var(at.sym)), (Var(value), Var(place)), is_own_place(s, at))
        with self.block(f"if {self.x.text(won)}:"):
            self.line(f"{self.x.ref(key.sym)} = {self.x.ref(value)}")
            self.line(f"{self.x.ref(at.sym)} = {self.x.ref(place)}")

    def _scan(self, s: Scan) -> None:
        a = s.acc
        self.line(f"{self.x.ref(a.sym)} = {self.x.text(a.init)}")
        with self.block(f"for {self.x.ref(s.var)} in {self._range(s.lo, s.hi)}:"):
            self.body(s.body)
            if s.exclusive:
                self.body(s.then)
            self._accumulate(self.x.ref(a.sym), a.sym.type, a.op, self.x.text(a.value, 12))
            if not s.exclusive:
                self.body(s.then)

    def _accumulate(self, ref: str, t: Type, op: str, value: str) -> None:
        """``ref op= value``, where ``ref`` is of type ``t``."""
        assert isinstance(t, Scalar)
        if op in ("min", "max"):
            fn = self.x.need("f" + op) if t.is_float else op
            self.line(f"{ref} = {fn}({ref}, {value})")
        elif t.name in NARROW_FLOATS:
            self.line(f"{ref} = {self.x.round(_COMBINE[op].format(ref, value), 0, t)[0]}")
        elif t.kind == "uint" and t.bits < 64:
            self.line(f"{ref} = {self.x.wrap(_COMBINE[op].format(ref, value), 0, t)[0]}")
        else:
            self.line(f"{ref} {op}= {value}")


def _is_rounded(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_float and t != F64


class GridPrinter:
    """Prints the grid function and one function for the body of each outermost parallel loop."""

    def __init__(self, kernel: Kernel, exprs: ExprPrinter, name: str, in_turn: Callable[[Body], bool]) -> None:
        """``in_turn``: whether the iterations of a loop with this body may not run beside each other."""
        self.kernel, self.x, self.name, self.in_turn = kernel, exprs, name, in_turn
        self.functions: list[list[str]] = []
        self.grid = ParallelPrinter(exprs)

    def print(self, params: list[str], decorator: str, parallel: str) -> list[str]:
        """The module's functions, the grid function last."""
        self.decorator = decorator
        self.grid.line(parallel)
        with self.grid.block(f"def {self.name}({', '.join(params)}):"):
            self._spread(self.kernel.body)
            self.grid.finish()
        out: list[str] = []
        for f in [*self.functions, self.grid.lines]:
            out += [*f, "", ""]
        return out[:-2]

    def _spread(self, body: Body) -> None:
        blocks = any(over_blocks(s) for s in walk(body))
        for s in body:
            if isinstance(s, Par) and (over_blocks(s) or not blocks):
                self._prange(s)
            elif isinstance(s, Par) and any(over_blocks(x) for x in walk(s.body)):
                with self.grid.block(f"for {self.x.ref(s.var)} in {self.grid._range(s.lo, s.hi)}:"):
                    self._spread(s.body)
            else:
                self.grid.stmt(s)

    def _prange(self, s: Par) -> None:
        """One outermost loop: its body in a function of its own, called from ``prange``."""
        fn = self.x.reserve(f"{self.name}_body" if not self.functions else f"{self.name}_body{len(self.functions)}")
        inner = ParallelPrinter(self.x)
        free = sorted(used_in(s.body) - set(declared(s.body)) - {s.var}, key=lambda v: v.id)
        args, given = [self.x.name(v) for v in free], as_views(self.kernel, self.x, free)
        tile, over = tile_of(s), "range" if self.in_turn(s.body) else "prange"
        tiled = self.x.text(tile) != "1"
        lo, hi = self.x.text(s.lo), self.x.text(s.hi)
        inner.line(self.decorator)
        head = ["first", "last"] if tiled else [self.x.ref(s.var)]
        made, memory = self._hoisted(s, inner)
        args, given = [*args, *memory], [*given, *memory.values()]
        with inner.block(f"def {fn}({', '.join([*args, *head])}):"):
            for name, expression in made.items():
                if name != expression:
                    inner.line(f"{name} = {expression}")
            if tiled and (stores := streamed(self.kernel, s.var, s.body)):
                inner.streaming(s, "first", "last", stores)
            elif tiled:
                with inner.block(f"for {self.x.ref(s.var)} in range(first, last):"):
                    inner.body(s.body)
            else:
                inner.body(s.body)
            inner.finish()
        self.functions.append(inner.lines)
        if not tiled:
            where = f"{over}({hi})" if lo == "0" else f"{over}({lo}, {hi})"
            with self.grid.block(f"for {self.x.ref(s.var)} in {where}:"):
                self.grid.line(f"{fn}({', '.join([*given, f'i64({self.x.ref(s.var)})'])})")  # prange counts in uint64
            return
        self.x.need("ceil_div")
        size = self.x.text(tile, 12)
        base = "" if lo == "0" else f"{self.x.text(s.lo, 10)} + "
        count = hi if lo == "0" else f"{self.x.text(s.hi, 10)} - {self.x.text(s.lo, 11)}"
        tile_var = self.x.reserve("tile")
        with self.grid.block(f"for {tile_var} in {over}(ceil_div({count}, {self.x.text(tile)})):"):
            self.grid.line(f"first = {base}i64({tile_var}) * {size}")
            self.grid.line(f"{fn}({', '.join([*given, 'first', f'min(first + {size}, {hi})'])})")

    def _hoisted(self, s: Par, inner: ParallelPrinter) -> tuple[dict[str, str], dict[str, str]]:
        """The arrays of the body whose shapes are known in front of it: name to expression, what the function makes
        first and what it is given for that (:mod:`.local_arrays`)."""
        local = {s.var, *declared(s.body)}
        made: dict[str, str] = {}
        given: dict[str, str] = {}
        for x in walk(s.body):
            if isinstance(x, Alloc | Decl) and isinstance(t := x.sym.type, Array | Vec):
                name, shape = self.x.name(x.sym), t.shape if isinstance(t, Array) else (t.n,)
                if not any(isinstance(n, Expr) and used_in((Decl(x.sym, n),)) & local for n in shape):
                    inner.allocated.add(x.sym)
                    if (on_stack := inner.on_stack(x.sym)) is not None:
                        made[name] = on_stack
                    else:
                        given[name], made[name] = inner.given(x.sym)
        return made, given


def check_parallel(kernel: Kernel) -> None:
    """Refuse a kernel that mixes both forms.

    Raises:
        KtcError: E-NUMBA-UNSUPPORTED; materialise the kernel first.
    """
    if not is_pure_parallel(kernel):
        raise unsupported(
            "a kernel that is only partly in parallel form", kernel.loc, "materialise it to SPMD form first"
        )


__all__ = ["GridPrinter", "check_parallel", "is_pure_parallel"]
