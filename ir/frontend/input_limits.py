"""Limits that keep hostile or accidental input from taking the process down. Each refusal names the limit."""

from __future__ import annotations

MAX_SOURCE_BYTES = 4 << 20
"""Bytes of one source, and of all that it includes."""

MAX_EXPANDED_BYTES = 8 << 20
"""Bytes of one source after preprocessing: about half a minute of work."""

MAX_INCLUDE_DEPTH = 32

MAX_MACRO_GROWTH = 64
"""Preprocessed text may be at most this many times the size of what was read (plus a megabyte)."""

MAX_RAW_STRINGS = 1000
"""Raw string literals of one source: finding where each ends can take the rest of the text."""

MAX_MACRO_TOKENS = 600_000
"""Tokens that macros may expand to, beyond one for each character that is read: about a second. Lists that macros
take apart element by element need a square of their length. What is read again inside another call counts an eighth."""

MAX_TEMPLATE_NESTING = 10
"""Template arguments inside template arguments."""

MAX_INLINE_DEPTH = 32
"""Depth of device functions calling device functions; deeper is taken for recursion."""

MAX_CALL_WORK = 400_000
"""Calls and their arguments, counted over a whole kernel: templates and constexpr functions can double without end."""

MAX_ARGUMENTS = 8192
"""Arguments of one call; compilers promise 256 ([implimits])."""

MAX_IR_STATEMENTS = 200_000

RECURSION_LIMIT = 12_000
"""Python frames while parsing and lowering: about 500 nested parentheses."""
