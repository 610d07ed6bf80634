"""Row arrays in registers: each thread keeps the elements it owns.

A private array of an iteration that inner loops index by their own variable alone (``x_row[i]``) needs no memory:
element i belongs to the thread that runs iteration i. It becomes one register per jam position of the loop. All loops
that touch it must be distributed alike, without a run-time loop (``seq``), since registers cannot be indexed by one.
"""

from __future__ import annotations

from ktc.ir.nodes import Alloc, Body, Decl, Dist, Expr, Load, Par, Reduce, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array
from ktc.ir.walk import stmt_exprs, walk, walk_expr

from .decide import strip
from .errors import LoweringError
from .scope import Scope
from .state import State
from .sync import THREAD_LEVELS


def row_arrays(body: Body) -> dict[Sym, Dist]:
    """Private arrays of ``body`` accessed by thread-distributed loops, with the distribution that owns their elements.

    Raises:
        LoweringError: E-LOWER-OWNER when two loops distribute one array differently.
    """
    arrays = {s.sym: s for s in body if isinstance(s, Alloc) and _private_array(s.sym)}
    owners: dict[Sym, Dist] = {}
    for loop in walk(body):
        if not isinstance(loop, Par | Reduce) or not any(lv.kind in THREAD_LEVELS for lv in loop.dist):
            continue
        for buffer, index in _accesses(loop):
            if buffer not in arrays:
                continue
            i = strip(index[0])
            if len(index) != 1 or not (isinstance(i, Var) and i.sym == loop.var):
                raise LoweringError(
                    "E-LOWER-OWNER", f"'{buffer.name}' is read at elements another thread owns", loop.loc
                )
            if owners.setdefault(buffer, loop.dist) != loop.dist:
                raise LoweringError(
                    "E-LOWER-OWNER", f"the loops over '{buffer.name}' are distributed differently", loop.loc,
                    hint="give both loops the same map, or keep the row in shared memory",
                )  # fmt: skip
            if any(lv.kind == "seq" for lv in loop.dist):
                raise LoweringError(
                    "E-LOWER-OWNER", f"'{buffer.name}' lives in registers, which a 'seq' level cannot index", loop.loc,
                    hint="replace seq by unroll with a size that covers the row",
                )  # fmt: skip
    return owners


def _private_array(s: Sym) -> bool:
    return isinstance(s.type, Array) and s.type.space == "local"


def _accesses(loop: Par | Reduce) -> list[tuple[Sym, tuple[Expr, ...]]]:
    out: list[tuple[Sym, tuple[Expr, ...]]] = []
    exprs: list[Expr] = [a.value for a in loop.accs] if isinstance(loop, Reduce) else []
    for s in walk(loop.body):
        exprs += stmt_exprs(s)
        if isinstance(s, Store):
            out.append((s.buffer, s.index))
    out += [(x.buffer, x.index) for e in exprs for x in walk_expr(e) if isinstance(x, Load)]
    return out


def reserve(body: Body, scope: Scope, st: State) -> Body:
    """Registers for the row arrays declared directly in ``body``: declarations to put in front of it.

    Raises:
        LoweringError: E-LOWER-OWNER.
    """
    out: list[Stmt] = []
    for sym, dist in row_arrays(body).items():
        if scope.jams:
            raise LoweringError("E-LOWER-OWNER", f"'{sym.name}' cannot be kept in registers for several rows at once")
        t = sym.type
        assert isinstance(t, Array)
        sizes = tuple(lv.n for kind in ("unroll", "vec") for lv in dist if lv.kind == kind and lv.n is not None)
        kept = tuple(n for n in sizes if st.decide.value(n) != 1)
        regs = fresh(sym.name, Array(t.elem, kept) if kept else t.elem)
        st.owned[sym] = regs
        out.append(Alloc(regs) if kept else Decl(regs))
    return tuple(out)
