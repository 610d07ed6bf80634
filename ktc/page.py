"""The report of a run as one self-contained HTML page: no script, no outside resource, everything escaped.

The page's content-security policy allows its one style sheet, by hash, and nothing else, so that text from a kernel, a
compiler or a planner cannot become anything but text.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

STYLE = """
:root { color-scheme: light dark; --line: #8884; --mark: #2a7de1; --bad: #c33; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
th { text-align: left; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
pre { font: 12.5px/1.45 ui-monospace, monospace; overflow-x: auto; border: 1px solid var(--line); padding: .6rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; } .pair > div { min-width: 0; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; }
.note { color: #888; }
"""


@dataclass(frozen=True)
class Point:
    """One measurement of the search: its number, time in seconds (None: failed), and what it was."""

    number: int
    seconds: float | None
    label: str


@dataclass(frozen=True)
class Table:
    """A titled table; columns whose cells all start with a digit are set as numbers."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Chart:
    """The search on one scenario: its measurements, the original's time and the bound (seconds, None: unknown)."""

    title: str
    points: Sequence[Point]
    baseline: float | None = None
    bound: float | None = None


@dataclass(frozen=True)
class Page:
    """What a report shows, top to bottom."""

    title: str
    summary: Sequence[str]
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    before: str = ""
    after: str = ""
    notes: Sequence[str] = field(default_factory=tuple)


def render(page: Page) -> str:
    """``page`` as an HTML document."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(page.title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(page.title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in page.summary),
        *map(_table, page.tables),
    ]
    for c in page.charts:
        if any(p.seconds for p in c.points):
            parts += [f"<h2>{escape(c.title)}</h2>", trajectory(c.points, c.baseline, c.bound)]
    if page.before or page.after:
        parts.append(f'<h2>Code</h2><div class="pair">{_code("before", page.before)}{_code("after", page.after)}</div>')
    parts += [f'<p class="note">{escape(n)}</p>' for n in page.notes]
    return "\n".join([*parts, "</body></html>", ""])


def _code(title: str, text: str) -> str:
    return f"<div><h2>{title}</h2><pre>{escape(text)}</pre></div>"


def _table(t: Table) -> str:
    if not t.rows:
        return ""
    classes = [' class="n"' if _numeric([r[i] for r in t.rows]) else "" for i in range(len(t.headers))]
    head = "".join(f"<th{c}>{escape(h)}</th>" for h, c in zip(t.headers, classes))
    rows = "".join("<tr>" + "".join(f"<td{c}>{escape(x)}</td>" for x, c in zip(r, classes)) + "</tr>" for r in t.rows)
    return f"<h2>{escape(t.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _numeric(column: Sequence[str]) -> bool:
    """Whether a column holds nothing but numbers: among texts a number is one too."""
    return any(column) and all(x[:1].isdigit() for x in column if x)


def trajectory(points: Sequence[Point], baseline: float | None, bound: float | None) -> str:
    """Every measurement as a dot, the best so far as a line, the original and the bound as rules; log time axis."""
    width, height, left, top, bottom = 900, 280, 70, 12, 30
    times = [p.seconds for p in points if p.seconds]
    marks = [*times, *(v for v in (baseline, bound) if v)]
    lo, hi = math.log10(min(marks) * 0.9), math.log10(max(marks) * 1.1)
    last = max(p.number for p in points) or 1

    def x(number: int) -> float:
        return left + (width - left - 10) * number / last

    def y(seconds: float) -> float:
        return top + (height - top - bottom) * (hi - math.log10(seconds)) / (hi - lo)

    out = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="measured time by measurement number">']
    for value, name in ((baseline, "original"), (bound, "bound")):
        if value:
            out.append(_rule(left, width - 10, y(value), f"{name} {value * 1e6:.3g} us"))
    best = math.inf
    path: list[str] = []
    for p in points:
        if p.seconds is None:
            out.append(
                f'<circle cx="{x(p.number):.1f}" cy="{height - bottom:.1f}" r="2.5" fill="#c33">{_hover(p)}</circle>'
            )
            continue
        out.append(
            f'<circle cx="{x(p.number):.1f}" cy="{y(p.seconds):.1f}" r="2.5" fill="#2a7de1">{_hover(p)}</circle>'
        )
        if path:  # nothing better was known in between: a step, not a slope
            path.append(f"{x(p.number):.1f},{y(best):.1f}")
        best = min(best, p.seconds)
        path.append(f"{x(p.number):.1f},{y(best):.1f}")
    out.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="#2a7de1" stroke-width="1.5"/>')
    if math.isfinite(best):
        out.append(f'<text x="{width - 10}" y="{y(best) + 14:.1f}" text-anchor="end">best {best * 1e6:.3g} us</text>')
    out.append(f'<text x="{left}" y="{height - 8}">measurement 0</text>')
    out.append(f'<text x="{width - 10}" y="{height - 8}" text-anchor="end">{last}</text></svg>')
    return "".join(out)


def _rule(x0: float, x1: float, y: float, text: str) -> str:
    ends = f'x1="{x0}" x2="{x1}" y1="{y:.1f}" y2="{y:.1f}"'
    line = f'<line {ends} stroke="currentColor" stroke-dasharray="4 4" opacity="0.5"/>'
    return f'{line}<text x="{x0 + 4}" y="{y - 4:.1f}">{escape(text)}</text>'


def _hover(p: Point) -> str:
    time = "failed" if p.seconds is None else f"{p.seconds * 1e6:.3g} us"
    return f"<title>{escape(f'{p.number}: {time} {p.label}')}</title>"
