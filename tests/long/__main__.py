"""``python -m tests.long``: the second tier of checks, part by part, and one table of their figures.

A part whose row is of the same code (the product's and the campaign's own, by hash) and of the same command is not run
again. A part that takes too long is told to stop, and so is one that is running when this is (SIGINT, SIGTERM): what it
has found by then is in the table, and campaigns that keep a log go on from there. Parts that need public trees are
named in the table as not run where the folder is not given:

    .ci/long --suites ~/suites --corpora ~/corpora      # ~/suites/gpuverify, ~/suites/oclgrind, ...; any trees
    .ci/long --only mutation --scale 4                  # four times as long
    .ci/long --list
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.code_hash import code_hash
from tests.long.parts import PARTS, Figures, Part, Settings
from tests.paths import ROOT
from tests.told_to_stop import told_to_stop

LATE = 3
"""A part that takes so many times what it was given is told to stop."""

GRACE = 60
"""Seconds in which a part that is told to stop may say what it has found."""

INTERRUPTED = "interrupted"

Row = dict[str, object]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        ".ci/long", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="parts whose name contains it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the time (or the count) of each part")
    parser.add_argument("--suites", type=Path, default=_folder("KTC_SUITES"), help="labelled suites [KTC_SUITES]")
    parser.add_argument("--corpora", type=Path, default=_folder("KTC_CORPORA"), help="source trees [KTC_CORPORA]")
    parser.add_argument("--folder", type=Path, default=ROOT / "ktc-out" / "long", help="logs [default: ktc-out/long]")
    parser.add_argument("--fresh", action="store_true", help="run again what is known of this code")
    parser.add_argument("--list", action="store_true", help="what there is")
    o = parser.parse_args(argv)
    chosen = [p for p in PARTS if o.only in p.name]
    if o.list:
        print(*(f"{p.name:20} {p.what}" for p in chosen), sep="\n")
        return 0
    o.folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(o.seed, o.jobs, o.scale, o.folder, o.suites, o.corpora)
    book = o.folder / "rows.jsonl"
    rows: list[Row] = []
    with told_to_stop():
        for p in chosen:
            rows.append(row_of(p, settings, [] if o.fresh else known(book), book))
            if INTERRUPTED in str(rows[-1].get("note")):
                break
    print(table(rows))
    return 0 if all(r["ok"] in (True, None) for r in rows) else 1


def row_of(part: Part, settings: Settings, before: list[Row], book: Path) -> Row:
    """The row of ``part``: one of ``before``, or what running it gives, which is appended to ``book``."""
    row: Row = {"part": part.name, "code": code_hash(*part.own), "commit": commit(), "cores": settings.jobs}
    if part.needs is not None and part.needs(settings) is None:
        return row | {"ok": None, "figures": {}, "note": "not run: its trees are not here"}
    command = part.command(part, settings)
    row["command"] = command[1:]
    for old in reversed(before):
        if all(old.get(k) == row[k] for k in ("part", "code", "command")):
            return old | {"note": "known"}
    print(f"{part.name} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    ok, figures, note = run(command, settings.seconds(part) * LATE if part.minutes else None, part)
    row |= {"ok": ok, "figures": figures, "seconds": round(time.monotonic() - started), "note": note}
    if INTERRUPTED in note:
        return row  # its log goes on from there the next time
    with book.open("a", encoding="utf-8") as f:
        f.write(json.dumps(row) + "\n")
    return row


def run(command: list[str], seconds: float | None, part: Part) -> tuple[bool, Figures, str]:
    """Whether the campaign was content, its figures, and what it last said if it was not."""
    part_of = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    note = ""
    try:
        out, err = part_of.communicate(timeout=seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as e:
        late = isinstance(e, subprocess.TimeoutExpired)
        note = f"stopped after {seconds:.0f} s" if late else INTERRUPTED
        out, err = _stopped(part_of)
    figures = part.figures(out)
    said = (err.strip() or out.strip()).splitlines()[-1:] if part_of.returncode else []
    ok = part_of.returncode == 0 and bool(figures)
    return ok, figures, "; ".join(x for x in (note, " ".join(said)[:200]) if x)


def _stopped(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What ``process`` says once it is told to stop; where it says nothing in time, what it has said."""
    process.terminate()
    try:
        return process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def known(book: Path) -> list[Row]:
    """The rows of earlier runs."""
    return [json.loads(line) for line in book.read_text(encoding="utf-8").splitlines()] if book.exists() else []


def table(rows: list[Row]) -> str:
    """All rows as a Markdown table."""
    lines = ["| part | figures | ok | time | code | commit |", "|---|---|---|---|---|---|"]
    for r in rows:
        found = r["figures"]
        figures = ", ".join(f"{k} {v}" for k, v in found.items()) if isinstance(found, dict) else ""
        said = "; ".join(x for x in (figures, str(r.get("note") or "")) if x)
        time_ = f"{r['seconds']} s on {r['cores']} cores" if "seconds" in r else "–"
        ok = {True: "yes", False: "**no**", None: "–"}[r["ok"]]  # type: ignore[index]
        lines.append(f"| {r['part']} | {said} | {ok} | {time_} | {r['code']} | {r['commit']} |")
    return "\n".join(lines)


def commit() -> str:
    """The commit that is checked out, marked where the tree differs from it."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _folder(variable: str) -> Path | None:
    return Path(os.environ[variable]).expanduser() if os.environ.get(variable) else None


if __name__ == "__main__":
    sys.exit(main())
