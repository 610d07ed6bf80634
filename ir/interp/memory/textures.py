"""Textures and surfaces: arrays behind a handle, fetched as a default descriptor does.

A texture object is a 64-bit number in the program. The argument of such a parameter is an array, (depth,) (height,)
width (, lanes); the interpreter gives it a handle. A fetch reads the nearest element of unnormalised coordinates,
clamped to the edge: what a zero-initialised ``cudaTextureDesc`` of a CUDA array does. Filtering and normalised
coordinates are the host's setting, which the kernel cannot see: two versions of a kernel that fetch alike agree under
any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.execution.frames import Active, Frame, spread
from ktc.ir.nodes import Call
from ktc.ir.types import Scalar, Vec, scalar_of

if TYPE_CHECKING:
    from ktc.ir.interp.execution.expressions import Evaluator

FIRST_HANDLE = 1 << 20

FETCHES = {"tex1Dfetch": 1, "tex1D": 1, "tex2D": 2, "tex3D": 3, "tex1DLod": 1, "tex2DLod": 2, "tex3DLod": 3,
           "tex1DLayered": 2, "tex2DLayered": 3}  # fmt: skip
"""Coordinates that pick the element; a level of detail after them is level 0 of an array without mipmaps."""

SURFACES = {"surf1D": 1, "surf2D": 2, "surf3D": 3, "surf1DLayered": 2, "surf2DLayered": 3}


def bind(textures: list[np.ndarray], array: np.ndarray) -> int:
    """The handle of a texture argument."""
    textures.append(np.array(array))
    return FIRST_HANDLE + len(textures) - 1


def is_texture_call(fn: str) -> bool:
    return fn in FETCHES or fn.startswith("surf")


def texture_call(ev: Evaluator, e: Call, frame: Frame, act: Active) -> Any:
    """A fetch, surface read or surface write."""
    state, n = ev.state, frame.count(act)
    args = [spread(ev(a, frame, act), n) for a in e.args]
    writes = "write" in e.fn
    value = args.pop(0) if writes else None
    t = e.args[0].type if writes else e.ty
    stem = e.fn.partition("_")[0].removesuffix("read").removesuffix("write")
    count = FETCHES.get(e.fn) or SURFACES.get(stem)
    if count is None:
        raise Unsupported(f"no meaning for '{e.fn}'", state.where())
    handle = args[0].astype(np.int64) - FIRST_HANDLE
    if n == 0:
        return np.zeros(0)
    if (handle != handle[0]).any() or not 0 <= handle[0] < len(state.textures):
        raise Unsupported("a texture object that is not one argument of the kernel", state.where())
    lanes = state.int_of(t.n) if isinstance(t, Vec) else 1
    array = state.textures[int(handle[0])]
    elem = scalar_of(t)
    texels = array if array.ndim > count else array.reshape(*array.shape[:-1], -1, lanes)
    if texels.shape[-1] != lanes or texels.ndim != count + 1:
        shape = "x".join(map(str, array.shape))
        raise Unsupported(f"'{e.fn}' of {lanes} lanes from an array of shape {shape}", state.where())
    index, outside = [], np.zeros(n, bool)
    for axis, (c, extent) in enumerate(zip(args[1 : count + 1], reversed(texels.shape[:count]))):
        where = _position(c, axis, e, elem, lanes)
        outside |= (where < 0) | (where >= extent)
        index.append(np.clip(where, 0, extent - 1))
    at = tuple(reversed(index))
    is_surface = e.fn.startswith("surf")
    if is_surface and outside.any() and not e.fn.endswith(("_zero", "_clamp")):
        state.report("out-of-bounds", f"'{e.fn}' outside the surface", frame, act, outside)
    if writes:
        keep = ~outside
        data = np.asarray(state.domain.decode_any(np.ascontiguousarray(value).reshape(-1), elem)).reshape(n, lanes)
        texels[tuple(i[keep] for i in at)] = data[keep]
        return np.int32(0)
    found = texels[at]
    if (is_surface and not e.fn.endswith("_clamp")) or e.fn == "tex1Dfetch":
        found = np.where(outside[:, None], 0, found).astype(texels.dtype)
    out = state.domain.encode_any(np.ascontiguousarray(found), elem).reshape(n, lanes)
    return out if isinstance(t, Vec) else out[:, 0]


def _position(c: np.ndarray, axis: int, e: Call, elem: Scalar, lanes: int) -> np.ndarray:
    """The element along one axis: coordinates of textures are floats, a surface's x counts bytes."""
    if e.fn.startswith("surf"):
        return c.astype(np.int64) // (elem.bytes * lanes if axis == 0 else 1)
    if not np.issubdtype(c.dtype, np.floating):
        return c.astype(np.int64)
    return np.floor(np.nan_to_num(c.astype(np.float64), nan=0.0, posinf=2**40, neginf=-(2**40))).astype(np.int64)
