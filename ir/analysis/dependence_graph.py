"""The dependence graph of a kernel: what must stay in order, and why."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Reduce, Sym
from ktc.ir.walk import stmt_exprs, used, walk

from .dependence import conflict, noalias
from .touches import touches


def dependence_graph(kernel: Kernel):
    """The dependences between a kernel's statements as a ``networkx.MultiDiGraph``.

    Nodes are statements' positions in source order, with ``stmt`` and ``line``. Edges go from the access that
    runs first (of two at unknown distance: that comes first in the text), with ``kind`` (flow, anti, output),
    ``buffer``, and ``distance`` over the loops around both (None: any). Scalars are edges too, with an empty distance.
    """
    import networkx as nx

    graph = nx.MultiDiGraph()
    position: dict[int, int] = {}
    for n, s in enumerate(walk(kernel.body)):
        position[id(s)] = n
        graph.add_node(n, stmt=s, line=s.loc.line if s.loc else None)
    apart = noalias(kernel)
    found = touches(kernel.body)
    for i, a in enumerate(found):
        for b in found[i:]:
            common = 0
            for p, q in zip(a.ranges, b.ranges):
                if p.loop is not q.loop:
                    break
                common += 1
            d = conflict(a, b, common, apart)
            if d is None or (a is b and not any(d)):
                continue
            first, then = a, b
            if next((x for x in d if x != 0), 1) is not None and next((x for x in d if x), 1) < 0:
                first, then, d = b, a, tuple(-x if x is not None else None for x in d)
            kind = _KINDS.get((first.mode == "read", then.mode == "read"), "output")
            graph.add_edge(
                position[id(first.stmt)], position[id(then.stmt)], kind=kind, buffer=a.buffer.name, distance=d
            )
    _scalar_edges(kernel, graph, position)
    return graph


_KINDS = {(False, True): "flow", (True, False): "anti", (False, False): "output"}


def _scalar_edges(kernel: Kernel, graph, position: Mapping[int, int]) -> None:
    """Flow edges from each definition of a scalar to the statements after it that read it."""
    writers: dict[Sym, list[int]] = {}
    for s in walk(kernel.body):
        n = position[id(s)]
        for sym in {y for e in stmt_exprs(s) for y in used(e)}:
            for w in writers.get(sym, ()):
                graph.add_edge(w, n, kind="flow", buffer=sym.name, distance=())
        own = getattr(s, "sym", None)
        targets = [own] if own is not None else []
        if isinstance(s, Reduce):
            targets = [acc.sym for acc in s.accs]
        for sym in targets:
            writers.setdefault(sym, []).append(n)
