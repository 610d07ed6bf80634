"""Questions for the verification ladder, spread over the processes that have no question of their own.

The process that is asked leads (:mod:`ktc.search.verification.sharing.shared_runs`); the idle ones assist whatever
questions are open, the oldest first. An assistant leaves as soon as a new question finds no idle process.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from .crew import Crew
from .open_questions import folder_of, post
from .worker_protocol import Reply


class Assistance:
    """Hands the questions to ``crew``; runs are shared in ``folder``."""

    def __init__(self, crew: Crew, folder: Path) -> None:
        self.crew, self.folder = crew, folder
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._asked: dict[Path, float] = {}  # the folders of open questions, with their deadlines in seconds
        self._assisting: list[Path] = []  # the files that make assistants leave
        self._closed = False

    def ask(self, request: Mapping[str, Any], deadline_s: float, failed: str) -> Future[Reply]:
        """The answer to a question, as :meth:`Crew.submit` gives it."""
        if self.crew.size == 1:
            return self.crew.submit(request, deadline_s, failed)
        own, common = folder_of(next(self._numbers), self.folder), self.folder / "originals"
        request = {**request, "shared": [str(own), str(common)]}
        with self._lock:
            if self.crew.idle <= 0 and self._assisting:
                with contextlib.suppress(OSError):
                    self._assisting.pop().touch()
            with contextlib.suppress(OSError):
                common.mkdir(parents=True, exist_ok=True)
                post(own, request)
                self._asked[own] = deadline_s
            answer = self.crew.submit(request, deadline_s, failed)
        answer.add_done_callback(lambda _: self._answered(own))
        self._spread()
        return answer

    def close(self) -> None:
        """Nobody is to assist any more."""
        with self._lock:
            self._closed = True
            self._asked.clear()

    def _answered(self, own: Path) -> None:
        with self._lock:
            self._asked.pop(own, None)
        shutil.rmtree(own, ignore_errors=True)  # by which its assistants know
        self._spread()

    def _spread(self) -> None:
        """Have every idle process assist."""
        with self._lock:
            self._asked = {own: seconds for own, seconds in self._asked.items() if own.exists()}
            for _ in range(self.crew.idle if self._asked and not self._closed else 0):
                leave = self.folder / f"leave-{next(self._numbers)}"
                self._assisting.append(leave)
                asked = {"do": "assist", "questions": str(self.folder), "leave": str(leave)}
                with contextlib.suppress(RuntimeError):  # the crew is being dismissed
                    assisted = self.crew.submit(asked, max(self._asked.values()), "lost")
                    assisted.add_done_callback(functools.partial(self._left, leave))

    def _left(self, leave: Path, assisted: Future[Reply]) -> None:
        """A process has assisted; one that could not is not asked again before the next question."""
        with self._lock:
            if leave in self._assisting:
                self._assisting.remove(leave)
        with contextlib.suppress(CancelledError, OSError):
            leave.unlink(missing_ok=True)
            if assisted.result().ok:
                self._spread()


__all__ = ["Assistance"]
