"""Every text that ktc prints of the kernel library and of trees of sources, as hashes: what a refactoring must not
move.

    python -m tests.bench.texts record OUT.jsonl [TREE...] [--every N] [--jobs N] [--seconds N]
    python -m tests.bench.texts compare BEFORE.jsonl AFTER.jsonl

Of each kernel: its IR as written, the same raised, the first place that each pass proposes for the raised one, and each
of these in every language. What is refused counts too, by code and sentence. A kernel that takes longer than
``--seconds`` on a processor is recorded as slow from that stage on, and ``compare`` passes over what is slow in either
file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BACKENDS = ("cuda", "hip", "opencl", "numba")
LIBRARY = "library:"
"""Before the name of a library kernel, in place of a path."""


class Slow(BaseException):
    """The kernel's time is up. No ``Exception``: nothing on the way may take it for a refusal."""


def _on_alarm(*_: object) -> None:
    raise Slow


def stages(path: str, kernel: str | None) -> Iterator[tuple[str, str]]:
    """What is printed of one kernel, stage by stage: the stage's name, and a text or why there is none."""
    import ktc

    program = ktc.load(path, name=kernel)
    yield from _printed("source", program)
    raised = program.apply("raise")
    if raised.refused:
        yield "raise", _refusal(raised.refused)
        raised = program
    else:
        yield "raise notes", "\n".join(raised.notes)
        yield from _printed("raise", raised)
    for name, sites in raised.sites().items():
        if name == "raise" or not sites:
            continue
        step = str(sites[0].step)
        after = raised.apply(step)
        if after.refused:
            yield step, _refusal(after.refused)
        else:
            yield from _printed(step, after)


def _printed(stage: str, program: Any) -> Iterator[tuple[str, str]]:
    from ktc.ir.diagnostics import KtcError

    yield stage, program.text()
    for backend in BACKENDS:
        try:
            yield f"{stage} -> {backend}", program.lower(backend).text
        except KtcError as e:
            yield f"{stage} -> {backend}", _refusal(e)
        except Exception as e:
            yield f"{stage} -> {backend}", f"{type(e).__name__}: {e}"


def _refusal(e: Any) -> str:
    return f"{e.code}: {getattr(e, 'why', None) or getattr(e, 'message', e)}"


def kernels_of(path: str) -> list[str | None]:
    """The kernels of a source file by name; [] where it cannot be read, [None] for the one of the library."""
    from ktc.ir.diagnostics import KtcError
    from ktc.ir.frontend import list_kernels

    if path.startswith(LIBRARY):
        return [None]
    try:
        return list(dict.fromkeys(k.name for k in list_kernels(path)))
    except KtcError:
        return []


def record_file(task: tuple[str, float]) -> list[dict[str, str]]:
    """One row a stage of every kernel of a file: ``{"file", "kernel", "stage", "sha" or "slow" or "error"}``."""
    path, seconds = task
    sys.setrecursionlimit(10_000)
    signal.signal(signal.SIGPROF, _on_alarm)
    rows: list[dict[str, str]] = []
    try:
        names = kernels_of(path)
    except Exception as e:
        return [{"file": path, "kernel": "", "stage": "list", "error": f"{type(e).__name__}: {e}"}]
    for name in names:
        row = {"file": path, "kernel": name or ""}
        stage = "load"
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            for stage, text in stages(path.removeprefix(LIBRARY), name):
                rows.append({**row, "stage": stage, "sha": hashlib.sha256(text.encode()).hexdigest()[:16]})
        except Slow:
            rows.append({**row, "stage": stage, "slow": "yes"})
        except Exception as e:
            said = f"{type(e).__name__}: {e}"
            if not hasattr(e, "code"):
                said += traceback.format_exc().splitlines()[-1]
            rows.append({**row, "stage": f"after {stage}", "error": said})
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return rows


def record(out: Path, trees: list[str], every: int, jobs: int, seconds: float) -> None:
    """All rows of the library and of every ``every``-th source of ``trees`` into ``out``, in a fixed order."""
    from ktc.sources import library

    tasks = [LIBRARY + p.parent.name for p in sorted(library().rglob("workload.toml"))]
    for tree in trees:
        tasks += [str(p) for p in sorted(Path(tree).rglob("*.cu"))][::every]
    counts: Counter[str] = Counter()
    kernels = set()
    whole = hashlib.sha256()
    with multiprocessing.Pool(jobs, maxtasksperchild=8) as pool, out.open("w") as f:
        for done, rows in enumerate(pool.imap(record_file, [(t, seconds) for t in tasks], chunksize=1), 1):
            for r in rows:
                line = json.dumps(r) + "\n"
                f.write(line)
                whole.update(line.encode())
                counts["texts" if "sha" in r else "slow" if "slow" in r else "errors"] += 1
                kernels.add((r["file"], r["kernel"]))
            print(f"\r{done}/{len(tasks)}", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    print(json.dumps({"kernels": len(kernels), **counts, "sha": whole.hexdigest()[:16]}))


def compare(before: Path, after: Path) -> int:
    """Print what differs; 1 if anything does."""

    def read(path: Path) -> tuple[dict[tuple[str, str], dict[str, str]], int]:
        out: dict[tuple[str, str], dict[str, str]] = {}
        lines = path.read_text().splitlines()
        for r in map(json.loads, lines):
            said = r.get("sha") or ("slow" if "slow" in r else r["error"])
            out.setdefault((r["file"], r["kernel"]), {})[r["stage"]] = said
        return out, len(lines)

    (old, _), (new, _) = read(before), read(after)
    same = slow = 0
    different: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key, {}), new.get(key, {})
        cut = "slow" in (*a.values(), *b.values())
        for stage in dict.fromkeys([*a, *b]):
            if a.get(stage) == b.get(stage) != "slow":
                same += 1
            elif cut and (stage not in a or stage not in b or "slow" in (a[stage], b[stage])):
                slow += 1
            else:
                different.append(f"{key[0]} {key[1]}: {stage}: {a.get(stage)} -> {b.get(stage)}")
    print(*different[:50], sep="\n")
    print(f"{len(old.keys() | new.keys())} kernels, {same} texts the same, {len(different)} different, {slow} too slow")
    return bool(different)


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = arguments.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("trees", nargs="*")
    recording.add_argument("--every", type=int, default=1)
    recording.add_argument("--jobs", type=int, default=2)
    recording.add_argument("--seconds", type=float, default=60)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    o = arguments.parse_args()
    if o.command == "compare":
        return compare(o.before, o.after)
    record(o.out, o.trees, o.every, o.jobs, o.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
