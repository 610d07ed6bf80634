"""Limits that keep hostile or accidental input from taking the process down. Each refusal names the limit."""

from __future__ import annotations

MAX_SOURCE_BYTES = 8 << 20
"""Bytes of one source after preprocessing."""

MAX_INCLUDE_DEPTH = 32

MAX_MACRO_GROWTH = 64
"""Preprocessed text may be at most this many times the size of what was read (plus a megabyte)."""

MAX_INLINE_DEPTH = 32
"""Depth of device functions calling device functions; deeper is taken for recursion."""

MAX_IR_STATEMENTS = 200_000

RECURSION_LIMIT = 12_000
"""Python frames while parsing and lowering: about 500 nested parentheses."""
