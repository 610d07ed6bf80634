"""The project that a source belongs to: how far around it ktc looks for what the source itself names.

A source may come from anybody, and what it includes ends up in messages, reports and recipes. So nothing outside the
project is read for it, through symbolic links neither; where no project can be told, nothing outside its own folder is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

REPOSITORIES = (".git", ".hg", ".svn")
"""What lies in the topmost folder of a repository."""

TOP_FILES = (".github", ".gitmodules", ".gitlab-ci.yml", ".travis.yml", ".circleci")
"""What services read in the topmost folder alone, and so lies there in an archive of a repository too."""

BUILD_FILES = (
    "Makefile",
    "makefile",
    "GNUmakefile",
    "CMakeLists.txt",
    "meson.build",
    "setup.py",
    "pyproject.toml",
    "Cargo.toml",
)
"""What lies in a folder that is built."""


def project_root(file: str) -> str:
    """The topmost folder of the project that ``file`` is in, without symbolic links; '' where none can be told.

    That is its repository's, by what version control or its services keep there, else the highest of the folders with a
    build file that lie in each other. A home folder, a
    file system's root and what everybody may write to (``/tmp``) are no project, nor is anything above those.
    """
    first = Path(os.path.realpath(file)).parent
    above: list[Path] = []
    for folder in (first, *first.parents):
        if _is_shared(folder):
            break
        above.append(folder)
    for marks in (REPOSITORIES, TOP_FILES):
        for folder in above:
            if any((folder / name).exists() for name in marks):
                return str(folder)
    root = ""
    for folder in above:
        built = any((folder / name).is_file() for name in BUILD_FILES)
        if root and not built:
            break
        root = str(folder) if built else root
    return root


def is_within(root: str, path: str) -> bool:
    """Whether ``path``, its symbolic links followed, lies below the folder ``root``; not where that is ''."""
    if not root:
        return False
    real = os.path.realpath(path)
    try:
        return os.path.commonpath([real, root]) == root
    except ValueError:  # on another drive
        return False


def _is_shared(folder: Path) -> bool:
    """Whether a folder is more than one project's."""
    if folder == folder.parent or folder == Path(os.path.realpath(os.path.expanduser("~"))):
        return True
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return True


__all__ = ["is_within", "project_root"]
