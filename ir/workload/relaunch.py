"""A launch for a kernel whose source shows none: its dynamic shared memory gets the size that the launch gives it."""

from __future__ import annotations

from ktc.ir.fold import is_const, simplify
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Alloc, Expr, Sym, fresh
from ktc.ir.types import Array, Type
from ktc.ir.walk import rename, walk


def launched(kernel: Kernel, launch: Launch) -> Kernel:
    """``kernel`` launched by ``launch``.

    ``extern __shared__ float s[]`` has as many elements as the launch has bytes for. The front-end knows them from the
    launch in the source; without one it declares a single element, which becomes all of ``launch.dynamic_shared`` here.
    """
    body = kernel.body
    if kernel.launch is None and launch.dynamic_shared is not None:
        open_ = [s.sym for s in walk(body) if isinstance(s, Alloc) and s.dynamic and _single(s.sym.type)]
        body = rename(body, {array: _sized(array, launch.dynamic_shared) for array in open_})
    return kernel.with_(launch=launch, body=body)


def _single(t: Type) -> bool:
    return isinstance(t, Array) and all(is_const(n, 1) for n in t.shape)


def _sized(array: Sym, bytes_: Expr) -> Sym:
    from ktc.ir.frontend.lowering.lower_kernel import elements_of
    from ktc.ir.frontend.meaning.cxx_types import size_of

    t = array.type
    assert isinstance(t, Array)
    return fresh(array.name, Array(t.elem, (simplify(elements_of(bytes_, size_of(t.elem) or 1)),), t.space))


__all__ = ["launched"]
