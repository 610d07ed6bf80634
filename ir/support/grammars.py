"""Lark grammars as data files, with their LALR tables kept between runs.

Building the tables of the IR's grammar takes a few hundred milliseconds, reading them back about twenty. They live in
``$KTC_CACHE/grammars`` (default ``~/.cache/ktc``), named by grammar, lark and Python version; lark itself checks the
digest. The file is a pickle, so it is only trusted in a folder that nobody else can write. Without one, or when it
cannot be read or written, the tables are built: a cache never decides whether something works.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from .cache_folders import private_folder

if TYPE_CHECKING:
    from lark import Lark
    from lark.lark import PostLex


def load_grammar(path: Path, start: str, *, postlex: PostLex | None = None, placeholders: bool = True) -> Lark:
    """The LALR parser of the grammar at ``path`` for the rule ``start``."""
    import lark

    text = path.read_text(encoding="utf-8")

    def build(cache: str | bool) -> Lark:
        parser = lark.Lark(
            text, parser="lalr", start=start, postlex=postlex, propagate_positions=True,
            maybe_placeholders=placeholders, cache=cache,
        )  # fmt: skip
        pass_single_children_on(parser)
        return parser

    folder = _private_folder()
    if folder is None:
        return build(False)
    key = f"{start} {placeholders} {lark.__version__} {sys.version_info[:2]}\n{text}"
    kept = folder / f"{path.stem}-{start}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.tables"
    lock = kept.with_suffix(".lock")
    with contextlib.suppress(OSError):
        with _locked(lock, shared=True):
            if kept.exists():
                return build(str(kept))
        with _locked(lock, shared=False):
            return build(str(kept))  # lark reads what another process has written meanwhile
    return build(False)


@contextlib.contextmanager
def _locked(lock: Path, shared: bool) -> Iterator[None]:
    """Of processes that need the same tables one builds them, and the others wait for it; all that a search starts
    would, at the first start on a machine. Where files cannot be locked each builds its own."""
    with lock.open("wb") as file:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def pass_single_children_on(parser: Lark) -> int:
    """Let rules that stand for their only child give that child; returns how many do.

    lark sets its place anew, which is the one it has: with a rule for every precedence, most of the time of building a
    tree. Where lark keeps its rules otherwise, it goes on doing that.
    """
    try:
        rules = parser.parser.parser.parser.callbacks  # type: ignore[attr-defined]
        single = [rule for rule, build in rules.items() if _chain(build) == ["PropagatePositions", "ExpandSingleChild"]]
        single = [rule for rule in single if len(rule.expansion) == 1]
    except AttributeError:
        return 0
    rules.update(dict.fromkeys(single, itemgetter(0)))
    return len(single)


def _chain(build: object) -> list[str]:
    """What lark does one after another to make the tree of a rule."""
    out = []
    while hasattr(build, "node_builder"):
        out.append(type(build).__name__)
        build = build.node_builder
    return out


def _private_folder() -> Path | None:
    return private_folder("grammars")
