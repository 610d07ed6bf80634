"""Properties of a device that are the same for all: what host code asks of them is a number.

    auto* p = at::cuda::getCurrentDeviceProperties();
    dim3 grid(1, std::min(rows, p->maxGridSize[1]));            65535

(CUDA C++ Programming Guide, technical specifications per compute capability. Compilers for AMD's devices tell other
warps; the number of multiprocessors, or bytes of shared memory, is another one for each device.)
"""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.syntax_walk import replaced

LIMITS: dict[tuple[str, str], int] = {
    ("maxGridSize", "0"): 2147483647,
    ("maxGridSize", "1"): 65535,
    ("maxGridSize", "2"): 65535,
    ("maxThreadsDim", "0"): 1024,
    ("maxThreadsDim", "1"): 1024,
    ("maxThreadsDim", "2"): 64,
    ("maxThreadsPerBlock", ""): 1024,
}
"""By member, and element of it."""


def with_device_properties(node: Any) -> Any:
    """A copy of an expression with numbers in the place of such properties."""

    def known(n: Any) -> Any | None:
        element = n.subscript.value if isinstance(n, c_ast.ArrayRef) and isinstance(n.subscript, c_ast.Constant) else ""
        member = n.name if isinstance(n, c_ast.ArrayRef) else n
        if not isinstance(member, c_ast.StructRef) or not isinstance(member.field, c_ast.ID):
            return None
        limit = LIMITS.get((member.field.name, element))
        return None if limit is None else c_ast.Constant("int", str(limit), n.coord)

    return replaced(node, known)


__all__ = ["with_device_properties"]
