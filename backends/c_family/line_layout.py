"""Line layout: comments, indentation, and breaking of long lines where clang-format would."""

from __future__ import annotations

INDENT = "  "
COLUMNS = 100
CONTROL = ("if (", "for (", "while (", "} else if (")


def comment_lines(text: str) -> list[str]:
    """A source comment, with or without its markers, as ``//`` lines."""
    t = text.strip()
    if t.startswith("/*"):
        t = t[2:].removesuffix("*/")
    out = []
    for line in t.strip().splitlines():
        line = line.strip()
        line = line.removeprefix("//") if line.startswith("//") else line.removeprefix("*")
        out.append(("// " + line.strip()).rstrip())
    return out


def wrap(line: str, pad: str) -> list[str]:
    """``line`` indented by ``pad``, broken at its outermost commas or operators to fit the column limit."""
    indent = pad + line[: len(line) - len(line.lstrip())]
    text = line.lstrip()
    if len(indent) + len(text) <= COLUMNS or text.startswith(("//", "#")) or '"' in text:
        return [indent + text]
    if text.endswith(") {") and not text.startswith(CONTROL):
        at = _parameters_at(text) + 1
        aligned = _packed(text, indent, " " * at)
        if len(aligned) <= 2 and all(len(x) <= COLUMNS for x in aligned):
            return aligned
        return [indent + text[:at], *_packed(INDENT * 2 + text[at:], indent, INDENT * 2)]
    return _packed(text, indent, " " * 4)


def _parameters_at(text: str) -> int:
    """Where the parameter list of a signature opens: the parenthesis that its last one closes."""
    depth = 0
    for i in range(text.rindex(")"), -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if depth == 0:
            return i
    return text.find("(")


def _packed(text: str, indent: str, hang: str) -> list[str]:
    lines: list[str] = []
    room = COLUMNS - len(indent)
    while len(text) > room:
        at = _break(text, room)
        if at is None:
            break
        lines.append(indent + text[:at].rstrip())
        text = hang + text[at:].lstrip()
    return [*lines, indent + text]


LOOSENESS = {",": 0, ";": 0, "?": 1, ":": 1, "||": 2, "&&": 3, "+": 4, "-": 4, "*": 5, "/": 5}
"""Where a line may break, the best places first."""


def _break(text: str, room: int) -> int | None:
    """Where to break within ``room``: outermost nesting first, then loosest operator, then furthest right.

    The first third of the line is left whole. Arithmetic breaks after its operator, ``?`` and ``:`` before.
    """
    best: tuple[int, int, int] | None = None
    depth = 0
    for i, ch in enumerate(text[:room]):
        depth += (ch in "([{") - (ch in ")]}")
        if ch in ",;" and text[i + 1 : i + 2] == " ":
            at, loose = i + 2, 0
        elif ch == " " and (token := text[i + 1 :].split(" ", 1)[0]) in LOOSENESS:
            loose = LOOSENESS[token]
            at = i + 1 if token in "?:" else i + 2 + len(token)
        else:
            continue
        if room // 3 < at <= room + 1 and (best is None or (depth, loose, -at) <= best):
            best = (depth, loose, -at)
    return -best[2] if best else None
