"""Another launch of a kernel than its source shows, or the first: its dynamic shared memory gets the size that this
gives it."""

from __future__ import annotations

from ktc.ir.fold import evaluate, is_const, simplify
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Alloc, Expr, Sym, fresh
from ktc.ir.text import print_expr
from ktc.ir.types import Array, Type
from ktc.ir.walk import rename, walk


def launched(kernel: Kernel, launch: Launch) -> Kernel:
    """``kernel`` launched by ``launch``.

    ``extern __shared__ float s[]`` has as many elements as the launch has bytes for. The front-end knows them from the
    launch in the source; without one it declares a single element, which becomes all of ``launch.dynamic_shared`` here,
    and so does what was all of the source's.
    """
    body = kernel.body
    if launch.dynamic_shared is not None:
        before = kernel.launch.dynamic_shared if kernel.launch is not None else None
        arrays = [s.sym for s in walk(body) if isinstance(s, Alloc) and s.dynamic]
        open_ = [a for a in arrays if _single(a.type) or (before and _length(a) == _length(_sized(a, before)))]
        body = rename(body, {array: _sized(array, launch.dynamic_shared) for array in open_})
    return kernel.with_(launch=launch, body=body)


def _single(t: Type) -> bool:
    return isinstance(t, Array) and all(is_const(n, 1) for n in t.shape)


def _length(array: Sym) -> str:
    """The elements of ``array``, in whatever integers they are counted."""
    assert isinstance(array.type, Array)
    (n,) = array.type.shape
    number = evaluate(n, {}) if isinstance(n, Expr) else n
    return print_expr(n) if isinstance(n, Expr) and number is None else str(number)


def _sized(array: Sym, bytes_: Expr) -> Sym:
    from ktc.ir.frontend.lowering.lower_kernel import elements_of
    from ktc.ir.frontend.meaning.cxx_types import size_of

    t = array.type
    assert isinstance(t, Array)
    return fresh(array.name, Array(t.elem, (simplify(elements_of(bytes_, size_of(t.elem) or 1)),), t.space))


__all__ = ["launched"]
