"""Worker processes and their watchdog: a file that hangs or eats memory costs one record, not the run."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeAlias

from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.support.ended_children import end

from .survey_options import SurveyOptions
from .unit import Record, refusal

GRACE_S = 20.0
"""How long beyond its own alarms a worker may be silent."""

OnDone: TypeAlias = Callable[[int, int], None]
"""Hears (files done, files in all)."""


@dataclass
class FileResult:
    """Records of one file's kernels, and what went wrong with the file as a whole."""

    path: str
    records: list[Record] = field(default_factory=list)
    trouble: Record | None = None


class Worker:
    """One process and the file it is at."""

    def __init__(self, options: SurveyOptions) -> None:
        self.options = options
        self.at: FileResult | None = None
        self.kernel: Record | None = None
        self.deaths = 0
        self.known: list[tuple[str, str, int]] = []
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            python_module("ktc.survey.worker"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True, env=python_environment(),
        )  # fmt: skip
        self._buffer = b""
        self._send(self.options.to_json())
        self.heard = monotonic()

    def _send(self, data: Any) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # it died; the end of its output says so
            self.process.stdin.write(json.dumps(data).encode() + b"\n")
            self.process.stdin.flush()

    def give(self, path: str, known: list[tuple[str, str, int]]) -> None:
        """Start on a file, but for the kernels that are ``known``: (name, file, line)."""
        self.at, self.deaths, self.known = FileResult(path), 0, known
        self._task()

    def _task(self) -> None:
        assert self.at is not None
        self.kernel = None
        self.heard = monotonic()
        self._send({"path": self.at.path, "start": len(self.at.records), "known": self.known})

    def events(self) -> bool:
        """Take what the process wrote; True when the file is done."""
        assert self.process.stdout is not None and self.at is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return self.died("E-CRASH", "the front-end's process ended")
        self.heard = monotonic()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["event"] == "begin":
                self.kernel = {k: event[k] for k in ("kernel", "file", "line")}
            elif event["event"] == "kernel":
                self.at.records.append(event["record"])
                self.kernel = None
            elif event["event"] == "trouble":
                self.at.trouble = event["refusal"]
            elif event["event"] == "done":
                return True
        return False

    def overdue(self) -> bool:
        """Whether nothing was heard for longer than any step may take; the process's own alarm comes first."""
        budget = self.options.timeout_s * (2 + 2 * len(self.options.backends)) + GRACE_S
        return self.at is not None and monotonic() - self.heard > budget

    def died(self, code: str, message: str) -> bool:
        """Replace the process. True when its file is given up, else it goes on behind the kernel that killed it."""
        assert self.at is not None
        self.stop()
        self._start()
        self.deaths += 1
        if self.kernel is None or self.deaths > 8:
            self.at.trouble = refusal(code, message)
            return True
        empty: Record = {"unit": self.at.path, "parsed": False, "lowered": False, "template": {}, "assumed": {}}
        place = f"{self.kernel['file']}:{self.kernel['line']}:1"
        self.at.records.append(empty | self.kernel | {"backends": {}, "refusal": refusal(code, message, place)})
        self._task()
        return False

    def stop(self) -> None:
        """End the process and whatever it started (compilers)."""
        end(self.process)


def run_files(paths: list[str], options: SurveyOptions, jobs: int, done: OnDone) -> list[FileResult]:
    """The result of every file, in the order of ``paths``. A kernel of a header that one source got all the way is not
    tried again in a later source that includes it: the first of equal records counts, however many workers there are.
    """
    place = {path: i for i, path in enumerate(paths)}
    whole: list[tuple[int, tuple[str, str, int]]] = []

    def known(path: str) -> list[tuple[str, str, int]]:
        return [k for i, k in whole if i < place[path]]

    def give(w: Worker) -> None:
        path = waiting.pop()
        w.give(path, known(path))

    results: dict[str, FileResult] = {}
    waiting = list(reversed(paths))
    workers = [Worker(options) for _ in range(min(jobs, len(paths)))]
    selector = selectors.DefaultSelector()
    try:
        for w in workers:
            give(w)
        while len(results) < len(paths):
            selector.close()
            selector = selectors.DefaultSelector()
            for w in workers:
                if w.at is not None:
                    selector.register(w.process.stdout, selectors.EVENT_READ, w)  # type: ignore[arg-type]
            ready = [key.data for key, _ in selector.select(timeout=1.0)]
            for w in workers:
                finished = w in ready and w.events()
                if not finished and w.at is not None and w.overdue():
                    finished = w.died("E-TIMEOUT", "no progress: stopped by the watchdog")
                if finished and w.at is not None:
                    results[w.at.path] = w.at
                    i = place[w.at.path]
                    whole += [(i, (k["kernel"], k["file"], k["line"])) for k in w.at.records if _nothing_left(k)]
                    done(len(results), len(paths))
                    w.at = None
                    if waiting:
                        give(w)
    finally:
        selector.close()
        for w in workers:
            w.stop()
    return [results[p] for p in paths]


def _nothing_left(k: Record) -> bool:
    """Whether no other reading of a kernel could be better: all the way in every language, with nothing assumed."""
    return bool(k["backends"]) and not k["assumed"] and all("refusal" not in o for o in k["backends"].values())
