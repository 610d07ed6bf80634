"""A first ``workload.toml`` from a kernel's signature, launch and template parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .ir.kernel import Kernel, Param
from .ir.nodes import Assign, Atomic, Decl, Expr, For, HwIndex, Load, Store, Sym, Var
from .ir.types import Ptr, Scalar, scalar_of
from .ir.walk import stmt_exprs, walk, walk_expr

SCENARIO_SIZES = {0: (0, 0), 1: (10000, 1 << 24), 2: (1000, 4096)}
"""First guesses for a size in the small and the large scenario, by the number of sizes."""


def workload_text(source: Path, name: str | None, template: Mapping[str, str], target: Path) -> tuple[str, list[str]]:
    """The file's text, and what its author still has to fill in. ``source`` is written relative to ``target``.

    Roles come from what the kernel reads and writes; shapes cannot be known and are guesses, each marked ``# CHECK``.

    Raises:
        KtcError: whatever the front-end raises.
    """
    from .ir.frontend import load

    k = load(str(source), kernel=name, template=dict(template) or None)
    sizes = [p.sym.name for p in k.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int]
    lines = [
        "[kernel]",
        f'source = "{os.path.relpath(source, target.parent)}"',
        f'name = "{k.name}"',
    ]
    if template:
        lines.append("template = { " + ", ".join(f'{a} = "{v}"' for a, v in template.items()) + " }")
    for p in k.params:
        lines += ["", "[[args]]", *_arg(p, k, sizes)]
    todo = [
        "shapes: every buffer's is a guess",
        "sizes of the scenarios, and a held-out one",
        "[reference]: a numpy formula an output",
    ]
    if k.launch is None:
        lines += ["", "[launch]                 # CHECK: the source has no <<<>>> of this kernel"]
        lines += [f'grid = ["cdiv({sizes[0] if sizes else 1024}, 256)"]', 'block = ["256"]']
        todo.append("launch geometry")
    values = SCENARIO_SIZES.get(len(sizes), (60, 250))
    small, large = (", ".join(f"{s} = {n}" for s in sizes) for n in values)
    for title, body in (("small", small), ("large", large)):
        lines += ["", "[[scenario]]", f'name = "{title}"', f"sizes = {{ {body} }}".replace("{  }", "{}")]
    lines += ["", "# [reference]", '# out = "silu(x) * y"     # numpy, float64; see `ktc kernels` for examples', ""]
    return "\n".join(lines), todo


def _arg(p: Param, k: Kernel, sizes: list[str]) -> list[str]:
    t = p.sym.type
    head = [f'name = "{p.sym.name}"', f'dtype = "{scalar_of(t)}"']
    if not isinstance(t, Ptr):
        value = f'"{p.sym.name}"' if p.sym.name in sizes else "1.0                # CHECK"
        return [*head, 'role = "scalar"', f"value = {value}"]
    role = _role(p, k)
    guess = ", ".join(f'"{s}"' for s in _extents(p, k) if s in sizes) or '"1024"'
    shape = [f"shape = [{guess}]            # CHECK"]
    return [*head, f'role = "{role}"', *shape, *(['init = "normal"'] if role != "out" else []), "align = 16"]


def _extents(buffer: Param, k: Kernel) -> list[str]:
    """Integer parameters that the buffer's indices depend on: through variables, loop bounds and the launch's grid."""
    sources: dict[Sym, list[Expr]] = {}
    wanted: list[Expr] = []
    for s in walk(k.body):
        if isinstance(s, Decl | Assign):
            value = s.init if isinstance(s, Decl) else s.value
            sources.setdefault(s.sym, []).extend([value] if value is not None else [])
        elif isinstance(s, For):
            sources.setdefault(s.var, []).extend([s.init, s.cond])
        wanted += s.index if isinstance(s, Store) and s.buffer == buffer.sym else ()
        for e in stmt_exprs(s):
            wanted += [i for x in walk_expr(e) if isinstance(x, Load) and x.buffer == buffer.sym for i in x.index]
    grid = dict(zip("xyz", k.launch.grid)) if k.launch else {}
    found: list[str] = []
    seen: set[Sym] = set()
    while wanted:
        for x in walk_expr(wanted.pop(0)):
            if isinstance(x, HwIndex) and x.level == "block" and x.axis in grid:
                wanted.append(grid.pop(x.axis))
            elif isinstance(x, Var) and x.sym not in seen:
                seen.add(x.sym)
                wanted += sources.get(x.sym, [])
                if x.sym not in sources and x.sym.name not in found:
                    found.append(x.sym.name)
    return found


def _role(p: Param, k: Kernel) -> str:
    """in | out | inout, from the loads and stores of the body."""
    read = written = False
    for s in walk(k.body):
        written |= isinstance(s, Store | Atomic) and s.buffer == p.sym
        read |= isinstance(s, Atomic) and s.buffer == p.sym
        read |= any(isinstance(x, Load) and x.buffer == p.sym for e in stmt_exprs(s) for x in walk_expr(e))
    return "inout" if read and written else "out" if written else "in"
