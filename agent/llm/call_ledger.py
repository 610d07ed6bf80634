"""The ledger of LLM calls: what was asked, what it cost, what came back. It doubles as a record to replay.

One JSON object a line, appended and flushed per call. Keys and bearer tokens are replaced before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from .config import LlmConfig
    from .replies import Reply

_TOKEN = re.compile(r"(?i)\b(?:sk-[\w-]{8,}|bearer\s+[\w.\-]{8,})")


@dataclass(frozen=True)
class Spent:
    """Totals of a run: attempts (failed ones too), tokens both ways, USD at the configured prices; tokens of the
    ``longest`` question; answers that were ``recalled`` from a record and cost nothing."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    longest: int = 0
    recalled: int = 0

    def __str__(self) -> str:
        """One sentence; '' while there was nothing."""
        usd = f", {self.usd:.4f} USD" if self.usd else ""
        longest = f" (the longest question {self.longest})" if self.longest else ""
        asked = f"{_some(self.calls, 'call')}, {self.tokens} tokens{longest}{usd}" if self.calls else ""
        recalled = f"{_some(self.recalled, 'answer')} from the record" if self.recalled else ""
        return ", ".join(filter(None, (asked, recalled)))


def _some(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def fingerprint(model: str, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
    """SHA-256 of a question: the key under which its answer replays."""
    text = json.dumps([model, [dict(m) for m in messages], schema], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class CallLedger:
    """Appends calls to ``path`` (None: only counts them)."""

    def __init__(self, path: Path | None = None, *, secrets: Sequence[str] = ()) -> None:
        self.path = path
        self.spent = Spent()
        self._secrets = tuple(s for s in secrets if s)

    def redact(self, text: str) -> str:
        """``text`` without keys."""
        for s in self._secrets:
            text = text.replace(s, "[redacted]")
        return _TOKEN.sub("[redacted]", text)

    def answered(
        self,
        role: str,
        c: LlmConfig,
        key: str,
        messages: Sequence[Mapping[str, str]],
        reply: Reply,
        seconds: float,
        status: str = "ok",
    ) -> None:
        """``status`` is "ok" for what can be replayed; an answer that cannot be read is charged all the same."""
        usd = (reply.tokens_in * c.price_in + reply.tokens_out * c.price_out) / 1e6
        tokens = reply.tokens_in + reply.tokens_out
        s = self.spent
        longest = max(s.longest, reply.tokens_in)
        self.spent = replace(s, calls=s.calls + 1, tokens=s.tokens + tokens, usd=s.usd + usd, longest=longest)
        asked = [dict(m) for m in messages]
        self._write(
            role, c, key, seconds, status=status, messages=asked, reply=reply.text, finish=reply.finish,
            tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, usd=usd,
        )  # fmt: skip

    def failed(self, role: str, c: LlmConfig, key: str, code: str, why: str, seconds: float) -> None:
        self.spent = replace(self.spent, calls=self.spent.calls + 1)
        self._write(role, c, key, seconds, status=code, why=why)

    def recalled(self) -> None:
        """An answer came from a record."""
        self.spent = replace(self.spent, recalled=self.spent.recalled + 1)

    def _write(self, role: str, c: LlmConfig, key: str, seconds: float, **row: Any) -> None:
        if self.path is None:
            return
        head = {
            "time": round(time.time(), 3),
            "role": role,
            "model": c.model,
            "host": urlsplit(c.base_url).hostname or "",
        }
        line = self.redact(json.dumps({**head, "key": key, "seconds": round(seconds, 3), **row}))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as f:
            f.write(line + "\n")


class Recorded:
    """Answers of an earlier run, by fingerprint of the question; several answers to one question replay in order.

    On another machine the questions differ (device, facts, times), and so do their fingerprints: :meth:`next_of` gives
    the answers of a role in their order.
    """

    def __init__(self, path: Path | None) -> None:
        self._answers: dict[str, list[str]] = {}
        self._by_role: dict[str, deque[tuple[str, str]]] = {}
        if path is None or not path.exists():
            return
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # a line torn by a crash
            if isinstance(row, dict) and row.get("status") == "ok":
                self._answers.setdefault(str(row.get("key")), []).append(str(row.get("reply")))
                answer = (str(row.get("key")), str(row.get("reply")))
                self._by_role.setdefault(str(row.get("role")), deque()).append(answer)

    def next_of(self, role: str) -> str | None:
        """The next answer of ``role`` that was given to no question yet; None when there are no more."""
        left = self._by_role.get(role)
        return left.popleft()[1] if left else None

    def get(self, key: str, role: str = "") -> str | None:
        """The answer to the question with this fingerprint; it is no :meth:`next_of` of its role any more."""
        rows = self._by_role.get(role, deque())
        used = next((r for r in rows if r[0] == key), None)
        if used is not None:
            rows.remove(used)
        left = self._answers.get(key)
        return left.pop(0) if left and len(left) > 1 else left[0] if left else None
