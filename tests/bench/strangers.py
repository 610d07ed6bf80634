"""``ktc optimize`` on kernels as a new user calls it: the command line alone, workloads drafted by the tool.

    python -m tests.bench.strangers LIST ROOT OUT [--device D] [--budget N] [--jobs N] [--seconds N]

A line of LIST is ``FILE [KERNEL [more options]]`` below ROOT, or the name of a library kernel. Prints a line a kernel
(exit code, speed-up or the error, what the tool wanted checked) and leaves each run's output in OUT.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ktc.ir.support.child_python import python_module


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("list", type=Path)
    p.add_argument("root", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--device", default="")
    p.add_argument("--budget", type=int, default=16)
    p.add_argument("--jobs", type=int, default=4)
    p.add_argument("--seconds", type=float, default=1e9, help="start no kernel after so long")
    p.add_argument("-I", dest="folders", action="append", default=[])
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    start, lines = time.monotonic(), [x.split() for x in a.list.read_text().splitlines() if x.strip()]

    def job(words: list[str]) -> dict | None:
        if time.monotonic() - start > a.seconds:
            return None
        row = one(words, a)
        print(json.dumps(row), flush=True)
        return row

    with ThreadPoolExecutor(a.jobs) as pool:
        rows = [r for r in pool.map(job, lines) if r]
    done = [r for r in rows if r["exit"] == 0]
    faster = [r for r in done if r["gain"] > 1.02]
    print(f"{len(rows)} of {len(lines)} tried: {len(done)} end well, {len(faster)} faster than their source")


def one(words: list[str], a: argparse.Namespace) -> dict:
    file, *more = words
    kernel = more[:1] if more and not more[0].startswith("-") else []
    path = a.root / file
    name = re.sub(r"\W+", "_", "_".join([*Path(file).parts[-2:], *kernel]))
    command = python_module("ktc", "optimize", str(path.resolve()) if path.exists() else file)
    command += ["--kernel", *kernel] if kernel else []
    command += [*more[len(kernel) :], "--budget", str(a.budget), "--no-memory", "--out", str(a.out / name)]
    command += ["--device", a.device] if a.device else []
    command += [x for folder in a.folders for x in ("-I", str(a.root / folder))]
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "NO_COLOR": "1"})
        code, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as e:
        code, text = 124, f"{e.stdout or ''}{e.stderr or ''}\nerror: no end within 300 s"
    (a.out / f"{name}.txt").write_text(text)
    gain = re.search(r"^([\d.]+)x over the tuned", text, re.MULTILINE)
    error = next((x for x in text.splitlines() if re.search(r"\berror: |Traceback", x)), "")
    return {
        "kernel": name, "exit": code, "gain": float(gain[1]) if gain else 0.0,
        "seconds": round(time.monotonic() - began),
        "rejected": len(re.findall("REJECTED:", text)), "error": error[:300],
        "not raised": next((x for x in text.splitlines() if "not raised" in x), "")[:200],
        "check": [x[10:210] for x in text.splitlines() if x.startswith("to check") and "[reference]" not in x],
    }  # fmt: skip


if __name__ == "__main__":
    main()
