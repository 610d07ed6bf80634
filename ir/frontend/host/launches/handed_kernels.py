"""Functions and methods that are passed a kernel, its grid and block, and what it is called with, whatever they do with
them: put them into a graph, or hand them to the driver.

    template <typename F, typename... Args>
    void Queue::add(F* kernel, dim3 grid, dim3 block, Args&&... args);
    queue.add(scale<float>, blocks, 256, x, n);                               scale<float><<<blocks, 256>>>(x, n);
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.declarations.parameters import is_pack
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Function, Launch, TemplateParam
from ktc.ir.frontend.syntax.program import Program
from ktc.ir.frontend.syntax.type_text import parameter_texts

from ..host_assignments import Env

SHARED = re.compile(r"(dyn\w*_)?(smem|shmem|shared)\w*", re.IGNORECASE)
"""The parameter that says how much dynamic shared memory a block gets."""


@dataclass(frozen=True)
class HandedKernel:
    """Where among the arguments of a call the kernel is, its grid, block and, perhaps, shared memory; all from ``rest``
    on are the kernel's."""

    kernel: int
    grid: int
    block: int
    shared: int | None
    rest: int

    def called(self, call: c_ast.FuncCall, _env: Env, _program: Program) -> Launch | None:
        """The launch that ``call`` asks for; None where it has too few arguments."""
        args = list(call.args.exprs) if call.args is not None else []
        if len(args) < self.rest:
            return None
        config = [args[k] for k in (self.grid, self.block, self.shared) if k is not None]
        return Launch(args[self.kernel], config, args[self.rest :], coord=call.coord)


def handed_kernel(f: Function, template: Sequence[TemplateParam]) -> HandedKernel | None:
    """``f`` as such a function, by its parameters: one of any type or a pointer to a function, two ``dim3`` and a pack
    behind all others."""
    params = params_of(f)
    if len(params) < 4 or not is_pack(params[-1]):
        return None
    texts = [re.sub(r"\bconst\b|[&*\s]", "", t) for t in parameter_texts(f)]
    any_type = {p.name for p in template if p.kind == "type" and not p.pack}
    kernels = [k for k, t in enumerate(texts[:-1]) if t in any_type or _is_function(params[k])]
    extents = [k for k, t in enumerate(texts[:-1]) if t == "dim3"]
    if len(kernels) != 1 or len(extents) < 2:
        return None
    shared = [k for k, p in enumerate(params[:-1]) if SHARED.fullmatch(getattr(p, "name", None) or "")]
    return HandedKernel(kernels[0], extents[0], extents[1], shared[0] if shared else None, len(params) - 1)


def _is_function(parameter: Any) -> bool:
    """Whether ``parameter`` is declared as ``void (*kernel)(Args...)``."""
    declared = getattr(parameter, "type", None)
    return isinstance(declared, c_ast.PtrDecl) and isinstance(declared.type, c_ast.FuncDecl)


__all__ = ["HandedKernel", "handed_kernel"]
