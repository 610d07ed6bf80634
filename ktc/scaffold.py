"""A first ``workload.toml`` from a kernel's signature, launch and template parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .ir.kernel import Kernel, Param
from .ir.nodes import Atomic, Store
from .ir.types import Ptr, Scalar, scalar_of
from .ir.walk import walk


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
    small = ", ".join(f"{s} = {256 if i else 1000}" for i, s in enumerate(sizes))
    large = ", ".join(f"{s} = {1024 if i else 100000}" for i, s in enumerate(sizes))
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
    guess = sizes[0] if sizes else "1024"
    shape = [f'shape = ["{guess}"]            # CHECK']
    return [*head, f'role = "{role}"', *shape, *(['init = "normal"'] if role != "out" else []), "align = 16"]


def _role(p: Param, k: Kernel) -> str:
    """in | out | inout, from the loads and stores of the body."""
    from .ir.nodes import Load
    from .ir.walk import stmt_exprs, walk_expr

    read = written = False
    for s in walk(k.body):
        written |= isinstance(s, Store | Atomic) and s.buffer == p.sym
        read |= isinstance(s, Atomic) and s.buffer == p.sym
        read |= any(isinstance(x, Load) and x.buffer == p.sym for e in stmt_exprs(s) for x in walk_expr(e))
    return "inout" if read and written else "out" if written else "in"
