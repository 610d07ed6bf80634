"""Rules of a kernel's knobs and launch."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, producer_threads
from ktc.ir.launch_limits import MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID
from ktc.ir.nodes import Expr, HwIndex, Knob, Load
from ktc.ir.sequences import launch_kernels
from ktc.ir.walk import all_exprs, walk_expr

from .type_rules import symbols_of


def launch_exprs(kernel: Kernel) -> Iterator[Expr]:
    """Every expression of the launch, of a sequence those of all its launches."""
    for launch in (k.launch for k in launch_kernels(kernel)):
        if launch is not None:
            yield from (*launch.grid, *launch.block, *(launch.cluster or ()))
            yield from (e for e in (launch.dynamic_shared, launch.max_threads, launch.min_blocks) if e is not None)


def check_knobs(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """(code, message) of each rule broken: knobs are declared once, used only declared, bound within their domains."""
    names = [d.name for d in kernel.knobs]
    for d in kernel.knobs:
        if names.count(d.name) > 1:
            yield "V-KNOB", f"the knob ${d.name} is declared twice"
        for v in (d.default, d.value):
            if v is not None and d.domain and v not in d.domain:
                yield "V-KNOB", f"${d.name}={v} is outside its domain {list(d.domain)}"
    assumed = (a.expr for a in kernel.assumptions)
    everywhere = [*all_exprs(kernel.body), *kernel.constraints, *assumed, *launch_exprs(kernel)]
    used = {x.name for e in everywhere for x in symbols_of(e) if isinstance(x, Knob)}
    for name in sorted(used - set(names)):
        yield "V-KNOB", f"the knob ${name} is used and not declared"


def check_guards(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """(code, message) of each assumption or constraint that is not one number a launch: nobody could check it."""
    for e in (*kernel.constraints, *(a.expr for a in kernel.assumptions)):
        if any(isinstance(x, HwIndex | Load) for x in walk_expr(e)):
            yield "V-GUARD", "an assumption names a thread's index, or memory: the launcher cannot check it"


def check_launch(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """(code, message) of each extent that is known and that no device takes."""
    launch = kernel.launch
    if launch is None:
        return
    block = [evaluate(e, kernel.bound_knobs) for e in launch.block]
    grid = [evaluate(e, kernel.bound_knobs) for e in launch.grid]
    rows = [("block", axis, v, limit) for axis, v, limit in zip("xyz", block, MAX_BLOCK)]
    rows += [("grid", axis, v, limit) for axis, v, limit in zip("xyz", grid, MAX_GRID)]
    bad = [row for row in rows if row[2] is not None and not 1 <= row[2] <= row[3]]
    for what, axis, v, limit in bad:
        yield "V-LAUNCH", f"{what}.{axis} is {v}; it must be 1 to {limit}"
    known = [v for v in block if v is not None]
    threads = known[0] * known[1] * known[2] + producer_threads(kernel) if len(known) == 3 else 0
    if not bad and threads > MAX_BLOCK_THREADS:
        yield "V-LAUNCH", f"a block of {threads} threads; the limit is {MAX_BLOCK_THREADS}"
