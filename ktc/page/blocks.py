"""What a page consists of, without how it looks: sections of paragraphs, tables, figures, code and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more, and program text after it; ``kind``: '' or ``lead`` or ``note``."""

    text: str
    kind: str = ""
    code: str = ""

    @property
    def said(self) -> str:
        """All of it as plain text."""
        return f"{self.text} {self.code}".strip()


@dataclass(frozen=True)
class Table:
    """A titled table; columns whose cells all start with a digit are set as numbers. ``code``: columns that hold
    scripts or other program text. ``title`` '' where the text before it says what it is."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    code: Sequence[int] = ()
    about: str = ""


@dataclass(frozen=True)
class Figure:
    """A plot: ``draw`` makes it for a width in pixels (:mod:`.figures`); ``caption`` says how to read it."""

    title: str
    draw: Callable[[int], str]
    caption: str = ""


@dataclass(frozen=True)
class Code:
    """Program text in a ``language`` of :mod:`.highlighting`."""

    title: str
    text: str
    language: str


@dataclass(frozen=True)
class Difference:
    """Two texts of one language, of which the lines that differ are shown."""

    title: str
    before: str
    after: str
    language: str


@dataclass(frozen=True)
class Commands:
    """Commands to type, each with what it does."""

    lines: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown on demand; ``printed``: on paper, where nobody can ask for them, too."""

    title: str
    blocks: Sequence[Block]
    open: bool = False
    printed: bool = True


@dataclass(frozen=True)
class Beside:
    """Blocks beside each other, where there is room."""

    blocks: Sequence[Block]


Block: TypeAlias = Paragraph | Table | Figure | Code | Difference | Commands | Folded | Beside


@dataclass(frozen=True)
class Section:
    """A titled part of a page; empty ones are left out. ``listed``: among the page's contents."""

    title: str
    blocks: Sequence[Block]
    listed: bool = True


@dataclass(frozen=True)
class Page:
    """A report. ``facts`` are short statements under the title: device, planner, counts."""

    title: str
    facts: Sequence[str]
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def blocks(self) -> Iterator[Block]:
        """All blocks, those inside others too."""
        for s in self.sections:
            for b in s.blocks:
                yield from within(b)

    @property
    def tables(self) -> list[Table]:
        return [b for b in self.blocks if isinstance(b, Table)]

    @property
    def texts(self) -> list[str]:
        """The paragraphs."""
        return [b.said for b in self.blocks if isinstance(b, Paragraph)]


def within(block: Block) -> Iterator[Block]:
    """``block``, and what it holds."""
    yield block
    for inner in block.blocks if isinstance(block, Folded | Beside) else ():
        yield from within(inner)


def is_empty(block: Block) -> bool:
    """Whether a block would show nothing."""
    match block:
        case Table(rows=rows):
            return not rows
        case Folded(blocks=blocks) | Beside(blocks=blocks):
            return all(map(is_empty, blocks))
        case Code(text=text):
            return not text
        case Difference(before=before, after=after):
            return before == after
        case _:
            return False


__all__ = [
    "Beside", "Block", "Code", "Commands", "Difference", "Figure", "Folded", "Page", "Paragraph", "Section", "Table",
    "is_empty", "within",
]  # fmt: skip
