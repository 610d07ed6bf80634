"""Where an LLM is asked, and what it may cost: from the environment, and from the options of one run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .replies import LlmError

RUN_TOKENS = 30_000
"""Of a run of 40 measurements, both ways: some six questions of 4,000 tokens."""

MEASUREMENT_TOKENS = RUN_TOKENS // 40


@dataclass(frozen=True)
class LlmConfig:
    """Where to ask and how much to spend. Prices are USD per million tokens (0: unknown, not budgeted)."""

    model: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    temperature: float = 0.4
    timeout_s: float = 60.0  # of one attempt
    wall_s: float = 300.0  # of all calls of a run together, not of what happens between them
    max_calls: int = 20  # attempts, failed ones included
    reply_tokens: int = 4096
    total_tokens: int = RUN_TOKENS
    max_usd: float = 0.0  # 0: no limit
    price_in: float = 0.0
    price_out: float = 0.0
    retries: int = 3
    record: Path | None = None
    replay: Path | None = None

    @staticmethod
    def from_env(env: Mapping[str, str] | None = None) -> LlmConfig | None:
        """``KTC_LLM_MODEL``, ``KTC_LLM_BASE_URL`` and ``KTC_LLM_API_KEY``, falling back to ``OPENAI_BASE_URL`` and
        ``OPENAI_API_KEY``; ``KTC_LLM_REPLAY`` answers from a record. Limits: ``KTC_LLM_MAX_CALLS``, ``_MAX_TOKENS``,
        ``_MAX_SECONDS`` (of calls), ``_MAX_USD``, ``_REPLY_TOKENS``, ``_TIMEOUT`` (of one call), ``_TEMPERATURE``;
        ``KTC_LLM_PRICE_IN`` and ``_PRICE_OUT`` in USD for a million tokens. None when nothing is configured.

        Raises:
            LlmError: E-LLM-CONFIG: a limit that is no number, a record that is not there.
        """
        e = os.environ if env is None else env
        base = e.get("KTC_LLM_BASE_URL") or e.get("OPENAI_BASE_URL") or ""
        key = e.get("KTC_LLM_API_KEY") or e.get("OPENAI_API_KEY") or ""
        replay = e.get("KTC_LLM_REPLAY")
        if not (base or key or replay):
            return None
        return LlmConfig(
            model=e.get("KTC_LLM_MODEL", "gpt-4o"),
            base_url=base,
            api_key=key,
            **_limits(e),
            record=Path(e["KTC_LLM_RECORD"]) if e.get("KTC_LLM_RECORD") else None,
            replay=_record(replay) if replay else None,
        )

    def for_run(self, measurements: int, limits: str = "", env: Mapping[str, str] | None = None) -> LlmConfig:
        """The configuration of a run of so many measurements: :data:`MEASUREMENT_TOKENS` for each, at least
        :data:`RUN_TOKENS`, where nobody set a limit. ``limits``: ``calls=10 tokens=20000 seconds=60 usd=0.5``, which
        count before the environment's.

        Raises:
            LlmError: E-LLM-CONFIG: a limit that is not known, or no number.
        """
        e = os.environ if env is None else env
        tokens = (
            {} if e.get("KTC_LLM_MAX_TOKENS") else {"total_tokens": max(RUN_TOKENS, MEASUREMENT_TOKENS * measurements)}
        )
        given: dict[str, str] = {}
        for part in limits.replace(",", " ").split():
            name, _, value = part.partition("=")
            if name not in OPTIONS:
                known = ", ".join(OPTIONS)
                raise LlmError("E-LLM-CONFIG", f"no limit of an LLM is called '{name}'", f"known: {known}")
            given[OPTIONS[name]] = value
        return replace(self, **(tokens | _limits(given)))


_LIMITS: dict[str, tuple[str, type]] = {
    "KTC_LLM_MAX_CALLS": ("max_calls", int),
    "KTC_LLM_MAX_TOKENS": ("total_tokens", int),
    "KTC_LLM_REPLY_TOKENS": ("reply_tokens", int),
    "KTC_LLM_MAX_SECONDS": ("wall_s", float),
    "KTC_LLM_TIMEOUT": ("timeout_s", float),
    "KTC_LLM_MAX_USD": ("max_usd", float),
    "KTC_LLM_TEMPERATURE": ("temperature", float),
    "KTC_LLM_PRICE_IN": ("price_in", float),
    "KTC_LLM_PRICE_OUT": ("price_out", float),
}
"""Environment variable -> (field, type)."""

OPTIONS = {
    "calls": "KTC_LLM_MAX_CALLS",
    "tokens": "KTC_LLM_MAX_TOKENS",
    "seconds": "KTC_LLM_MAX_SECONDS",
    "usd": "KTC_LLM_MAX_USD",
    "reply": "KTC_LLM_REPLY_TOKENS",
}
"""Name of a limit in an option -> its variable in the environment."""


def _limits(env: Mapping[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, (field_, kind) in _LIMITS.items():
        if env.get(name):
            try:
                out[field_] = kind(env[name])
            except ValueError:
                raise LlmError("E-LLM-CONFIG", f"{name} is no number: '{env[name]}'") from None
    return out


def _record(name: str) -> Path:
    if not Path(name).is_file():
        hint = "it is the llm-calls.jsonl in the folder of an earlier run"
        raise LlmError("E-LLM-CONFIG", f"KTC_LLM_REPLAY: there is no file '{name}'", hint)
    return Path(name)
