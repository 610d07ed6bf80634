"""Launcher texts of the kernel library through the compilers of their languages: one text holds the original, the tuned
kernel and the host code that chooses between them.

    python -m tests.bench.launchers [--target cuda hip opencl] [--every N] [--together N]

Of each kernel: raised, after each of its scripts, and after the first step that each pass proposes for it. Prints one
JSON document: how many texts and passes, what no language prints, and what a compiler refuses.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ktc
from ktc import emission
from ktc.passes.core.language import parse_script
from tests.backends.launchers.host_compilers import COMPILERS, compiler_of, refusals
from tests.paths import WORKLOADS


def programs(every: int = 1) -> Iterator[tuple[str, ktc.Program]]:
    """Every ``every``-th program, under a name of its own."""
    yield from list(_all_programs())[::every]


def _all_programs() -> Iterator[tuple[str, ktc.Program]]:
    for path in WORKLOADS:
        kernel = path.parent.name
        start = ktc.load(kernel)
        raised = start.apply("raise").ok
        yield f"{kernel}: raise", raised
        for script in sorted(path.parent.glob("*.ktp")):
            yield f"{kernel}: {script.stem}", start.apply(script.read_text()).ok
        for name, sites in raised.sites().items():
            if name != "raise" and sites and not (after := raised.apply(sites[0].step)).refused:
                yield f"{kernel}: {sites[0].step}", after


def passes_of(program: ktc.Program) -> set[str]:
    return {step.name for step in parse_script(program.script).steps}


def compiled(target: str, every: int, together: int) -> dict[str, Any]:
    """What becomes of the programs in one language."""
    if compiler_of(target) is None:
        return {"texts": 0, "why": f"{' or '.join(COMPILERS[target])} is not installed"}
    texts, passes, unprinted = dict[str, str](), set[str](), Counter[str]()
    for name, program in programs(every):
        try:
            texts[name] = emission.emit(program, target, "launcher", {}).text
            passes |= passes_of(program)
        except ktc.KtcError as e:
            unprinted[e.code] += 1
    refused: dict[str, str] = {}
    names = list(texts)
    with tempfile.TemporaryDirectory(prefix="ktc-") as folder:
        for k in range(0, len(names), together):
            refused |= refusals(target, {n: texts[n] for n in names[k : k + together]}, Path(folder))
    return {"texts": len(texts), "passes": len(passes), "unprinted": dict(unprinted), "refused": refused}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs="+", choices=list(COMPILERS), default=list(COMPILERS))
    parser.add_argument("--every", type=int, default=1, help="every N-th program")
    parser.add_argument("--together", type=int, default=40, help="texts of C++ compiled as one")
    args = parser.parse_args()
    found = {target: compiled(target, args.every, args.together) for target in args.target}
    total = {
        "texts": sum(f["texts"] for f in found.values()),
        "refused": sum(len(f.get("refused", ())) for f in found.values()),
        "targets": found,
    }
    print(json.dumps(total))
    return 1 if total["refused"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
