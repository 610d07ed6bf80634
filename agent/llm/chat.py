"""One question to an OpenAI-compatible endpoint, answered by a JSON object or by a named error.

The transport trusts nothing: every reply is bounded in bytes and in time while it arrives, every call is charged to a
budget before the next one is made, rate limits and server errors are retried for as long as the budget of time allows.
Keys never leave this module: they are replaced wherever text is written or raised.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from .call_ledger import CallLedger, Recorded, fingerprint
from .config import LlmConfig
from .replies import Failure, LlmError, Message, Reply, json_object, parse_body

MAX_REPLY_BYTES = 1 << 20
PARAMETERS = ("max_completion_tokens", "max_tokens", "temperature")
"""Parameters that an endpoint may refuse and that we can do without; a name before those that are part of it."""

MAX_QUOTED = 2000
"""Characters of an unreadable answer that go back with the second question."""

AGAIN = (
    "That holds no JSON object that can be read. Answer with one JSON object that follows the schema, and nothing else."
)

RETRY_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504})


class Unreadable(LlmError):
    """An answer that holds no JSON object: its text, and the error that says so."""

    def __init__(self, text: str, e: LlmError) -> None:
        super().__init__(e.code, e.message)
        self.text = text


class Chat:
    """A budgeted conversation partner. ``ask`` is one question; nothing is remembered between questions.

    What an earlier run recorded is not asked again: a run that was killed gets the same answers when it resumes.
    """

    def __init__(self, config: LlmConfig, ledger: CallLedger | None = None) -> None:
        self.config = config
        self.ledger = ledger or CallLedger(config.record, secrets=(config.api_key,))
        self._recorded = Recorded(config.replay or config.record)
        self._formats = ["json_schema", "json_object", ""]  # what the endpoint has not refused, best first
        self._left_out: set[str] = set()  # parameters that the endpoint refuses
        self._calling = 0.0  # seconds spent waiting for the endpoint
        self._client: Any = None

    # ------------------------------------------------------------------------------------------------------- asking

    def ask(self, role: str, messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to ``messages`` as a JSON object.

        Raises:
            LlmError: E-LLM-BUDGET, -TIMEOUT, -RATE, -SERVER, -AUTH, -CONNECT, -REPLY (not a JSON object), -REPLAY.
        """
        key = fingerprint(self.config.model, messages, schema)
        known = self._recorded.get(key, role)
        if known is None and self.config.replay:
            known = self._recorded.next_of(role)
        if known is not None:
            self.ledger.recalled()
            return json_object(known)
        if self.config.replay:
            raise LlmError("E-LLM-REPLAY", "the record holds no answer to this question")
        try:
            return self._asked(role, key, messages, schema)
        except Unreadable as u:  # once more, with what was wrong
            again = [
                *messages,
                {"role": "assistant", "content": u.text[:MAX_QUOTED]},
                {"role": "user", "content": AGAIN},
            ]
            return self._asked(role, key, again, schema)

    def _asked(self, role: str, key: str, messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
        for attempt in range(self.config.retries + 1):
            self._check_budget()
            started = time.monotonic()
            try:
                reply = self._call(messages, schema)
            except Failure as f:
                self._calling += time.monotonic() - started
                self.ledger.failed(role, self.config, key, f.code, f.why, time.monotonic() - started)
                if f.retry_after is None or attempt == self.config.retries:
                    raise LlmError(f.code, self.ledger.redact(f.why), f.hint) from None
                self._wait(f, attempt)
                continue
            seconds = time.monotonic() - started
            self._calling += seconds
            try:
                answer = json_object(reply.text)
            except LlmError as e:
                self.ledger.answered(role, self.config, key, messages, reply, seconds, status=e.code)
                raise Unreadable(reply.text, e) from None
            self.ledger.answered(role, self.config, key, messages, reply, seconds)
            return answer
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check_budget(self) -> None:
        spent = self.ledger.spent
        c = self.config
        limits = (
            (spent.calls >= c.max_calls, f"{spent.calls} of {c.max_calls} calls are made"),
            (spent.tokens >= c.total_tokens, f"{spent.tokens} of {c.total_tokens} tokens are spent"),
            (self._left() <= 0, f"{c.wall_s:g} s are over"),
            (bool(c.max_usd) and spent.usd >= c.max_usd, f"{spent.usd:.3f} of {c.max_usd:g} USD are spent"),
        )
        for over, why in limits:
            if over:
                raise LlmError("E-LLM-BUDGET", f"the budget for the LLM is used up: {why}")

    def affords(self, messages: Sequence[Message]) -> bool:
        """Whether the budget has room for another question after ``messages``, and for one more like it."""
        spent, c = self.ledger.spent, self.config
        tokens = 2 * (sum(len(m["content"]) for m in messages) // 4 + 500)
        return spent.calls + 2 <= c.max_calls and spent.tokens + tokens <= c.total_tokens and self._left() > 0

    def _left(self) -> float:
        return self.config.wall_s - self._calling

    def _wait(self, f: Failure, attempt: int) -> None:
        pause = f.retry_after or min(8.0, 0.5 * 2**attempt)
        if pause > self._left():
            why = f"{f.why}; it asks to wait {pause:g} s, more than is left"
            raise LlmError(f.code, self.ledger.redact(why)) from None
        time.sleep(pause)
        self._calling += pause

    # -------------------------------------------------------------------------------------------------- one attempt

    def _call(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        while True:
            style = self._formats[0]
            try:
                return self._attempt(messages, schema, style)
            except Failure as f:
                if f.code != "E-LLM-REQUEST":
                    raise
                if len(self._formats) > 1 and "response_format" in f.why:
                    self._formats.pop(0)  # this endpoint does not know this way of asking for JSON
                    continue
                refused = [p for p in PARAMETERS if p in f.why and p not in self._left_out]
                if not refused:
                    raise
                self._left_out.update(refused)

    def _attempt(self, messages: Sequence[Message], schema: Mapping[str, Any], style: str) -> Reply:
        import openai

        timeout = max(0.1, min(self.config.timeout_s, self._left()))
        extra: dict[str, Any] = {}
        if style == "json_schema":
            extra["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": dict(schema), "strict": True},
            }
        elif style == "json_object":
            extra["response_format"] = {"type": "json_object"}
        try:
            stream = self._connect().chat.completions.with_streaming_response.create(
                model=self.config.model,
                messages=[dict(m) for m in messages],
                timeout=timeout,
                **self._parameters(),
                **extra,
            )
            with stream as response:
                body = _read(response, time.monotonic() + timeout)
        except openai.APITimeoutError:
            raise Failure("E-LLM-TIMEOUT", f"no answer within {timeout:g} s", retry_after=0.0) from None
        except openai.APIStatusError as e:
            raise _status_failure(e) from None
        except openai.APIConnectionError as e:
            why = f"cannot reach {_place(self.config.base_url)}: {e.__cause__ or e}"
            hint = "check KTC_LLM_BASE_URL; --planner rules needs no LLM"
            raise Failure("E-LLM-CONNECT", why, retry_after=0.0, hint=hint) from None
        except openai.OpenAIError as e:
            raise Failure("E-LLM-SERVER", f"{type(e).__name__}: {e}") from None
        return parse_body(body, messages)

    def _parameters(self) -> dict[str, Any]:
        """What the endpoint has not refused. Newer models take the limit of tokens under another name."""
        out: dict[str, Any] = {"temperature": self.config.temperature, "max_tokens": self.config.reply_tokens}
        if "max_tokens" in self._left_out:
            out["max_completion_tokens"] = self.config.reply_tokens
        return {k: v for k, v in out.items() if k not in self._left_out}

    def _connect(self) -> Any:
        if self._client is None:
            try:
                import openai
            except ImportError:
                raise LlmError("E-LLM-PACKAGE", "the openai package is missing", "pip install 'ktc[agent]'") from None
            self._client = openai.OpenAI(
                api_key=self.config.api_key or "none", base_url=self.config.base_url or None, max_retries=0
            )
        return self._client


def _place(url: str) -> str:
    """Host and port of the endpoint: all of its URL that is fit to be shown."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "the endpoint"


def _status_failure(e: Any) -> Failure:
    status = e.status_code
    why = f"HTTP {status}: {str(e.message)[:300]}"
    if status in (401, 403):
        return Failure("E-LLM-AUTH", why, hint="check KTC_LLM_API_KEY")
    if status not in RETRY_STATUS:
        return Failure("E-LLM-REQUEST", why)
    asked = e.response.headers.get("retry-after", "")
    pause = float(asked) if re.fullmatch(r"\d{1,6}(\.\d+)?", asked) else 0.0
    return Failure("E-LLM-RATE" if status == 429 else "E-LLM-SERVER", why, retry_after=pause)


def _read(response: Any, deadline: float) -> bytes:
    """The body, bounded in bytes and in time while it arrives: an endless reply ends here."""
    body = bytearray()
    try:
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                raise Failure("E-LLM-REPLY", f"the reply is longer than {MAX_REPLY_BYTES} bytes")
            if time.monotonic() > deadline:
                raise Failure("E-LLM-TIMEOUT", "the reply did not end in time", retry_after=0.0)
    except Exception as e:
        # The HTTP library under openai changes name between its major versions: its errors are told by their classes.
        names = {c.__name__ for c in type(e).__mro__}
        if "TimeoutException" in names:
            raise Failure("E-LLM-TIMEOUT", "the reply stalled", retry_after=0.0) from None
        if "HTTPError" in names or "TransportError" in names:
            raise Failure("E-LLM-CONNECT", f"the connection broke: {type(e).__name__}", retry_after=0.0) from None
        raise
    return bytes(body)


__all__ = ["Chat", "LlmError", "Message", "Reply", "json_object"]
