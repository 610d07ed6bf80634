"""Recorded tuning spaces: reading them as a simulated device, and Kernel Tuner's interchange files.

Three JSON formats, plain or gzipped: Kernel Tuner's own *cache* (``{"tune_params", "cache": {"v1,v2": {...}}}``), the
community's T4 *results* and T1 *input* (parameters and conditions). Times in the files are milliseconds, here seconds.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import KnobDecl
from ktc.search.recorded.kernel_tuner_conditions import from_python
from ktc.search.records.outcome import Outcome, objective
from ktc.search.records.recipe import write_whole
from ktc.search.space.knob_space import Config, Space

SCENARIO = "recorded"
"""Name of the one scenario of a recorded space."""


@dataclass(frozen=True)
class Recorded:
    """A measured space: every configuration's outcome, without a device. ``best`` is the least time in seconds."""

    space: Space
    outcomes: Mapping[tuple[int, ...], Outcome]
    device: str
    kernel: str

    def evaluate(self, config: Mapping[str, int], incumbent: Mapping[str, float] | None = None) -> Outcome:
        """The recorded outcome; an unrecorded configuration is infeasible."""
        return self.outcomes.get(tuple(config[n] for n in self.space.names), Outcome("infeasible"))

    @property
    def best(self) -> float:
        return min(t for o in self.outcomes.values() if (t := objective(o)) is not None)


def load_recorded(path: str | Path, space: str | Path | None = None) -> Recorded:
    """A cache or a T4 file. ``space``: the T1 file of the space that was measured; results alone show only the
    configurations that were.

    Raises:
        KtcError: E-REPLAY-READ or E-REPLAY-FORMAT (both exit 2).
    """
    data = _read(path)
    readers = {"cache": _from_cache, "results": _from_t4}
    for key, reader in readers.items():
        if isinstance(data, dict) and key in data:
            try:
                found = reader(data)
                return found if space is None else _within(found, load_t1(space), path)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as err:
                raise _bad(path, f"is not a complete recorded space: {err!r}") from None
    raise _bad(path, "has neither 'cache' nor 'results': it is no recorded space")


def _within(found: Recorded, space: Space, path: str | Path) -> Recorded:
    """``found`` with ``space`` for its own."""
    if set(space.names) != set(found.space.names):
        what = f"has measurements of {', '.join(found.space.names)}, the space has {', '.join(space.names)}"
        raise _bad(path, what)
    place = [found.space.names.index(n) for n in space.names]
    outcomes = {tuple(key[i] for i in place): o for key, o in found.outcomes.items()}
    return Recorded(space, outcomes, found.device, found.kernel)


def load_t1(path: str | Path) -> Space:
    """The space of a T1 file.

    Raises:
        KtcError: as :func:`load_recorded`, and those of :class:`Space`.
    """
    data = _read(path)
    try:
        space = data["ConfigurationSpace"]
        knobs = []
        for p in space["TuningParameters"]:
            values = ast.literal_eval(p["Values"]) if isinstance(p["Values"], str) else p["Values"]
            domain = tuple(_integer(v, p["Name"]) for v in values)
            default = p.get("Default", domain[0])
            default = default[0] if isinstance(default, list) else default
            knobs.append(KnobDecl(p["Name"], domain, default if default in domain else domain[0]))
        conditions = [from_python(c["Expression"]) for c in space.get("Conditions", [])]
    except (KeyError, TypeError, ValueError, SyntaxError, IndexError) as err:
        raise _bad(path, f"is not a T1 file: {err!r}") from None
    return Space(knobs, conditions)


def write_t1(path: str | Path, space: Space, *, name: str, specification: Mapping[str, Any] | None = None) -> None:
    """``space`` as a T1 file for Kernel Tuner; ``specification`` becomes its ``KernelSpecification``."""
    parameters = [
        {"Name": k.name, "Type": "int", "Values": str(list(space.domains[k.name])), "Default": space.default()[k.name]}
        for k in space.knobs
    ]
    conditions = [{"Expression": c.text, "Parameters": sorted(c.names)} for c in space.constraints if c.names]
    general = {"BenchmarkName": name, "OutputFormat": "JSON"}
    document = {
        "General": general,
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": dict(specification or {}),
    }
    write_whole(path, json.dumps(document, indent=1) + "\n")


def write_t4(path: str | Path, results: Iterable[tuple[Mapping[str, int], Outcome]]) -> None:
    """Measurements as a T4 file. The ``time`` of several scenarios is their geometric mean."""
    now = datetime.now(UTC).isoformat(sep=" ")
    rows = []
    for config, outcome in results:
        seconds = objective(outcome)
        measured = {"name": "time", "value": None if seconds is None else seconds * 1e3, "unit": "ms"}
        rows.append(
            {
                "timestamp": now,
                "configuration": dict(config),
                "times": {"runtimes": [s * 1e3 for s in outcome.seconds.values()]},
                "invalidity": _T4_NAMES[outcome.status],
                "correctness": int(outcome.ok),
                "measurements": [measured],
                "objectives": ["time"],
            }
        )
    document = {"metadata": {"timeunit": "miliseconds"}, "results": rows}  # the format's own spelling
    write_whole(path, json.dumps(document, indent=1) + "\n")


_T4_NAMES = {
    "ok": "correct",
    "compile-error": "compile",
    "wrong": "correctness",
    "crash": "runtime",
    "hang": "timeout",
    "infeasible": "constraints",
    "internal": "runtime",
    "lost": "runtime",
}
_T4_STATUS = {"correct": "ok", "compile": "compile-error", "correctness": "wrong", "timeout": "hang"} | {
    "constraints": "infeasible",
    "runtime": "crash",
}
_CACHE_STATUS = {"CompilationFailedConfig": "compile-error", "InvalidConfig": "infeasible"}


def _from_cache(data: Mapping[str, Any]) -> Recorded:
    names = list(data["tune_params_keys"] if "tune_params_keys" in data else data["tune_params"])

    def outcome(row: Mapping[str, Any]) -> Outcome:
        time = row["time"]
        if isinstance(time, str):
            return Outcome(_CACHE_STATUS.get(time, "crash"), details={"recorded": time})
        return _timed(float(time))

    rows = [({n: _integer(r[n], n) for n in names}, outcome(r)) for r in data["cache"].values()]
    return _recorded(
        names, rows, str(data.get("device_name", "")), str(data.get("kernel_name", "")), data["tune_params"]
    )


def _from_t4(data: Mapping[str, Any]) -> Recorded:
    def outcome(row: Mapping[str, Any]) -> Outcome:
        status = _T4_STATUS.get(row.get("invalidity", "correct"), "crash")
        times = [m["value"] for m in row["measurements"] if m["name"] == "time" and m["value"] is not None]
        return _timed(float(times[0])) if status == "ok" and times else Outcome(status if status != "ok" else "crash")

    results = data["results"]
    names = list(results[0]["configuration"]) if results else []
    rows = [({n: _integer(r["configuration"][n], n) for n in names}, outcome(r)) for r in results]
    meta = data.get("metadata", {})
    return _recorded(names, rows, str(meta.get("device", "")), str(meta.get("kernel", "")), None)


def _timed(milliseconds: float) -> Outcome:
    return Outcome("ok", {SCENARIO: milliseconds / 1e3})


def _recorded(
    names: list[str],
    rows: list[tuple[Config, Outcome]],
    device: str,
    kernel: str,
    domains: Mapping[str, Iterable[int]] | None,
) -> Recorded:
    values = domains or {n: {c[n] for c, _ in rows} for n in names}
    knobs = [KnobDecl(n, d := tuple(sorted(_integer(v, n) for v in values[n])), d[0]) for n in names]
    space = Space.of_configs(knobs, [c for c, _ in rows])
    return Recorded(space, {tuple(c[n] for n in names): o for c, o in rows}, device, kernel)


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool | int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise KtcError(
        "E-REPLAY-FORMAT",
        f"parameter '{name}' has the value {value!r}; knobs are integers",
        hint="number the alternatives in the file",
        exit_code=2,
    )


def _bad(path: str | Path, why: str) -> KtcError:
    return KtcError("E-REPLAY-FORMAT", f"{path} {why}", exit_code=2)


def _read(path: str | Path) -> Any:
    try:
        raw = Path(path).read_bytes()
        return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    except OSError as err:
        raise KtcError("E-REPLAY-READ", f"cannot read {path}: {err.strerror or err}", exit_code=2) from None
    except (ValueError, EOFError) as err:
        raise _bad(path, f"is not JSON: {err}") from None
