"""What supervisor and workers say to each other: values as JSON, big arrays in files with their SHA-256.

No pickle anywhere: kernels travel as JSON too (:mod:`ktc.ir.kernel_json`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ktc.backends.base import DeviceInfo, Emitted, Timing
from ktc.ir.kernel_json import kernel_from_json, kernel_to_json

from .worker_messages import ProtocolError


@dataclass(frozen=True)
class FromWorkload:
    """Inputs made by the workload at ``path`` (its file or folder), in the worker itself."""

    path: str
    sizes: Mapping[str, int | float]
    variant: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Raw:
    """Inputs given as values; ``outputs`` names the arrays that the kernel writes."""

    values: Mapping[str, Any]
    outputs: tuple[str, ...]


Inputs = FromWorkload | Raw


@dataclass(frozen=True)
class Reply:
    """A worker's answer. ``status``: ok, or why not (see :data:`ktc.search.records.outcome.STATUSES`); ``data`` is
    JSON."""

    status: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "ok"


# --------------------------------------------------------------------------------------------------------- small values


def code_to_json(code: Emitted) -> dict[str, Any]:
    """Printed code and its kernel; :func:`code_from_json` reads it back."""
    return {
        "text": code.text, "entry": code.entry, "target": code.target, "options": list(code.options),
        "notes": list(code.notes), "kernel": kernel_to_json(code.kernel),
        "launches": list(map(code_to_json, code.launches)),
    }  # fmt: skip


def code_from_json(m: Mapping[str, Any]) -> Emitted:
    """Raises KtcError when the kernel is none."""
    return Emitted(
        m["text"], m["entry"], m["target"], kernel_from_json(m["kernel"]), tuple(m["options"]), tuple(m["notes"]),
        tuple(map(code_from_json, m.get("launches", ()))),
    )  # fmt: skip


def device_to_json(d: DeviceInfo) -> dict[str, Any]:
    return {**dataclasses.asdict(d), "extra": dict(d.extra)}


def device_from_json(m: Mapping[str, Any]) -> DeviceInfo:
    return DeviceInfo(**m)


def timing_to_json(t: Timing) -> dict[str, Any]:
    return dataclasses.asdict(t)


def timing_from_json(m: Mapping[str, Any]) -> Timing:
    return Timing(**m)


# -------------------------------------------------------------------------------------------------------------- buffers


def save_array(array: np.ndarray, folder: Path) -> dict[str, Any]:
    """Write raw bytes to ``folder``, named by their hash (equal arrays are written once); returns the description."""
    data = np.ascontiguousarray(array)
    raw = data.reshape(-1).view(np.uint8)
    digest = hashlib.sha256(raw.data).hexdigest()
    path = folder / f"{digest}.raw"
    if not path.exists():
        tmp = folder / f".{digest}.tmp"
        tmp.write_bytes(raw.tobytes())
        tmp.rename(path)
    return {"file": str(path), "sha256": digest, "dtype": data.dtype.name, "shape": list(data.shape)}


def load_array(m: Mapping[str, Any], folder: Path) -> np.ndarray:
    """Read a described array back. Raises ProtocolError for a path outside ``folder``, a wrong size or hash."""
    path = Path(m["file"])
    if path.parent != folder:
        raise ProtocolError(f"{path} is not in the buffer folder")
    try:
        raw = np.fromfile(path, np.uint8)
    except OSError as e:
        raise ProtocolError(f"cannot read {path}: {e}") from None
    if hashlib.sha256(raw.data).hexdigest() != m["sha256"]:
        raise ProtocolError(f"{path} is damaged")
    try:
        return raw.view(_dtype(m["dtype"])).reshape(m["shape"])
    except (TypeError, ValueError) as e:
        raise ProtocolError(f"{path}: {e}") from None


def _dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, None) or name)


def inputs_to_json(inputs: Inputs, folder: Path) -> dict[str, Any]:
    """What the arguments are made from, or the arguments themselves with arrays as files in ``folder``."""
    if isinstance(inputs, FromWorkload):
        return {"workload": inputs.path, "sizes": dict(inputs.sizes), "variant": inputs.variant, "seed": inputs.seed}
    values = {k: save_array(v, folder) if isinstance(v, np.ndarray) else v for k, v in inputs.values.items()}
    return {"values": values, "outputs": list(inputs.outputs)}


def inputs_from_json(m: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Argument values by name, large arrays that repeat a block as :class:`Repeated`, and the names of the arrays that
    are written."""
    if "workload" in m:
        from ktc.ir.workload import Workload

        work = Workload.load(m["workload"])
        values = work.describe_inputs(m["sizes"], variant=m["variant"], seed=m["seed"])
        return values, [a.name for a in work.args if a.role in ("out", "inout")]
    values = {k: load_array(v, folder) if isinstance(v, dict) else v for k, v in m["values"].items()}
    return values, list(m["outputs"])
