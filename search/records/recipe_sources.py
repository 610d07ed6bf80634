"""What a recipe holds of its kernel: source, the headers that it includes, and the workload, as one tree of texts.

The tree keeps the places of the files relative to each other, so that ``#include "../common/types.cuh"`` and a
workload's ``source = "../kernel.cu"`` mean in another folder, or on another machine, what they meant in the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ktc.backends.runtimes.file_cache import cache_root, key_of, write_atomic
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload

OTHER_ENCODING = "latin-1"
"""Of texts that are not UTF-8: every byte is a character."""


@dataclass(frozen=True)
class Sources:
    """``files`` maps a path in the tree to its text; ``source`` and ``workload`` are two of these paths, ``include``
    folders of the tree. ``template`` and ``defines`` are the template arguments and macros that the kernel was read
    with, those of the command line among them. ``latin1``: files that were not UTF-8, and are not when written."""

    files: Mapping[str, str]
    source: str
    workload: str
    include: Sequence[str] = ()
    template: Mapping[str, str] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    latin1: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def source_bytes(self) -> bytes:
        return self._bytes(self.source)

    def _bytes(self, name: str) -> bytes:
        return self.files[name].encode(OTHER_ENCODING if name in self.latin1 else "utf-8")

    def written(self, folder: Path) -> Path:
        """The tree as files under ``folder``; the path of the source.

        Raises:
            KtcError: E-WRITE (exit 3).
        """
        try:
            for name in self.files:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.is_file() or path.read_bytes() != self._bytes(name):
                    write_atomic(path, self._bytes(name))
        except OSError as e:
            raise KtcError(
                "E-WRITE", f"cannot write {folder}: {e.strerror}", hint="set KTC_CACHE to a writable folder",
                exit_code=3,
            ) from None  # fmt: skip
        return folder / self.source

    def opened(self, variant: str | None) -> Workload:
        """The workload, from files in ktc's cache that hold the tree.

        Raises:
            KtcError: E-WRITE; what the workload's text gets wrong.
        """
        folder = cache_root() / "recipes" / key_of(*self.files, *self.files.values(), *self.latin1)[:32]
        source = self.written(folder)
        work = Workload.load(folder / self.workload, formulas=False)
        return replace(
            work,
            source=source,
            templates={**work.templates, variant or "": dict(self.template)},
            defines=dict(self.defines),
            include_dirs=tuple(str(folder / i) for i in self.include),
        )


def gathered(workload: Workload, variant: str | None, sheet_at: Path | None = None) -> Sources:
    """Everything that reading ``workload`` and its kernel reads, but for the headers that ktc itself brings.

    ``sheet_at``: where the workload's file belongs, if that is not where it is.

    Raises:
        KtcError: what cannot be read, or not preprocessed.
    """
    source = Path(os.path.abspath(workload.source))
    own = [Path(os.path.abspath(p)) for p in workload.sources]
    paths = [source, *dict.fromkeys(p for p in (*own, *_included(workload)) if p != source)]
    sheet = Path(os.path.abspath(sheet_at or workload.path))
    folders = [Path(os.path.abspath(d)) for d in workload.include_dirs]
    used = [d for d in folders if any(p.is_relative_to(d) for p in paths)]
    root = Path(os.path.commonpath([sheet.parent, *(p.parent for p in paths), *used]))

    def named(path: Path) -> str:
        return path.relative_to(root).as_posix()

    texts: dict[str, str] = {}
    latin1 = []
    for path in [*paths, sheet]:
        texts[named(path)], exact = _text(workload.path if path == sheet else path)
        latin1 += [] if exact else [named(path)]
    up = os.path.relpath(root, sheet.parent)
    for path in (source, *used):  # a workload that names files by their place on this machine
        seen = (PurePosixPath(up) / named(path)).as_posix()
        texts[named(sheet)] = texts[named(sheet)].replace(f'"{path}"', f'"{seen}"')
    return Sources(
        texts, named(source), named(sheet), [named(d) for d in used], workload.template(variant),
        dict(workload.defines), latin1,
    )  # fmt: skip


def _included(workload: Workload) -> Iterator[Path]:
    """The headers of the workload's sources that are files."""
    for source in workload.sources:
        if source.suffix != ".ktir":
            yield from _headers(source, workload)


def _headers(source: Path, workload: Workload) -> Iterator[Path]:
    from ktc.ir.frontend.dialects.dialect import dialect_of
    from ktc.ir.frontend.preprocess.preprocessor import preprocess
    from ktc.ir.frontend.preprocess.source_text import read_source

    file = str(source)
    text = read_source(file)
    found = preprocess(text, file, dict(workload.defines) or None, workload.include_dirs, None, dialect_of(file, text))
    for name in found.sources:
        path = Path(os.path.abspath(name))
        if path.is_file():
            yield path


def _text(path: Path) -> tuple[str, bool]:
    """The text of a file, and whether it is UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise KtcError("E-FILE", f"cannot read {path}: {e.strerror}", exit_code=2) from None
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode(OTHER_ENCODING), False


def parsed(data: Any) -> Sources:
    """Sources from JSON data.

    Raises:
        ValueError: what is wrong with it, in words that follow the recipe's name.
    """
    known = {f.name for f in fields(Sources)}
    if not isinstance(data, dict) or not {"files", "source", "workload"} <= data.keys() <= known:
        raise ValueError("has sources that are not files, source and workload")
    files = data["files"]
    if not isinstance(files, dict) or not all(isinstance(t, str) for t in files.values()):
        raise ValueError("has files that are not texts")
    for name in (*files, *data.get("include", ())):
        path = PurePosixPath(str(name))
        if path.is_absolute() or ".." in path.parts or "\\" in str(name):
            raise ValueError(f"has a file outside of its tree: {name}")
    if data["source"] not in files or data["workload"] not in files:
        raise ValueError("lacks its source or its workload among its files")
    return Sources(**data)
