"""A page as one self-contained HTML document: no script, no outside resource, everything escaped.

The content-security policy allows the one style sheet, by hash, and nothing else, so that text from a kernel, a
compiler or a planner cannot become anything but text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from .blocks import (
    Beside,
    Block,
    Code,
    Commands,
    Difference,
    Figure,
    Folded,
    Page,
    Paragraph,
    Section,
    Table,
    is_empty,
)
from .differences import difference
from .highlighting import highlighted

WIDE, NARROW = 950, 350
"""Widths in pixels for which figures are drawn; the style sheet shows one of the two."""

NAME = 28
"""Characters up to which a cell is not broken into lines; longer program text gets a width of its own."""


@cache
def style() -> str:
    """The style sheet."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def html(page: Page) -> str:
    """``page`` as an HTML document."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    shown = [s for s in page.sections if not all(map(is_empty, s.blocks))]
    ids = _ids(shown)
    links = "".join(f'<li><a href="#{i}">{escape(s.title)}</a></li>' for i, s in zip(ids, shown) if s.listed)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(page.title)}</title><style>{style()}</style></head><body>",
        f"<header><h1>{escape(page.title)}</h1>",
        *(f'<p class="fact">{escape(line)}</p>' for line in page.facts),
        f'</header><nav aria-label="Contents"><ul>{links}</ul></nav><main>' if links else "</header><main>",
        *(_section(i, s) for i, s in zip(ids, shown)),
        "</main></body></html>",
    ]
    return "\n".join([*parts, ""])


def _ids(sections: Sequence[Section]) -> list[str]:
    """An anchor a section: its title in small letters, with a number where that is taken."""
    found: list[str] = []
    for s in sections:
        stem = re.sub(r"[^a-z0-9]+", "-", s.title.lower()).strip("-") or "section"
        found.append(stem if stem not in found else f"{stem}-{len(found)}")
    return found


def _section(anchor: str, s: Section) -> str:
    return f'<section id="{anchor}"><h2>{escape(s.title)}</h2>\n{_all(s.blocks)}</section>'


def _all(blocks: Iterable[Block]) -> str:
    return "\n".join(_WRITERS[type(b)](b) for b in blocks if not is_empty(b))


def _paragraph(p: Paragraph) -> str:
    code = f" <code>{escape(p.code)}</code>" if p.code else ""
    return f"<p{_class(p.kind)}>{escape(p.text)}{code}</p>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _table(t: Table) -> str:
    numbers = [_numeric([r[i] for r in t.rows]) for i in range(len(t.headers))]
    kinds = ["n" if number else "" for number in numbers]
    head = "".join(f'<th scope="col"{_class(k)}>{escape(h)}</th>' for h, k in zip(t.headers, kinds))
    rows = "".join(f"<tr>{''.join(_cell(t, i, x, kinds[i]) for i, x in enumerate(r))}</tr>" for r in t.rows)
    caption = f"<caption>{escape(t.title)}</caption>" if t.title else ""
    body = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    label = escape(t.title or " ".join(t.headers[:2]))
    about = f'<p class="note">{escape(t.about)}</p>' if t.about else ""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{body}</div>{about}'


def _cell(t: Table, column: int, text: str, kind: str) -> str:
    content = f"<code>{escape(text)}</code>" if column in t.code and text else escape(text)
    if not kind:
        longest = max(len(r[column]) for r in t.rows)
        kind = "name" if longest <= NAME else "script" if column in t.code else ""
    return f'<td{_class(kind)} data-label="{escape(t.headers[column])}">{content}</td>'


def _numeric(column: Sequence[str]) -> bool:
    """Whether a column holds nothing but numbers: among texts a number is one too."""
    return any(column) and all(x[:1].isdigit() or x in ("-", "–") for x in column if x)


def _figure(f: Figure) -> str:
    both = "".join(f'<div class="{kind}">{f.draw(width)}</div>' for kind, width in (("wide", WIDE), ("narrow", NARROW)))
    caption = f"<strong>{escape(f.title)}</strong> {escape(f.caption)}"
    return f"<figure><figcaption>{caption}</figcaption>{both}</figure>"


def _code(c: Code) -> str:
    title = f"<h3>{escape(c.title)}</h3>" if c.title else ""
    body = "\n".join(highlighted(c.text, c.language))
    label = escape(c.title or "code")
    return f'<div>{title}<pre class="code" tabindex="0" role="region" aria-label="{label}">{body}</pre></div>'


def _difference(d: Difference) -> str:
    before, after = highlighted(d.before, d.language), highlighted(d.after, d.language)
    lines = []
    for line in difference(d.before.split("\n"), d.after.split("\n")):
        if line.sign == "@":
            lines.append('<span class="gap">⋯</span>')
            continue
        text = before[line.before] if line.before is not None else after[line.after or 0]
        kind = {"+": "added", "-": "gone", " ": "kept"}[line.sign]
        lines.append(f'<span class="{kind}">{line.sign} {text}</span>')
    title = f"<h3>{escape(d.title)}</h3>" if d.title else ""
    label = escape(d.title or "difference")
    body = "\n".join(lines)
    return f'<div>{title}<pre class="code diff" tabindex="0" role="region" aria-label="{label}">{body}</pre></div>'


def _commands(c: Commands) -> str:
    rows = "".join(f"<dt><code>{escape(line)}</code></dt><dd>{escape(what)}</dd>" for line, what in c.lines)
    return f'<dl class="commands">{rows}</dl>'


def _folded(f: Folded) -> str:
    state = _class("" if f.printed else "aside") + (" open" if f.open else "")
    return f"<details{state}><summary>{escape(f.title)}</summary>\n{_all(f.blocks)}</details>"


def _beside(b: Beside) -> str:
    return f'<div class="beside">{_all(b.blocks)}</div>'


_WRITERS: Mapping[type, Callable[[Any], str]] = {
    Paragraph: _paragraph,
    Table: _table,
    Figure: _figure,
    Code: _code,
    Difference: _difference,
    Commands: _commands,
    Folded: _folded,
    Beside: _beside,
}


__all__ = ["html", "style"]
