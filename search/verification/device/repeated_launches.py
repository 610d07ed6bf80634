"""A kernel of one sweep held against one of several: the first is launched as often, two buffers swapped in between.

``temporal-block`` makes the second from the first. After ``n`` launches, what the last one wrote is the result, in
whichever of the two buffers it is; everything else stays as it was before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from ktc.ir.kernel import Kernel, Repeat


class _Launches(Protocol):
    def launch(self, args: Mapping[str, Any]) -> object: ...


def in_step(original: Kernel, candidate: Kernel) -> Kernel | None:
    """``original`` launched as often as one launch of ``candidate`` stands for; None if that is no whole number, or
    nothing allows it."""
    if candidate.sweeps == original.sweeps:
        return original
    if original.repeat is None or candidate.repeat is None or candidate.repeat.swap != original.repeat.swap:
        return None
    launches, odd = divmod(candidate.sweeps, original.sweeps)
    if odd:
        return None
    return original.with_(repeat=dataclasses.replace(original.repeat, sweeps=candidate.sweeps, launches=launches))


def launch_in_step(exe: _Launches, args: Mapping[str, Any], repeat: Repeat | None, spare: Any) -> str:
    """Launch ``repeat.launches`` times; the name of the buffer that the result is in: the written one, or (after an
    even number) the one that is read, whose place ``spare``, a copy of it, takes."""
    if repeat is None or repeat.launches == 1:
        exe.launch(args)
        return repeat.swap[1] if repeat else ""
    read, written = repeat.swap
    here = {**args, read: spare}
    for k in range(repeat.launches):
        exe.launch(here)
        if k + 1 < repeat.launches:
            here = {**here, read: here[written], written: here[read]}
    return written if repeat.launches % 2 else read


def swapped(values: Mapping[str, Any], outputs: Mapping[str, Any], repeat: Repeat) -> dict[str, Any]:
    """The arguments of the next launch after one that turned ``values`` into ``outputs``."""
    read, written = repeat.swap
    return {**values, read: outputs[written], written: values[read]}


__all__ = ["in_step", "launch_in_step", "swapped"]
