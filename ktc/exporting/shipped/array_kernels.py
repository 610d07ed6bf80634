"""What the callables for CuPy, numpy and PyOpenCL share: checks of arrays, outputs, and the choice of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .dispatch import Exported, Launch, overlapping

STORED = {
    "f16": "float16", "bf16": "uint16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8", "i16": "int16",
    "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "bool": "bool",
    "e4m3": "uint8", "e5m2": "uint8",
}  # fmt: skip
"""A dtype of ``kernel.json`` as arrays hold it; bf16 and 8-bit floats as their bits."""

LIKE = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""dtypes of other packages that are these bits."""


class ArrayKernels:
    """The kernels of one package; a subclass knows the arrays of its library and launches."""

    what = "array"

    def __init__(self, folder: Path) -> None:
        self.exported = Exported(folder)

    # ------------------------------------------------------------------------------------------- what a subclass knows

    def is_array(self, x: Any) -> bool:
        raise NotImplementedError

    def span(self, x: Any) -> tuple[int, int]:
        """The address of the first byte, and of the one after the last."""
        raise NotImplementedError

    def contiguous(self, x: Any) -> bool:
        return bool(x.flags.c_contiguous)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        raise NotImplementedError

    def limits(self, arrays: Mapping[str, Any]) -> tuple[int, str]:
        """Bytes of shared memory that a block may have, and the architecture ('' where that does not matter).

        Raises:
            ValueError: the arrays are on several devices.
        """
        raise NotImplementedError

    def launch(self, launch: Launch, arrays: Mapping[str, Any]) -> None:
        """One kernel."""
        raise NotImplementedError

    def memory(self, name: str, dtype: str, size: int, arrays: Mapping[str, Any]) -> Any:
        """Memory for ``size`` elements that launches in the current stream leave for each other: an array."""
        raise NotImplementedError

    # ----------------------------------------------------------------------------------------------------------- calls

    def functional(self, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """Run into new arrays, and return them: outputs, then what is updated in place."""
        e = self.exported
        held = dict(arrays)
        self._check({n: x for n, x in held.items() if x is not None})
        instance = e._instance(self._dtypes(held))
        shapes = e.shapes_of_outputs(_shapes(held), given)
        like = next(x for x in held.values() if x is not None)
        outputs = [p.name for p in e.buffers if p.role == "out"]
        updated = [p.name for p in e.buffers if p.role == "inout"]
        for n in outputs:
            held[n] = self.empty(tuple(int(v) for v in shapes[n]), STORED[instance.dtypes[n]], like)
        for n in updated:
            held[n] = held[n].copy()
        self.run(held, given)
        made = [held[n] for n in (*outputs, *updated)]
        return made[0] if len(made) == 1 else tuple(made)

    def run(self, arrays: Mapping[str, Any], given: Mapping[str, Any], force: int | None = -1) -> Launch | None:
        """Run into ``arrays``; what was launched. ``force``: the number of a variant, or None for the original, in
        place of the choice (a variant whose conditions do not hold is not launched).

        Raises:
            TypeError, ValueError: dtypes, shapes or layouts that the kernel cannot take.
        """
        present = {n: x for n, x in arrays.items() if x is not None}
        self._check(present)
        call = self.exported.call(_shapes(arrays), self._dtypes(arrays), given)
        spans = {n: None if x is None else self.span(x) for n, x in arrays.items()}
        if why := overlapping(self.exported, spans):
            raise ValueError(why)
        addresses = {n: None if s is None else s[0] for n, s in spans.items()}
        limits = self.limits(present)
        launch = call.launch(addresses, *limits) if force == -1 else call.forced(force)
        steps = launch.steps if launch is not None else []
        if launch is not None and steps:
            made = {n: self.memory(n, t, size, present) for n, t, size in launch.passed_on()}
            for step in steps:
                self.launch(step, {**arrays, **made})
        return launch

    def _check(self, arrays: Mapping[str, Any]) -> None:
        for n, x in arrays.items():
            if not self.is_array(x):
                raise TypeError(f"{n}: a {type(x).__module__}.{type(x).__name__}, expected a {self.what}")
            if not self.contiguous(x):
                raise ValueError(f"{n}: not C-contiguous (strides {tuple(x.strides)}): pass a contiguous copy")

    def _dtypes(self, arrays: Mapping[str, Any]) -> dict[str, str | None]:
        """dtypes as ``kernel.json`` names them: of several names for the same bits, one that some kernel takes."""
        found: dict[str, str | None] = {}
        for n, x in arrays.items():
            if x is None:
                found[n] = None
                continue
            stored = LIKE.get(x.dtype.name, x.dtype.name)
            taken = (i.dtypes[n] for i in self.exported.instances if STORED[i.dtypes[n]] == stored)
            found[n] = next(taken, stored)
        return found


def _shapes(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {n: None if x is None else tuple(x.shape) for n, x in arrays.items()}
