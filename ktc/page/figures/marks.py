"""The marks of which plots are made, as SVG elements: text in, text out, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

Point = tuple[float, float]


def element(name: str, content: str = "", **attributes: object) -> str:
    """An element with ``content`` (markup) inside; ``class_`` and ``text_anchor`` become ``class`` and ``text-anchor``.
    Numbers have one decimal; None leaves an attribute out."""
    said = "".join(f' {k.strip("_").replace("_", "-")}="{_value(v)}"' for k, v in attributes.items() if v is not None)
    return f"<{name}{said}>{content}</{name}>"


def _value(v: object) -> str:
    return f"{v:.1f}".removesuffix(".0") if isinstance(v, float) else escape(str(v))


def line(a: Point, b: Point, kind: str) -> str:
    return element("line", x1=float(a[0]), y1=float(a[1]), x2=float(b[0]), y2=float(b[1]), class_=kind)


def rect(at: Point, width: float, height: float, kind: str, hover: str = "") -> str:
    box = {"x": float(at[0]), "y": float(at[1]), "width": float(max(0.0, width)), "height": float(height)}
    return element("rect", _title(hover), **box, class_=kind)


def dot(at: Point, radius: float, kind: str, hover: str = "") -> str:
    return element("circle", _title(hover), cx=float(at[0]), cy=float(at[1]), r=float(radius), class_=kind)


def path(points: Sequence[Point], kind: str, hover: str = "") -> str:
    places = " ".join(f"{_value(float(x))},{_value(float(y))}" for x, y in points)
    return element("polyline", _title(hover), points=places, class_=kind)


def text(at: Point, words: str, anchor: str = "start", kind: str | None = None) -> str:
    """Words at a point; ``anchor``: start, middle or end."""
    place = {"x": float(at[0]), "y": float(at[1]), "text_anchor": None if anchor == "start" else anchor}
    return element("text", escape(words), **place, class_=kind)


def _title(hover: str) -> str:
    return f"<title>{escape(hover)}</title>" if hover else ""


def drawing(width: float, height: float, label: str, marks: Iterable[str]) -> str:
    """A whole drawing; ``label`` says in a sentence what it shows, for those who do not see it."""
    body = f"<title>{escape(label)}</title>" + "".join(marks)
    return element("svg", body, viewBox=f"0 0 {width:.0f} {height:.0f}", width=f"{width:.0f}", role="img")
