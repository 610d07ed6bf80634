"""Buffers for a checked launch: red zones around each, poison in the outputs, inputs compared after the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktc.backends.base import Executable, Runtime
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Repeat
from ktc.ir.workload import Workload

from .repeated_launches import launch_in_step

ZONE_BYTES = 512
ZONE = 0x41
"""First byte pattern of the zones; each buffer has its own, so that copying one zone onto another shows."""

POISONS = (0xFF, 0x11)
"""Byte patterns: NaN in every float type, and a small number."""

_OFFSETS = frozenset({"cuda", "hip", "numba"})
"""Backends whose arrays can be passed as views with an offset, so that there is room for a zone in front too."""


@dataclass(frozen=True)
class Launched:
    """Outputs after a launch, and what it touched without permission ('' if nothing)."""

    outputs: dict[str, np.ndarray]
    trespass: str = ""


def launch_checked(
    runtime: Runtime,
    exe: Executable,
    workload: Workload,
    inputs: Mapping[str, Any],
    poison: int,
    repeat: Repeat | None = None,
) -> Launched:
    """One launch (or as many as ``repeat`` says) on fresh allocations. ``poison`` fills pure outputs."""
    front = runtime.device.backend in _OFFSETS
    roles = {a.name: a.role for a in workload.args}
    host: dict[str, np.ndarray] = {}
    device: dict[str, Any] = {}
    args: dict[str, Any] = {}
    for name, value in inputs.items():
        if not isinstance(value, np.ndarray):
            args[name] = value
            continue
        content = _filled(value, poison) if roles.get(name) == "out" else value
        host[name] = _padded(content, front, ZONE + len(host) % 64)
        device[name] = runtime.to_device(host[name])
        start = _zone(value) if front else 0
        args[name] = device[name][start : start + value.size] if front else device[name]
    spare: Any = None
    whole: Any = None
    if repeat is not None and repeat.launches > 1:
        read = repeat.swap[0]
        whole = runtime.to_device(host[read])
        start = _zone(inputs[read]) if front else 0
        spare = whole[start : start + inputs[read].size] if front else whole
    at = launch_in_step(exe, args, repeat, spare)
    runtime.synchronize()
    outputs, trespass = {}, ""
    for name, before in host.items():
        after = runtime.to_host(device[name], before).reshape(-1)
        value = inputs[name]
        start = _zone(value) if front else 0
        inside = slice(start, start + value.size)
        trespass = trespass or _trespass(name, before, after, inside, roles.get(name, "in") == "in")
        if roles.get(name) in ("out", "inout"):
            outputs[name] = after[inside].reshape(value.shape)
    if spare is not None and repeat is not None and at == repeat.swap[0]:
        read, written = repeat.swap
        after = runtime.to_host(whole, host[read]).reshape(-1)
        inside = slice(start := _zone(inputs[read]) if front else 0, start + inputs[read].size)
        trespass = trespass or _trespass(read, host[read], after, inside, False)
        outputs[written] = after[inside].reshape(inputs[read].shape)
    return Launched(outputs, trespass)


def _trespass(name: str, before: np.ndarray, after: np.ndarray, inside: slice, read_only: bool) -> str:
    changed = bits_differ(before, after)
    if read_only and changed[inside].any():
        return f"input {name}[{int(np.argmax(changed[inside]))}] was overwritten"
    outside = changed.copy()
    outside[inside] = False
    if outside.any():
        return f"memory outside {name} was overwritten, at element {int(np.argmax(outside)) - inside.start}"
    return ""


def _zone(value: np.ndarray) -> int:
    return ZONE_BYTES // value.dtype.itemsize


def _filled(like: np.ndarray, byte: int, size: int | None = None) -> np.ndarray:
    n = like.size if size is None else size
    return np.full(n * like.dtype.itemsize, byte, np.uint8).view(like.dtype)


def _padded(content: np.ndarray, front: bool, byte: int) -> np.ndarray:
    zone = _filled(content, byte, _zone(content))
    flat = content.reshape(-1)
    return np.concatenate([zone, flat, zone] if front else [flat, zone])
