"""Fault injection for the search: kills, disk faults and damaged caches at random points, and what survived them.

    python -m tests.faults kills --count 1000 --jobs 4 --seed 1     # SIGKILL of the supervisor at random points
    python -m tests.faults pairs --count 20                         # two tuners on one study
    python -m tests.faults disk --count 50                          # the disk is full at a random write
    python -m tests.faults cache --count 50                         # a damaged entry in the cache of compiled code
    python -m tests.faults workers --count 20                       # kill -9 of real workers, of hanging candidates

Each prints one JSON line of counts; ``lost``, ``doubled``, ``orphans`` and ``wrong`` must be 0, and the exit code says
so. The tuning run is a real one (ledger, leases, sampler) around an evaluator of some milliseconds, but for ``workers``
and ``cache``, which run kernels on the CPU.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TUNE = Path(__file__).parent / "search" / "tuning" / "fake_tune.py"
BUDGET = "1000"
DELAY_S = "0.004"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tests.faults", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("fault", choices=sorted(FAULTS))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1, help="studies side by side")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    share = [given.count // given.jobs + (k < given.count % given.jobs) for k in range(given.jobs)]
    total: collections.Counter[str] = collections.Counter()
    start = time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        for found in pool.map(lambda x: FAULTS[given.fault](x[1], given.seed * 1000 + x[0]), enumerate(share)):
            total.update(found)
    bad = sum(total[k] for k in ("lost", "doubled", "orphans", "wrong"))
    report = {"fault": given.fault, **total, "seconds": round(time.monotonic() - start, 1)}
    print(json.dumps({**dict.fromkeys(("lost", "doubled", "orphans", "wrong"), 0), **report}))
    return 1 if bad else 0


# --------------------------------------------------------------------------------------------------- kills of the tuner


def kills(count: int, seed: int) -> collections.Counter[str]:
    """SIGKILL the tuning process at random points, one study after another; every study is then run to its end."""
    rng = random.Random(seed)
    out: collections.Counter[str] = collections.Counter()
    while out["kills"] < count:
        with tempfile.TemporaryDirectory() as folder:
            out += _one_study(Path(folder), rng, min(count - out["kills"], 25))
    return out


def _one_study(folder: Path, rng: random.Random, most: int) -> collections.Counter[str]:
    out: collections.Counter[str] = collections.Counter(studies=1)
    book, log = folder / "ledger.db", folder / "log"
    recorded: list[str] = []
    for _ in range(most):
        run = _start(book, log)
        _until_working(run, log)
        time.sleep(rng.random() * 0.12)
        finished = run.poll() is not None
        run.kill()
        run.wait()
        if finished:
            break
        out["kills"] += 1
        now = _rows(book)
        out["lost"] += now[: len(recorded)] != recorded
        recorded = now
        out["orphans"] += _orphans(book)
    done = subprocess.run(_command(book, log), capture_output=True, text=True, timeout=300)
    out["wrong"] += done.returncode != 0
    rows = _rows(book)
    finished_lines = log.read_text().split()
    out["measured"] += len(rows)
    out["doubled"] += len(rows) - len(set(rows))
    out["lost"] += len(set(finished_lines) - set(rows))
    out["repeated in flight"] += sum(n - 1 for n in collections.Counter(finished_lines).values())
    out["doubled"] += max(0, out["repeated in flight"] - out["kills"])  # at most the one in flight, at each kill
    out["wrong"] += _wrong_values(book)
    return out


def _command(book: Path, log: Path) -> list[str]:
    return [sys.executable, str(TUNE), str(book), str(log), BUDGET, DELAY_S]


def _start(book: Path, log: Path, **options) -> subprocess.Popen:
    return subprocess.Popen(
        _command(book, log), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **options
    )


def _until_working(run: subprocess.Popen, log: Path) -> None:
    """Wait until the process has finished an evaluation of its own, or has ended."""
    before = _lines(log)
    end = time.monotonic() + 120
    while run.poll() is None and _lines(log) <= before:
        if time.monotonic() > end:
            raise TimeoutError("the tuning run does not start")
        time.sleep(0.005)


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def _rows(book: Path) -> list[str]:
    from ktc.search.records.ledger import Ledger
    from tests.search.tuning.fake_tune import KEY

    ledger = Ledger(book)
    try:
        return [",".join(str(r.config[n]) for n in "VTU") for r in ledger.outcomes(ledger.study(KEY))]
    finally:
        ledger.close()


def _wrong_values(book: Path) -> int:
    """Rows whose recorded outcome is not what the evaluator gives."""
    from ktc.search.records.ledger import Ledger
    from tests.search.tuning.fake_tune import KEY, outcome

    ledger = Ledger(book)
    try:
        return sum(r.outcome != outcome(r.config) for r in ledger.outcomes(ledger.study(KEY)))
    finally:
        ledger.close()


def _orphans(mark: object) -> int:
    """Processes that still carry ``mark`` in their command line."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found += str(mark).encode() in (entry / "cmdline").read_bytes() and not _is_zombie(entry)
    return found


def _is_zombie(entry: Path) -> bool:
    return entry.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z"


# ------------------------------------------------------------------------------------------------ two tuners, one study


def pairs(count: int, seed: int) -> collections.Counter[str]:
    """Two tuners on one study at the same time; one of them is killed half of the time."""
    rng = random.Random(seed)
    out: collections.Counter[str] = collections.Counter()
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            book, log = Path(folder) / "ledger.db", Path(folder) / "log"
            both = [_start(book, log) for _ in range(2)]
            if rng.random() < 0.5:
                _until_working(both[0], log)
                time.sleep(rng.random() * 0.1)
                both[0].kill()
                out["kills"] += 1
            codes = [p.wait(timeout=300) for p in both]
            out["wrong"] += sum(c not in (0, -signal.SIGKILL) for c in codes)
            out["wrong"] += subprocess.run(_command(book, log), capture_output=True, timeout=300).returncode != 0
            rows = _rows(book)
            out["studies"] += 1
            out["doubled"] += len(rows) - len(set(rows))
            out["lost"] += len(set(log.read_text().split()) - set(rows))
            out["wrong"] += _wrong_values(book)
    return out


# --------------------------------------------------------------------------------------------------------- disk is full


def disk(count: int, seed: int) -> collections.Counter[str]:
    """The ledger's file may not grow beyond a random size: what it holds stays whole, and the study goes on later."""
    import resource

    rng = random.Random(seed)
    out: collections.Counter[str] = collections.Counter()
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            book, log = Path(folder) / "ledger.db", Path(folder) / "log"
            limit = rng.randrange(4096, 200_000)

            def full(limit: int = limit) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail with EFBIG, as they do with ENOSPC
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            run = subprocess.run(
                _command(book, log), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=full, timeout=300
            )
            out["stopped by the disk"] += run.returncode != 0
            before = _rows(book) if book.exists() else []
            done = subprocess.run(_command(book, log), capture_output=True, text=True, timeout=300)
            out["wrong"] += done.returncode != 0
            rows = _rows(book)
            out["studies"] += 1
            out["lost"] += rows[: len(before)] != before
            out["doubled"] += len(rows) - len(set(rows))
            out["wrong"] += _wrong_values(book)
    return out


# ---------------------------------------------------------------------------------------------- real workers, real code

SCALE = """
kernel scale(y: f32* restrict, x: f32 const* restrict, a: f32, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = a * x[i]
"""


def workers(count: int, seed: int) -> collections.Counter[str]:
    """Real workers are killed, or given a candidate that hangs or dies: a good one is right after each."""
    import dataclasses

    import numpy as np

    from ktc.backends import emit
    from ktc.ir.text import parse_kernel
    from ktc.search.workers.executor import Deadlines, LocalExecutor, Raw

    rng = random.Random(seed)
    out: collections.Counter[str] = collections.Counter()
    good = emit(parse_kernel(SCALE), "numba")
    x = np.arange(64, dtype=np.float32)
    inputs = Raw({"y": np.zeros_like(x), "x": x, "a": 2.0, "n": 64}, ("y",))
    bad = {
        "hang": "def scale(y, x, a, n):\n    while True:\n        pass\n",
        "exit": "def scale(y, x, a, n):\n    import os\n    os._exit(7)\n",
        "segv": "def scale(y, x, a, n):\n    import os\n    os.kill(os.getpid(), 11)\n",
    }
    deadlines = Deadlines(run=1.0)
    with LocalExecutor("numba", compilers=1, deadlines=deadlines) as ex:
        ex.compile(good).result()
        for _ in range(count):
            fault = rng.choice([*bad, "killed"])
            start = time.monotonic()
            if fault == "killed":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(ex._worker.process.pid, signal.SIGKILL)
            else:
                reply, _ = ex.run(dataclasses.replace(good, text=bad[fault]), inputs)
                out["wrong"] += reply.status == "ok"
            spent = time.monotonic() - start
            out["slow"] += spent > deadlines.run + 25
            reply, arrays = ex.run(good, inputs)
            out["wrong"] += reply.status != "ok" or not np.array_equal(arrays["y"], 2 * x)
            out["faults"] += 1
        folder = ex.folder
    out["orphans"] += _orphans(folder)
    return out


def cache(count: int, seed: int) -> collections.Counter[str]:
    """Entries of the code cache are cut, overwritten or emptied: the code is compiled again, never run damaged."""
    import numpy as np

    from ktc.backends import emit
    from ktc.ir.text import parse_kernel
    from ktc.search.workers.executor import LocalExecutor, Raw

    rng = random.Random(seed)
    out: collections.Counter[str] = collections.Counter()
    good = emit(parse_kernel(SCALE), "opencl")
    x = np.arange(64, dtype=np.float32)
    inputs = Raw({"y": np.zeros_like(x), "x": x, "a": 2.0, "n": 64}, ("y",))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KTC_CACHE"] = folder
        for _ in range(count):
            entries = [p for p in Path(folder).rglob("*") if p.is_file() and p.stat().st_size]
            if entries:
                victim = rng.choice(entries)
                data = bytearray(victim.read_bytes())
                how = rng.randrange(3)
                if how == 0:
                    data = data[: rng.randrange(len(data))]
                elif how == 1:
                    data[rng.randrange(len(data))] ^= 0xFF
                else:
                    data = bytearray()
                victim.write_bytes(bytes(data))
                out["damaged"] += 1
            with LocalExecutor("opencl", compilers=1) as ex:
                ex.compile(good).result()
                reply, arrays = ex.run(good, inputs)
                out["wrong"] += reply.status != "ok" or not np.array_equal(arrays["y"], 2 * x)
    return out


FAULTS = {"kills": kills, "pairs": pairs, "disk": disk, "workers": workers, "cache": cache}

if __name__ == "__main__":
    sys.exit(main())
