"""Reading replies of a chat endpoint, which may be anything at all, and the errors that come of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktc.ir.diagnostics import KtcError

Message = Mapping[str, str]


class LlmError(KtcError):
    """The endpoint did not give a usable answer; the run goes on with the embedded planner."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint=hint, exit_code=3)


class Failure(Exception):
    """One attempt failed. ``retry_after``: seconds the server asks for, 0 for our own back-off, None: do not retry."""

    def __init__(self, code: str, why: str, *, retry_after: float | None = None, hint: str = "") -> None:
        super().__init__(why)
        self.code, self.why, self.retry_after, self.hint = code, why, retry_after, hint


@dataclass(frozen=True)
class Reply:
    """Text of an answer, and what it cost in tokens (estimated from its length where the server does not say)."""

    text: str
    tokens_in: int
    tokens_out: int
    finish: str = ""


def parse_body(body: bytes, messages: Sequence[Message]) -> Reply:
    """The first choice of a chat completion, whole or as a server-sent event stream."""
    text = body.decode("utf-8", "replace")
    docs: list[Any] = []
    try:
        if text.lstrip().startswith("data:"):
            lines = (x[5:].strip() for x in text.splitlines() if x.startswith("data:"))
            docs = [json.loads(x) for x in lines if x and x != "[DONE]"]
        else:
            docs = [json.loads(text)]
    except (ValueError, RecursionError):
        raise Failure("E-LLM-REPLY", "the endpoint's reply is not JSON") from None
    content, finish = "", ""
    usage: Any = None
    for doc in docs:
        if not isinstance(doc, dict):
            raise Failure("E-LLM-REPLY", "the endpoint's reply is not a chat completion")
        usage = doc.get("usage") if isinstance(doc.get("usage"), dict) else usage
        choices = doc.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            part = choices[0].get("message") or choices[0].get("delta") or {}
            piece = part.get("content") if isinstance(part, dict) else None
            content += piece if isinstance(piece, str) else ""
            finish = str(choices[0].get("finish_reason") or finish)
    if not content:
        raise Failure("E-LLM-REPLY", "the reply holds no text", retry_after=0.0)
    asked = sum(len(m["content"]) for m in messages)
    return Reply(
        content, _count(usage, "prompt_tokens", asked), _count(usage, "completion_tokens", len(content)), finish
    )


def _count(usage: Any, name: str, chars: int) -> int:
    """The server's token count, or a quarter of the characters (the usual rule of thumb)."""
    n = usage.get(name) if isinstance(usage, dict) else None
    return n if isinstance(n, int) and n >= 0 else chars // 4 + 1


MOST_BRACES = 200
"""Places where an object may begin that are looked at in one reply."""


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in a reply: alone, in a Markdown fence, after a model's thoughts (``<think>``), or in prose.

    Raises:
        LlmError: E-LLM-REPLY: there is none, or there are several and none is marked as the answer.
    """
    said = re.sub(r"<think>.*?(</think>|\Z)", "", text, flags=re.DOTALL).rpartition("</think>")[2]
    fenced = re.findall(r"```(?:json)?\s*(.*?)```", said, re.DOTALL)
    for part in [*fenced, said]:
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
        raise LlmError("E-LLM-REPLY", "the answer is not a JSON object")
    found = _objects(said)
    if len(found) != 1:
        raise LlmError("E-LLM-REPLY", "the answer is not JSON" if not found else "the answer holds several objects")
    return found[0]


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects among other text."""
    reader, out, at = json.JSONDecoder(), [], 0
    for _ in range(MOST_BRACES):
        at = text.find("{", at)
        if at < 0:
            break
        try:
            value, at = reader.raw_decode(text, at)
            out.append(value)
        except (ValueError, RecursionError):
            at += 1
    return out
