"""How programs and results show themselves: a line at the prompt, a small page in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktc.api import Program

NOTEBOOK_STYLE = """
.ktc { font-family: system-ui, sans-serif; max-width: 60rem; }
.ktc table { border-collapse: collapse; margin: .5em 0; }
.ktc .ktc-table th, .ktc .ktc-table td { text-align: left; padding: .2em .9em .2em 0; }
.ktc .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.ktc pre { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .85em;
  line-height: 1.45; overflow: auto; max-height: 30em; }
.ktc svg { max-width: 100%; height: auto; } .ktc svg text { font-size: 12px; fill: currentColor; }
.ktc svg .grid { stroke: #8886; } .ktc svg .rule { stroke: currentColor; stroke-dasharray: 5 4; }
.ktc svg .before { fill: #8c959f; } .ktc svg .after { fill: #3b8eea; }
.ktc .k, .ktc .kd { color: #c2452d; } .ktc .kt { color: #a05a00; } .ktc .c, .ktc .c1 { color: #7d8590; }
.ktc .nf, .ktc .nd, .ktc .nv { color: #8250df; } .ktc .m, .ktc .mi { color: #2f6fd0; }
"""
"""For what a notebook shows, in its light and in its dark theme; nothing outside of it is touched."""


def in_notebook(body: str) -> str:
    """Markup with the style that it needs."""
    return f'<div class="ktc"><style>{NOTEBOOK_STYLE}</style>{body}</div>'


def code_html(text: str, language: str) -> str:
    """Program text, highlighted."""
    from ktc.page.highlighting import highlighted

    return f"<pre>{chr(10).join(highlighted(text, language))}</pre>"


def program_text(p: Program) -> str:
    """``<Program k: raise | unroll{loop=i factor=$U}; U in 1,2,4>``, and what was refused."""
    parts = [p.script or "as it is", *([knobs_text(p)] if p.knobs else [])]
    if p.refused:
        parts.append(f"refused, {p.refused.why} [{p.refused.code}]")
    return f"<Program {p.kernel.name}: {'; '.join(parts)}>"


def knobs_text(p: Program) -> str:
    """``V in 1,2,4; T = 128``."""
    said = []
    for k in p.knobs:
        said.append(f"{k.name} in {','.join(map(str, k.domain))}" if k.value is None else f"{k.name} = {k.value}")
    return "; ".join(said)


def program_html(p: Program) -> str:
    rows = [("applied", p.script or "nothing yet")]
    rows += [("knobs", knobs_text(p))] if p.knobs else []
    if p.refused:
        rows.append(("refused", f"{p.refused.why} [{p.refused.code}] {p.refused.hint}"))
    cells = "".join(f"<tr><th>{escape(k)}</th><td><code>{escape(v)}</code></td></tr>" for k, v in rows)
    return in_notebook(f'<table class="ktc-table">{cells}</table>{code_html(p.text(), "ir")}')


__all__ = ["code_html", "in_notebook", "knobs_text", "program_html", "program_text"]
