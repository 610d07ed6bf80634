"""The kernel function: attributes, signature, body. :mod:`ktc.backends.emitter` puts the rest of the file above it."""

from __future__ import annotations

from ktc.ir.grid_dependencies import FLAGS
from ktc.ir.kernel import Kernel
from ktc.ir.types import I32

from .c_statements import Statements
from .line_layout import INDENT, comment_lines, wrap
from .piece import LIMIT


def print_kernel(printer: Statements, kernel: Kernel) -> list[str]:
    """The kernel function: signature, parameters wrapped to the column limit, body."""
    d = printer.d
    printer.x.knob_upper = {k.name: max(k.domain) for k in kernel.knobs if k.domain}
    for p in kernel.params:
        if p.symbol and not d.is_argument(p):
            printer.names.declare(p.sym)  # keeps its own name: the host knows it by that
    params = [d.parameter(p, printer.names.declare(p.sym)) for p in kernel.params if d.is_argument(p)]
    for p in kernel.params:
        if p.range[0] is not None and p.range[0] >= 0 and p.sym.type == I32:
            printer.x.upper[p.sym] = LIMIT if p.range[1] is None else min(p.range[1], LIMIT)
    printer.roles.declare_maps()
    wait, release = (
        [f"{INDENT}{line}" for line in d.grid_dependency(what)] if flag in kernel.flags else []
        for what, flag in FLAGS.items()
    )
    body = [*wait, *printer.body(kernel.body, 1), *release]
    params += d.extra_parameters()
    head, tail = d.signature(kernel)
    *attributes, head = head.split("\n")
    lines = [line for c in kernel.comments for line in comment_lines(c)]
    body += printer.roles.last()
    return [*lines, *attributes, *wrap(f"{head}{', '.join(params)}{tail} {{", ""), *body, "}"]
