"""Exports at sizes that nobody tuned for: are they ever slower than the original, and what do they do with wrong calls?

    python -m tests.bench.exported FOLDER... [--device cuda|numba] [--budget 24] [--time-limit 20] [--measure 8]
                                   [--log rows.jsonl] [--seconds 540]
    python -m tests.bench.exported --table rows.jsonl

Of each folder with a workload: ``ktc optimize`` (all tuned scenarios, no memory), ``ktc export --measure N`` (for
PyTorch on CUDA, for numpy on a CPU), the package's own self-test, and then twenty sizes: 14 drawn between the least and
the greatest tuned ones, 6 up to twice as large. At each, what the export launches is timed beside the original, both
from the package, in turn. On CUDA: captured launches that rotate through more memory than the last cache holds.

PyTorch operators are also held to what PyTorch expects of them: ``torch.library.opcheck``, ``torch.compile`` of the
whole graph, and arguments of another dtype, rank, device or layout, which have to be refused. A row is appended to
``--log`` for each folder; those of the same code are not made again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ktc.exporting.probing import drawn_size
from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import runnable
from ktc.ir.workload.size_expressions import evaluate
from tests.bench.row_logs import append, logged, rows_of
from tests.code_hash import code_hash

INSIDE, BEYOND = 14, 6
MOST_ELEMENTS = 1 << 27
"""Of all arrays of a call: what makes inputs works on a CPU."""

TRIES = 1000
"""Sizes drawn for 14, or six: of many, arrays would be too large, or the original does not run."""

SAMPLES = 15
LIMIT = 1.03
"""Of the original's time, at most."""

COLUMNS = ("kernel", "sizes", "tuned kernel ran", "its time / original's", "worst of all", "at most 1.03", "self-test",
           "operators")  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--device", default="cuda")
    p.add_argument("--budget", type=int, default=24)
    p.add_argument("--time-limit", type=float, default=20.0)
    p.add_argument("--measure", type=int, default=8, help="sizes between scenarios that the export is measured at")
    p.add_argument("--log", type=Path, default=Path("exported.jsonl"))
    p.add_argument("--seconds", type=float, default=540.0)
    p.add_argument("--table", type=Path, help="only print the table of the rows in this file")
    a = p.parse_args()
    if a.table:
        print(table(rows_of(a.table)))
        return
    end = time.monotonic() + a.seconds
    made = {(r["kernel"], r["code"]) for r in logged(a.log)}
    for folder in a.folders:
        if (folder.name, code_hash()) in made or time.monotonic() > end:
            continue
        row = {"kernel": folder.name, "code": code_hash(), "device": a.device}
        with tempfile.TemporaryDirectory() as place:
            row |= measured(folder, Path(place), a)
        append(a.log, row)
        print(" | ".join(cells(row)), flush=True)


def measured(folder: Path, place: Path, a: argparse.Namespace) -> dict[str, Any]:
    """A row: the commands, and what the package does at twenty sizes."""
    run, out = place / "run", place / "out"
    target = "numpy" if a.device.startswith("numba") else "torch"
    found = ktc("optimize", folder, "--device", a.device, "--budget", a.budget, "--time-limit", a.time_limit,
                "--no-memory", "--out", run)  # fmt: skip
    if found.returncode:
        return {"failed": "optimize", "said": found.stderr[-600:]}
    export = ("export", run, "--to", target, "--device", a.device, "-o", out)
    done = ktc(*export, "--measure", a.measure)
    if "E-EXPORT-MEASURE" in done.stderr:  # a gain at one size, or at none: nothing lies between
        done = ktc(*export)
    if done.returncode:
        return {"failed": "export", "said": done.stderr[-600:]}
    tested = subprocess.run([sys.executable, "selftest.py"], cwd=out, capture_output=True, text=True, check=False)
    sys.path.insert(0, str(out))
    try:
        name = next(f.parent.name for f in out.glob("*/kernel.json"))
        package = importlib.import_module(name)
    finally:
        sys.path.pop(0)
    work = Workload.load(folder)
    side = Cpu(package) if target == "numpy" else Cuda(package)
    sizes = [side.row(work, s) for s in drawn(work)]
    row = {"selftest": tested.returncode, "said": tested.stdout.strip().splitlines()[-1:], "sizes": sizes}
    if isinstance(side, Cuda):
        from .torch_checks import checked

        row["operators"] = checked(side, work, min(drawn(work), key=lambda s: math.prod(s.values())))
    return row


def ktc(*words: object) -> subprocess.CompletedProcess[str]:
    """The command line's outcome."""
    command = python_module("ktc", *map(str, words))
    return subprocess.run(command, capture_output=True, text=True, env=python_environment(), check=False)


def drawn(work: Workload) -> list[dict[str, int]]:
    """Sizes that no scenario has and at which the original runs: even in their logarithms, as they come or as a
    multiple of 8 or 64. Those beyond the tuned ones have at least one size that is."""
    kernel, draw = work.load_kernel(), random.Random(0)
    tuned = [s.sizes for s in work.scenarios if s.tuned]
    known = [dict(s.sizes) for s in work.scenarios]
    low = {n: min(s[n] for s in tuned) for n in tuned[0]}
    high = {n: max(s[n] for s in tuned) for n in tuned[0]}
    found: list[dict[str, int]] = []
    for count, most in ((INSIDE, 1), (BEYOND, 2)):
        wanted, tries = len(found) + count, 0
        while len(found) < wanted and tries < TRIES:
            tries += 1
            sizes = {n: drawn_size(draw, low[n], most * high[n]) for n in low}
            with contextlib.suppress(ArithmeticError, ValueError):
                right = most == 1 or any(v > high[n] for n, v in sizes.items())
                elements = sum(math.prod(evaluate(n, sizes) for n in x.shape) for x in work.args if x.shape)
                few = elements <= MOST_ELEMENTS
                if right and few and sizes not in (*known, *found) and runnable(kernel, work, sizes):
                    found.append(sizes)
    return found


@dataclass
class Side:
    """A package on its device. ``calls``: what has ``run`` and ``exported``."""

    package: Any

    @property
    def calls(self) -> Any:
        return self.package.kernels

    def array(self, x: np.ndarray, dtype: str) -> Any:
        return x.copy()

    def call(self, work: Workload, sizes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Buffers and scalars by name."""
        e = self.calls.exported
        inputs = work.make_inputs(sizes, None, 0)
        arrays = {}
        for p in e.buffers:
            x = inputs[p.name]
            x = np.zeros_like(x) if p.role == "out" else x
            arrays[p.name] = None if x is None else self.array(x, e.instances[0].dtypes[p.name])
        loose = {s: sizes[s] for s in e.loose}
        return arrays, {p.name: inputs.get(p.name, sizes.get(p.name)) for p in e.scalars} | loose

    def times(self, arrays: dict[str, Any], given: dict[str, Any]) -> tuple[float, float]:
        """Seconds of a launch as the export chooses, and of the original."""
        raise NotImplementedError

    def row(self, work: Workload, sizes: Mapping[str, int]) -> dict[str, Any]:
        arrays, given = self.call(work, sizes)
        launch = self.calls.run(arrays, given)
        ran = launch is not None and launch.kernel.file.stem != "original"
        chosen, original = self.times(arrays, given)
        return {"sizes": dict(sizes), "tuned": ran, "chosen_s": chosen, "original_s": original}


class Cpu(Side):
    def times(self, arrays: dict[str, Any], given: dict[str, Any]) -> tuple[float, float]:
        samples: tuple[list[float], list[float]] = ([], [])
        for _ in range(SAMPLES):
            for k, force in enumerate((-1, None)):
                began = time.perf_counter()
                self.calls.run(arrays, given, force)
                samples[k].append(time.perf_counter() - began)
        return median(samples[0]), median(samples[1])


class Cuda(Side):
    @property
    def calls(self) -> Any:
        return self.package.operators

    def array(self, x: np.ndarray, dtype: str) -> Any:
        import torch

        types = sys.modules[type(self.calls).__module__].DTYPES  # the package's own table
        flat = torch.from_numpy(np.ascontiguousarray(x).reshape(-1).view(np.uint8)).cuda()
        return flat.view(types[dtype]).reshape(x.shape)

    def times(self, arrays: dict[str, Any], given: dict[str, Any]) -> tuple[float, float]:
        from .graphs import ROTATE_BYTES, Contender

        total = sum(t.nbytes for t in arrays.values() if t is not None)
        sets = [arrays]
        for _ in range(min(63, ROTATE_BYTES // max(total, 1))):
            sets.append({n: None if t is None else t.clone() for n, t in arrays.items()})
        both = [
            Contender(n, lambda s, force=force: self.calls.run(s, given, force), sets)  # type: ignore[misc]
            for n, force in (("chosen", -1), ("original", None))
        ]
        for c in both:
            c.capture()
        for _ in range(SAMPLES):
            for c in both:
                c.samples.append(c.sample())
        return median(both[0].samples), median(both[1].samples)


# --------------------------------------------------------------------------------------------------------------- table


def ratios(row: Mapping[str, Any], tuned: bool | None = None) -> list[float]:
    """Time of what the export launched over the original's, by size."""
    return [s["chosen_s"] / s["original_s"] for s in row["sizes"] if tuned is None or s["tuned"] is tuned]


def cells(row: Mapping[str, Any]) -> Iterator[str]:
    yield row["kernel"]
    if "failed" in row:
        yield f"ktc {row['failed']} failed: {' '.join(row['said'].split())[-200:]}"
        yield from [""] * (len(COLUMNS) - 2)
        return
    own, every = ratios(row, True), ratios(row)
    yield str(len(every))
    yield str(len(own))
    yield f"{min(own):.2f} to {max(own):.2f}" if own else "–"
    yield f"{max(every):.3f}"
    yield "yes" if max(every) <= LIMIT else "no"
    yield " ".join(row["said"])
    wrong = {k: v for k, v in row.get("operators", {}).items() if v}
    yield "–" if "operators" not in row else "; ".join(f"{k}: {v}" for k, v in wrong.items()) or "all pass"


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*lines, *(f"| {' | '.join(cells(r))} |" for r in rows)])


if __name__ == "__main__":
    main()
