"""Each exported kernel against the original one, on the small inputs of ``selftest.npz``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .dispatch import Exported, Launch

EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52, "e4m3": 2.0**-3, "e5m2": 2.0**-2}

Run = Callable[[Mapping[str, Any], Mapping[str, Any], "int | None"], "Launch | None"]
"""Buffers and scalars by name, and which kernel (None: the original); what was launched."""


def check(
    exported: Exported,
    data: Path,
    to_device: Callable[[np.ndarray, str], Any],
    to_host: Callable[[Any, str], np.ndarray],
    run: Run,
) -> int:
    """Run every case of ``data``, say how it went, and return the exit code: 0 if all agree.

    ``to_device`` and ``to_host`` move arrays, with their dtype as ``kernel.json`` names it; bf16 and 8-bit floats
    travel as their bits.
    """
    stored = np.load(data)
    failed = ran = 0
    for number, case in enumerate(json.loads(str(stored["cases"]))):
        instance = exported.instances[case["instance"]]
        arrays = {n: stored.get(f"{number}/{n}") for n in case["buffers"]}

        def results(which: int | None) -> dict[str, np.ndarray] | None:
            device = {n: None if a is None else to_device(a, instance.dtypes[n]) for n, a in arrays.items()}  # noqa: B023
            if run(device, case["given"], which) is None:  # noqa: B023
                return None
            return {
                p.name: to_host(device[p.name], instance.dtypes[p.name])  # noqa: B023
                for p in exported.buffers
                if p.role != "in" and device[p.name] is not None
            }

        wanted = results(None)
        assert wanted is not None
        for which, kernel in enumerate(instance.variants):
            got = results(which)
            said = f"{case['name']}: {kernel.file.name} ({kernel.data['script']})"
            if got is None:
                print(f"skip  {said}: its conditions do not hold at these sizes, where the original runs")
                continue
            ran += 1
            wrong = [w for n in wanted if (w := _difference(n, got[n], wanted[n], instance.dtypes[n]))]
            failed += bool(wrong)
            print(f"{'FAIL' if wrong else 'ok  '}  {said}{': ' + '; '.join(wrong) if wrong else ''}")
    print(f"{ran} comparisons with the original kernel, {failed} failed")
    return 1 if failed or not (ran or not any(i.variants for i in exported.instances)) else 0


def _difference(name: str, got: np.ndarray, wanted: np.ndarray, dtype: str) -> str:
    """What is wrong with ``got``: '' if it equals ``wanted``, or differs by what another order of sums explains."""
    if np.array_equal(got.view(np.uint8), wanted.view(np.uint8)):
        return ""
    if dtype not in EPSILON:
        n = int(np.count_nonzero(got != wanted))
        close = got.dtype.itemsize == 1 and int(np.abs(got.astype(int) - wanted.astype(int)).max()) <= 1  # a rounding
        return "" if close else f"{name}: {n} of {got.size} elements differ"
    a, b = (as_float(x, dtype) for x in (got, wanted))
    finite = np.isfinite(b)
    infinite = ~finite & ~np.isnan(b)
    same = np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(a[infinite], b[infinite])
    bound = 64 * EPSILON[dtype] * (np.abs(b[finite]) + (np.abs(b[finite]).mean() if finite.any() else 0.0))
    off = np.abs(a[finite] - b[finite])
    return "" if same and bool((off <= bound).all()) else f"{name}: off by up to {off.max() if off.size else 'NaN'}"


def as_float(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Values in float64; bf16 and 8-bit floats from their bits."""
    if dtype == "bf16":
        return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in ("e4m3", "e5m2"):
        exponent_bits, bias = (4, 7) if dtype == "e4m3" else (5, 15)
        raw = bits.view(np.uint8).astype(np.int64)
        mantissa_bits = 7 - exponent_bits
        exponent, mantissa = raw >> mantissa_bits & (1 << exponent_bits) - 1, raw & (1 << mantissa_bits) - 1
        fraction = mantissa / (1 << mantissa_bits)
        value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
        top = exponent == (1 << exponent_bits) - 1
        special = top & (mantissa == 7) if dtype == "e4m3" else top
        value = np.where(special, np.where((mantissa == 0) & (dtype == "e5m2"), np.inf, np.nan), value)
        return np.where(raw >> 7 == 1, -value, value)
    return bits.astype(np.float64)
