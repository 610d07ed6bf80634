"""Messages between supervisor and workers: one JSON object a line.

This module loads nothing: a process can be started, and asked its first question, before numpy is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_LINE = 64 << 20
"""Longest message accepted, in bytes: a worker gone mad must not fill the supervisor's memory."""


class ProtocolError(Exception):
    """A message or buffer that is not what the other side should have sent."""


def pack(message: Mapping[str, Any]) -> bytes:
    """One message as one line; NaN and infinities are written as Python reads them."""
    return json.dumps(message, separators=(",", ":"), allow_nan=True).encode() + b"\n"


def unpack(line: bytes) -> dict[str, Any]:
    """Raises ProtocolError for anything that is not one JSON object."""
    try:
        message = json.loads(line)
    except ValueError as e:
        raise ProtocolError(f"not JSON: {line[:80]!r}") from e
    if not isinstance(message, dict):
        raise ProtocolError(f"not an object: {line[:80]!r}")
    return message
