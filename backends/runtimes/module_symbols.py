"""Variables at file scope (``__constant__``, ``__device__``, ``__managed__``) of a loaded CUDA module.

They are no kernel arguments: a launch copies the buffers given for them to the module's variables, and those that the
kernel may write back again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Param
from ktc.ir.types import Ptr, Vec, scalar_of

from .common import need


def file_scope(kernel: Kernel) -> tuple[str, ...]:
    """Names of the kernel's variables at file scope."""
    return tuple(p.sym.name for p in kernel.params if p.symbol)


class Symbols:
    """``address``: where the module has the variable of that name; ``copy``: (to, from, bytes), on the device."""

    def __init__(
        self,
        kernel: Kernel,
        address: Callable[[str], int],
        copy: Callable[[int, int, int], None],
        failure: type[Exception],
    ) -> None:
        self._copy = copy
        self._places: list[tuple[Param, int]] = []
        for p in (p for p in kernel.params if p.symbol):
            try:
                self._places.append((p, address(p.sym.name)))
            except failure as e:
                message = f"the compiled module has no variable '{p.sym.name}' to be set: {e}"
                raise KtcError("E-LAUNCH-SYMBOL", message, kernel.loc, "pass it as a kernel parameter") from None

    def set(self, args: Mapping[str, object]) -> None:
        """Copy the buffers of ``args`` to the variables."""
        for p, place in self._places:
            self._copy(place, *_span(p, args))

    def get(self, args: Mapping[str, object]) -> None:
        """Copy what the kernel may have written back to the buffers of ``args``."""
        for p, place in self._places:
            if p.symbol != "constant":
                pointer, size = _span(p, args)
                self._copy(pointer, place, size)


def _span(p: Param, args: Mapping[str, object]) -> tuple[int, int]:
    """Address and bytes of the buffer for ``p``. Raises KtcError E-LAUNCH-ARGS when it is not the variable's size."""
    buffer: Any = need(args, p.sym.name)
    assert isinstance(p.sym.type, Ptr)
    lanes = p.sym.type.elem.n if isinstance(p.sym.type.elem, Vec) else 1
    size = p.extent * scalar_of(p.sym.type).bytes * int(lanes)  # type: ignore[call-overload, arg-type]
    if buffer.nbytes != size:
        message = f"'{p.sym.name}' is a variable of {size} bytes; its argument has {buffer.nbytes}"
        raise KtcError("E-LAUNCH-ARGS", message, hint="give the whole variable")
    return int(buffer.data.ptr), size
