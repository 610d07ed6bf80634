"""Kernels of public suites for the planner's bench: the listed ones, each in a folder with a workload drafted for it.

    python -m tests.bench.suites --checkout FOLDER [--only NAME...]                  # is what the list names there?
    python -m tests.bench.suites --checkout FOLDER --prepare OUT [--only NAME...]    # draft the workloads
    python -m tests.bench.planner $(cat OUT/runnable) --scenarios largest --device cuda --log rows.jsonl

``suites.toml`` holds the list and the rule by which it was made. FOLDER holds a checkout of each suite, named as the
suite is there; their code stays where it is, and OUT must lie outside of this repository. NAME is a suite, a kernel, or
both as in the table that is printed. What is in OUT already is kept; what could not be drafted is tried again.
``OUT/runnable`` names the folders of this call that can be measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.workload import Workload
from ktc.scaffold.checking.corners import Limits, look
from tests.bench.planner import scenarios
from tests.paths import ROOT

LIST = Path(__file__).with_suffix(".toml")
DRAFT = "workload.toml"
DRAFTED = "drafted.json"
"""Beside a draft: what ``ktc init`` wants checked, and what is wrong at the largest sizes."""

FAULTS = ("the launch: the source has no", "shapes and sizes: ", "run at ", "read before its first element",
          "read or write past the end")  # fmt: skip
"""What is said of a draft that is not runnable: a launch that is made up, no run at all, or faults in its runs."""

LIMITS = Limits(bytes=1 << 31, work=200_000.0)
"""What it may cost to look at the largest sizes once more: more than a draft spends on that."""

COLUMNS = ("kernel", "drafted", "to do", "why not")


@dataclass(frozen=True)
class Entry:
    """A kernel of the list. ``include``: the folders, in the suite, that its headers lie in."""

    suite: str
    file: str
    kernel: str
    include: tuple[str, ...]
    name: str

    def known_as(self, names: Sequence[str]) -> bool:
        return not names or bool({self.name, self.suite, self.kernel} & set(names))


@dataclass(frozen=True)
class Row:
    """``todo`` is None where nothing could be drafted; ``why``: the reason of that, or that it is not runnable."""

    name: str
    why: str = ""
    todo: tuple[str, ...] | None = None

    @property
    def runnable(self) -> bool:
        return self.todo is not None and not self.why

    def cells(self) -> tuple[str, ...]:
        drafted = "no" if self.todo is None else "not runnable" if self.why else "yes"
        return self.name, drafted, "-" if self.todo is None else str(len(self.todo)), self.why


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--checkout", type=Path, required=True, help="the folder of the suites' checkouts")
    p.add_argument("--only", nargs="*", default=[], help="suites or kernels; all by default")
    p.add_argument("--prepare", type=Path, help="where the drafted folders go; without it, only look")
    p.add_argument("--list", type=Path, default=LIST, help="another list of this form")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--timeout", type=float, default=120.0, help="seconds for a draft")
    a = p.parse_args()
    if a.prepare and a.prepare.resolve().is_relative_to(ROOT):
        p.error("--prepare: the suites' code, and what is drafted from it, stays out of this repository")
    suites = tomllib.loads(a.list.read_text())["suite"]
    for said in filter(None, (revision_of(s, a.checkout) for s in suites)):
        print(said)
    wanted = [e for e in entries(suites) if e.known_as(a.only)]
    with ProcessPoolExecutor(a.jobs) as pool:
        rows = list(pool.map(partial(row_of, checkout=a.checkout, out=a.prepare, timeout=a.timeout), wanted))
    if a.prepare:
        (a.prepare / "runnable").write_text("".join(f"{a.prepare.resolve() / r.name}\n" for r in rows if r.runnable))
    print(table(rows) if a.prepare else "\n".join(f"{r.name}: {r.why or 'there'}" for r in rows))


def entries(suites: Sequence[Mapping[str, Any]]) -> Iterator[Entry]:
    """Every kernel of the list. One whose name is another's of its suite too has that of its file in between."""
    for s in suites:
        often = Counter(k["kernel"] for k in s["kernels"])
        for k in s["kernels"]:
            parts = [s["name"], *([Path(k["file"]).stem] if often[k["kernel"]] > 1 else []), k["kernel"]]
            include = (*s.get("include", ()), *k.get("include", ()))
            yield Entry(s["name"], k["file"], k["kernel"], include, ".".join(parts))


def revision_of(suite: Mapping[str, Any], checkout: Path) -> str:
    """What is wrong with the checkout of a suite, or cannot be known of it; '' if nothing."""
    folder, wanted = checkout / suite["name"], suite["revision"]
    if not folder.is_dir():
        return f"{suite['name']}: no folder {folder}; `git clone {suite['url']}` and check {wanted} out"
    if not (folder / ".git").exists():
        return f"{suite['name']}: no git checkout, so its revision is not known; the list is of {wanted}"
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True)
    head = done.stdout.strip() or done.stderr.strip()
    return "" if head == wanted else f"{suite['name']}: at {head}, the list is of {wanted}"


def row_of(e: Entry, checkout: Path, out: Path | None, timeout: float) -> Row:
    return drafted(e, checkout / e.suite, out / e.name, timeout) if out else seen(e, checkout / e.suite, timeout)


def seen(e: Entry, folder: Path, timeout: float) -> Row:
    """Whether the kernel is where the list has it, without a draft."""
    told = ktc(e, folder, timeout, "kernels")
    if isinstance(told, str):
        return Row(e.name, told)
    return Row(e.name, "" if any(k["kernel"] == e.kernel for k in told) else f"no kernel {e.kernel} in {e.file}")


def drafted(e: Entry, folder: Path, out: Path, timeout: float) -> Row:
    """The kernel's folder: kept where it has been drafted and looked at, else made."""
    if not (out / DRAFTED).exists():
        out.mkdir(parents=True, exist_ok=True)
        told = ktc(e, folder, timeout, "init", "--kernel", e.kernel, "--force", "-o", str(out / DRAFT))
        if isinstance(told, str):
            return Row(e.name, told)
        (out / DRAFTED).write_text(json.dumps({"todo": told["todo"], "fault": fault_of(out, told["todo"])}) + "\n")
    known = json.loads((out / DRAFTED).read_text())
    return Row(e.name, known["fault"], tuple(known["todo"]))


def fault_of(folder: Path, todo: Sequence[str]) -> str:
    """Why this draft is not runnable; '' if it is."""
    for t in todo:
        if any(f in t for f in FAULTS):
            return t
    try:
        work = Workload.load(folder)
        largest = scenarios(work, "largest")
        if not largest:
            return "no scenario to tune for"
        fault, _ = look(work, work.load_kernel(), largest[0].sizes, LIMITS)
        return "" if fault is None else f"run at {dict(largest[0].sizes)}: {fault}"
    except KtcError as why:
        return first_line(str(why))


def ktc(e: Entry, folder: Path, timeout: float, command: str, *options: str) -> Any:
    """What ``ktc command`` says of the kernel's file, as JSON; or a line of text: why it says nothing."""
    if not (folder / e.file).is_file():
        return f"no file {e.file}"
    include = (x for i in e.include for x in ("-I", str(folder / i)))
    line = python_module("ktc", command, str(folder / e.file), *options, *include, "--json")
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout, env=python_environment())
    except subprocess.TimeoutExpired:
        return f"no end within {timeout:g} s"
    return first_line(done.stderr) if done.returncode else json.loads(done.stdout)


def first_line(text: str) -> str:
    """The line that says what is wrong: the first with "error: ", else the first."""
    lines = text.strip().splitlines() or ["no word of why"]
    return next((x for x in lines if "error: " in x), lines[0])


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, and how many can be measured."""
    lines = [COLUMNS, tuple("-" * 3 for _ in COLUMNS), *(r.cells() for r in rows)]
    text = "\n".join(f"| {' | '.join(c.replace('|', '&#124;') for c in line)} |" for line in lines)
    return f"{text}\n\n{sum(r.runnable for r in rows)} of {len(rows)} drafted and runnable"


if __name__ == "__main__":
    main()
