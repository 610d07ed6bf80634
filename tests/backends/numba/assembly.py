"""What LLVM made of a loop: arithmetic in x86 assembly, packed (whole vectors) against scalar."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass

IS_X86 = platform.machine() in ("x86_64", "AMD64")

_FLOAT = r"v?(add|sub|mul|div|max|min|sqrt|fn?m(add|sub)(132|213|231))"
_PACKED = re.compile(rf"^({_FLOAT}p[sd]|v?cmp[a-z]*p[sd]|v?p(add|sub|mull|and|or|xor|sll|srl|sra|min|max)[a-z]*\d*)$")
_SCALAR = re.compile(rf"^{_FLOAT}s[sd]$")
_STORE = re.compile(r"^v?mov(up|ap|s|dq)\S*\s+%[xyz]mm\d+, [^%]*\(")
_LABEL = re.compile(r"^([.\w$]+):")
_JUMP = re.compile(r"^j\w+\s+([.\w$]+)$")


@dataclass(frozen=True)
class Loop:
    """An innermost loop: its instructions."""

    lines: tuple[str, ...]

    def count(self, pattern: re.Pattern[str]) -> int:
        return sum(bool(pattern.match(line.split()[0])) for line in self.lines)

    @property
    def packed(self) -> int:
        """Operations on whole vectors."""
        return self.count(_PACKED)

    @property
    def scalar(self) -> int:
        """Operations on one float."""
        return self.count(_SCALAR)

    @property
    def calls(self) -> int:
        return sum(line.startswith("call") for line in self.lines)

    @property
    def stores(self) -> int:
        """Stores of vector registers."""
        return sum(bool(_STORE.match(line)) for line in self.lines)


def loops(assembly: str) -> Iterator[Loop]:
    """The innermost loops: a label, up to a jump back to it, with no such loop inside."""
    lines = [line.strip() for line in assembly.splitlines()]
    labels = {m[1]: k for k, line in enumerate(lines) if (m := _LABEL.match(line))}
    jumps = [(labels[m[1]], k) for k, line in enumerate(lines) if (m := _JUMP.match(line)) and m[1] in labels]
    back = [(a, b) for a, b in jumps if a < b]
    for a, b in back:
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in back):
            yield Loop(tuple(line for line in lines[a + 1 : b + 1] if line and line[0] not in ".#" and line[-1] != ":"))


def hot(assembly: str) -> Loop:
    """The loop with the most arithmetic on vectors; one without any where there is none."""
    return max(loops(assembly), key=lambda loop: loop.packed, default=Loop(()))
