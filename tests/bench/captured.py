"""The table of kernels whose captured launches were run again: facts of a run, no measurement of time.

    python -m tests.bench.captured RESULTS.jsonl... --device 'NVIDIA H200' --out kernels/CAPTURED.md

Each line of RESULTS is an object: ``name``, the program's, and ``outcomes``, as ``ktc rerun --json`` prints them. A
program that occurs again replaces what came before. A kernel's row has the worst verdict of its launches.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.captured import spelled
from tests.paths import KERNELS

WORST = ("identical", "within", "unstable", "refused", "failed", "differs")
"""Verdicts, the best first."""

BACKENDS = ("cuda", "hip", "opencl")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=Path, nargs="+")
    p.add_argument("--device", required=True)
    p.add_argument("--out", type=Path, default=KERNELS / "CAPTURED.md")
    a = p.parse_args()
    lines = [json.loads(line) for f in a.results for line in f.read_text("utf-8").splitlines()]
    a.out.write_text(table(kernels(lines), a.device), encoding="utf-8")


def kernels(lines: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, list[dict[str, Any]]]]:
    """Outcomes by (program, kernel) and backend; kernels that the sources lack are left out."""
    programs = {line["name"]: line["outcomes"] for line in lines if line.get("outcomes")}
    found: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for name, outcomes in sorted(programs.items()):
        for o in outcomes:
            if o["status"] != "absent":
                found.setdefault((name, o["kernel"]), {}).setdefault(o["backend"], []).append(o)
    return found


def table(found: dict[tuple[str, str], dict[str, list[dict[str, Any]]]], device: str) -> str:
    """The table as Markdown."""
    worst = {key: {b: worst_of(rows) for b, rows in backends.items()} for key, backends in found.items()}
    out = [
        "# Captured launches of real programs, run again",
        "",
        f"{device}, {datetime.date.today().isoformat()}. Programs of public suites run with their own drivers and "
        "inputs under `ktc capture`, each",
        "captured launch run again by `ktc rerun` with the kernel as ktc prints it (no passes), all on the same GPU.",
        "*identical*: every byte of every allocation and variable that the launch reaches. *within*: floats differ by",
        "what rounding explains (in brackets the largest difference, relative to the element and its buffer's root",
        "mean square). *unstable*: two runs of the original from one state differ there too. HIP runs through a thin",
        "header.",
        "",
        "| verdict | " + " | ".join(BACKENDS) + " |",
        "|---|" + "---|" * len(BACKENDS),
    ]
    counts = {b: Counter(row[b]["status"] for row in worst.values() if b in row) for b in BACKENDS}
    for status in WORST:
        if any(counts[b][status] for b in BACKENDS):
            out.append(f"| {status} | " + " | ".join(str(counts[b][status]) for b in BACKENDS) + " |")
    programs = len({name for name, _ in found})
    out += ["", f"{len(found)} kernels of {programs} programs:", ""]
    out.append("| program | kernel | launches | bytes | " + " | ".join(BACKENDS) + " |")
    out.append("|---|---|---|---|" + "---|" * len(BACKENDS))
    for (name, kernel), backends in found.items():
        rows = next(iter(backends.values()))
        cells = [cell(worst[name, kernel].get(b)) for b in BACKENDS]
        size = max(o["bytes"] for o in rows)
        out.append(f"| {name} | `{short(kernel)}` | {len(rows)} | {size} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def worst_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def badness(o: dict[str, Any]) -> tuple[int, float]:
        return WORST.index(o["status"]), max((d["largest"] or 0.0 for d in o["differences"]), default=0.0)

    return max(rows, key=badness)


def cell(o: dict[str, Any] | None) -> str:
    if o is None:
        return ""
    if o["status"] == "within":
        return f"within ({max(d['largest'] for d in o['differences']):.1e})"
    return f"{o['status']}: {o['code']}" if o["status"] in ("refused", "failed") and o["code"] else o["status"]


def short(kernel: str) -> str:
    """The kernel's name with its template arguments, without its parameters."""
    try:
        parts = spelled(kernel)
    except KtcError:
        return kernel[:60]
    args = f"<{', '.join(parts.args)}>" if parts.args else ""
    text = "::".join((*parts.namespace, parts.name)) + args
    return text if len(text) <= 80 else text[:77] + "..."


if __name__ == "__main__":
    main()
